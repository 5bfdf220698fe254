"""What a method tells of its work. Whoever wants to know it listens.

A listener is a function of (run, event). It may add numbers to `stats`, which are logged with the
update, and it may end a run that teaches nothing. It moves no weight and draws noise of its own, so
a method learns the same whoever listens (look/ has the listeners).

    Began      a stage that is made of updates begins, or goes on from its last snapshot
    Grouped    Act-PRM: the groups of an update have their advantages; no weight has moved
    Played     RL: the episodes of an update have their advantages
    Updated    the weights have moved, and the sampler has them
    Noted      a listener has noted groups for people to look at
    Learned    the stage's last update is over; the best weights are back where they were kept
    Drew       a stage has drawn thoughts to write into logs
    Chose      it has kept the logs whose thoughts can all be read
    Left       it leaves logs to the next stage
    Ended      a stage, or the evaluation of an arm, is over
"""

from dataclasses import dataclass, field

from minprm.constants import RL, ActPRM, Training
from minprm.data import Demo, Sample


@dataclass
class Event:
    """One of the above."""

    stage_id: str


@dataclass
class Began(Event):
    cfg: Training  # of this stage, as it learns
    first: int  # number of the update that comes next
    updates: int  # how many there will be


@dataclass
class Grouped(Event):
    update: int
    cfg: ActPRM
    groups: list  # Groups of stages/act_prm.py, of all steps of the update's logs
    stats: dict[str, float] = field(default_factory=dict)


@dataclass
class Played(Event):
    update: int
    cfg: RL
    groups: list[list]  # the Episodes (play.py) of each task
    episodes: list  # all that were played; those of a group that was replaced, too
    stats: dict[str, float] = field(default_factory=dict)


@dataclass
class Updated(Event):
    update: int
    cfg: Training
    samples: list[Sample]  # what was learned from
    stats: dict[str, float]


@dataclass
class Noted(Event):
    update: int
    lines: list[dict]  # of samples.jsonl


@dataclass
class Learned(Event):
    cfg: Training


@dataclass
class Drew(Event):
    groups: list  # Groups of stages/act_prm.py


@dataclass
class Chose(Event):
    logs: int  # how many there were
    readable: int  # in how many each thought can be read


@dataclass
class Left(Event):
    name: str  # of the stage, as files are called
    demos: list[Demo]
    numbers: list[dict] | None = None  # what is known of each demo


@dataclass
class Ended(Event):
    pass
