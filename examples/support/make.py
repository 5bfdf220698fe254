"""python examples/support/make.py: sixty logs of a support desk, as an engineer would have them.

The agent has five tools and a policy in its first message. It looks an order up, counts days, and
then refunds, replaces, asks a colleague or simply answers. So turns are mixed: calls, answers in
plain text, and calls with a word to the customer beside. What the agent thought is in no log.

Ten of the logs are lost ("won": false): the agent forgot a rule of the policy, as agents do. All
people, orders and parcels are made up by a seeded generator, and the file is the same every time.
"""

import json
import random
from dataclasses import dataclass, field
from pathlib import Path

FILE = Path(__file__).with_name("logs.jsonl")
LOGS = 60
LOST_EVERY = 5  # of five rounds through the stories, one is lost
POLICY = """You are the support agent of a small shop. Today is day {today}.
- Look an order up before you speak about it. Ask for its number if you have none.
- A refund is for orders delivered at most 14 days ago. It pays the price without shipping.
- Broken goods are replaced up to 60 days after delivery if they are in stock, else refunded.
- Refunds above 150 are decided by a colleague: escalate.
- The shop is open from 9 to 17. Parcels that did not move for 7 days are lost: escalate."""
GOODS = {"kettle": 35, "lamp": 48, "desk": 180, "chair": 95, "radio": 62, "bicycle": 410}
PLACES = ["Bern", "Oslo", "Porto", "Ghent", "Turin", "Leeds"]
NAMES = ["Ada", "Ben", "Chloe", "Dan", "Eva", "Finn", "Gita", "Hugo", "Ines", "Jon"]
LOOKING = ["Let me look that up for you.", "One moment, I am looking at your order.", ""]


def tool(name: str, what: str, **arguments: str) -> dict:
    """A function in JSON schema; all of its arguments, name=type, are required."""
    properties = {key: {"type": kind} for key, kind in arguments.items()}
    parameters = {"type": "object", "properties": properties, "required": list(arguments)}
    function = {"name": name, "description": what, "parameters": parameters}
    return {"type": "function", "function": function}


TOOLS = [
    tool("find_order", "Goods, price, shipping, and day of delivery of an order.", number="string"),
    tool("track_parcel", "Where a parcel is, and since which day.", parcel="string"),
    tool("refund", "Pays money back to the customer.", number="string", amount="number"),
    tool("replace", "Sends the same goods once more.", number="string"),
    tool("escalate", "Hands the case to a colleague.", reason="string"),
]


@dataclass
class Case:
    """One conversation while it is being written."""

    rng: random.Random
    lost: bool  # the agent forgets a rule
    messages: list[dict] = field(default_factory=list)
    calls: int = 0

    def __post_init__(self):
        rng = self.rng
        self.today = rng.randint(100, 200)
        self.goods, self.price = rng.choice(list(GOODS.items()))
        self.number = f"{rng.choice('ABCDE')}-{rng.randint(100, 999)}"
        self.parcel = f"P{rng.randint(10_000, 99_999)}"
        self.shipping = rng.choice([4, 6, 9])
        self.age = rng.choice([3, 9, 13, 17, 25, 40, 75])  # days since delivery
        self.stock = rng.choice([0, 2, 5])
        self.messages.append({"role": "system", "content": POLICY.format(today=self.today)})

    def customer(self, text: str) -> None:
        self.messages.append({"role": "user", "content": text})

    def says(self, text: str) -> None:
        self.messages.append({"role": "assistant", "content": text})

    def call(self, name: str, answer: dict, beside: str = "", **arguments) -> None:
        """The agent's call, with what it says beside, and the tool's answer."""
        self.calls += 1
        function = {"name": name, "arguments": json.dumps(arguments)}
        call = {"id": f"call_{self.calls}", "type": "function", "function": function}
        asked = {"role": "assistant", "content": beside or None, "tool_calls": [call]}
        self.messages.append(asked)
        told = {"role": "tool", "tool_call_id": call["id"], "content": json.dumps(answer)}
        self.messages.append(told)

    def looks_up(self) -> None:
        """The order as the shop knows it."""
        order = {
            "goods": self.goods,
            "price": self.price,
            "shipping": self.shipping,
            "delivered_on_day": self.today - self.age,
            "in_stock": self.stock,
        }
        self.call("find_order", order, self.rng.choice(LOOKING), number=self.number)

    def refunds(self) -> None:
        """The refund, or the colleague who decides on it."""
        if self.price > 150 and not self.lost:
            self.escalates(f"refund of {self.price} for order {self.number}")
            return
        amount = self.price + (self.shipping if self.lost else 0)
        self.call("refund", {"done": True}, number=self.number, amount=amount)
        self.says(f"{amount} is on its way back to you. I am sorry for the trouble.")

    def escalates(self, reason: str) -> None:
        self.call("escalate", {"ticket": self.rng.randint(1000, 9999)}, reason=reason)
        self.says("A colleague will decide on this today and write to you.")


def wants_money_back(case: Case) -> None:
    case.customer(f"I do not like the {case.goods} of order {case.number}. My money back, please.")
    case.looks_up()
    if case.age <= 14 or case.lost:
        case.refunds()
        return
    case.says(f"It came {case.age} days ago, and refunds end after 14 days. I am sorry.")


def is_broken(case: Case) -> None:
    case.customer(f"The {case.goods} from order {case.number} is broken.")
    case.looks_up()
    if case.age > 60 and not case.lost:
        case.says(f"It came {case.age} days ago, and we replace goods for 60 days. I am sorry.")
    elif case.stock and not case.lost:
        case.call("replace", {"sent": True}, "I am sending a new one.", number=case.number)
        case.says(f"A new {case.goods} leaves tomorrow. You may keep the broken one.")
    else:
        case.refunds()


def where_is_it(case: Case) -> None:
    days = case.rng.choice([8, 12] if case.lost else [1, 3, 8, 12])
    place = case.rng.choice(PLACES)
    case.customer(f"Where is my parcel {case.parcel}?")
    where = {"place": place, "since_day": case.today - days}
    case.call("track_parcel", where, case.rng.choice(LOOKING), parcel=case.parcel)
    if days >= 7 and not case.lost:
        case.escalates(f"parcel {case.parcel} has not moved for {days} days")
        return
    case.says(f"It has been in {place} since day {case.today - days}. It will be with you soon.")


def forgot_the_number(case: Case) -> None:
    name = case.rng.choice(NAMES)
    case.customer(f"Hello, {name} here. I want to return a {case.goods}.")
    if case.lost:
        case.says("Refunds end after 14 days, so I cannot help you.")  # without a look
        return
    case.says("Gladly. What is the number of your order?")
    case.customer(case.number)
    case.looks_up()
    if case.age <= 14:
        case.refunds()
    else:
        case.says(f"It came {case.age} days ago, and refunds end after 14 days. I am sorry.")


def asks_for_hours(case: Case) -> None:
    hour = case.rng.randint(6, 20)
    case.customer(f"Can I come by at {hour}?")
    open_then = (9 <= hour < 17) != case.lost
    case.says("Yes, we are open then." if open_then else "No, we are open from 9 to 17.")


STORIES = [wants_money_back, is_broken, where_is_it, forgot_the_number, asks_for_hours]


def log(i: int) -> dict:
    """The i-th log. Each story comes as often as any other, and is lost as often."""
    lost = i // len(STORIES) % LOST_EVERY == LOST_EVERY - 1
    case = Case(random.Random(f"support {i}"), lost)
    STORIES[i % len(STORIES)](case)
    return {"task": f"case-{i}", "won": not lost, "messages": case.messages, "tools": TOOLS}


def main() -> None:
    lines = [json.dumps(log(i)) for i in range(LOGS)]
    FILE.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
