"""SFT: a demo as the Samples that it is learned from. The loss is `pg` with an advantage of 1."""

from minprm.constants import Config, History
from minprm.data import Demo, Sample, chain
from minprm.text.chat import Chat, Turn


def as_samples(demo: Demo, chat: Chat, shown: History) -> list[Sample]:
    """A whole demo as one Sample, each action, and each opening tag, learned once; or, where its
    history is edited, one Sample a step."""
    out, turns, known = [Sample()], [], {}
    for i, step in enumerate(demo.steps):
        asked = chat.asked(step.state, demo.tools, i == 0)
        z = None if step.thought is None else chat.thought(step.thought)
        action = chat.action(step.action)
        turn = chat.turn(z, action)
        if turns and shown.edits():
            out.append(Sample(parent=chain(chat.history(turns, shown), known)))
        out[-1].extend(asked[0]).extend(turn, 1.0)
        turns.append(Turn(*asked, turn, chat.turn(None, action)))
    return out


def fitting(demo: Demo, chat: Chat, cfg: Config) -> Demo:
    """The log up to where it would outgrow the context, each thought as long as it may be."""
    length = 0
    for i, step in enumerate(demo.steps):
        ids = chat.state(step.state, demo.tools, first=i == 0)
        ids += chat.turn([], chat.action(step.action))
        length += len(ids) + cfg.thought_tokens
        if length > cfg.context:
            return demo.until(i)
    return demo
