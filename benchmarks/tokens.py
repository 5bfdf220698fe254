"""python -m benchmarks.tokens: how many tokens the model reads for each that it has to read.

Padded tokens are those that its layers are really given: rows times columns of each forward pass.
Distinct ones are the nodes of the prefix tree of all that a phase reads between two updates, in
which what several sequences begin with is one path. The quotient is 1 where nothing is read twice
and nothing is padded.

    cups      the default ladder's Act-PRM, by the embedded model of that world
    errand    act_prm:resample of --preset errand: sixteen paths, scored by the frozen base
    hotpot    made logs of a few steps with long observations
    twelve    made logs of twelve steps

The models of the first two come with minprm. The made logs are of random words, and so are their
thoughts: an untrained model of the same shape draws them, and ends them by chance. Takes half a
minute, and counts the same on every machine, up to draws that rounding decides.
"""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch

from benchmarks.cost import on_each_pass
from evidence import tables
from evidence.results import save_run, take_json_flag
from minprm.arms.ladder import base_policy
from minprm.commands.presets import PRESETS
from minprm.commands.train import CHECKPOINTS
from minprm.constants import ActPRM, Config, Tiny
from minprm.data import Demo, Sample, Step
from minprm.envs.errand import Errand
from minprm.load.threads import set_threads
from minprm.load.tiny import untrained
from minprm.model.agent import Agent, make_agent
from minprm.model.policy import Policy
from minprm.model.sampler import Sampler
from minprm.model.trunks import Trunks
from minprm.play import expert_demos
from minprm.stages import RESAMPLE
from minprm.stages.act_prm import credit, outcomes, to_samples, walk_logs

PHASES = ("sampling", "scoring", "training")
UPDATES = 3
LOGPROBS = Trunks.logprobs  # before any counter has put its door there


@dataclass
class Made:
    """Logs that nobody played, and the thoughts before their actions."""

    steps: int
    observation: int  # words
    action: int  # words
    thought: int  # tokens, on average
    longest: int  # thought


MADE = {
    "hotpot": Made(steps=4, observation=300, action=6, thought=24, longest=96),
    "twelve": Made(steps=12, observation=16, action=3, thought=12, longest=48),
}


@dataclass
class Phase:
    """What is read in one phase."""

    padded: int = 0
    distinct: int = 0
    tree: dict = field(default_factory=dict)  # token -> what follows it, since the last update

    def note(self, ids: list[int]) -> int:
        """Puts a sequence into the tree. Returns how many nodes are new."""
        node = self.tree
        new = 0
        for token in ids:
            if token not in node:
                node[token] = {}
                new += 1
            node = node[token]
        return new


class Counter:
    """Counts what an agent's models are given, by phase."""

    def __init__(self, agent: Agent):
        self.phases = {name: Phase() for name in PHASES}
        self.now = Phase()  # none yet
        for model in (agent.policy.model, agent.policy.frozen):
            on_each_pass(model, self.count)
        self.doors(agent)

    def count(self, tokens: int) -> None:
        """A forward pass is given so many, padding included."""
        self.now.padded += tokens

    def doors(self, agent: Agent) -> None:
        """Replaces the functions by which a phase begins."""
        sampler, policy, phases = agent.sampler, agent.policy, self.phases
        sampler.generate = self.door(phases["sampling"], sampler.generate, self.drawn)
        policy.update = self.door(phases["training"], policy.update, self.read)
        # each walk has Trunks of its own, so this door is their class's
        Trunks.logprobs = self.door(phases["scoring"], LOGPROBS, self.read, place=1)

    def door(self, phase: Phase, function: Callable, note: Callable, place: int = 0) -> Callable:
        """The function, as the beginning of a phase. place: where its sequences are, among its
        arguments."""

        def counted(*arguments, **knobs):
            self.now = phase
            found = function(*arguments, **knobs)
            phase.distinct += note(phase, arguments[place], found)
            return found

        return counted

    def drawn(self, phase: Phase, prompts: list[list[int]], found: list) -> int:
        """Prompts that begin alike are one path. What is drawn counts for each completion, though
        two draw the same now and then; its last token is followed by nothing and not read."""
        new = sum(phase.note(prompt) for prompt in prompts)
        for prompt, completions in zip(prompts, found, strict=True):
            for completion in completions:
                new += len(completion.ids) - 1
                phase.note(prompt + completion.ids[:-1])
        return new

    def read(self, phase: Phase, samples: list[Sample], _) -> int:
        """Samples that begin alike are one path."""
        return sum(phase.note(sample.whole()) for sample in samples)

    def forget(self) -> None:
        """After an update all has to be read again."""
        for phase in self.phases.values():
            phase.tree = {}


def quotients(agent: Agent, demos: list[Demo], cfg: ActPRM, updates: int) -> dict:
    """Padded over distinct tokens of each phase, over the first updates of Act-PRM."""
    counter = Counter(agent)
    for update in range(updates):
        batch = demos[update * cfg.batch : (update + 1) * cfg.batch]
        walks, groups = walk_logs(agent, batch, cfg, seed=1000 * update)
        outcomes(walks, cfg)
        credit(groups, cfg)
        samples = to_samples(groups, agent.chat, cfg, version=0)
        agent.policy.update(samples, cfg, cfg.lr, agent.temperature)
        counter.forget()
    rows = {}
    for name, phase in counter.phases.items():
        quotient = phase.padded / phase.distinct
        rows[name] = {"padded": phase.padded, "distinct": phase.distinct, "quotient": quotient}
    return rows


# --- the four kinds of logs ---


def of_world(preset: str, updates: int, **changes) -> dict:
    """Logs of the preset's world, and its embedded model."""
    cfg = PRESETS[preset]
    act = replace(cfg.act_prm, **changes)
    policy = base_policy(cfg, 0, CHECKPOINTS)
    agent = make_agent(policy, Sampler(policy.model), cfg, tools=[])
    demos = expert_demos(cfg, "train", 0, updates * act.batch)
    return quotients(agent, demos, act, updates)


def of_made(made: Made, updates: int, **changes) -> dict:
    """Logs of random words, and a model that knows nothing."""
    cfg = Config(thought_tokens=made.longest)
    act = replace(cfg.act_prm, **changes)
    policy = Policy(*untrained(Errand(), Tiny(), 0), cfg.micro_tokens)
    agent = make_agent(policy, Sampler(policy.model), cfg, tools=[])
    end_by_chance(agent, made.thought)
    rng = random.Random(0)
    demos = [random_demo(made, rng) for _ in range(updates * act.batch)]
    return quotients(agent, demos, act, updates)


def end_by_chance(agent: Agent, length: int) -> None:
    """Has the model draw plain words and end a thought after `length` tokens on average."""
    model = agent.policy.model
    vocabulary, width = model.get_input_embeddings().weight.shape
    head = torch.nn.Linear(width, vocabulary)
    torch.nn.init.normal_(head.weight, std=0.02)
    torch.nn.init.zeros_(head.bias)
    with torch.no_grad():
        head.bias[list(agent.chat.special)] = -100.0
        head.bias[agent.chat.stop] = math.log((vocabulary - len(agent.chat.special)) / length)
    model.lm_head = head


def random_demo(made: Made, rng: random.Random) -> Demo:
    """A log of random words."""
    words = Errand().words
    steps = []
    for _ in range(made.steps):
        observation = " ".join(rng.choices(words, k=made.observation))
        action = " ".join(rng.choices(words, k=made.action))
        steps.append(Step([{"role": "user", "content": observation}], None, action))
    return Demo("made", [], [], steps)


def measure(updates: int) -> dict:
    """Rows of the table."""
    rows = {name: of_made(made, updates) for name, made in MADE.items()}
    rows["cups"] = of_world("cups", updates)
    rows["errand"] = of_world("errand", updates, **RESAMPLE)
    return rows


def main() -> None:
    path = take_json_flag()
    set_threads("tiny")
    rows = measure(UPDATES)
    print(tables.tokens(rows))
    save_run(path, [0], f"sums over {UPDATES} updates", rows)


if __name__ == "__main__":
    main()
