"""The idea in one file and the library say the same of the same thoughts."""

import copy
import random
import runpy
from collections import Counter
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

import act_prm
from minprm.commands.presets import POSTERIOR, PRESETS
from minprm.constants import ActPRM, Config, Optim
from minprm.data import Demo, Step
from minprm.envs import pairs
from minprm.envs.base import task_seed
from minprm.envs.cups import Cups
from minprm.model.agent import Agent, make_agent
from minprm.model.policy import Policy
from minprm.model.sampler import Completion
from minprm.stages.act_prm import credit, outcomes, to_samples, walk_logs

GROUP = 6
TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'user' %}<user> {{ m.content }} "
    "{% else %}<assistant> {{ m.content }} <end> {% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<assistant> {% endif %}"
)


class Scripted:
    """A sampler that writes what the one file has drawn."""

    def __init__(self, thoughts: list[list[int]]):
        self.thoughts = thoughts

    def begin(self):
        pass

    def generate(self, prompts, n, *_):
        assert n == GROUP and len(self.thoughts) == n * len(prompts)
        self.prompts = prompts
        drawn = [Completion(ids, [-1.0] * len(ids)) for ids in self.thoughts]
        return [drawn[i : i + n] for i in range(0, len(drawn), n)]


def library_agent(model, thoughts) -> Agent:
    """The library's agent with the one file's model and words."""
    words = Tokenizer(models.WordLevel(dict(act_prm.ID)))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words, additional_special_tokens=act_prm.TAGS, chat_template=TEMPLATE
    )
    policy = Policy(model, tokenizer, 10_000)
    return make_agent(policy, Scripted(thoughts), Config(), tools=[])


def demo(task) -> Demo:
    state = [{"role": "user", "content": act_prm.state(task)}]
    return Demo("", state, [], [Step(state, None, act_prm.expert_action(task))])


@pytest.fixture(scope="module")
def raised():
    """A model that has read a little, three tasks, and six thoughts about each: right, from a wrong
    start, the question, too little, words without sense, and one that never ended."""
    rng = random.Random(0)
    model = act_prm.make_model(0)
    rows = [act_prm.narrated(rng) for _ in range(1280)]
    act_prm.fine_tune(model, rows, updates=40, batch=32, lr=4e-3, seed=0)
    tasks = [act_prm.new_task(rng) for _ in range(3)]
    prompts, _ = act_prm.think(model, tasks, GROUP)
    thoughts = []
    for task in tasks:
        wrong = act_prm.CUPS.replace(task[0], "")[0]
        right = act_prm.follow(task, task[0])
        ended = [right, act_prm.follow(task, wrong), act_prm.state(task), "ball under", "swap . a"]
        thoughts += [act_prm.encode(f"{text} </think>") for text in ended]
        thoughts.append(act_prm.encode(right))
    return model, tasks, prompts, thoughts


@pytest.mark.slow
def test_the_library_gives_the_same_rewards_advantages_loss_and_gradient(raised):
    model, tasks, prompts, thoughts = raised
    turns = act_prm.turns_of(tasks, thoughts, GROUP)
    rewards = act_prm.score(model, prompts, turns).view(len(tasks), GROUP)
    advantages = act_prm.posterior(rewards)

    agent = library_agent(copy.deepcopy(model), thoughts)
    cfg = ActPRM(group=GROUP, **POSTERIOR)
    walks, groups = walk_logs(agent, [demo(task) for task in tasks], cfg, seed=0)
    outcomes(walks, cfg)
    credit(groups, cfg)
    samples = to_samples(groups, agent.chat, cfg, version=0)

    assert agent.sampler.prompts == prompts[::GROUP]
    found = torch.tensor([[z.reward for z in group.thoughts] for group in groups])
    assert torch.allclose(found, rewards, rtol=1e-4) and (found > 0).any()
    weights = torch.tensor([[z.advantage for z in group.thoughts] for group in groups])
    assert torch.allclose(weights, advantages, rtol=1e-4)
    for sample, before, turn in zip(samples, prompts, turns, strict=True):
        assert sample.whole() == before + turn
        assert sum(sample.trained) == len(turn)

    stats = agent.policy.update(samples, cfg, 0.0, optim=Optim(max_grad_norm=1e9))
    logps = act_prm.log_probs(model, prompts, turns)
    flat = advantages.flatten().tolist()
    loss = -sum(a * logp.sum() for a, logp in zip(flat, logps, strict=True))
    loss = loss / sum(map(len, turns))
    gradients = torch.autograd.grad(loss, model.parameters())
    norm = torch.cat([gradient.flatten() for gradient in gradients]).norm()
    assert stats["loss/total"] == pytest.approx(loss.item(), rel=1e-5)
    assert stats["policy/grad_norm"] == pytest.approx(norm.item(), rel=1e-4)


@pytest.mark.slow
def test_a_thought_that_never_ended_earns_nothing(raised):
    model, tasks, prompts, thoughts = raised
    cut = [[i for i in ids if i != act_prm.ID["</think>"]] for ids in thoughts]
    turns = act_prm.turns_of(tasks, cut, GROUP)
    assert not act_prm.score(model, prompts, turns).any()
    assert turns == cut  # and no action is learned after it


def test_its_world_is_cups_of_one_round_word_for_word():
    for seed in range(50):
        world = Cups(rounds=1, swaps=3)
        observation = world.reset(task_seed("train", seed))
        task = (world.start, world.swapped)
        assert act_prm.state(task) == observation
        assert act_prm.expert_action(task) == world.expert()
        assert act_prm.follow(task, task[0]) == world.thought()
        for cup in act_prm.CUPS:
            kind = "faithful" if cup == task[0] else "wrong"
            assert world.classify(act_prm.follow(task, cup)) == kind


def test_its_narrator_has_the_librarys_mix_of_thoughts():
    rng = random.Random(0)
    words = list(act_prm.ID)
    seen = Counter()
    for _ in range(4000):
        prompt, turn = act_prm.narrated(rng)
        told = " ".join(words[i] for i in prompt).split()
        world = Cups(rounds=1, swaps=3)
        world.reset(0)  # a world in the state of this prompt
        world.start = told[3]
        world.swapped = [told[i + 1 : i + 3] for i, word in enumerate(told) if word == "swap"]
        text = " ".join(words[i] for i in turn)
        if text.startswith("<think>"):
            seen[world.classify(text.split("<think> ")[1].split(" </think>")[0])] += 1
    total = seen.total()
    assert 0.78 < total / 4000 < 0.82  # a fifth is played without a thought
    mix = pairs(PRESETS["smoke"].tiny.mixture, float)
    for kind, share in mix.items():
        assert abs(seen[kind] / total - share) < 4 * (share * (1 - share) / total) ** 0.5
    assert set(seen) == set(mix)


def test_it_needs_nothing_of_minprm_and_knows_one_flag(monkeypatch, capsys):
    text = Path(act_prm.__file__).read_text()
    assert "import minprm" not in text and "from minprm" not in text
    monkeypatch.setattr("sys.argv", ["act_prm.py", "--lr", "1"])
    with pytest.raises(SystemExit) as stop:
        runpy.run_path(act_prm.__file__, run_name="__main__")
    assert stop.value.code == 2 and "--lr" in capsys.readouterr().err
