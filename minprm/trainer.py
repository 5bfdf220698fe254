"""The stages and the loop; snapshots and resume.

An arm is a list of stages. A stage takes the policy and the demos that the stage before left, and
leaves its own. Arms that begin alike share their beginnings. All randomness is a function of (seed,
stage, update), so a resumed run needs no generator's state to draw what it would have drawn.
"""

import random
import signal
import time
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import torch
from loguru import logger
from tqdm import tqdm
from transformers import AutoTokenizer

from minprm import play as rollout
from minprm.algorithms import adaptive_kl
from minprm.constants import ActPRM, Config, Training, fail
from minprm.data import Demo, Sample, read_demos, split_tasks, write_demos
from minprm.envs import make_world
from minprm.model import tiny as babble
from minprm.model.policy import Policy, load_model, pretrained, schedule
from minprm.model.sampler import make_sampler
from minprm.run.log import Log
from minprm.run.prefetch import Ahead
from minprm.stages.act_prm import credited, group_metrics, relabelled, shown, think, written
from minprm.stages.rl import credit, gathered
from minprm.stages.sft import as_samples, fitting
from minprm.text.chat import Chat

Batch = tuple[list[Sample], dict[str, float]]
# of the stages act_prm:resample and relabel:resample: particles need a reader that stays as it is
RESAMPLE = {"continues": "resample", "trained_on": "thought", "advantage": "posterior"}


class Trainer:
    """One seed of a ladder."""

    saved = staticmethod(lambda: None)  # called after every snapshot

    def __init__(self, cfg: Config, seed: int, log: Log, checkpoints: Path):
        self.cfg, self.seed, self.log, self.checkpoints = cfg, seed, log, checkpoints
        self.folder = checkpoints / cfg.run
        began = time.perf_counter()
        self.policy = self._load()
        self.base_seconds = time.perf_counter() - began
        n = cfg.num_demos + cfg.held_out
        demos = read_demos(cfg.demos) if cfg.demos else rollout.expert_demos(cfg, seed, n)
        if cfg.actions_only:
            demos = [d.with_thoughts([None] * len(d.steps)) for d in demos]
        tools = any(demo.tools for demo in demos)
        self.chat = Chat(self.policy.tokenizer, cfg.layout, tools)
        self.ahead, engine = Ahead(cfg.rl.max_async_level), (cfg.sampler, cfg.engine, cfg.context)
        self.sampler = make_sampler(self.policy.model, *engine, apart=self.ahead.level > 0)
        fit = [fitting(demo, self.chat, cfg) for demo in demos]
        if cut := sum(a is not b for a, b in zip(demos, fit, strict=True)):
            logger.warning(f"{cut} of {len(demos)} logs are cut where they outgrow --context")
        if not any(demo.steps for demo in fit):
            fail(f"--context {cfg.context} does not hold the first step of any log")
        self.given, self.held_out = split_tasks([d for d in fit if d.steps], cfg.held_out)
        self.demos = self.given
        self.stopping = False

    def arm(self, name: str, stages: list[str]) -> dict:
        """Runs the stages, saves the model, plays the evaluation tasks: a row of the ladder."""
        self.policy.restart()
        self.demos = self.given
        seconds = sum(self.stage("+".join(stages[: i + 1])) for i in range(len(stages)))
        self.policy.save(self.folder / f"{name}-{self.seed}")
        self._sync()
        cfg, noise, parts = self.cfg, _noise(self.seed, "evaluate", 0), (self.chat, self.sampler)
        if cfg.world:
            episodes = rollout.evaluation(cfg, *parts, cfg.eval_temperature, noise)
            row = {"episodes": len(episodes), **rollout.summary(episodes)}
        else:
            row = rollout.replay(cfg, self.held_out, *parts, self.policy, noise)
        return {"seed": self.seed, **row, "seconds": round(seconds, 1)}

    def stage(self, path: str) -> float:
        """Runs the last stage of `path`, or takes over what it left the first time. Its seconds."""
        name, _, variant = path.split("+")[-1].partition(":")
        saved = self._snapshot(path)
        if not saved.get("done"):
            began = time.perf_counter() - saved.get("seconds", 0.0)
            self.log.rewind(self.seed, path, saved.get("update", 0))
            self._sync()  # the policy may have restarted
            getattr(self, name)(path, variant)
            seconds = time.perf_counter() - began
            self._save(path, done=True, seconds=seconds, demos=self.demos)
            logger.info(f"seed {self.seed}  {path}  {seconds:.1f} s")
            return seconds
        self.policy.load(saved["model"])
        self.demos = saved["demos"]
        return saved["seconds"]

    def loop(self, path: str, cfg: Training, updates: int, batch: Callable[[int], Batch],
             held_out: Callable[[], float] | None = None) -> None:  # fmt: skip
        """The loop of every method: what differs is where the samples of a batch come from."""
        self.policy.begin()
        saved, began = self._snapshot(path), time.perf_counter()
        start, best = saved.get("update", 0), saved.get("best", {"reward": -1.0, "since": 0})
        self.moving = saved.get("moving", {"baseline": 0.0, "kl": cfg.kl})
        if start:
            self.policy.load(saved["model"])
            self.policy.optimizer.load_state_dict(saved["optimizer"])
            self.policy.version, self.policy.start = saved["version"], saved["start"]
        self._sync()
        began -= saved.get("seconds", 0.0)
        lr = schedule(cfg, updates)
        for update in tqdm(range(start, updates), path, updates, initial=start, leave=False):
            clock = time.perf_counter()
            samples, stats = batch(update)
            middle = time.perf_counter()
            stats |= self._learn(samples, cfg, lr(update))
            self._sync()
            stats |= {"time/sample": middle - clock, "time/update": time.perf_counter() - middle}
            if held_out and ((update + 1) % cfg.eval_every == 0 or update + 1 == updates):
                stats["eval/held_out_reward"] = held_out()
                best = self._best(best, stats["eval/held_out_reward"], cfg)
            self.log.update(self.seed, path, update, stats)
            self._check_gap(stats.get("policy/gap_mean", 0.0), stats.get("policy/staleness", 0))
            stop = self.stopping and not self.ahead.begun  # else at the next snapshot
            if (update + 1) % self.cfg.save_every == 0 or stop:
                self._save(path, update=update + 1, seconds=time.perf_counter() - began, best=best,
                           optimizer=self.policy.optimizer.state_dict(),
                           version=self.policy.version, start=self.policy.start,
                           moving=self.moving)  # fmt: skip
            if stop:
                raise KeyboardInterrupt
            if held_out and cfg.patience and best["since"] >= cfg.patience:
                logger.info(f"{path}: no better held-out reward in {cfg.patience} looks, stopped")
                break
        if "model" in best:
            self.policy.load(best["model"])
            self._sync()

    def _learn(self, samples: list[Sample], cfg: Training, lr: float) -> dict[str, float]:
        """The passes over one batch. The gap to the sampler is that of the first, unmoved."""
        if not self.ahead.begun:
            self.sampler.sleep()
        heat, cfg = self.cfg.temperature, replace(cfg, kl=self.moving["kl"])
        samples, gaps = self.policy.corrected(samples, cfg.correction, heat)
        seen = [self.policy.update(samples, cfg, lr, heat) for _ in range(cfg.passes)]
        stats = seen[-1] | {k: v for k, v in seen[0].items() if "gap" in k or "match" in k} | gaps
        if cfg.kl_target and not self.policy.skipped:
            self.moving["kl"] = adaptive_kl(cfg.kl, stats["policy/kl"], cfg.kl_target)
            stats["policy/kl_weight"] = cfg.kl
        return stats

    def _sync(self) -> None:
        """Gives the sampler the policy's weights, when nobody writes with the old ones any more."""
        self.ahead.settle()
        self.sampler.sync()
        self.written = self.policy.version

    def stop_soon(self) -> None:
        """Ctrl-C: the update in progress ends and the stage is saved. A second one ends at once."""

        def handler(*_):
            self.stopping = True
            logger.info("stopping after this update, or where batches are played ahead a later one")
            signal.signal(signal.SIGINT, signal.SIG_DFL)

        signal.signal(signal.SIGINT, handler)

    # --- stages: each takes its path (all stages up to it) and its variant, after the colon ---

    def sft(self, path: str, variant: str) -> None:
        """Fine-tunes a fresh base model on actions, on the arm's thoughts, or on given thoughts."""
        cfg, shown = self.cfg.sft, self.cfg.history
        demos = self.demos if variant == "thoughts" else self.given
        if variant == "actions":
            demos = [d.with_thoughts([None] * len(d.steps)) for d in demos]
        elif any(step.thought is None for d in demos for step in d.steps):
            fail(f"{path}: a step has no thought; this arm needs demos that have them all")
        rows = [row for demo in demos for row in as_samples(demo, self.chat, shown)]
        self.policy.restart()
        updates = -(-cfg.epochs * len(rows) // cfg.batch)
        self.loop(path, cfg, updates, lambda u: (self._pick(rows, cfg.batch, path, u), {}))

    def act_prm(self, path: str, variant: str) -> None:
        """Sample thoughts for logged steps, reward each by the expert's action, reinforce."""
        cfg = self._act_prm(variant)

        def batch(update: int) -> Batch:
            demos = self._pick(self.given, cfg.batch, path, update)
            groups, _ = self._think(demos, cfg, _noise(self.seed, path, update))
            stats = group_metrics(groups, self.chat)
            if stats["reward/no_variance"] == 1.0:
                logger.warning(f"{path} {update}: no group has variance, nothing is learned")
            samples = credited(groups, self.chat, cfg, self.policy.version)
            if update % cfg.eval_every == 0:
                self.log.samples(self.seed, path, update, shown(groups[:4], self.chat))
            return samples, stats

        def held_out() -> float:
            plain = replace(cfg, thoughts_from="state", continues="best")
            groups, _ = self._think(self.held_out, plain, _noise(self.seed, "held out", 0))
            return group_metrics(groups, self.chat)["reward/mean"]

        self.loop(path, cfg, cfg.updates, batch, held_out if self.held_out else None)

    def relabel(self, path: str, variant: str) -> None:
        """Writes the policy's best thoughts into the logs, and the logs to `relabelled.jsonl`."""
        cfg, act, group = self.cfg.relabel, self._act_prm(variant), self.cfg.relabel.group
        if variant == "matched":  # as many samples as Act-PRM draws in all, training included
            group += -(-act.updates * act.batch * act.group // len(self.given))
        act = replace(act, group=group, thoughts_from="state")
        seed, out = _noise(self.seed, path, 0), []
        for i in range(0, len(self.given), 32):
            part = self.given[i : i + 32]
            groups, paths = self._think(part, act, seed + i)
            for d, demo in enumerate(part):
                steps = [g for g in groups if g.demo == d]
                out += relabelled(demo, steps, paths[d], self.chat, act.continues, cfg.keep)
        self.demos = [d for d in out if min(s.reward for s in d.steps) >= cfg.min_reward]
        if not self.demos:
            fail(f"{path}: no demo reached --relabel.min-reward {cfg.min_reward}")
        reward = fmean(step.reward for demo in self.demos for step in demo.steps)
        logger.info(f"{path}: {len(self.demos)} demos, mean reward {reward:.3f}")
        self._write(f"relabelled-{path}")

    def sample(self, path: str, _: str) -> None:
        """One thought a step, unselected."""
        one = replace(self.cfg.act_prm, group=1, continues="own", thoughts_from="state")
        _, paths = self._think(self.given, one, _noise(self.seed, path, 0))
        pairs = zip(self.given, paths, strict=True)
        self.demos = [written(d, p.thoughts, self.chat) for d, (p,) in pairs]

    def synth(self, path: str, _: str) -> None:
        """Rejection sampling: the policy plays training tasks, and what it won becomes the logs."""
        seeds = rollout.training_tasks(self.seed, self.cfg.num_demos)
        self.demos = rollout.won_demos(self._play(seeds, path, 0))
        if not self.demos:
            fail(f"{path}: the policy won none of {len(seeds)} training tasks, so wrote no logs")
        self._write(f"synth-{path}")

    def shuffle(self, path: str, _: str) -> None:
        """The right style on the wrong step: thoughts are permuted over all steps."""
        thoughts = [step.thought for demo in self.demos for step in demo.steps]
        random.Random(f"{self.seed} {path}").shuffle(thoughts)
        rest = iter(thoughts)
        self.demos = [d.with_thoughts([next(rest) for _ in d.steps]) for d in self.demos]

    def copy(self, path: str, _: str) -> None:
        """The thought is the action."""
        self.demos = [d.with_thoughts([s.action for s in d.steps]) for d in self.given]

    def rl(self, path: str, variant: str) -> None:
        """REINFORCE, GRPO, PPO: play each task G times, compare or criticise, reinforce."""
        cfg, dense = self.cfg.rl, variant == "dense"
        if variant == "finetune":
            cfg = replace(cfg, lr=cfg.finetune_lr)

        def play(update: int) -> tuple:
            rng = random.Random(f"{self.seed} {path} {update}")
            once = lambda tasks, again: self._play(tasks, f"{path}{again or ''}", update)  # noqa: E731
            return gathered(once, cfg, dense, rng)

        def batch(update: int) -> Batch:
            saved = (update // self.cfg.save_every + 1) * self.cfg.save_every  # holds no batch
            groups, played = self.ahead.take(play, update, min(saved, cfg.updates))
            samples, stats = credit(groups, cfg, dense, self.policy, self.moving["baseline"])
            self.moving["baseline"] = stats.get("reward/baseline", 0.0)
            won = fmean(e.world.success for e in played)
            return samples, stats | {"reward/mean": won, "reward/episodes": len(played)}

        self.loop(path, cfg, cfg.updates, batch)

    # --- helpers ---

    def _load(self) -> Policy:
        cfg = self.cfg
        if cfg.model != "babble":
            tokenizer = pretrained(AutoTokenizer, cfg.model)
            model = load_model(cfg.model, cfg.lora, cfg.checkpointing)
            return Policy(model, tokenizer, cfg.micro_tokens)
        world = make_world(cfg)
        policy = babble.raised(world, cfg.babble, self.seed, cfg.micro_tokens, self.checkpoints)
        skills = babble.gate(policy, world, cfg.thought_tokens)
        babble.check_gate(skills, stop=cfg.gate)
        return policy

    def _act_prm(self, variant: str) -> ActPRM:
        return replace(self.cfg.act_prm, **(RESAMPLE if variant == "resample" else {}))

    def _pick(self, items: list, n: int, path: str, update: int) -> list:
        """The update's items: passes over all of them, each in its own order."""
        picked = []
        for epoch, i in (divmod(k, len(items)) for k in range(update * n, (update + 1) * n)):
            picked.append(random.Random(f"{self.seed} {path} {epoch}").sample(items, len(items))[i])
        return picked

    def _think(self, demos: list[Demo], cfg: ActPRM, seed: int):
        return think(demos, self.chat, self.sampler, self.policy, cfg, self.cfg.history,
                     self.cfg.thought_tokens, self.cfg.temperature, seed)  # fmt: skip

    def _play(self, seeds: list[int], path: str, update: int) -> list[rollout.Episode]:
        noise, heat = _noise(self.seed, path, update), self.cfg.temperature
        episodes = rollout.play(self.cfg, seeds, self.chat, self.sampler, heat, noise)
        for s in (s for e in episodes for s in e.samples):
            s.version = self.written
        return episodes

    def _best(self, best: dict, reward: float, cfg: ActPRM) -> dict:
        """Remembers the best weights so far, where early stopping asks for them."""
        if reward <= best["reward"]:
            return {**best, "since": best["since"] + 1}
        weights = {"model": self.policy.weights()} if cfg.patience else {}
        return {"reward": reward, "since": 0, **weights}

    def _check_gap(self, gap: float, staleness: int = 0) -> None:
        """Raises where the writing model is not the learning one, nor meant to be an older one."""
        if gap > self.cfg.engine.max_gap and not staleness:
            raise RuntimeError(
                f"sampler and trainer differ by {gap:.3f} nats a token (above --engine.max-gap): "
                "stale weights, a temperature on one side only, or a precision too low; --sampler "
                "transformers shows which side is wrong"
            )

    def _write(self, name: str) -> None:
        """The arm's logs, to a file of the run."""
        file = self.log.folder / f"{name.replace(':', '-')}-{self.seed}.jsonl"
        file.unlink(missing_ok=True)  # this run's own, from before it was killed
        write_demos(self.demos, file)

    def _file(self, path: str) -> Path:
        return self.folder / "stages" / f"{path.replace(':', '-')}-{self.seed}.pt"

    def _snapshot(self, path: str) -> dict:
        file = self._file(path)
        return torch.load(file, weights_only=False) if file.exists() else {}

    def _save(self, path: str, **state) -> None:
        file = self._file(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        half = file.with_suffix(".tmp")
        torch.save({"model": self.policy.weights(), **state}, half)
        half.replace(file)
        self.saved()


def _noise(seed: int, path: str, update: int) -> int:
    """A seed for the sampler: a function of what is being done, not of what was done before."""
    return zlib.crc32(f"{seed} {path} {update}".encode()) * 1000
