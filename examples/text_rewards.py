"""python -m examples.text_rewards [--reward chrf --file my.jsonl --model HUB_ID]: rewards on text.

Single-turn generation as RL4LMs has it (arXiv:2210.01241): a supervised warm start, then PPO with a
reward on the text alone and an adaptive KL that holds the policy to the warm start, beside the same
without one. By default a tiny model learns to count in a few updates, and the reward is the share
of numbers that are larger than the one before, which "1 2" earns whole.

Your data: JSONL of {"prompt", "reference"}; ROUGE-L, BLEU and chrF need pip install -e ".[text]".
"""

import re
import sys
import time
from dataclasses import dataclass
from functools import cache
from random import Random
from statistics import fmean

from minprm.commands.cli import read_flags
from minprm.commands.train import CHECKPOINTS, go_on
from minprm.constants import Tiny, fail
from minprm.envs import WORLDS
from minprm.envs.base import World, check_splits, needs
from minprm.envs.dates import dated
from minprm.envs.numbers import increasing
from minprm.model import tiny
from minprm.model.policy import Policy
from minprm.text.logs import read_jsonl


def numbers(answer: str, reference: str) -> float:
    """Share of the answer's numbers that are larger than the one before."""
    return increasing([int(n) for n in re.findall("[0-9]{1,6}", answer)])


def dates(answer: str, reference: str) -> float:
    """Share of the answer's words that are dates."""
    return dated(answer.split())


def bleu(answer: str, reference: str) -> float:
    """BLEU of one sentence, 0 to 1   sacrebleu"""
    needs("sacrebleu", "text")
    from sacrebleu import sentence_bleu

    return sentence_bleu(answer, [reference]).score / 100


def chrf(answer: str, reference: str) -> float:
    """chrF, F-score of character n-grams, 0 to 1   sacrebleu"""
    needs("sacrebleu", "text")
    from sacrebleu import sentence_chrf

    return sentence_chrf(answer, [reference]).score / 100


def rouge_l(answer: str, reference: str) -> float:
    """F-score of the longest common subsequence of words   rouge-score"""
    needs("rouge_score", "text")
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(["rougeL"]).score(reference, answer)["rougeL"].fmeasure


REWARDS = {"numbers": numbers, "dates": dates, "bleu": bleu, "chrf": chrf, "rouge_l": rouge_l}


class Text(World):
    """One prompt, one answer, a reward on its text. Success: it is the reference."""

    words = ["count", "from", "to", *map(str, range(1, 60))]  # noqa: RUF012

    def __init__(self, reward: str = "numbers", file: str = ""):
        if reward not in REWARDS:
            raise ValueError(f"no such reward. Rewards: {', '.join(REWARDS)}")
        self.reward = REWARDS[reward]
        self.pairs = pairs(file) if file else ()

    def begin(self) -> str:
        pair = self.rng.choice(self.pairs) if self.pairs else counting(self.rng)
        prompt, self.reference = pair
        return prompt

    def act(self, action: str) -> tuple[str, float]:
        self.success = action == self.reference
        return "", self.reward(action, self.reference)

    def actions(self) -> list[str]:
        return ["1 2", "9 8 7", self.reference.rpartition(" ")[0]]

    def expert(self) -> str:
        return self.reference


@cache
def pairs(file: str) -> list[tuple[str, str]]:
    """A user's prompts and references. Which split a pair is in, a hash of its prompt decides."""
    found = read_jsonl(file, _pair)
    check_splits([prompt for prompt, _ in found], file)
    return found


def _pair(row: dict) -> tuple[str, str]:
    texts = row["prompt"], row["reference"]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("prompt and reference are texts")
    return texts


def counting(rng: Random) -> tuple[str, str]:
    first = rng.randint(1, 40)
    wanted = range(first, first + rng.randint(4, 12))
    return f"count from {first} to {wanted[-1]}", " ".join(map(str, wanted))


@dataclass
class Flags:
    """Warm start, then PPO on a reward of the text, with and without a KL to the warm start."""

    reward: str = "numbers"  # numbers, dates, bleu, chrf, rouge_l
    file: str = ""  # JSONL of prompt and reference; none: counting tasks
    model: str = ""  # hub id or path of a chat model; none: a tiny one from nothing
    run: str = ""  # names of the three runs begin with it; default: text and the time
    demos: int = 640  # references of the warm start
    updates: int = 100  # updates of PPO
    tokens: int = 24  # longest answer, its tags included
    kl: float = 0.3  # first weight of the KL
    kl_target: float = 0.05  # nats a token
    seed: int = 0


def main(argv: list[str]) -> None:
    flags = read_flags(Flags, argv, "examples/text_rewards.py")
    if flags.reward not in REWARDS:
        fail(f"--reward {flags.reward}: no such reward. Rewards: {', '.join(REWARDS)}")
    if flags.file and not flags.model:
        fail("--file needs a --model: the tiny one knows numbers alone")
    if min(flags.updates, flags.demos, flags.tokens) < 1 or min(flags.kl, flags.kl_target) <= 0:
        fail("--updates, --demos and --tokens are at least 1, --kl and --kl-target above 0")
    WORLDS["text"], run = Text, flags.run or f"text-{time.strftime('%Y%m%d-%H%M%S')}"
    args = [f"reward={flags.reward}", *[f"file={flags.file}"] * bool(flags.file)]
    shared = ["--world", "text", "--world-args", *args, "--seeds", str(flags.seed)]
    shared += ["--action-tokens", str(flags.tokens), "--thought-tokens", "1"]
    shared += ["--eval-temperature", "1"]
    warm = [*shared, "--stages", "sft:actions", "--num-demos", str(flags.demos)]
    start = flags.model or untrained(flags.seed)
    rows = {"warm start": result(f"{run}-warm", [*warm, "--model", start])}
    ppo = "--stages rl:dense --rl.advantage gae --rl.loss ppo_clip --rl.passes 2"
    ppo += f" --rl.updates {flags.updates} --model {CHECKPOINTS}/{run}-warm/stages-"
    ppo = [*shared, *f"{ppo}{flags.seed}".split()]
    # a weight of 1e-9 is measured and not felt
    rows["PPO without KL"] = result(f"{run}-free", [*ppo, "--rl.kl", "1e-9"])
    held = ["--rl.kl", str(flags.kl), "--rl.kl-target", str(flags.kl_target)]
    rows["PPO with adaptive KL"] = result(f"{run}-held", [*ppo, *held])
    print(f"\n{'on test tasks':<22}{'reward':>8}{'right':>8}  KL, nats a token, last ten updates")
    for name, (reward, right, kl) in rows.items():
        print(f"{name:<22}{reward:>8.3f}{right:>8.3f}" + (f"{kl:>8.3f}" if kl else ""))


def untrained(seed: int) -> str:
    """A model that has read nothing, where the trainer can load it."""
    path = CHECKPOINTS / f"untrained-{seed}"
    Policy(*tiny.untrained(Text(), Tiny(), seed), 1024).save(path)
    return str(path)


def result(run: str, flags: list[str]) -> tuple[float, float, float]:
    """(mean reward and success on test tasks, KL to where it started) of a run, which is gone on
    with where it exists."""
    try:
        ladder, lines = go_on(run, flags)
    except SystemExit as stop:
        if stop.code == 130:
            print(f"That is, with the command you gave and --run {run.rpartition('-')[0]}")
        raise
    row = ladder["stages"][0]
    return row["reward"], row["success"], fmean(x.get("policy/kl", 0.0) for x in lines[-10:])


if __name__ == "__main__":
    main(sys.argv[1:])
