"""`Run`, what a stage works with; and the one loop that every method shares.

In act_prm.py the loop is a few lines of `act_prm` and of `fine_tune`. Here it is written once, for
SFT, Act-PRM and RL. It can be stopped at any update, and resumes with the same results. A method
that is compared is called an arm; an arm is a list of stages, such as Act-PRM, relabelling, SFT;
all arms together are the ladder. What is not here: where samples come from (stages/), and which
stages make an arm (arms/ladder.py).
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from loguru import logger

from minprm.constants import RL, SFT, Config, Training
from minprm.data import Demo, Sample
from minprm.model.agent import Agent
from minprm.model.correction import check_gap, reweighted
from minprm.model.policy import schedule
from minprm.model.tree import lineage
from minprm.play import PlayTasks
from minprm.run.ctrl_c import CtrlC
from minprm.run.events import Began, Event, Learned, Updated
from minprm.run.prefetch import Prefetch
from minprm.run.snapshots import Snapshots
from minprm.zoo import adaptive_kl

SUCCESS = "eval/success"  # what SFT and RL stop early by

Batch = tuple[list[Sample], dict[str, float]]  # what to learn from, and what to log of it
MakeBatch = Callable[[int], Batch]  # from the number of the update
Listener = Callable[["Run", Event], None]  # what it may do: run/events.py


@dataclass
class Run:
    """One seed of a ladder: the agent that learns, the demos that it learns from, and the files."""

    cfg: Config
    seed: int
    agent: Agent
    train_demos: list[Demo]  # the expert's logs, as every arm finds them
    held_out: list[Demo]  # logs of other tasks, for the held-out reward and early stopping
    test: list[Demo]  # logs of yet other tasks, for the score where there is no world
    snapshots: Snapshots
    prefetch: Prefetch
    play: PlayTasks  # plays the tasks of these seeds, in the world or by the user's own agent
    listeners: list[Listener] = field(default_factory=list)  # who wants to know, in this order
    arm: str = "stages"  # the one whose stages run now
    demos: list[Demo] = field(default_factory=list)  # what the stage before left for the next one
    running: dict[str, float] = field(default_factory=dict)  # RL's baseline and the KL's weight

    def tell(self, event: Event) -> None:
        """Tells all listeners, in their order: what one adds to an event, the next one sees."""
        for listener in self.listeners:
            listener(self, event)

    def sync(self) -> None:
        """Waits until sampling by the old weights is done, then hands over the new ones."""
        self.prefetch.settle()
        self.agent.sync()


def loop(
    run: Run, stage_id: str, cfg: Training, updates: int, batch: MakeBatch, best_by: str
) -> None:
    """Trains for `updates` updates. Methods differ in `batch`, which makes the samples of one.

    Listeners measure on tasks that are not trained on. Early stopping goes by the number that they
    call best_by.
    """
    progress = Progress(run, stage_id, cfg, updates, best_by)
    with progress.ctrl_c:  # waits for the end of an update
        for update in progress:  # from the start, or from the last snapshot
            samples, stats = batch(update)  # what differs between methods
            progress.tick("time/sample")
            stats |= learn(run, samples, cfg, progress.lr(update))
            run.sync()  # the sampler writes by the new weights
            progress.tick("time/update")
            stats |= progress.seconds
            run.tell(Updated(stage_id, update, cfg, samples, stats))  # looks, files, screen
            progress.judge(stats)
            check_gap(stats, run.cfg.engine)  # stops if sampler and trainer disagree
            progress.save_or_stop(update)
    progress.finish()
    run.tell(Learned(stage_id, cfg))


def learn(run: Run, samples: list[Sample], cfg: Training, lr: float) -> dict[str, float]:
    """Learns from one batch `optim.passes` times, each time in `optim.minibatches` optimizer steps.
    Returns what to log."""
    policy = run.agent.policy
    temperature = run.agent.temperature
    optim = run.cfg.optim
    gaps = {}
    if not run.prefetch.pending:
        run.agent.sampler.sleep()  # the update needs the sampler's memory
    if isinstance(cfg, RL):
        cfg = replace(cfg, kl=run.running.get("kl", cfg.kl))
        samples, gaps = reweighted(policy, samples, cfg.correction, temperature)
    steps = []
    for _ in range(optim.passes):
        for part in minibatches(samples, optim.minibatches):
            steps.append(policy.update(part, cfg, lr, temperature, optim))
    stats = steps[-1]
    # the gap to the sampler is that of the first step, before any weight moved
    for name in ("policy/gap_mean", "policy/gap_max", "policy/mismatch_kl"):
        if name in steps[0]:
            stats[name] = steps[0][name]
    stats |= gaps
    if isinstance(cfg, RL) and cfg.kl_target and not policy.skipped:
        run.running["kl"] = adaptive_kl(cfg.kl, stats["policy/kl"], cfg.kl_target)
        stats["policy/kl_weight"] = cfg.kl
    return stats


def minibatches(samples: list[Sample], n: int) -> list[list[Sample]]:
    """The samples in n parts, in their order; in fewer where there are fewer groups. What has its
    first state in common is a group, and stays whole."""
    if n == 1:
        return [samples]
    groups: dict[Sample, list[Sample]] = {}
    for sample in samples:
        if any(sample.trained):
            first_state = lineage(sample)[0]
            groups.setdefault(first_state, []).append(sample)
    n = min(n, len(groups))
    parts: list[list[Sample]] = [[] for _ in range(n)]
    for number, group in enumerate(groups.values()):
        parts[number * n // len(groups)] += group
    return parts


class Progress:
    """Where a stage stands: its next update, the best weights so far, the clock, and when to stop.

    Iterating over it gives the numbers of the updates that are left.
    """

    def __init__(self, run: Run, stage_id: str, cfg: Training, updates: int, best_by: str):
        self.run = run
        self.stage_id = stage_id
        self.cfg = cfg
        self.updates = updates
        self.best_by = best_by
        optim = run.cfg.optim
        if isinstance(cfg, SFT) and optim.decay == "none":  # it has to end in small steps
            optim = replace(optim, decay="linear")
        self.lr = schedule(cfg.lr, updates, optim)
        self.seconds: dict[str, float] = {}  # of the parts of this update
        self.best_weights = {}  # those of the best look, where patience may go back to them
        self.ctrl_c = CtrlC(run.agent.policy.shares)
        saved = run.snapshots.state(stage_id)
        self.first = saved.get("update", 0)
        self.best = saved.get("best", {"score": -1.0, "since": 0})
        run.running = saved.get("running", {"baseline": 0.0})
        run.agent.policy.begin()  # the stage started here; how far it has come is in the snapshot
        if self.first:
            self.best_weights = run.snapshots.load(stage_id, run.agent.policy)
        run.sync()
        self.began = time.perf_counter() - saved.get("seconds", 0.0)

    def __iter__(self) -> Iterator[int]:
        self.run.tell(Began(self.stage_id, self.cfg, self.first, self.updates))
        for update in range(self.first, self.updates):
            if 0 < self.cfg.patience <= self.best["since"]:
                looks = f"{self.cfg.patience} looks"
                logger.info(f"{self.stage_id}: no better {self.best_by} in {looks}, stopped")
                return
            self.clock = time.perf_counter()
            yield update

    def tick(self, name: str) -> None:
        """Notes the seconds since the tick before, under this name."""
        now = time.perf_counter()
        self.seconds[name] = now - self.clock
        self.clock = now

    def judge(self, stats: dict[str, float]) -> None:
        """Keeps the weights where a look at held-out tasks was the best so far."""
        score = stats.get(self.best_by)
        if score is None:  # no look was due
            return
        if score > self.best["score"]:
            self.best = {"score": score, "since": 0}
            if self.cfg.patience:
                self.best_weights = self.run.agent.policy.weights()
        else:
            self.best["since"] += 1

    def save_or_stop(self, update: int) -> None:
        """Saves a snapshot when one is due. After Ctrl-C it saves one and stops."""
        # batches that are played ahead are in no snapshot: a stop waits until none is pending
        stop = self.ctrl_c.pressed and not self.run.prefetch.pending
        if stop or (update + 1) % self.run.cfg.save_every == 0:
            self.run.snapshots.save(
                self.stage_id,
                self.run.agent.policy,
                self.best_weights,
                update=update + 1,
                seconds=time.perf_counter() - self.began,
                best=self.best,
                running=self.run.running,
            )
        if stop:
            raise KeyboardInterrupt

    def finish(self) -> None:
        """Back to the best weights, where patience kept them. What was played ahead is dropped."""
        self.run.prefetch.drop()
        if self.best_weights:
            if self.best["since"]:
                logger.info(f"{self.stage_id}: back to the weights of the best {self.best_by}")
            self.run.agent.policy.load(self.best_weights)
            self.run.sync()
