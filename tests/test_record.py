"""samples.jsonl and episodes.jsonl: each number is worked out by another road, and looking leaves
training as it was."""

import json
import math
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from benchmarks.looks import PARTS
from minprm.arms import episodes as episodes_file
from minprm.arms.episodes import keep_episodes
from minprm.arms.ladder import run_arm, run_stage, start
from minprm.commands.presets import POSTERIOR
from minprm.constants import RL, ActPRM, Config, History, Optim
from minprm.data import Sample, Step
from minprm.envs.base import task_seed
from minprm.envs.cups import Cups
from minprm.look import notes
from minprm.look.log import Log
from minprm.look.notes import STATE_LETTERS, state_text, token_texts
from minprm.look.record import classifier, roles_of, watched_demos
from minprm.model import policy as module
from minprm.model import reading
from minprm.play import expert_demo
from shared.policies import SAMPLES, policy
from shared.stages import CFG as SHARED
from shared.stages import Lines, log_of, weights

CFG = Config(
    world_args=["rounds=2", "swaps=1", "cups=3"], thought_tokens=12, num_demos=6, held_out=4,
    gate=False, save_every=2, eval_every=0, episodes=6, tiny=SHARED.tiny,
    act_prm=ActPRM(lr=3e-3, updates=4, batch=2, group=4, **POSTERIOR),
    optim=Optim(warmup=0), rl=RL(lr=3e-3, updates=4, batch=2, group=3),
)  # fmt: skip
OWN = """
def ranks(r):
    return r.argsort().argsort().float()

def brief(logp, thought, state, action):
    return float(logp.sum().exp()) / (1 + len(thought))
"""


class Kept(Lines):
    """A log in memory that keeps what is noted of groups, as a file would give it back."""

    def __init__(self, folder=None):
        super().__init__()
        self.folder = folder
        self.rows = []

    def samples(self, seed, stage, update, groups):
        for group in groups:
            line = {"seed": seed, "stage": stage, "update": update, **group}
            self.rows.append(json.loads(json.dumps(line, allow_nan=False)))


def begun(checkpoints, folder, stage="act_prm", log=None, **knobs):
    """The run before its first stage. Knobs of the stage are told from those of the run."""
    section = stage.split(":")[0]
    own = {k: v for k, v in knobs.items() if hasattr(getattr(CFG, section), k)}
    rest = {k: v for k, v in knobs.items() if k not in own}
    cfg = replace(CFG, run=str(folder), **{section: replace(getattr(CFG, section), **own)}, **rest)
    return start(cfg, 0, log or Kept(), checkpoints)


def learned(checkpoints, folder, stage="act_prm", **knobs):
    """The run after the stage."""
    run = begun(checkpoints, folder, stage, **knobs)
    run_stage(run, stage)
    return run


def close(a: float | None, b: float) -> bool:
    """Are they equal to the four digits that are written?"""
    return a is not None and math.isclose(a, b, rel_tol=2e-3, abs_tol=1e-6)


# --- looking leaves training as it was ---


@pytest.mark.slow
@pytest.mark.parametrize(("stage", "knobs"), [
    ("act_prm", {}),
    ("act_prm", {"continues": "own", "history": History(thoughts=False, last=1)}),
    ("act_prm", {"continues": "resample"}),
    ("act_prm", {"thoughts_from": "state_action", "trained_on": "both"}),
    ("act_prm", {"reward": "exact_match", "scored_by": "policy", "max_async": 1}),
    ("act_prm", {"scored_by": "base", "reward_span": "turn", "trained_on": "action_first"}),
    ("act_prm", {"reward": "own.py:brief", "advantage": "own.py:ranks"}),
    ("rl", {}),
    ("rl:dense", {"history": History(last=1), "advantage": "gae"}),
    ("rl", {"max_async_level": 1, "loss": "is"}),
])  # fmt: skip
def test_training_is_the_same_to_the_bit_with_looks_and_without(
    stage, knobs, checkpoints, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(OWN)
    if knobs.pop("max_async", 0):  # the sampler has weights of its own
        knobs = knobs | {"rl": replace(CFG.rl, max_async_level=1)}
    looked = learned(checkpoints, tmp_path / "with", stage, watch=3, **knobs)
    plain = learned(checkpoints, tmp_path / "without", stage, watch=0, **knobs)
    assert log_of(looked).lines == log_of(plain).lines and len(log_of(plain).lines) == 4
    assert torch.equal(weights(looked), weights(plain))
    assert log_of(looked).rows and not log_of(plain).rows


@pytest.mark.slow
@pytest.mark.extras
def test_adapters_learn_the_same_with_looks_and_without(act_prm, checkpoints, tmp_path):
    pytest.importorskip("peft", reason='needs peft: pip install ".[lora]"')
    (base,) = checkpoints.glob("tiny-*")  # it was raised for another run
    runs = []
    for watch in (3, 0):
        cfg = replace(CFG, run=f"lora-{watch}", model=str(base), lora=4, watch=watch,
                      sampler="transformers",
                      act_prm=replace(CFG.act_prm, scored_by="base"))  # fmt: skip
        runs.append(start(cfg, 0, Kept(), tmp_path))
        run_stage(runs[-1], "act_prm")
    assert log_of(runs[0]).lines == log_of(runs[1]).lines and log_of(runs[0]).rows
    assert torch.equal(weights(runs[0]), weights(runs[1]))


def test_what_is_read_does_not_depend_on_chunks_and_rows(monkeypatch):
    p = policy()
    trunk = Sample().extend([7, 3])
    samples = [Sample(parent=trunk).extend([1, 2], 0.0), Sample(parent=trunk).extend([4], 0.0)]
    samples += [Sample().extend([5, 6]), *SAMPLES]
    whole = p.readings(samples, likely=3)
    assert len(whole[2].logp) == 0 and whole[0].likely.shape == (2, 3)
    monkeypatch.setattr(reading, "READ", 40)
    p.shares_prefixes = False
    for a, b in zip(whole, p.readings(samples, likely=3), strict=True):
        assert torch.equal(a.likely, b.likely)
        assert all(torch.allclose(x, y, atol=1e-5) for x, y in zip(a, b, strict=True))


# --- Act-PRM ---


@pytest.fixture(scope="module")
def act_prm(checkpoints, tmp_path_factory):
    """A run of Act-PRM; it stands at the weights of the last look."""
    return learned(checkpoints, tmp_path_factory.mktemp("act_prm"))


@pytest.mark.slow
def test_the_same_states_are_looked_at_before_some_updates_and_after_the_last(act_prm):
    seen = Counter(row["update"] for row in log_of(act_prm).rows)
    assert seen == {0: 3, 1: 3, 2: 3, 4: 3}
    rows = log_of(act_prm).rows
    tasks = {(r["watched"], r["where"], r["task"], r["step"], r["state"]) for r in rows}
    assert [(number, where) for number, where, *_ in sorted(tasks)] == [
        (0, "training log"), (1, "held out"), (2, "held out"),
    ]  # fmt: skip
    assert len({task for _, _, task, *_ in tasks}) == 3
    for row in log_of(act_prm).rows:
        assert len(row["group"]) == 4
        for z in row["group"]:
            tokens = z["tokens"]
            lists = [tokens[name] for name in ("role", "advantage", "sampler", "before", "entropy")]
            lists += [tokens["after"]] if row["update"] < 4 else []
            assert {len(x) for x in lists} == {len(tokens["text"])}
            assert (tokens["after"] is None) == (row["update"] == 4)


@pytest.mark.slow
def test_the_first_thoughts_are_drawn_with_the_same_noise_at_every_look(checkpoints, tmp_path):
    rows = log_of(learned(checkpoints, tmp_path, lr=1e-12)).rows  # nothing moves
    for row in rows:
        same = next(r for r in rows if (r["update"], r["watched"]) == (0, row["watched"]))
        assert [z["thought"] for z in row["group"]] == [z["thought"] for z in same["group"]]


def turns_of(run, row) -> list[tuple[list[int], list[int], str]]:
    """(prompt, turn, roles) of each thought of a line, from its texts alone."""
    of = run.agent.chat.tokenizer.convert_tokens_to_ids
    return [(of(row["prompt"]), of(z["tokens"]["text"]), z["tokens"]["role"]) for z in row["group"]]


@pytest.mark.slow
def test_tokens_are_those_of_the_plain_models_softmax(act_prm):
    """At the last look the model is the one that was read."""
    chat = act_prm.agent.chat
    for row in log_of(act_prm).rows[-3:]:
        for (prompt, turn, roles), z in zip(turns_of(act_prm, row), row["group"], strict=True):
            tokens = z["tokens"]
            logits = act_prm.agent.policy.model(torch.tensor([prompt + turn])).logits[0].detach()
            full = logits[len(prompt) - 1 : -1].log_softmax(-1)
            for i, token in enumerate(turn):
                if roles[i] == "t":
                    assert tokens["before"][i] is tokens["advantage"][i] is None
                    continue
                assert close(tokens["before"][i], full[i, token].item())
                entropy = -(full[i].exp() * full[i]).sum().item()
                assert close(tokens["entropy"][i], entropy)
                if roles[i] == "a":
                    assert tokens["sampler"][i] is None
                    assert close(tokens["advantage"][i], z["action_weight"])
                else:
                    assert abs(tokens["sampler"][i] - full[i, token].item()) < 1e-3
                    assert close(tokens["advantage"][i], z["advantage"])
            if not z["closed"]:
                assert z["action"] is None and "a" not in roles
                continue
            expert = chat.action(row["action"])
            begin = len(turn) - len([*expert, *chat.act_end, *chat.end])
            assert turn[begin : begin + len(expert)] == expert
            for k, likely in enumerate(z["action"]["likely"]):
                place = full[begin + k]
                assert close(z["action"]["logp"][k], place[expert[k]].item())
                top = place.topk(6)
                names = chat.tokenizer.convert_ids_to_tokens(top.indices.tolist())
                assert [text for text, _ in likely] == names
                for (_, p), logp in zip(likely, top.values, strict=True):
                    assert close(p, logp.exp().item())


@pytest.mark.slow
def test_the_reward_is_the_product_over_the_action_and_the_advantage_its_share(act_prm):
    for row in log_of(act_prm).rows:
        rewards = [z["reward"] for z in row["group"]]
        for z in row["group"]:
            if z["usable"]:
                assert math.exp(sum(z["action"]["logp"])) == pytest.approx(z["reward"], rel=5e-3)
            else:
                assert z["reward"] == 0
            share = 4 * z["reward"] / sum(rewards) if any(rewards) else 0
            assert z["advantage"] == z["action_weight"] == pytest.approx(share, rel=5e-3)
        best = max(range(4), key=lambda i: rewards[i])
        assert row["group"][best]["reward"] == row["group"][committed(row)[0]]["reward"]


def committed(row: dict) -> list[int]:
    return [i for i, z in enumerate(row["group"]) if z["committed"]]


@pytest.mark.slow
def test_without_a_thought_the_action_is_read_right_behind_the_state(act_prm):
    chat = act_prm.agent.chat
    for row in log_of(act_prm).rows[-3:]:
        prompt = chat.tokenizer.convert_tokens_to_ids(row["prompt"])
        action = chat.action(row["action"])
        sample = Sample().extend([*prompt, *chat.act_without_thought]).extend(action, 0.0)
        (logp,) = act_prm.agent.policy.logprobs([sample])
        for a, b in zip(row["without_thought"]["logp"], logp.tolist(), strict=True):
            assert close(a, b)


@pytest.mark.slow
def test_after_is_what_the_next_weights_say_of_the_same_tokens(checkpoints, tmp_path):
    """The look before update 1 draws what it draws; what it says of update 0's tokens is read by
    a run that was stopped there."""
    whole = learned(checkpoints, tmp_path / "whole")
    short = learned(checkpoints, tmp_path / "short", updates=1)
    for row in log_of(whole).rows[:3]:
        for (prompt, turn, roles), z in zip(turns_of(short, row), row["group"], strict=True):
            read = [role != "t" for role in roles]
            old = [logp if logp is not None else math.nan for logp in z["tokens"]["sampler"]]
            sample = Sample(turn, read, old, [0.0] * len(turn), parent=Sample().extend(prompt))
            (logp,) = short.agent.policy.logprobs([sample])
            found = [x for x in z["tokens"]["after"] if x is not None]
            assert all(close(a, b) for a, b in zip(found, logp.tolist(), strict=True))
            assert found != [x for x in z["tokens"]["before"] if x is not None]


@pytest.mark.slow
def test_of_what_no_loss_is_taken_has_no_advantage(checkpoints, tmp_path):
    for trained_on, roles in (("thought", "ze"), ("action_first", ""), ("both", "zea")):
        knobs = {"trained_on": trained_on, "thoughts_from": "state_action", "updates": 1}
        for row in log_of(learned(checkpoints, tmp_path / trained_on, **knobs)).rows:
            for z in row["group"]:
                tokens = z["tokens"]
                for role, advantage in zip(tokens["role"], tokens["advantage"], strict=True):
                    assert (advantage is not None) == (role in roles)


@pytest.mark.slow
def test_thoughts_are_drawn_from_the_state_alone_also_where_training_shows_the_action(
    checkpoints, tmp_path
):
    seen = []
    for source in ("state", "state_action"):
        knobs = {"thoughts_from": source, "updates": 1}
        rows = log_of(learned(checkpoints, tmp_path / source, **knobs)).rows[:3]  # before update 0
        seen.append([[z["thought"] for z in row["group"]] for row in rows])
        assert any(x is not None for x in rows[0]["group"][0]["tokens"]["sampler"])
    assert seen[0] == seen[1]


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["act_prm", "rl"])
def test_the_trainer_reads_what_was_drawn_at_the_samplers_temperature(stage, checkpoints, tmp_path):
    rows = log_of(learned(checkpoints, tmp_path, stage, temperature=0.5, updates=1)).rows
    for z in [z for row in rows if row["update"] == 0 for z in row["group"]]:
        tokens = z["tokens"]
        for drawn, read in zip(tokens["sampler"], tokens["before"], strict=True):
            assert drawn is None or math.isclose(drawn, read, rel_tol=2e-3, abs_tol=1e-4)


def test_of_a_long_end_of_a_thought_the_first_token_alone_is_the_thoughts():
    chat = SimpleNamespace(think=[1], think_end=[2, 3], act=[4], act_end=[5], end=[6])
    z = SimpleNamespace(ids=[7, 8], sampled=[7, 8, 2], closed=True)
    assert roles_of(z, [9], chat) == "tzzeaaaaa"
    cut = SimpleNamespace(ids=[7, 8], sampled=[7, 8], closed=False)
    assert roles_of(cut, [9], chat) == "tzz"


@pytest.mark.slow
def test_an_action_that_the_base_model_scores_is_read_by_the_base_model(checkpoints, tmp_path):
    knobs = {"scored_by": "base", "lr": 1e-2}
    rows = log_of(learned(checkpoints, tmp_path, **knobs)).rows[-3:]
    usable = [z for row in rows for z in row["group"] if z["usable"]]
    assert usable
    for z in usable:
        assert math.exp(sum(z["action"]["logp"])) == pytest.approx(z["reward"], rel=5e-3)


@pytest.mark.slow
def test_kinds_are_the_worlds_own_in_the_state_of_the_step(act_prm):
    seen = set()
    for row in log_of(act_prm).rows:
        world = Cups(rounds=2, swaps=1, cups=3)
        world.reset(int(row["task"].split("-")[1]))
        for z in row["group"]:
            assert z["kind"] == world.classify(z["thought"])
            seen.add(z["kind"])
    assert len(seen) > 1


def test_a_log_of_another_world_has_no_kinds():
    world = Cups(rounds=2, swaps=1, cups=3)
    demo = expert_demo(world, task_seed("train", 3))
    kinds = classifier(CFG, demo, 1)
    world.reset(task_seed("train", 3))
    world.step(world.expert())
    assert kinds(world.thought()) == "faithful"
    assert classifier(replace(CFG, world_args=["swaps=2"]), demo, 0) is None  # shows another task
    for task in ("Cups-99999999999", "Cups-x", "Rooms-3", ""):
        assert classifier(CFG, replace(demo, task=task), 0) is None
    for cfg in (replace(CFG, world=""), replace(CFG, world="rooms", world_args=[])):
        assert classifier(cfg, demo, 0) is None


@pytest.mark.slow
def test_resampled_paths_can_be_followed_up_and_down(checkpoints, tmp_path):
    run = learned(checkpoints, tmp_path, "act_prm:resample")
    for update in (0, 1, 2, 4):
        rows = [row for row in log_of(run).rows if row["update"] == update]
        assert [(row["watched"], row["step"]) for row in rows] == [(0, 0), (1, 0), (1, 1)]
        first, last = rows[1:3]
        assert first["group"][0]["tokens"] and not last["group"][0]["tokens"]
        assert all(z["up"] is None for z in first["group"])
        # who has children is committed, and has as many descendants as its children have
        for i, z in enumerate(first["group"]):
            children = [child for child in last["group"] if child["up"] == i]
            assert z["committed"] == bool(children)
            assert z["descendants"] == sum(child["descendants"] for child in children)
        for row in (first, last):
            assert sum(z["descendants"] for z in row["group"]) == 4
            assert sum(z["advantage"] for z in row["group"]) in (0, pytest.approx(4, abs=1e-2))


@pytest.mark.slow
def test_only_logs_of_different_tasks_are_watched(act_prm):
    demo = act_prm.held_out[0]
    run = replace(act_prm, held_out=[demo, demo, act_prm.train_demos[0], act_prm.held_out[1]])
    found = [demo.task for demo in watched_demos(run, run.cfg.act_prm)]
    assert found == [d.task for d in (run.train_demos[0], demo, act_prm.held_out[1])]


# --- RL ---


@pytest.mark.slow
@pytest.mark.parametrize(
    "history", [History(), pytest.param(History(last=1), marks=pytest.mark.slow)]
)
def test_episodes_are_those_of_the_batch_token_by_token(checkpoints, tmp_path, history):
    run = learned(checkpoints, tmp_path, "rl", advantage="mean", updates=4, history=history)
    rows = log_of(run).rows
    assert Counter(row["update"] for row in rows) == {0: 2, 3: 2}
    fresh = begun(checkpoints, tmp_path / "fresh", "rl").agent.policy
    of = run.agent.chat.tokenizer.convert_tokens_to_ids
    for row in rows[:2]:
        rewards = [e["reward"] for e in row["group"]]
        for e in row["group"]:
            tokens = e["tokens"]
            assert close(e["advantage"], e["reward"] - sum(rewards) / 3) or e["advantage"] == 0
            assert e["reward"] == sum(turn["reward"] for turn in e["turns"]) == float(e["won"])
            drawn = [role == "d" for role in tokens["role"]]
            for name in ("advantage", "sampler", "before", "after", "entropy"):
                assert [x is not None for x in tokens[name]] == drawn
            assert {x for x in tokens["advantage"] if x is not None} == {e["advantage"]}
            if history.last:
                continue  # what a turn read is no longer what stands before it
            ids = of(row["prompt"] + tokens["text"])
            sample = Sample().extend(of(row["prompt"]))
            sample = Sample(of(tokens["text"]), drawn, [0.0] * len(drawn), [0.0] * len(drawn),
                            parent=sample)  # fmt: skip
            (logp,) = fresh.logprobs([sample])
            found = [x for x in tokens["before"] if x is not None]
            assert all(close(a, b) for a, b in zip(found, logp.tolist(), strict=True))
            text = run.agent.chat.text(ids)
            assert all(turn["state"] in text for turn in e["turns"])
        assert any(role in "s" for e in row["group"] for role in e["tokens"]["role"])


# --- bounds ---


@pytest.mark.slow
def test_an_episodes_advantage_is_the_one_that_it_is_trained_with(
    checkpoints, tmp_path, monkeypatch
):
    trained = set()
    update = module.Policy.update

    def watched(self, samples, *rest):
        for sample in samples:
            numbers = zip(sample.advantages, sample.trained, strict=True)
            trained.update(notes.short(x) for x, learns in numbers if learns)
        return update(self, samples, *rest)

    monkeypatch.setattr(module.Policy, "update", watched)
    knobs = {"groups": "soft", "advantage": "mean", "updates": 1, "batch": 6}
    run = learned(checkpoints, tmp_path, "rl:dense", watch=6, **knobs)
    shown = set()
    for row in log_of(run).rows:
        for e in row["group"]:
            shown |= {e["advantage"], *e["tokens"]["advantage"]} - {None}
    assert len(trained) > 2 and shown - {0} == trained - {0}


@pytest.mark.slow
def test_a_line_stays_reasonable_however_long_thoughts_are(checkpoints, tmp_path, monkeypatch):
    one = log_of(learned(checkpoints, tmp_path / "all", updates=1)).rows[0]
    sizes = [len(z["tokens"]["text"]) for z in one["group"]]
    rewards = [z["reward"] for z in one["group"]]
    ranked = sorted(range(4), key=lambda i: rewards[i])
    some = {ranked[0], ranked[2], ranked[3]}
    for limit, expected in ((sum(sizes) - 1, some), (min(sizes), set())):
        monkeypatch.setattr(notes, "GROUP_TOKENS", limit)
        row = log_of(learned(checkpoints, tmp_path / str(limit), updates=1)).rows[0]
        assert {i for i, z in enumerate(row["group"]) if z["tokens"]} == expected
        assert all(z["tokens"] or z["action"] is None for z in row["group"])
    monkeypatch.setattr(notes, "PROMPT_TOKENS", 3)
    assert log_of(learned(checkpoints, tmp_path / "p", updates=1)).rows[0]["prompt"] is None


def test_a_long_page_is_cut_and_says_so():
    page = "x" * (STATE_LETTERS + 1)
    state = [{"role": "system", "content": "rules"}, {"role": "user", "content": page}]
    text = state_text(Step(state, None, "go"))
    assert text.startswith("x" * STATE_LETTERS + " …") and f"{len(page):,}" in text
    state[1]["content"] = page[1:]
    assert state_text(Step(state, None, "go")) == page[1:]


def test_a_state_of_several_messages_says_who_speaks():
    state = [{"role": "system", "content": "rules"}, {"role": "user", "content": "Where is it?"}]
    assert state_text(Step(state, None, "go")) == "Where is it?"
    state += [{"role": "tool", "content": "under b"}, {"role": "assistant", "content": None}]
    spoken = "user: Where is it?\ntool: under b\nassistant: "
    assert state_text(Step(state, None, "go")) == spoken


def test_a_part_of_a_character_is_shown_by_its_name_in_the_vocabulary():
    letters = pre_tokenizers.ByteLevel.alphabet()
    bpe = Tokenizer(models.BPE({letter: i for i, letter in enumerate(sorted(letters))}, []))
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe)
    assert token_texts(tokenizer, tokenizer.encode("a €")) == ["a", " ", "â", "Ĥ", "¬"]


# --- files ---


@pytest.mark.slow
def test_a_run_that_is_stopped_and_resumed_has_the_same_lines(checkpoints, tmp_path):
    def lines(name: str, stop_at: int | None) -> str:
        log = Log(tmp_path / name)
        run = begun(checkpoints, name, log=log, updates=6, save_every=2)
        log.open(run.cfg)
        metrics = log.metrics

        def stopping(seed, stage_id, number, stats):
            metrics(seed, stage_id, number, stats)
            if number == stop_at:
                raise KeyboardInterrupt

        log.metrics = stopping
        try:
            run_stage(run, "act_prm")
        except KeyboardInterrupt:
            log.close()
            again = Log(tmp_path / name)
            run = begun(checkpoints, name, log=again, updates=6, save_every=2)
            again.open(replace(run.cfg, resume=True))
            run_stage(run, "act_prm")
            log = again
        log.close()
        return (tmp_path / name / "samples.jsonl").read_text()

    whole = lines("whole", None)
    assert [json.loads(x)["update"] for x in whole.splitlines()[::3]] == [0, 1, 2, 5, 6]
    assert lines("stopped-3", 3) == whole
    assert lines("stopped-5", 5) == whole


@pytest.mark.slow
def test_episodes_are_kept_beside_the_expert_and_once_for_an_arm(
    checkpoints, tmp_path, monkeypatch
):
    monkeypatch.setattr(episodes_file, "KEPT", 4)
    log = Log(tmp_path / "run")
    run = begun(checkpoints, "episodes", log=log, temperature=1.0)
    log.open(run.cfg)
    texts = []
    for arm in ("base", "act_prm", "base"):
        row, episodes = run_arm(run, arm, [], tmp_path / "models")
        keep_episodes(log.folder, arm, 0, episodes)
        texts.append((log.folder / "episodes.jsonl").read_text())
    log.close()
    _, once, text = texts
    assert sorted(text.splitlines()) == sorted(once.splitlines())
    episodes = [json.loads(line) for line in text.splitlines()]
    assert Counter((e["arm"], e["seed"]) for e in episodes) == {("base", 0): 4, ("act_prm", 0): 4}
    assert [e["task"] for e in episodes[:4]] == [task_seed("test", i) for i in range(4)]
    assert row["episodes"] == 6
    for e in episodes:
        world = Cups(rounds=2, swaps=1, cups=3)
        observation = world.reset(e["task"])
        for turn in e["turns"]:
            assert turn["state"] == observation
            assert turn["expert"] == world.expert()
            assert turn["right"] == (turn["action"] == world.expert())
            observation, reward, _, info = world.step(turn["action"])
            assert (turn["reward"], turn["valid"]) == (reward, info["valid"])
            assert turn["tokens"] == len((turn["thought"] or "").split()) and not turn["copied"]
        assert e["won"] == world.success and not e["outgrown"]


def test_a_broken_line_of_episodes_is_named(tmp_path, capsys):
    (tmp_path / "episodes.jsonl").write_text('{"arm": "base", "seed": 0}\n{"arm": "ba\n')
    with pytest.raises(SystemExit):
        keep_episodes(tmp_path, "base", 0, [])
    assert "episodes.jsonl, line 2 is broken" in capsys.readouterr().err


@pytest.mark.slow
def test_held_out_logs_are_kept_in_the_same_form(checkpoints, tmp_path, monkeypatch):
    monkeypatch.setattr(episodes_file, "KEPT", 2)
    run = begun(checkpoints, "logs")
    run.cfg = replace(run.cfg, world="")
    log_of(run).folder = tmp_path
    run.test = run.held_out
    row, episodes = run_arm(run, "base", [], tmp_path / "models")
    keep_episodes(tmp_path, "base", 0, episodes)
    episodes = [json.loads(x) for x in (tmp_path / "episodes.jsonl").read_text().splitlines()]
    assert [e["task"] for e in episodes] == [demo.task for demo in run.held_out[:2]]
    for e, demo in zip(episodes, run.held_out, strict=False):
        assert [turn["expert"] for turn in e["turns"]] == [step.action for step in demo.steps]
        for turn in e["turns"]:
            assert turn["right"] == (turn["action"] == turn["expert"]) == bool(turn["reward"])
        assert e["won"] == all(turn["right"] for turn in e["turns"])
    assert row["steps"] == sum(len(demo.steps) for demo in run.held_out)


def test_the_benchmark_of_what_is_kept_times_what_there_is():
    for owner, names in PARTS:
        assert all(callable(getattr(owner, name)) for name in names.split())
