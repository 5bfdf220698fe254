"""What ends a run that teaches nothing: one sentence, with the likely cause and the knobs to turn.

An update in which nothing can be compared happens, and is a warning. A stage of Act-PRM that begins
with FIRST of them in a row, or with SURE unreadable thoughts, is stopped, because where no thought
earns anything nothing moves the weights, and the next update is like the last one. Once an update
had something to compare, the stage is never stopped: a policy that has mastered its demos earns the
same everywhere, too.
"""

import re
from collections import Counter
from dataclasses import dataclass, field

from loguru import logger

from minprm.constants import ActPRM, fail
from minprm.own import is_own
from minprm.run.events import Chose, Drew, Event, Grouped
from minprm.text.chat import Chat
from minprm.trainer import Run

FIRST = 5  # updates from the start of a stage; a shorter stage is judged when it ends
# how a model begins a line where it has a format of its own: "action:", "<answer>", "**Answer**"
FORMAT = re.compile(r"^\s*(\w+:|</?\w+>|\*\*\w+)", re.MULTILINE)
SURE = 256  # thoughts: if none of so many can be read, chance is not the reason
COMPARES_NOTHING = ("none", "batch")  # of --act-prm.advantage: within a group
GRADED = "use --act-prm.reward action_prob_mean"
# why every thought earns a reward of 0
WHY_ZERO = {
    "action_prob": "the probability of a long action is 0 in 32 bit: "
    f"{GRADED}, the mean over its tokens",
    "exact_match": "after none of them did the model write the expert's action: "
    f"{GRADED}, which is graded",
}


@dataclass
class Tally:
    """How many thoughts were drawn, and what was wrong with those that cannot be read."""

    drawn: int = 0
    readable: int = 0
    cut: int = 0  # ended by their length
    tags: int = 0  # begin another tag than the one that ends a thought
    turns: int = 0  # ended with the turn
    lines: Counter = field(default_factory=Counter)  # how many that were cut have a line like this
    empty: int = 0  # ended at once
    controls: Counter = field(default_factory=Counter)  # how many hold this control token

    def add(self, groups: list, chat: Chat) -> "Tally":
        """Counts the thoughts of these groups of Act-PRM too."""
        for group in groups:
            for z in group.thoughts:
                self.drawn += 1
                self.readable += z.usable
                other_tag = z.cut and z.ids[-1:] == chat.stop
                self.tags += other_tag
                self.cut += z.cut and not other_tag
                ended_turn = not z.closed and not z.cut
                ids = z.ids[:-1] if ended_turn else z.ids
                self.turns += ended_turn
                if z.cut and not other_tag:
                    self.lines.update(set(FORMAT.findall(chat.text(z.ids))))
                self.empty += z.usable and not chat.text(z.ids).strip()
                self.controls.update({chat.special[i] for i in ids if i in chat.special})
        return self

    def why(self, run: Run) -> str:
        """Why thoughts cannot be read, and what to do about it."""
        other = "choose another --layout or another --model"
        shown = f"show it how by --few-shot, or {other}"
        asked = "use another --instruction or another --model"
        if run.cfg.few_shot:
            shown = f"let --few-shot show questions like these, with short thoughts, or {other}"
        if run.cfg.model == "tiny":
            other = shown = asked = "raise it longer, with more --tiny.updates"
        causes = self._causes_of_no_end(run.agent.chat.layout.stop, run.agent.thought_tokens)
        mend = shown
        if [*causes] == ["cut"] and (self.readable or run.cfg.few_shot):
            mend = f"allow longer ones; if the model never ends a thought by itself, {shown}"
        elif "cut" in causes:
            mend = f"{shown}; if the thoughts are good ones, allow longer ones"
        no_end = f"{', and '.join(causes.values())}: {mend}"
        without_end = self.turns + self.tags + self.cut
        if without_end > self.drawn / 2 and [*causes] != ["cut"]:
            return no_end
        ((token, times),) = self.controls.most_common(1) or [("", 0)]
        if times > self.drawn / 2 or (times > self.empty and not self.cut):
            return (
                f"{self.drawn - self.readable} of {self.drawn} thoughts hold a control token, such "
                f"as {token}: where many do, {other}"
            )
        if self.empty > without_end:
            return (
                f"{self.empty} of {self.drawn} thoughts are empty, so this model ends a thought at "
                f"once: {asked}"
            )
        if causes:
            return no_end
        return (
            f"{self.drawn - self.readable} of {self.drawn} thoughts hold ids without text: {other}"
        )

    def _causes_of_no_end(self, stop: str, longest: int) -> dict[str, str]:
        """Why thoughts have no end: each cause of more than a quarter of these, in words."""
        rare = (self.turns + self.tags + self.cut) / 4
        ((line, other_format),) = self.lines.most_common(1) or [("", 0)]
        if other_format <= rare:
            other_format = 0
        causes = {
            "turn": (
                self.turns,
                f"ended the turn, so this model answers without ending a thought by {stop}",
            ),
            "format": (
                other_format,
                f"never end and have a line that begins with {line!r}, so this model writes in "
                f"another format than the one that ends a thought by {stop}",
            ),
            "tag": (self.tags, f"go on with another tag where {stop} should end them"),
            "cut": (self.cut - other_format, f"were cut at --thought-tokens {longest}"),
        }
        return {
            name: f"{times} of {self.drawn} thoughts {what}"
            for name, (times, what) in causes.items()
            if times > rare
        }


class Hopeless:
    """The listener: it ends a run that teaches nothing, and warns of what is left out."""

    def __init__(self):
        self.tally = Tally()  # of the thoughts that a stage has drawn to write into logs

    def __call__(self, run: Run, event: Event) -> None:
        match event:
            case Grouped():
                check_signal(run, event)
            case Drew():
                self.tally.add(event.groups, run.agent.chat)
            case Chose():
                tally, self.tally = self.tally, Tally()
                require_thoughts(run, event, tally)


def check_signal(run: Run, event: Grouped) -> None:
    """Warns of an update in which no group had anything to compare. Exits where all updates so far
    were like that, and they are enough to tell; see above."""
    stage_id, update, cfg = event.stage_id, event.update, event.cfg
    if event.stats["reward/no_variance"] < 1.0:
        return
    logger.warning(f"{stage_id} {update}: in every group all thoughts earn the same")
    tally = Tally().add(event.groups, run.agent.chat)
    reason = _reason(run, cfg, tally, event.stats["reward/mean"])
    if not reason or run.running.get("without_signal", 0) < update:
        return
    run.running["without_signal"] = update + 1  # in the snapshots, so that --resume counts on
    sure = not tally.readable and (update + 1) * tally.drawn >= SURE
    if sure or update + 1 == min(FIRST, cfg.updates):
        updates = "the first update" if update == 0 else f"all {update + 1} updates so far"
        fail(f"{stage_id}, seed {run.seed}: nothing was learned from {updates}: {reason}")


def _reason(run: Run, cfg: ActPRM, tally: Tally, reward: float) -> str:
    """Why all thoughts of a group earn the same. Empty: it is no failure that they do."""
    if not tally.readable:
        return f"no thought can be read; {tally.why(run)}"
    if reward == 0.0:
        way_out = "use another --model that can follow these demos"
        if is_own(cfg.reward):
            way_out = f"look into {cfg.reward}, or {GRADED}, which is graded"
        return f"every thought earned a reward of 0; {WHY_ZERO.get(cfg.reward, way_out)}"
    if cfg.group == 1 or cfg.advantage in COMPARES_NOTHING:
        return ""
    return (
        f"in every group all thoughts earned the same ({reward:.3f} on average), so none is better "
        "than another: choose an --act-prm.reward that is graded (action_prob), a larger "
        "--act-prm.group, or a higher --temperature"
    )


def require_thoughts(run: Run, event: Chose, tally: Tally) -> None:
    """Says how many logs are left out because a step has no thought that can be read. Exits where
    all are."""
    left_out = event.logs - event.readable
    if not event.readable:
        fail(
            f"{event.stage_id}: every demo has a step without a thought that can be read, so there "
            f"is nothing to learn; {tally.why(run)}"
        )
    if left_out:
        logger.warning(
            f"{event.stage_id}: {left_out} of {event.logs} demos are left out, because a step has "
            f"no thought that can be read; {tally.why(run)}"
        )
