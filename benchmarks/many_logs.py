"""python -m benchmarks.many_logs: what more logs cost, in memory and before a run starts.

Memory: the most that a process took which walked 100, 300, 1,000 made logs of 30 steps, in the four
places that walk all logs: relabelling, the control `sample`, a look at held-out logs, a replay. The
embedded model is small and untrained and its thoughts have at most 4 tokens, because what is asked
is how memory grows with the logs. Start: CPU seconds in which 1,000, 3,000, 10,000 lines of chat
with tools are read, checked and cut to the context, as before every run, with Qwen3's template and
a small byte-level vocabulary. One thread, ten minutes; `--logs` and `--lines` take other numbers.
"""

import argparse
import json
import random
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import torch
from transformers import PreTrainedTokenizerBase

from benchmarks.cost import in_a_process, most_memory, timed
from evidence.results import save_run, take_json_flag
from minprm.arms.demos import fitting_demos, logs_of, measured, split
from minprm.arms.evaluation import replay
from minprm.constants import ActPRM, Config, Tiny
from minprm.data import Demo, Step
from minprm.envs.cups import Cups
from minprm.load.threads import set_threads
from minprm.load.tiny import untrained
from minprm.look.looks import held_out_reward
from minprm.model.agent import Agent, make_agent, make_prompter
from minprm.model.policy import Policy
from minprm.model.sampler import Sampler
from minprm.stages.relabel import relabel, sample
from minprm.text.actions import all_tools

STEPS = 30


def made_logs(count: int) -> list[Demo]:
    """Logs in the words of cups; no two are alike."""
    demos = []
    for number in range(count):
        messages = []
        steps = []
        for t in range(STEPS):
            cup = "abcd"[(number >> 2 * (t % 6)) % 4]
            state = [{"role": "user", "content": f"ball under {cup} . swap a {cup} ."}]
            steps.append(Step(state, None, f"open {cup}"))
            messages += [*state, {"role": "assistant", "content": f"open {cup}"}]
        demos.append(Demo(f"made {number}", messages, [], steps))
    return demos


def thinking_agent(cfg: Config) -> Agent:
    """A small embedded model as it is made, but that it begins a thought with a word and likes to
    end it behind one: what it writes is of no use, and can be read."""
    world = Cups()
    model, tokenizer = untrained(world, Tiny(dim=32), seed=0)
    words = tokenizer.convert_tokens_to_ids(world.words)
    end = tokenizer.convert_tokens_to_ids("</think>")
    read = model.get_input_embeddings().get_parameter("weight")
    written = torch.nn.Parameter(read.detach().clone())  # a table of its own
    model.set_output_embeddings(torch.nn.Linear(*read.T.shape, bias=False))
    model.get_output_embeddings().weight = written
    with torch.no_grad():
        read[:, 0] = -10.0  # behind a word this number is above 0, behind a tag below it
        read[words, 0] = 10.0
        written[:, 0] = 0.0
        written[words, 0] = -1.5
        written[end, 0] = 1.5
    policy = Policy(model, tokenizer, cfg.micro_tokens)
    return make_agent(policy, Sampler(model), cfg, tools=[])


WALKS = {
    "relabelling": lambda run: relabel(run, "relabel"),
    "sample": lambda run: sample(run, "sample"),
    "held-out look": lambda run: held_out_reward(run, run.cfg.act_prm),
    "replay": lambda run: replay(run.agent, run.cfg, run.held_out, noise=0),
}


def peak_of_walk(walk: str, logs: int) -> None:
    """Prints the most memory that this process took, in MiB: before the walk, and after it."""
    cfg = Config(world="", thought_tokens=4, act_prm=ActPRM(group=4))
    demos = made_logs(logs)
    run = SimpleNamespace(
        cfg=cfg, seed=0, agent=thinking_agent(cfg), train_demos=demos, held_out=demos,
        tell=lambda event: None,
    )  # fmt: skip
    before = most_memory() // 2**20
    WALKS[walk](run)
    print(json.dumps({"before": before, "MiB": most_memory() // 2**20}))


# --- the start ---


def chat_log(number: int, dice: random.Random) -> dict:
    """A log of three to six steps: calls of one of six tools, and a reply."""
    words = "page city order refund river gate window customer north seven light because".split()
    say = lambda n: " ".join(dice.choices(words, k=n))  # noqa: E731
    tools = []
    for name in ("visit", "find_order", "cancel", "look_up", "refund", "answer"):
        properties = {"title": {"type": "string", "description": "what"}, "n": {"type": "integer"}}
        parameters = {"type": "object", "properties": properties, "required": ["title"]}
        function = {"name": name, "description": f"to {name}", "parameters": parameters}
        tools.append({"type": "function", "function": function})
    messages = [{"role": "system", "content": "You are an agent who calls tools."},
                {"role": "user", "content": f"task {number}: {say(20)}"}]  # fmt: skip
    for _ in range(dice.randint(2, 5)):
        name = dice.choice(tools)["function"]["name"]
        arguments = {"title": f"{say(3)} {number}", "n": dice.randrange(99)}
        call = {"type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "content": f"{say(30)} {number}"})
    messages.append({"role": "assistant", "content": f"It is done: {say(6)}"})
    return {"messages": messages, "tools": tools}


def seconds_to_start(lines: int, file: Path) -> float:
    """CPU seconds from the file to the demos of a run, of which `lines` are written first."""
    from tests.shared.chats import tokenizer  # TRL's copy of Qwen3's template

    dice = random.Random(0)
    file.write_text("".join(json.dumps(chat_log(i, dice)) + "\n" for i in range(lines)))
    words = tokenizer("qwen3_instruct_2507")
    cfg = Config(world="", demos=str(file), model="its name", arms=["act_prm"], context=8192)
    _, seconds = timed(read_logs, cfg, words)
    return seconds


def read_logs(cfg: Config, words: PreTrainedTokenizerBase) -> None:
    """What a run does with its logs before it learns from them."""
    demos, _ = logs_of(cfg, seed=0)
    prompter = make_prompter(words, cfg, all_tools(demos))
    split(fitting_demos(measured(demos, prompter.chat), prompter, cfg), cfg)


def main() -> None:
    path = take_json_flag()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, nargs="*", default=[100, 300, 1000])
    parser.add_argument("--lines", type=int, nargs="*", default=[1000, 3000, 10_000])
    parser.add_argument("--walk", nargs=2, help="one walk in this process: its name, and how many")
    flags = parser.parse_args()
    set_threads("tiny")
    if flags.walk:
        return peak_of_walk(flags.walk[0], int(flags.walk[1]))
    rows: dict[str, dict] = {walk: {} for walk in WALKS}
    for walk in WALKS:
        for logs in flags.logs:
            told = in_a_process("benchmarks.many_logs", "--walk", walk, str(logs))
            found = json.loads(told.splitlines()[-1])
            print(walk, logs, found, flush=True)
            rows[walk][f"{logs:,}"] = found
    rows["start"] = {}
    with TemporaryDirectory() as folder:
        for lines in flags.lines:
            seconds = seconds_to_start(lines, Path(folder) / "logs.jsonl")
            rows["start"][f"{lines:,}"] = {"cpu_seconds": seconds}
            print(f"start {lines} {seconds:.2f} s", flush=True)
    save_run(path, [0], "one run", rows)


if __name__ == "__main__":
    main()
