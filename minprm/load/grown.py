"""Does a history that grew turn by turn say what its chat template writes of the conversation?

Each turn is written as the template writes a first one, and stays (turns.py). Some templates count
the calls of a conversation, or write what follows a call in another way than their own prompt has
it. Such a message is named when a model is loaded (check.py).
"""

import re

from minprm.text.chat import Chat
from minprm.text.render import QUESTION, Hole, placeholder
from minprm.text.template import ChatTemplate
from minprm.text.turns import ANSWER, KEY, NAME, REPLY, call_id, followed_by

END = "\0"
CALL = {"name": NAME, "arguments": {KEY: "x"}}
RULES = {"role": "system", "content": "be brief"}
# what is seen, and what is done then
WITH_TOOLS = [([QUESTION], "call"), ([ANSWER], "call"), ([ANSWER], "reply"), ([QUESTION], "reply")]
PLAIN = [([QUESTION], "reply"), ([QUESTION], "reply")]


def other_message(chat: Chat) -> str:
    """The first message that the template writes in another way, such as "the second call" or "the
    prompt of the second call"; "" where there is none. Empty thoughts, white space and the ends of
    turns that are not the newest do not count."""
    for rules, where in (([], ""), ([RULES], " behind a system message")):
        other = _other_message(chat.template, chat.tools, rules)
        if other:
            return other + where
    return ""


def _other_message(template: ChatTemplate, tools: bool, rules: list[dict]) -> str:
    """rules: what stands before the first question."""
    done: list[str] = []
    try:
        grown = Grown(template)
        for messages, kind in WITH_TOOLS if tools else PLAIN:
            which = f"the {'second' if kind in done else 'first'} {kind}"
            grown.observe(messages if done else [*rules, *messages])
            if not grown.agrees(prompt=True):
                return f"the prompt of {which}"
            grown.act(kind)
            if not grown.agrees(prompt=False):
                return which
            done.append(kind)
    except ValueError:  # it cannot write this, and says so where a log has it
        return ""
    return ""


class Grown:
    """A conversation that grows, as one text and as messages."""

    def __init__(self, template: ChatTemplate):
        self.template = template
        self.text = ""
        self.messages: list[dict] = []
        self.called: tuple[str, ...] | None = None
        self.count = 0  # of calls
        newest, ends = template.turns.newest, template.turns.ends
        earlier = newest.render.controls(followed_by(newest.render, REPLY, QUESTION))
        self.ends = {ends.reply, ends.call, *(token.group() for token in earlier[:1])}

    def observe(self, messages: list[dict]) -> None:
        """What is seen is put behind what was done."""
        marked = [{**message, "content": placeholder(i)} for i, message in enumerate(messages)]
        for piece in self.template.state_pieces(marked, [], self.called):
            hole = isinstance(piece, Hole)
            self.text += piece.fill(messages[piece.number]["content"]) if hole else piece
        for message in messages:
            ids = {"tool_call_id": call_id(self.count)} if message["role"] == "tool" else {}
            self.messages.append({**message, **ids})

    def act(self, kind: str) -> None:
        """A call or a reply is put behind what was seen."""
        turns = self.template.turns
        message = {"role": "assistant", "content": "On it."}
        pieces = turns.pieces("On it.", [])
        self.called = ()
        if kind == "call":
            self.count += 1
            message = turns.style.call([CALL])
            message["tool_calls"][0]["id"] = call_id(self.count)
            pieces = turns.pieces("", [CALL])
            self.called = (NAME,)
        action = "".join(self.template.render.with_controls(*pieces)) + turns.ends.common
        self.text += turns.act_without_thought + action
        self.messages.append(message)

    def agrees(self, prompt: bool) -> bool:
        """Is the text what the template writes of the messages? prompt: it is the assistant's turn;
        else the newest turn is, and may lack its end."""
        whole = self.template.render(self.messages, [], prompt=prompt)
        if not prompt:
            return self._plain(whole).startswith(self._plain(self.text).removesuffix(END))
        newest = self.template.turns.newest
        return self._plain(newest.bare(whole + newest.header)) == self._plain(self.text)

    def _plain(self, text: str) -> str:
        """Without empty thoughts and white space, and with one end of a turn for all."""
        newest = self.template.turns.newest
        start, stop = re.escape(newest.open.strip()), re.escape(newest.stop)
        text = re.sub(rf"{start}\s*{stop}", "", text)
        for end in self.ends:
            text = text.replace(end, END)
        if newest.key is None:  # a template that opens no thought for us may open an empty one
            text = text.replace(newest.open.strip(), "")
        text = text.replace(newest.stop, "")
        return "".join(text.split())
