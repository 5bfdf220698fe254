"""python -m evidence.experiments.transfer DESK ARM SEED: what else does a tuned model still do?

The checkpoints of ground.py, which learned at one desk of a shop, are asked at another, and read
plain text. At the other desk they read the rules and the examples with thoughts that a base reads
there. `success` and `right` are ground.py's, on its 200 test logs; `perplexity` is that of the
first 8,000 characters of docs/idea.md. ARM base is SmolLM2-135M-Instruct as it is. Without DESK,
ARM and SEED the runs that are there are joined: add `--json FILE`.

Written before the runs. "Thinking moves to another desk" is false if act_prm is not above the base
there by more than the intervals over 200 logs, on two of three seeds. "It harms": false unless it
is below by as much. "Plain text is forgotten": false if the perplexity rises by less than a tenth.
"""

import sys
from pathlib import Path

from evidence import tables
from evidence.experiments.ground import SEEDS, TEST, answered, summary, write_logs
from evidence.experiments.pretrained import CHECKPOINTS
from evidence.results import ROOT, rows_of_seeds, save_run, save_seed, take_json_flag
from examples.smollm2 import smollm2
from minprm.arms.evaluation import load_agent
from minprm.data import Sample
from minprm.report.files import RUNS
from minprm.report.table import wilson

ASKED = {"returns": "refund", "refund": "returns"}  # the desk that is asked after this one
ARMS = ["base", "action_sft", "best_of_base_matched", "act_prm", "expert_thoughts"]
TEXT, CHARACTERS, WINDOW = ROOT / "docs/idea.md", 8000, 512


def perplexity(checkpoint: Path) -> float:
    """Of plain text, read in windows of 512 tokens."""
    agent, _ = load_agent(str(checkpoint))
    text = TEXT.read_text(encoding="utf-8")[:CHARACTERS]
    ids = agent.chat.tokenizer(text, add_special_tokens=False).input_ids
    windows = []
    for first in range(0, len(ids), WINDOW):
        part = ids[first : first + WINDOW]
        windows.append(Sample().extend(part[:1]).extend(part[1:], 0.0))
    logps = agent.policy.logprobs(windows)
    tokens = sum(len(logp) for logp in logps)
    return (-sum(logp.sum() for logp in logps) / tokens).exp().item()


def run(desk: str, arm: str, seed: int) -> dict:
    """What a checkpoint does at the other desk, and with plain text."""
    other = ASKED[desk]
    folder = RUNS / f"evidence-transfer-logs/{desk}-{arm}-{seed}"
    thoughts = write_logs(other, arm, folder)
    checkpoint = smollm2()
    if arm != "base":
        checkpoint = CHECKPOINTS / f"evidence-ground-{desk}-{arm}-{seed}/{arm}-{seed}"
    flags = f"--few-shot {folder / 'examples.jsonl'} --instruction auto --context 1024"
    flags += " --thought-tokens 40 --action-tokens 32"
    answers = answered(checkpoint, folder / "test.jsonl", *flags.split())
    return {**summary(answers, thoughts), "perplexity": perplexity(checkpoint)}


def joined() -> dict[str, dict]:
    """Of each arm what its seeds measured, as far as their runs are there."""
    rows = {}
    for desk, other in ASKED.items():
        for arm in ARMS:
            runs = rows_of_seeds(f"transfer/{desk}-{arm}", SEEDS)
            if runs:
                keys = ("success", "right", "perplexity")
                row = {key: [run[key] for run in runs] for key in keys}
                row["intervals"] = [wilson(share, TEST) for share in row["success"]]
                rows[f"{other} | {desk}, {arm}"] = row
    return rows


def main() -> None:
    path = take_json_flag()
    if len(sys.argv) == 4:
        desk, arm, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
        save_seed(path, f"transfer/{desk}-{arm}", seed, run(desk, arm, seed))
        return
    rows = joined()
    print(tables.transfer(rows))
    save_run(path, SEEDS, "95 %: Wilson's over the 200 logs, of each seed", rows)


if __name__ == "__main__":
    main()
