"""python -m evidence.experiments.contact [--json FILE]: what a pretrained model makes of thoughts.

SmolLM2-135M-Instruct, as it is, on logs of a refund desk (examples/refund.py). Nothing is trained.
First: how likely is the expert's action after the expert's own thought, after that of another log,
and without one? Then: how many of its own thoughts end, with three examples of the same questions,
with three of other questions, and with none? Five minutes on one core.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from evidence.results import save_run, take_json_flag
from examples import refund
from examples.smollm2 import smollm2
from minprm.arms.evaluation import scoring_agent
from minprm.commands.cli import parse
from minprm.commands.presets import PRESETS
from minprm.data import Demo, Sample
from minprm.load.threads import set_threads
from minprm.logs.reader import from_chat
from minprm.model.agent import Agent
from minprm.stages.act_prm import walk_logs

SEED = 0
LOGS = 24  # whose actions are read
STATES = 16  # in which eight thoughts are drawn
OTHER = (
    ("Ann is 7 years old and Bob is 5 years older. How old is Bob?", "7 + 5 = 12.", "12"),
    ("Is a whale a fish?", "It breathes air and feeds its young with milk: a mammal.", "no"),
    ("A train leaves at 9 and takes 3 hours. When does it arrive?", "9 + 3 = 12.", "at 12"),
)


def asked(folder: Path, examples: list[dict]) -> Agent:
    """The model as `--preset small` asks it, with these examples."""
    flags = ["--preset", "small", "--model", str(smollm2()), "--device", "cpu"]
    flags += ["--sampler", "transformers", "--demos", str(folder / "refund.jsonl")]
    if examples:
        refund.write(examples, folder / "examples.jsonl")
        flags += ["--few-shot", str(folder / "examples.jsonl")]
    return scoring_agent(parse(flags), [])


def likelihood(agent: Agent, demos: list[Demo], thoughts: list[str | None]) -> float:
    """The mean of p(the expert's action) after these thoughts, one for each log of one step."""
    chat = agent.chat
    samples = []
    for demo, thought in zip(demos, thoughts, strict=True):
        (step,) = demo.steps
        state, _ = agent.state_ids(step.state, [], None)
        opening = chat.opening(None if thought is None else chat.thought(thought))
        sample = Sample().extend(state + opening)
        samples.append(sample.extend(chat.action(step.action), 0.0))
    logps = agent.policy.logprobs(samples)
    return sum(logp.sum().exp().item() for logp in logps) / len(logps)


def ended(agent: Agent, demos: list[Demo]) -> dict[str, float]:
    """Of the model's own thoughts: the share that end, and their mean and best reward."""
    _, groups = walk_logs(agent, demos, PRESETS["small"].act_prm, SEED)
    thoughts = [z for group in groups for z in group.thoughts]
    best = [max(z.reward for z in group.thoughts) for group in groups]
    return {
        "thoughts": len(thoughts),
        "ended": sum(z.closed for z in thoughts) / len(thoughts),
        "reward": sum(z.reward for z in thoughts) / len(thoughts),
        "best": sum(best) / len(best),
    }


def main() -> None:
    path = take_json_flag()
    set_threads("", 1)
    examples = refund.conversations(SEED)[: refund.EXAMPLES]
    rows = {}
    with TemporaryDirectory() as folder:
        place = Path(folder)
        demos = [from_chat(log) for log in refund.write_all(place, SEED)[:LOGS]]
        agent = asked(place, examples)
        right = [demo.steps[0].thought for demo in demos]
        rows["its own thought"] = likelihood(agent, demos, right)
        rows["another log's"] = likelihood(agent, demos, [*right[1:], right[0]])
        rows["no thought"] = likelihood(agent, demos, [None] * LOGS)
        other = [refund.conversation(*words) for words in OTHER]
        for name, shown in (("same", examples), ("other", other), ("none", [])):
            rows[f"examples: {name}"] = ended(asked(place, shown), demos[:STATES])
            print(name, rows[f"examples: {name}"], flush=True)
    print(rows)
    note = f"{LOGS} logs; {STATES} states, eight thoughts each, at temperature 1"
    save_run(path, [SEED], "none: one seed", rows, note=note)


if __name__ == "__main__":
    main()
