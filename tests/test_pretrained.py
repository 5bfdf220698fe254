"""A pretrained model thinks where it is asked to, and a thought that is right helps it.

The model is SmolLM2-135M-Instruct; examples/smollm2.py fetches it from the package registry.
"""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from transformers import AutoModelForCausalLM

from evidence.experiments.contact import likelihood
from examples import pretrained as one_file
from examples import refund
from examples.smollm2 import smollm2
from minprm.__main__ import main
from minprm.arms.demos import few_shot
from minprm.arms.evaluation import scoring_agent
from minprm.commands.cli import parse
from minprm.load.check import other_seams
from minprm.logs.reader import read_demos
from minprm.model import precision
from minprm.stages.act_prm import walk_logs
from minprm.text.chat import Chat

pytestmark = [pytest.mark.pretrained, pytest.mark.slow]

# a refund desk that asks twice, over the client that most agents have
AGENT = """
from openai import OpenAI
from examples import refund

def play(base_url: str, seed: int) -> float:
    client = OpenAI(base_url=base_url, api_key="none", max_retries=0)
    *messages, expert = refund.conversations(seed % 100)[0]["messages"]
    for _ in range(2):
        answer = client.chat.completions.create(model="policy", messages=messages)
        (choice,) = answer.choices
        if choice.message.content == expert["content"]:
            return 1.0
        messages += [choice.message.model_dump(), {"role": "user", "content": "Check it again."}]
    return 0.0
"""


@pytest.fixture(scope="module")
def desk(tmp_path_factory) -> SimpleNamespace:
    """The model as an agent that is shown three examples, and logs with their experts' thoughts."""
    folder = tmp_path_factory.mktemp("refund")
    logs = refund.conversations(seed=0)
    refund.write(logs[:3], folder / "examples.jsonl")
    refund.write(logs[3:11], folder / "thoughts.jsonl")
    refund.write([refund.without_thoughts(log) for log in logs[3:11]], folder / "refund.jsonl")
    flags = f"--preset small --model {smollm2()} --demos {folder / 'refund.jsonl'} "
    flags += f"--few-shot {folder / 'examples.jsonl'} --held-out 4 --device cpu"
    cfg = parse([*flags.split(), "--sampler", "transformers"])
    threads = torch.get_num_threads()
    agent = scoring_agent(cfg, [])
    yield SimpleNamespace(folder=folder, flags=flags, cfg=cfg, agent=agent)
    torch.set_num_threads(threads)


def test_a_turn_in_pieces_has_the_ids_of_the_whole_text(desk):
    chat = desk.agent.chat
    for layout in ("think", "tags"):
        assert other_seams(Chat(chat.tokenizer, layout)) == []
    (example, *_) = few_shot(desk.cfg.few_shot)
    (step,) = example.steps
    for action in ("refund 12", "12", "<b>", '"so"', " x"):
        ids = chat.state(step.state, [], None)
        ids += chat.turn(chat.thought(step.thought), chat.action(action))
        assert chat.tokenizer.encode(chat.text(ids), add_special_tokens=False) == ids


def test_the_experts_action_is_likely_after_a_right_thought_alone(desk):
    demos, _ = read_demos(str(desk.folder / "thoughts.jsonl"))
    right = [demo.steps[0].thought for demo in demos]
    assert likelihood(desk.agent, demos, right) > 0.8
    assert likelihood(desk.agent, demos, [None] * len(demos)) < 0.05
    assert likelihood(desk.agent, demos, [*right[1:], right[0]]) < 0.2  # another log's


def test_it_ends_its_thoughts_as_the_examples_do_and_some_are_right(desk):
    demos, _ = read_demos(desk.cfg.demos)
    _, groups = walk_logs(desk.agent, demos, desk.cfg.act_prm, seed=0)
    thoughts = [z for group in groups for z in group.thoughts]
    assert sum(z.closed for z in thoughts) / len(thoughts) > 0.8
    assert any(z.reward > 0.5 for z in thoughts)
    assert sum(z.reward for z in thoughts) / len(thoughts) < 0.5


def test_an_update_a_relabelled_log_and_a_score_by_the_commands_that_a_user_types(
    desk, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    few = "--arms base act_prm --act-prm.updates 1 --act-prm.batch 2 --act-prm.group 4 "
    few += "--relabel.group 2 --relabel.min-reward 0 --sft.epochs 1 --eval-every 0 --run small"
    main(["train", *desk.flags.split(), "--sampler", "transformers", *few.split()])
    assert "act_prm" in capsys.readouterr().out
    rows = json.loads(Path("runs/small/ladder.json").read_text())
    assert rows["base"][0]["thought_rate"] > 0.5  # it is shown the examples
    assert Path("checkpoints/small/base-0/few_shot.jsonl").exists()


@pytest.mark.extras
def test_an_agent_over_its_sdk_trains_it(desk, tmp_path, monkeypatch):
    pytest.importorskip("openai", reason='needs openai: pip install ".[agents]"')
    # equal ids show in fp32: in bf16 writer and trainer differ by its rounding
    monkeypatch.setattr(precision, "in_bf16", lambda model: False)
    (tmp_path / "desk.py").write_text(AGENT)
    monkeypatch.chdir(tmp_path)
    flags = f"--preset small --model {smollm2()} --few-shot {desk.folder / 'examples.jsonl'} "
    flags += "--agent desk.py:play --stages rl --rl.updates 1 --rl.batch 1 --rl.group 2 "
    flags += "--episodes 1 --eval-every 0 --thought-tokens 32 --action-tokens 12 --device cpu "
    flags += "--sampler transformers --run agent"
    main(["train", *flags.split()])
    (line, *_) = Path("runs/agent/metrics.jsonl").read_text().splitlines()
    update = json.loads(line)
    assert update["play/failed"] == 0 and update["reward/episodes"] == 2
    assert update["play/thought_rate"] > 0 and update["policy/gap_max"] < 1e-3


def test_the_one_file_version_reads_and_writes_what_the_model_does(desk):
    model = AutoModelForCausalLM.from_pretrained(smollm2())
    one_file.tokenizer = tokenizer = desk.agent.chat.tokenizer
    one_file.OPEN, one_file.CLOSE = one_file.encode("<think>\n"), one_file.encode("</think>\n")
    one_file.END = tokenizer.eos_token_id
    logs = [json.loads(line)["messages"] for line in (desk.folder / "refund.jsonl").open()][:3]
    examples = [json.loads(line)["messages"] for line in (desk.folder / "examples.jsonl").open()]
    prompts, thoughts = one_file.think(model, logs, 2, examples)
    turns, actions = [], []
    for i, thought in enumerate(thoughts):
        actions.append(one_file.action_turn(logs[i // 2]))
        turns.append(thought + one_file.CLOSE[1:] + actions[-1])
    with torch.no_grad():
        logps = one_file.log_probs(model, prompts, turns)
    rewards = one_file.score(model, logs, prompts, thoughts).flatten()
    for i, turn in enumerate(turns):
        ids = torch.tensor([prompts[i] + turn])
        with torch.no_grad():
            logp = model(ids[:, :-1]).logits[0, -len(turn) :].log_softmax(-1)
        logp = logp.gather(-1, ids[0, -len(turn) :, None])[:, 0]
        torch.testing.assert_close(logps[i], logp, rtol=0, atol=1e-4)
        ended = thoughts[i][-1] == one_file.CLOSE[0]
        reward = logp[-len(actions[i]) :].sum().exp() * ended
        torch.testing.assert_close(rewards[i], reward, rtol=0, atol=1e-4)
    written = one_file.draw(model, prompts, (one_file.END,), greedy=True, limit=12)
    for prompt, ids in zip(prompts, written, strict=True):
        greedy = model.generate(
            torch.tensor([prompt]), do_sample=False, max_new_tokens=12, pad_token_id=0
        )
        assert greedy[0, len(prompt) :].tolist() == ids
