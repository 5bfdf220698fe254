"""What flows: `Demo` and `Step` hold an episode as text, `Sample` the tokens to train on.

This file holds no file formats (logs/reader.py has them) and no maths. In act_prm.py a demo is one
`task`, and a Sample is one row of `prompts` and `turns` with its advantage.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

NAN = float("nan")


@dataclass(eq=False)
class Sample:
    """The one thing that every loss trains on, for SFT, RL and Act-PRM alike.

    A sequence of token ids, and lists that hold one entry for each of them. `values` and `returns`
    may be empty. A Sample that has a `parent` continues it: thoughts of one state share that state
    as their parent, so that it is read once (model/tree.py).
    """

    ids: list[int] = field(default_factory=list)
    trained: list[bool] = field(default_factory=list)  # True where the loss is taken
    logprobs: list[float] = field(default_factory=list)  # the sampler's; NaN where it did not draw
    advantages: list[float] = field(default_factory=list)  # one number for each token
    version: int = 0  # which weights wrote it
    parent: "Sample | None" = None
    values: list[float] = field(default_factory=list)  # the critic's before the update, if any
    returns: list[float] = field(default_factory=list)  # the targets of `values`

    def extend(
        self, ids: list[int], advantage: float | None = None, logprobs: list[float] | None = None
    ) -> "Sample":
        """Appends ids, returns itself. An advantage marks them trained, log-probs mark them drawn.

        >>> Sample().extend([5, 6]).extend([7], advantage=1.0).trained
        [False, False, True]
        """
        self.ids += ids
        self.trained += [advantage is not None] * len(ids)
        self.logprobs += logprobs or [NAN] * len(ids)
        self.advantages += [advantage or 0.0] * len(ids)
        return self

    def whole(self) -> list[int]:
        """Ids of all its ancestors, oldest first, and its own."""
        ids = self.ids
        node = self
        while node := node.parent:
            ids = node.ids + ids
        return ids


def chain(segments: list[list[int]], starts: dict) -> Sample:
    """Links segments into parent and child Samples, and returns the last one.

    Chains that start with the same list objects share those Samples, so a growing history is read
    once. Lists that are merely equal are not shared. `starts` maps each start to its Sample.

    >>> a, b, starts = [1, 2], [3], {}
    >>> chain([a, b], starts).parent is chain([a, [4]], starts).parent
    True
    """
    node = None
    key = ()
    for ids in segments:
        key = (*key, id(ids))  # which list it is, not what is in it
        if key not in starts:
            # the list is kept too: if it were freed, Python could give its id to another one
            starts[key] = (Sample(parent=node).extend(ids), ids)
        node, _ = starts[key]
    return starts[key][0]


@dataclass
class Step:
    """One decision of an episode."""

    state: list[dict]  # new messages since the last action; s in p(z | s) is these and all before
    thought: str | None
    action: str  # what is said, then each tool call as a line of JSON (text/actions.py)
    reward: float = 0.0  # the world's; in relabelled demos that of the thought
    learned: bool = True  # False: SFT reads this turn and does not learn it
    unreadable: str = ""  # all of a played turn in which no action can be read

    def observation(self) -> str:
        """The state as plain text."""
        return "\n".join(str(message.get("content") or "") for message in self.state)


@dataclass
class Demo:
    """An expert's log. `messages` is all of it (logs/normalise.py); `steps` are its decisions."""

    task: str  # demos of one task are never split between training and held-out
    messages: list[dict]
    tools: list[dict]
    steps: list[Step]
    outcome: dict = field(default_factory=dict)  # how it ended, where the log says so: its reward

    def with_thoughts(
        self, thoughts: Sequence[str | None], rewards: list[float] | None = None
    ) -> "Demo":
        """The same log with these thoughts, one a step."""
        rewards = rewards or [0.0] * len(thoughts)
        steps = []
        for step, thought, reward in zip(self.steps, thoughts, rewards, strict=True):
            steps.append(replace(step, thought=thought, reward=reward))
        return replace(self, steps=steps)

    def without_thoughts(self) -> "Demo":
        """The same log with actions alone."""
        return self.with_thoughts([None] * len(self.steps))

    def action_before(self, n: int) -> str | None:
        """The action of the step before step n. None: step n is the first."""
        return self.steps[n - 1].action if n else None

    def until(self, n: int) -> "Demo":
        """The log up to the state of step n. Each step before it ends with one message more."""
        before = sum(len(step.state) + 1 for step in self.steps[:n]) + len(self.steps[n].state)
        return replace(self, messages=self.messages[:before], steps=self.steps[:n])
