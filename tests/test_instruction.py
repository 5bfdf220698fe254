"""A pretrained model is told to think where it is sampled from, and SFT's logs are without it."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from minprm.arms import ladder
from minprm.arms.about import save_checkpoint
from minprm.arms.demos import examples_of, few_shot
from minprm.arms.evaluation import evaluate
from minprm.arms.ladder import run_arm, start
from minprm.commands import ask, train
from minprm.commands import evaluate as evaluate_command
from minprm.commands.cli import as_flags, configuration, parse, read_flags
from minprm.constants import SFT, ActPRM, Config, Relabel, refusal
from minprm.data import Demo, Sample, Step
from minprm.envs.cups import Cups
from minprm.logs.reader import from_chat, read_demos, write_demos
from minprm.model.agent import make_prompter
from minprm.model.policy import Policy
from minprm.model.sampler import Completion, Sampler
from minprm.model.tree import row
from minprm.play import forced_opening, keep
from minprm.run.stage_ids import reads_instruction
from minprm.stages.act_prm import credit, outcomes, to_samples, walk_logs
from minprm.stages.sft import to_samples as logged
from minprm.text.chat import Chat
from minprm.text.instruction import EXPLAIN, Instruction, instruction_of
from shared.chats import FAMILIES, TOOLS, bytes_with, chat_model, tokenizer
from shared.stages import Lines, log_of

TOLD = "Think aloud about ducks."
RULES = {"role": "system", "content": "be brief"}
USER = {"role": "user", "content": "hello"}
NO_SYSTEM = (
    "{% for m in messages %}"
    "{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def log(number: int, thought: str = "as before") -> dict:
    """A log of two steps."""
    messages = [RULES] if number % 2 else []
    for word in ("ab", "cd"):
        messages.append({"role": "user", "content": f"say {word} {number}"})
        messages.append({"role": "assistant", "content": word, "reasoning_content": thought})
    return {"task": str(number), "messages": messages}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a random model of English letters, `model`, and logs, `demos.jsonl`."""
    folder = tmp_path_factory.mktemp("told")
    (folder / "model").mkdir()
    chat_model(folder / "model", often="</think>")
    write_demos([from_chat(log(number)) for number in range(6)], folder / "demos.jsonl")
    return folder


def config(folder, **knobs) -> Config:
    return replace(
        Config(
            model=f"{folder}/model", world="", demos=f"{folder}/demos.jsonl", held_out=2,
            run="told", instruction=TOLD, thought_tokens=6, action_tokens=4, save_every=100,
            eval_tasks=0,
            act_prm=ActPRM(updates=1, batch=2, group=3, trained_on="thought"),
            sft=SFT(epochs=1, batch=4), relabel=Relabel(group=2),
        ),
        **knobs,
    )  # fmt: skip


# --- who is told ---


@pytest.mark.parametrize("always", [False, True])
def test_what_is_sampled_before_sft_holds_it_and_what_sft_learns_does_not(
    folder, tmp_path, monkeypatch, always
):
    run = start(
        config(folder, sft=SFT(epochs=1, batch=4, keep_instruction=always)), 0, Lines(), tmp_path
    )
    log_of(run).folder = tmp_path
    read = {}
    now = ["sampled"]

    def hold(kind, rows) -> None:
        texts = [run.agent.chat.text(ids) for ids in rows]
        read.setdefault(kind, set()).update(text.count(TOLD) for text in texts)

    generate, update, answers = Sampler.generate, Policy.update, ladder.answer_logs

    def sampled(self, prompts, *rest):
        hold(now[0], prompts)
        return generate(self, prompts, *rest)

    def learned(self, samples, cfg, *rest):
        hold(f"learned by {type(cfg).__name__}", [sample.whole() for sample in samples])
        return update(self, samples, cfg, *rest)

    def replayed(*arguments):
        now[0] = "replayed"
        return answers(*arguments)

    monkeypatch.setattr(Sampler, "generate", sampled)
    monkeypatch.setattr(Policy, "update", learned)
    monkeypatch.setattr(ladder, "answer_logs", replayed)
    run_arm(run, "act_prm", ["act_prm", "relabel", "sft:thoughts"], tmp_path)
    after = {1} if always else {0}
    assert read == {
        "sampled": {1}, "learned by ActPRM": {1}, "learned by SFT": after, "replayed": after,
    }  # fmt: skip
    read.clear()
    run_arm(run, "base", [], tmp_path)  # every arm starts anew
    assert read == {"replayed": {1}}


def test_who_reads_it():
    cfg = Config()
    for stages in ([], ["act_prm", "relabel"], ["rl"]):
        assert reads_instruction(stages, cfg)
    assert not reads_instruction(["relabel", "sft:thoughts"], cfg)
    assert not reads_instruction(["relabel", "sft:thoughts", "rl:finetune"], cfg)
    assert reads_instruction(["sft:actions", "rl"], replace(cfg, sft=SFT(keep_instruction=True)))


def test_act_prm_learns_by_the_prompt_that_it_sampled_with(folder, tmp_path):
    """The log-probs of the sampler are those of the trainer: the ratio begins at 1."""
    cfg = config(folder)
    run = start(cfg, 0, Lines(), tmp_path)
    walks, groups = walk_logs(run.agent, run.train_demos[:2], cfg.act_prm, seed=0)
    outcomes(walks, cfg.act_prm)
    credit(groups, cfg.act_prm)
    samples = to_samples(groups, run.agent.chat, cfg.act_prm, 0)
    assert all(run.agent.chat.text(sample.whole()).count(TOLD) == 1 for sample in samples)
    gap = run.agent.policy.update(samples, cfg.act_prm, lr=0.0)["policy/gap_mean"]
    assert gap < 1e-5
    # the same thoughts after the prompt without it have other log-probs
    run.agent.reads_instruction = False
    _, untold = walk_logs(run.agent, run.train_demos[:2], cfg.act_prm, seed=0)
    samples[0].parent = untold[0].paths[0].history
    assert run.agent.policy.update(samples[:1], cfg.act_prm, lr=0.0)["policy/gap_mean"] > 100 * gap


def test_what_is_played_holds_it(folder, tmp_path):
    """RL and evaluation, whose updates and scores are those of the same ids."""
    knobs = {"world": "cups", "demos": "", "num_demos": 2, "episodes": 2}
    run = start(config(folder, **knobs), 0, Lines(), tmp_path)
    for told in (True, False):
        run.agent.reads_instruction = told
        for e in evaluate(run.agent, run.cfg, noise=0):
            text = run.agent.chat.text(e.samples[-1].whole())
            assert text.count(TOLD) == told and Cups.system in text


def test_it_is_counted_where_logs_have_to_fit_the_context(folder, tmp_path, capsys):
    start(config(folder, context=200, instruction="none"), 0, Lines(), tmp_path)
    with pytest.raises(SystemExit):
        start(config(folder, context=200, instruction="word " * 100), 0, Lines(), tmp_path)
    assert "does not hold the first step" in capsys.readouterr().err


def test_sfts_samples_are_those_of_a_run_that_tells_nothing(folder, tmp_path):
    told = start(config(folder), 0, Lines(), tmp_path).agent
    silent = start(config(folder, instruction="none"), 0, Lines(), tmp_path).agent
    (demo, *_), _ = read_demos(f"{folder}/demos.jsonl")
    ids = lambda agent: [sample.ids for sample in logged(demo, agent)]  # noqa: E731
    assert ids(told) != ids(silent)  # the agent reads it, until a stage sft begins
    told.reads_instruction = False
    assert ids(told) == ids(silent)


def test_a_run_does_not_go_on_with_another_instruction(folder, tmp_path, capsys):
    file = tmp_path / "told.md"
    file.write_text(TOLD)
    run = start(config(folder, instruction=str(file)), 0, Lines(), tmp_path)
    assert run.agent.instruction.text == TOLD
    ladder.run_stage(run, "sft:actions")
    file.write_text("Think of geese.")
    with pytest.raises(SystemExit):
        ladder.run_stage(start(run.cfg, 0, Lines(), tmp_path), "sft:actions")
    assert "it differs in what the model is told" in capsys.readouterr().err


# --- what it says ---


def told(name: str, layout: str, tools=(), **knobs) -> str:
    cfg = Config(model="some", thought_tokens=512, **knobs)
    return instruction_of(cfg, Chat(tokenizer(name), layout, tools)).text


def test_each_layout_is_asked_for_in_its_own_tags():
    think = told("qwen3", "think", TOOLS)
    assert "between <think> and </think>" in think and "at most about 256 words" in think
    assert "<act>" not in think
    tags = told("qwen3", "tags")
    assert "between <think> and </think>" in tags and "between <act> and </act>" in tags
    for text in (think, tags):
        assert EXPLAIN not in text and "{" not in text


def test_a_thought_that_sees_its_action_is_asked_to_explain_it():
    knobs = {"act_prm": ActPRM(thoughts_from="state_action")}
    assert told("qwen3", "think", **knobs).endswith(EXPLAIN)
    assert "do not name it" in EXPLAIN


@pytest.mark.parametrize(
    ("name", "opening"),
    [("qwen3_instruct_2507", ""), ("llama3_1", ""), ("qwen3", "<think>\n\n</think>\n\n")],
)
def test_an_agent_that_may_not_think_acts_behind_what_sft_on_actions_learns(name, opening):
    """A template without thoughts has nothing there; one that has them is given an empty one."""
    for think in (True, False):
        agent = make_prompter(tokenizer(name), Config(layout="think", think=think), [])
        chat = agent.chat
        forced = forced_opening(agent)
        assert chat.text(forced) == ("" if think else opening)
        step = Step([{"role": "user", "content": "a"}], None, "b")
        (sample,) = logged(Demo("t", [], [], [step]), agent)
        turn = sample.whole()[len(chat.state(step.state, [], None)) :]
        assert turn == [*forced, *chat.action("b"), *chat.end]
    # what was given is no thought of the agent's
    acted = [*chat.action("b"), *chat.end]
    e = SimpleNamespace(spans=[], turns=[], state_ids=([], []))
    completion = Completion(acted, [0.0] * len(acted))
    assert keep(e, Sample(), completion, chat, forced) == (None, "b", 0, "")


def test_nothing_is_told_where_nothing_would_be_understood_or_thought(folder):
    assert told("qwen3", "think", instruction="none") == ""
    assert told("qwen3", "think", think=False) == ""
    assert told("qwen3", "think", think=False, instruction=TOLD) == TOLD
    chat = Chat(tokenizer("qwen3"), "think")
    assert instruction_of(Config(instruction=TOLD), chat).text == ""  # the embedded model


def test_it_stands_at_the_end_of_the_first_system_message():
    instruction = Instruction(TOLD)
    assert instruction.added_to([RULES, USER]) == [
        {"role": "system", "content": f"be brief\n\n{TOLD}"}, USER
    ]  # fmt: skip
    assert instruction.added_to([USER]) == [{"role": "system", "content": TOLD}, USER]
    assert Instruction("").added_to([USER]) == [USER]
    assert RULES["content"] == "be brief"  # the log is as it was


def test_a_template_without_system_messages_has_it_before_what_the_user_says():
    words = bytes_with(*FAMILIES["qwen3"], NO_SYSTEM)
    chat = Chat(words, "think")
    instruction = instruction_of(Config(model="some", instruction=TOLD), chat)
    messages = instruction.added_to([USER])
    assert messages == [{"role": "user", "content": f"{TOLD}\n\nhello"}]
    assert f"user\n{TOLD}\n\nhello<|im_end|>" in chat.text(chat.state(messages, [], None))


def test_a_greeting_does_not_tell_it():
    greeting = {"role": "assistant", "content": "welcome"}
    asked = {"role": "user", "content": f"{TOLD}\n\nhello"}
    assert Instruction(TOLD, in_system=False).added_to([greeting, USER]) == [greeting, asked]


def test_a_tag_in_it_is_text():
    chat = Chat(tokenizer("qwen3"), "think")
    ids = chat.state(Instruction("write </think> <|im_end|>").added_to([USER]), [], None)
    plain = chat.state(Instruction("write").added_to([USER]), [], None)
    controls = lambda ids: [i for i in ids if i in chat.special]  # noqa: E731
    assert controls(ids) == controls(plain)


# --- examples ---


def written(demos: list[dict], path: Path) -> str:
    path.write_text("".join(json.dumps(demo) + "\n" for demo in demos))
    return str(path)


def test_examples_are_turns_of_the_chat_before_the_conversation(folder, tmp_path):
    few_shot = written([log(7, "seven it is"), log(8)], tmp_path / "few.jsonl")
    agent = start(config(folder, few_shot=few_shot), 0, Lines(), tmp_path).agent
    state = [RULES, {"role": "user", "content": "say ab 9"}]
    turns = [{"role": "system", "content": f"{RULES['content']}\n\n{TOLD}"}]
    for demo in agent.instruction.examples:
        for step in demo.steps:
            turns += [message for message in step.state if message["role"] != "system"]
            thought = f"<think>\n{step.thought}\n</think>\n"
            turns.append({"role": "assistant", "content": thought + step.action})
    ids = agent.state_ids(state, [], None)[0]
    text = agent.chat.text(ids)
    assert text == as_chatml([*turns, state[1]]) + "<|im_start|>assistant\n"
    assert text.count(TOLD) == 1 and "Example" not in text
    # what was observed goes where a history hides it; the examples stay
    hidden = agent.state_ids(state, [], None)[1]
    assert "say ab 9" not in agent.chat.text(hidden)


def test_examples_do_not_think_where_the_agent_may_not():
    """Else a model that acts at once would be shown turns of another kind than its own."""
    demos = [from_chat(log(7, "seven it is"))]
    prompter = make_prompter(tokenizer("qwen3"), Config(model="its name", think=False), [], demos)
    text = prompter.chat.text(prompter.examples([RULES], []))
    assert "seven" not in text
    assert text.count("<|im_start|>assistant\n<think>\n\n</think>\n\n") == 2
    assert text.endswith("</think>\n\ncd<|im_end|>")


def as_chatml(messages: list[dict]) -> str:
    return "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages)


def test_a_checkpoint_brings_the_examples_that_it_is_shown(folder, tmp_path, monkeypatch):
    """`evaluate` shows them too, where SFT has not made them unneeded."""
    few_shot = written([log(7, "seven it is")], tmp_path / "few.jsonl")
    run = start(config(folder, few_shot=few_shot), 0, Lines(), tmp_path)
    save_checkpoint(run, tmp_path / "base-0", "base", [])
    (tmp_path / "base-0").rename(tmp_path / "moved")
    assert read_demos(shown_to(tmp_path / "moved"))[0] == read_demos(few_shot)[0]
    run.agent.reads_instruction = False
    save_checkpoint(run, tmp_path / "sft-0", "sft", ["sft:actions"])
    assert shown_to(tmp_path / "sft-0") == ""


def shown_to(checkpoint: Path) -> str:
    """--few-shot, where this checkpoint is evaluated."""
    argv = [str(checkpoint), "--demos", "logs.jsonl"]
    flags = read_flags(ask.Evaluation, argv, ask.PROGRAM)
    return ask.as_trained(flags, argv, {"demos"})[argv[0]].few_shot


def test_after_sft_the_examples_are_read_no_more(folder, tmp_path):
    few_shot = written([log(7, "seven it is")], tmp_path / "few.jsonl")
    agent = start(config(folder, few_shot=few_shot), 0, Lines(), tmp_path).agent
    agent.reads_instruction = False
    state = [RULES, {"role": "user", "content": "say ab 9"}]
    assert agent.state_ids(state, [], None)[0] == agent.chat.state(state, [], None)


def test_what_all_conversations_begin_with_is_read_once(folder, tmp_path):
    few_shot = written([log(7, "seven it is"), log(8)], tmp_path / "few.jsonl")
    agent = start(config(folder, few_shot=few_shot), 0, Lines(), tmp_path).agent
    samples = []
    for i in range(2):
        state = [RULES, {"role": "user", "content": f"say ab {i}"}]
        ids, _ = agent.state_ids(state, [], None)
        samples.append(Sample(parent=Sample().extend(ids)).extend([1], 1.0))
    (rows,) = agent.policy.micro_batches(samples)
    sizes = [len(sample.whole()) for sample in samples]
    assert len(rows) == 1 and len(row(samples).ids) < 1.1 * max(sizes)


def test_a_template_that_cannot_write_the_examples_as_turns_is_refused(capsys):
    """This one allows a question after an answer, and none after a tool was called."""
    words = tokenizer("qwen3_instruct_2507")
    words.chat_template = words.chat_template.replace(
        "{%- for message in messages %}",
        "{%- for message in messages %}{%- if message.role == 'user' and not loop.first and "
        "messages[loop.index0 - 1].tool_calls %}{{ raise_exception('no') }}{%- endif %}",
        1,
    )
    assert words.chat_template != tokenizer("qwen3_instruct_2507").chat_template
    call = {"name": "visit", "arguments": {"title": "Paris"}}
    step = Step([USER], "Paris is next", json.dumps(call))
    example = Demo("7", [USER], TOOLS, [step])
    cfg = Config(model="its name", instruction=TOLD)
    said = refusal(make_prompter, words, cfg, TOOLS, [example, example])
    assert said.startswith("--few-shot: the model's chat template cannot show these logs as turns")


@pytest.mark.parametrize("tools", [[], TOOLS], ids=["plain", "tools"])
def test_examples_that_call_are_refused_where_nothing_can_be_called(tools):
    """A call would be shown as its text. What spells one in a log without tools is a text."""
    words, cfg = tokenizer("qwen3"), Config(model="its name")
    call = json.dumps({"name": "visit", "arguments": {}})
    for action, its_tools in ((call, TOOLS), (call, []), ("say Paris", TOOLS)):
        example = Demo("7", [USER], its_tools, [Step([USER], "Paris is next", action)])
        said = refusal(make_prompter, words, cfg, tools, [example])
        refused = action == call and its_tools and not tools
        assert said.startswith("--few-shot: its examples call tools") if refused else not said
        assert not refusal(make_prompter, words, replace(cfg, agent="a.py:play"), tools, [example])


def test_a_call_in_an_example_is_the_text_of_the_action(tmp_path):
    function = {"name": "visit", "arguments": {"title": "Paris"}}
    call = {"role": "assistant", "content": None, "reasoning_content": "Paris is next",
            "tool_calls": [{"type": "function", "function": function}]}  # fmt: skip
    file = tmp_path / "few.jsonl"
    file.write_text(json.dumps({"messages": [USER, call], "tools": TOOLS}))
    (step,) = few_shot(str(file))[0].steps
    assert (step.thought, step.action) == ("Paris is next", json.dumps(function))


READER = 'def talk(value): return {"messages": value["talk"], "task": value["n"]}\n'


def test_examples_are_read_as_the_logs_are_or_else_as_they_stand(folder, tmp_path):
    (tmp_path / "mine.py").write_text(READER)
    plain = written([log(7)], tmp_path / "plain.jsonl")
    messages = log(7)["messages"]
    own = written([{"talk": messages, "n": "7"}], tmp_path / "own.jsonl")
    renamed = written([{"dialog": messages, "task": "7"}], tmp_path / "renamed.jsonl")
    by_reader = config(folder, format=f"{tmp_path}/mine.py:talk", keep=["won"])
    by_name = config(folder, map=["dialog=messages"])
    for cfg, file in [(by_reader, own), (by_name, renamed), (by_reader, plain), (by_name, plain)]:
        assert examples_of(replace(cfg, few_shot=file)) == few_shot(plain)
    said = refusal(examples_of, replace(by_reader, few_shot=renamed))
    assert said.startswith(f"--few-shot {renamed}, read as --demos is: {tmp_path}/mine.py:talk")
    assert f"as it stands: {renamed}, line 1: no log" in said and "\n" not in said


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("", ": there is no log in it"),
        ("no JSON\n", ", line 1, column 1: no JSON"),
        (None, ": no such file or folder"),
        ({"rationale": "seven"}, "read, a thought by --map rationale=reasoning_content"),
        ({}, ": a turn of log 1 has no thought"),
    ],
)
def test_what_is_wrong_with_examples_is_said_of_their_flag(line, sentence, tmp_path, capsys):
    file = tmp_path / "few.jsonl"
    if isinstance(line, dict):
        line = json.dumps({"messages": [USER, {"role": "assistant", "content": "ab 7", **line}]})
    if line is not None:
        file.write_text(line)
    said = refusal(few_shot, str(file))
    assert said.startswith(f"--few-shot {file}") and sentence in said
    assert "\n" not in said


def test_bad_lines_of_examples_are_left_out_as_the_sentence_says(folder, tmp_path):
    file = written([log(7)], tmp_path / "few.jsonl")
    shown = few_shot(file)
    with open(file, "a") as examples:
        examples.write("{broken\n")
    cfg = config(folder, few_shot=file)
    assert "leave it out by --skip-bad" in refusal(examples_of, cfg)
    assert examples_of(replace(cfg, skip_bad=True)) == shown
    flags = f"--preset small --world cups --arms rl --model m --few-shot {file} --skip-bad".split()
    assert parse(flags).skip_bad  # also where a world is played, and no --demos are read


def test_a_thought_that_the_model_may_not_write_is_told(said):
    chat = Chat(tokenizer("qwen3"), "think")
    example = from_chat(log(1, "seven it is"))
    length = len(chat.thought("seven it is")) + 1  # its end, too
    for longest in (length, length - 1):
        cfg = Config(model="its name", instruction=TOLD, thought_tokens=longest)
        instruction_of(cfg, chat, [example])
    (line,) = said
    assert f"thoughts of up to {length} tokens" in line and f"--thought-tokens {longest}:" in line


def test_a_replay_of_logs_that_are_examples_says_so(folder, tmp_path, capsys):
    shown = written([log(5), log(7)], tmp_path / "few.jsonl")
    flags = [f"{folder}/model", "--demos", f"{folder}/demos.jsonl", "--few-shot", shown]
    evaluate_command.main(flags)
    assert "is shown the answers to 1 of these 6 logs" in capsys.readouterr().err


def test_an_example_that_is_also_learned_from_is_refused(folder, tmp_path, capsys):
    with pytest.raises(SystemExit):
        start(config(folder, few_shot=f"{folder}/demos.jsonl"), 0, Lines(), tmp_path)
    assert "the task '0' is also in the demos" in capsys.readouterr().err


# --- flags ---


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--instruction nowhere.txt", "--instruction nowhere.txt: No such file"),
        ("--instruction empty.md", "empty.md: the file is empty"),
        ("--instruction latin.txt", "latin.txt: not in UTF-8"),
        ("--few-shot nowhere.jsonl", "nowhere.jsonl: no such file"),
        ("--few-shot bare.jsonl", "--few-shot bare.jsonl: a turn of log 1 has no thought"),
        ("--few-shot blank.jsonl", "--few-shot blank.jsonl: a turn of log 1 has no thought"),
        ("--instruction none --sft.keep-instruction", "--sft.keep-instruction has no effect here"),
        ("--arms action_sft --instruction Think", "--instruction has no effect here"),
        ("--arms copied_actions --few-shot few.jsonl", "--few-shot has no effect here"),
        ("--arms base --sft.keep-instruction", "a stage that reads it: sft:"),
    ],
)
def test_what_cannot_be_told_is_refused_in_a_sentence(
    folder, tmp_path, monkeypatch, capsys, flags, said
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.md").write_text("\n")
    (tmp_path / "latin.txt").write_bytes(b"d\xe9j\xe0 vu")
    (tmp_path / "bare.jsonl").write_text(json.dumps(log(1, "")))
    (tmp_path / "blank.jsonl").write_text(json.dumps(log(1, " \n")))
    (tmp_path / "few.jsonl").write_text(json.dumps(log(1)))
    with pytest.raises(SystemExit) as stop:
        parse(["--model", str(folder / "model"), *flags.split()])
    error = capsys.readouterr().err
    assert stop.value.code == 2 and error.count("\n") == 1 and said in error, error


def test_a_run_that_goes_on_is_told_the_same(folder):
    """Its knobs are read from config.json, as flags."""
    text = "Think:\n--lr=1 is no flag, nor is -this"
    cfg = parse(["--model", f"{folder}/model", "--instruction", text])
    assert configuration(as_flags(json.loads(json.dumps(asdict(cfg))))) == cfg


@pytest.mark.parametrize(
    "knob", ["--instruction Think", "--few-shot few.jsonl", "--sft.keep-instruction"]
)
def test_the_embedded_model_has_no_words_for_it(tmp_path, monkeypatch, capsys, knob):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "few.jsonl").write_text(json.dumps(log(1)))
    with pytest.raises(SystemExit):
        parse(knob.split())
    assert "has no effect here: it needs a --model" in capsys.readouterr().err


def test_the_plan_shows_it_in_full(folder, capsys):
    flags = ["--model", f"{folder}/model", "--world", "", "--demos", f"{folder}/demos.jsonl",
             "--held-out", "2", "--arms", "base", "--dry-run"]  # fmt: skip
    train.main([*flags, "--instruction", TOLD])
    assert f"system message of what is sampled before SFT:\n{TOLD}\n" in capsys.readouterr().out
    train.main([*flags, "--instruction", "none"])
    assert "--instruction" not in capsys.readouterr().out
