"""python -m evidence.desks: desks of a shop, whose logs a pretrained model learns from.

    refund         a number must be computed: examples/refund.py
    refund_small   the same with smaller numbers
    refund_large   and with larger ones
    orders         two turns with tools: what the customer said is combined with a tool's answer
    returns        words and no numbers: two rules of the shop decide between two actions

A desk writes its logs in the form that chat models have, each with the thought of an expert. No
combination comes twice. The first logs are the examples that a base reads: of `returns` one of each
kind. What is printed is one log of each desk.

SmolLM2-135M's template has no tools. For `orders` the model gets one of ours, in the form that
Hermes and Qwen2.5 have: `<tool_call>` around a call in JSON.
"""

import json
import random
import re
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path

from examples import refund
from examples.smollm2 import smollm2

EXAMPLES = {"refund": 3, "orders": 3, "returns": 4, "refund_small": 3, "refund_large": 3}
ORDERS = (
    "You are a shop's agent. Look up the order. Then answer with `refund X`, where X is the price "
    "of all items less the fee."
)
RETURNS = (
    "You are a shop's agent. Food can be sent back if it is spoilt. Other things can be sent back "
    "if they are unused. Answer with `accept` or with `refuse`."
)
FOOD = (
    "cheese", "bread", "honey", "butter", "salad", "milk", "yoghurt", "ham", "cake", "fish",
    "chocolate", "rice", "soup", "jam", "sausage", "cream",
)  # fmt: skip
OTHER = (
    "lamp", "scarf", "hammer", "mirror", "blanket", "jacket", "basket", "clock", "kettle", "pillow",
    "umbrella", "camera", "carpet", "guitar", "backpack", "wallet",
)  # fmt: skip
SPOILT = (
    "It smells bad.", "There is mould on it.", "It has gone sour.", "It tastes rotten.",
    "It was off when it came.", "There are worms in it.", "It has turned green.",
    "It is past its date.", "It was warm and bad when it came.", "It is mouldy inside.",
)  # fmt: skip
FRESH = (
    "I do not like the taste.", "I bought too much.", "My guests did not come.",
    "I am on a diet now.", "I wanted another brand.", "It was a gift, and I have enough.",
    "My son does not eat it.", "I found a cheaper one.", "I have no room for it.",
    "I have changed my mind.",
)  # fmt: skip
UNUSED = (
    "It is still in its box.", "I never opened it.", "The seal is not broken.",
    "I have not touched it.", "It is still wrapped.", "The label is still on it.",
    "I did not take it out of the bag.", "It is as new: I never used it.",
    "I left it in the parcel.", "It lay in its wrapping all the time.",
)  # fmt: skip
USED = (
    "I used it for a week.", "I took it on a trip.", "I have used it every day.",
    "We tried it out at a party.", "I used it once or twice.", "My daughter played with it.",
    "I had it in use since May.", "I used it at work.", "I lent it to a friend, who used it.",
    "It has a stain, because I used it.",
)  # fmt: skip
CASES = (
    ("food", FOOD, "spoilt", SPOILT, "accept"),
    ("food", FOOD, "not spoilt", FRESH, "refuse"),
    ("no food", OTHER, "unused", UNUSED, "accept"),
    ("no food", OTHER, "used", USED, "refuse"),
)
# of a model with <|im_start|> and <|im_end|>
TEMPLATE = """\
{%- for message in messages %}
    {%- if message.role == 'tool' %}
        {{- '<|im_start|>user\n<tool_response>' + message.content + '</tool_response>' }}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\n' + (message.content or '') }}
    {%- endif %}
    {%- if loop.first and tools %}
        {{- '\n\nYou have these tools:\n' }}
        {%- for tool in tools %}{{- tool.function | tojson + '\n' }}{% endfor %}
        {{- 'A call is written as <tool_call>{"name": "...", "arguments": {...}}</tool_call>' }}
    {%- endif %}
    {%- for call in message.tool_calls or [] %}
        {{- '<tool_call>{"name": "' + call.function.name + '", "arguments": ' }}
        {{- call.function.arguments | tojson + '}</tool_call>' }}
    {%- endfor %}
    {{- '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{% endif %}
"""
FIND = {
    "name": "find_order",
    "description": "The price of one item, and the fee.",
    "parameters": {
        "type": "object", "properties": {"number": {"type": "string"}}, "required": ["number"]
    },
}  # fmt: skip


def orders(seed: int) -> list[dict]:
    """The customer says how many items there are, the tool's answer what they cost."""
    rng = random.Random(seed)
    numbers = [*product(refund.PRICES, refund.QUANTITIES, refund.FEES)]
    rng.shuffle(numbers)
    logs = []
    for price, quantity, fee in numbers:
        number = f"{rng.choice('ABCDE')}{rng.randint(10, 99)}"
        goods = rng.choice(refund.THINGS)
        asked = f"I bought {quantity} {goods}s, order {number}. Please take all of them back."
        found = json.dumps({"price": price, "fee": fee})
        function = {"name": "find_order", "arguments": json.dumps({"number": number})}
        call = {"id": "1", "type": "function", "function": function}
        calling = {"content": None, "tool_calls": [call]}
        first = f"I need the price of order {number}."
        whole = quantity * price
        left = whole - fee
        thought = f"{quantity} x {price} = {whole}, {whole} - {fee} = {left}."
        messages = [
            {"role": "system", "content": ORDERS},
            {"role": "user", "content": asked},
            {"role": "assistant", **calling, "reasoning_content": first},
            {"role": "tool", "tool_call_id": "1", "content": found},
            {"role": "assistant", "content": f"refund {left}", "reasoning_content": thought},
        ]
        logs.append({"messages": messages, "tools": [{"type": "function", "function": FIND}]})
    return logs


def returns(seed: int) -> list[dict]:
    """What is sent back, and why. Half of each kind is accepted."""
    rng = random.Random(seed)
    first = []
    others = []
    for kind, goods, state, reasons, action in CASES:
        cases = [*product(goods, reasons)]
        rng.shuffle(cases)
        logs = [returned(*case, kind, state, action) for case in cases]
        first.append(logs[0])
        others += logs[1:]
    rng.shuffle(others)
    return first + others


def returned(goods: str, reason: str, kind: str, state: str, action: str) -> dict:
    """One log of `returns`."""
    thought = f"The {goods} is {kind}, and it is {state}: {action}."
    question = f"I would like to send back the {goods}. {reason}"
    return refund.conversation(question, thought, action, RETURNS)


# prices, quantities, fees
SMALL = range(3, 11), range(3, 9), range(1, 9)
LARGE = range(11, 31), range(3, 10), range(1, 10)
DESKS: dict[str, Callable[[int], list[dict]]] = {
    "refund": refund.conversations,
    "orders": orders,
    "returns": returns,
    "refund_small": partial(refund.conversations, ranges=SMALL),
    "refund_large": partial(refund.conversations, ranges=LARGE),
}


def model(desk: str, folder: Path) -> Path:
    """SmolLM2 for this desk: as it is, or linked into this folder beside a template with tools."""
    if desk != "orders":
        return smollm2()
    folder.mkdir(parents=True, exist_ok=True)
    for file in smollm2().iterdir():
        link = folder / file.name
        if not link.exists() and file.name != "chat_template.jinja":
            link.symlink_to(file.resolve())
    (folder / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")
    return folder


def is_right(expert: str, thought: str) -> bool:
    """Are all steps of a thought right, and do they lead where those of the expert lead?

    >>> is_right("3 x 7 = 21, 21 - 4 = 17.", "7 x 3 = 21, 21 - 4 = 17.")
    True
    >>> is_right("3 x 7 = 21, 21 - 4 = 17.", "3 x 6 = 21, 21 - 4 = 17.")
    False
    >>> is_right("The jam is food, and it is spoilt: accept.", "It is food and not spoilt: accept.")
    False
    """
    sums = re.findall(r"(\d+) ([x+-]) (\d+) = (\d+)", thought)
    if " = " not in expert:
        return facts(thought) == facts(expert)
    for left, sign, right, result in sums:
        a, b = int(left), int(right)
        if {"x": a * b, "+": a + b, "-": a - b}[sign] != int(result):
            return False
    return bool(sums) and sums[-1][-1] == re.findall(r"\d+", expert)[-1]


def facts(thought: str) -> list[str]:
    """What a thought of `returns` says of the goods, of their state, and of what follows."""
    return re.findall(r"no food|food|not spoilt|spoilt|unused|used|accept|refuse", thought)


if __name__ == "__main__":
    for name, write in DESKS.items():
        print(name, json.dumps(write(0)[0], indent=1))
