"""SFT: fine-tunes a fresh base model on logs, thoughts included where they have them.

In act_prm.py this is `fine_tune`. There is no loss of its own here: SFT is the policy gradient `pg`
on an expert's tokens with an advantage of 1 (algorithms.py). What is not here: where the thoughts
come from (relabel.py), the loop and the learning rate (trainer.py).
"""

import math

from minprm.constants import fail
from minprm.data import Demo, Sample, chain
from minprm.model.agent import Agent
from minprm.run.randomness import pick
from minprm.text.chat import Turn
from minprm.trainer import SUCCESS, Batch, Run, loop


def sft(run: Run, stage_id: str, learns: str) -> None:
    """The stage. What it learns:

    actions    the demos without any thoughts
    thoughts   the demos with the thoughts that the stage before has written into them
    expert     the demos with the thoughts that they came with
    """
    cfg = run.cfg.sft
    demos = run.demos if learns == "thoughts" else run.train_demos
    if learns == "actions":
        demos = [demo.without_thoughts() for demo in demos]
    elif not demos or any(step.thought is None for demo in demos for step in demo.steps):
        fail(f"{stage_id}: this stage needs demos with a thought in every step of them")
    samples = []
    for demo in demos:
        samples += to_samples(demo, run.agent)

    def batch(update: int) -> Batch:
        return pick(samples, cfg.batch, run.seed, stage_id, update), {}

    run.agent.policy.restart()  # back to the base model: only the demos come from earlier stages
    updates = math.ceil(cfg.epochs * len(samples) / cfg.batch)
    loop(run, stage_id, cfg, updates, batch, SUCCESS)


def to_samples(demo: Demo, agent: Agent) -> list[Sample]:
    """The demo as one Sample that learns each turn once, its opening tags too, so that the model
    begins a thought by itself; or, where `History` edits old turns, as one Sample a step."""
    chat = agent.chat
    samples = [Sample()]
    turns: list[Turn] = []
    shared = {}  # what edited histories have in common
    for i, step in enumerate(demo.steps):
        state_ids = agent.state_ids(step.state, demo.tools, demo.action_before(i))
        action = chat.action(step.action)
        turn = chat.closed(agent.opening(step.thought, step.action), action)
        if turns and agent.history.edits():
            before = chat.history(turns, agent.history)
            samples.append(Sample(parent=chain(before, shared)))
        samples[-1].extend(state_ids[0]).extend(turn, 1.0 if step.learned else None)
        without_thought = chat.closed(chat.opening(None, step.action), action)
        turns.append(Turn(*state_ids, turn, without_thought))
    return [sample for sample in samples if any(sample.trained)]
