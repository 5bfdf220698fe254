"""Fills the tables of README and the book from evidence/results: `python -m evidence.tables`.

A table stands between two comments, and is written there in place:

    <!-- table cups -->
    | arm | success | 95 % | …
    <!-- end -->

The name is that of a results file, perhaps with a variant after a colon: `cups:six`. TABLES has
each of them. `modules:FOLDER` lists the modules of a folder, in their own words. A test compares
what stands on the pages with what would be written.
"""

import ast
import re
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from statistics import fmean

from evidence import audit
from evidence.drawings.idea import kind, the_group
from evidence.drawings.worlds import WORLDS
from evidence.results import load
from minprm.constants import fail
from minprm.report.glossary import METRICS

ROOT = Path(__file__).parents[1]
FLAG = re.compile(r"(--[\w*.-]*\w)")  # as code in a table: an asterisk alone makes words slanted
BLOCK = re.compile(r"(<!-- table (\S+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
# Two rivals in README's table: the file of each, its arm there, its name, what it learns from
RIVALS = (
    ("cups-filtered", "best_of_base_matched", "`… --relabel.min-step-reward 0.9`",
     "only the steps whose best thought earns .9"),
    ("cups-rounds", "stages", "the same, four rounds, 11 thoughts each",
     "the thoughts of the last round"),
)  # fmt: skip
# The arms of README's table, and what is learned from in each
SIX = {
    "base": "nothing",
    "action_sft": "the log without thoughts",
    "best_of_base_matched": "the log with the base's thoughts, the best of 44 a step",
    "act_prm": "the log with Act-PRM's thoughts, 44 a step with training",
    "expert_thoughts": "the log with correct thoughts, from a script",
    "rl": "no log: GRPO in the game itself, paid for winning",
}

WEIGHTS = ("whole", "spread")  # in several processes
# Arms beside each other, where one number grows. Those without thoughts stay at chance
THINKING = ["best_of_base_matched", "act_prm", "expert_thoughts"]
ERRAND = [
    "best_of_base_resampled", "best_of_base_resampled, as many drawn", "act_prm_resampled",
    "expert_thoughts",
]  # fmt: skip
PLAYED = ["random", "base", "action_sft", "act_prm", "expert_thoughts"]
SPENT = ["best of the base", "r", "r - b", "r - mean(r)"]


def pages() -> list[Path]:
    """README, those of folders that measure, and the book."""
    names = ("README.md", "benchmarks/README.md", "evidence/README.md")
    return [*(ROOT / name for name in names), *sorted(ROOT.glob("docs/*.md"))]


def filled(text: str) -> str:
    """The page with every table as it is made from its file."""
    return BLOCK.sub(lambda found: f"{found[1]}{made(found[2])}\n{found[4]}", text)


def made(name: str) -> str:
    """The table of this name, from its file."""
    file, _, variant = name.partition(":")
    if file == "modules":
        return modules(variant)
    if name in TABLES:
        return TABLES[name](load(file)["rows"])
    if name in OTHERS:
        return OTHERS[name]()
    fail(f"<!-- table {name} -->: no such table. Tables: {', '.join([*TABLES, *OTHERS])}")


def main() -> None:
    for page in pages():
        text = page.read_text(encoding="utf-8")
        page.write_text(filled(text), encoding="utf-8")


# ------------------------------------------------------------------ The parts of a table
def grid(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown."""
    head = list(head)
    rule = "|" + "---|" * len(head)
    first, *others = ("| " + " | ".join(cells) + " |" for cells in (head, *rows))
    return "\n".join([first, rule, *others]).replace("|  |", "| |")


def share(x: float, digits: int = 3) -> str:
    """A share as the book writes it.

    >>> share(0.983), share(1.0), share(0.2, 2), share(-0.027)
    ('.983', '1.00', '.20', '-.027')
    """
    text = f"{x:.{digits}f}"
    return "1.00" if float(text) == 1 else text.replace("0.", ".", 1)


def shares(values: Iterable[float], digits: int = 3) -> str:
    return " ".join(share(x, digits) for x in values)


def interval(row: dict, digits: int = 3) -> str:
    return f"[{share(row['low'], digits)}, {share(row['high'], digits)}]"


def with_seeds(row: dict, digits: int = 3) -> str:
    """The mean, and every seed in brackets."""
    return f"{share(row['mean'], digits)} ({shares(row['values'], digits)})"


# --------------------------------------------------------------------------- Ladders
def ladder(rows: dict) -> str:
    """Every arm."""
    lines = []
    for arm, row in rows.items():
        lines.append([
            f"`{arm}`", share(row["mean"]), interval(row), shares(row["values"]),
            f"{row['thoughts']:.2f}", f"{row['copies']:.2f}", f"{row['seconds']:.0f}",
        ])  # fmt: skip
    return grid(["arm", "success", "95 %", "seeds", "thoughts", "copies", "seconds"], lines)


def six(rows: dict) -> str:
    """README's six arms of cups, and choosing twice more: where it may refuse, and repeatedly."""
    lines = []
    for arm, what in SIX.items():
        lines.append([f"`{arm}`", what, share(rows[arm]["mean"]), interval(rows[arm])])
        if arm == "best_of_base_matched":
            for file, theirs, name, learned in RIVALS:
                row = load(file)["rows"][theirs]
                lines.append([name, learned, share(row["mean"]), interval(row)])
    return grid(["arm", "what it learns from", "success", "95 %"], lines)


def one_line(rows: dict) -> str:
    """A ladder of one seed: an arm a column."""
    arms = [arm for arm in rows if arm != "expert"]
    return grid(
        [f"`{arm}`" for arm in arms], [[f"{share(rows[arm]['mean'])} {interval(rows[arm])}"
                                        for arm in arms]]
    )  # fmt: skip


def successes(rows: dict, what: str = "what", ends: bool = True) -> str:
    """Any rows: mean, interval and every seed. A name of several parts fills several columns.

    ends: also random play and the expert, the ends of the scale.
    """
    lines = []
    for name, row in rows.items():
        if not ends and name.endswith(("| random", "| expert")):
            continue
        numbers = [share(row["mean"]), interval(row), shares(row["values"])]
        lines.append([*name.split(" | "), *numbers])
    return grid([*what.split(" | "), "success", "95 %", "seeds"], lines)


def ground(rows: dict) -> str:
    """Desks and arms: success, how probable the expert's action is, the share of thoughts that are
    right in every step and of wins without one, and the seconds of each run."""
    lines = []
    for name, row in rows.items():
        wins = [share(row["mean"]), interval(row), shares(row["values"])]
        thoughts = [shares(row["right"]), share(row["means"]["paid"])]
        seconds = " ".join(f"{seconds:.0f}" for seconds in row["seconds"])
        probable = share(fmean(row["likelihood"]))
        lines.append([*name.split(" | "), *wins, probable, *thoughts, seconds])
    heads = ["success", "95 %", "seeds", "p(action)", "right thought", "won without one", "seconds"]
    return grid(["desk", "arm", *heads], lines)


def transfer(rows: dict) -> str:
    """What a model that learned at one desk does at another: success, right thoughts, and how well
    it reads plain text, by seed."""
    lines = []
    for name, row in rows.items():
        read = " ".join(f"{perplexity:.1f}" for perplexity in row["perplexity"])
        lines.append([*name.split(" | "), shares(row["success"]), shares(row["right"]), read])
    return grid(["asked", "learned", "success", "right thought", "perplexity"], lines)


def wrong_ways(rows: dict) -> str:
    """Rewards: success, the logs that are kept, and the share of them whose thought is wrong."""
    lines = []
    for name, row in rows.items():
        wins, wrong = row["success"], row["wrong"]
        logs = " ".join(map(str, row["logs"]))
        numbers = [share(wins["mean"]), interval(wins), logs, share(wrong["mean"]), interval(wrong)]
        lines.append([name, *numbers, shares(wrong["values"])])
    return grid(["arm", "success", "95 %", "logs kept", "wrong", "95 %", "wrong by seed"], lines)


def harder(rows: dict) -> str:
    """Desks with larger and larger numbers: success by seed, how many runs ended early, and the
    seconds of each."""
    lines = []
    for name, row in rows.items():
        wins = row["success"]
        right = share(row["right"]) if "right" in row else ""
        seconds = " ".join(str(round(value)) for value in row["seconds"])
        numbers = [right, share(wins["mean"]), interval(wins), shares(wins["values"])]
        lines.append([*name.split(" | "), *numbers, str(row["early"]), seconds])
    columns = ["desk", "arm", "right", "success", "95 %", "seeds", "ended early", "seconds"]
    return grid(columns, lines)


def few_shot(rows: dict) -> str:
    """What examples give: the held-out reward after the first update and the last, by seed."""
    lines = []
    for name, row in rows.items():
        after = [share(reward) if reward is not None else "stopped" for reward in row["after"]]
        lines.append([name, shares(row["before"]), " ".join(after)])
    return grid(["what is read", "after 1 update", "after 10"], lines)


def across(rows: dict, what: str, columns: Iterable[str], digits: int = 2) -> str:
    """Any rows, those that differ in the last part of their name beside each other: of them the
    ones that `columns` names.

    >>> row = {"mean": 0.5, "low": 0.25, "high": 0.75}
    >>> print(across({"8 | ours": row, "8 | theirs": row}, "logs", ["theirs", "ours"]))
    | logs | theirs | ours |
    |---|---|---|
    | 8 | .50 [.25, .75] | .50 [.25, .75] |
    """
    return beside(
        rows, what, columns, lambda row: f"{share(row['mean'], digits)} {interval(row, digits)}"
    )


def seeds_across(rows: dict, what: str, columns: Iterable[str], of: str = "") -> str:
    """As `across`, with what each seed came to; of: that part of a row and not the row itself.

    >>> row = {"right": {"values": [0.5, 1.0]}}
    >>> print(seeds_across({"ours | 2": row, "ours | 3": row}, "arm", ["2", "3"], "right"))
    | arm | 2 | 3 |
    |---|---|---|
    | ours | .50 1.00 | .50 1.00 |
    """
    return beside(rows, what, columns, lambda row: shares((row[of] if of else row)["values"], 2))


def beside(rows: dict, what: str, columns: Iterable[str], cell: Callable[[dict], str]) -> str:
    """Rows that differ in the last part of their name beside each other, each told by `cell`."""
    lines = []
    for name in dict.fromkeys(name.rpartition(" | ")[0] for name in rows):
        cells = [cell(rows[f"{name} | {column}"]) for column in columns]
        lines.append([*name.split(" | "), *cells])
    return grid([*what.split(" | "), *columns], lines)


def longer_walks(rows: dict) -> str:
    """Success by the cells of a walk; the base has read of one, or of one to three."""
    told = {"1": "1", "3": "1 to 3"}
    renamed = {f"{told[name[0]]}{name[1:]}": row for name, row in rows.items()}
    return seeds_across(renamed, "base has read of | arm", columns="123")


def in_a_hundred(rows: dict) -> dict:
    """The rows, whose names begin with a share, with that share as so many in a hundred.

    >>> in_a_hundred({"0.003 | act_prm": 1})
    {'0.3 | act_prm': 1}
    """
    found = {}
    for name, row in rows.items():
        first, separator, rest = name.partition(" | ")
        found[f"{100 * float(first):g}{separator}{rest}"] = row
    return found


def on_fresh_seeds(rows: dict) -> str:
    return successes(in_a_hundred(rows), what="good thoughts in 100 | arm")


def on_all_processors(rows: dict) -> str:
    """What learning and choosing won in the mean of all bases of the fresh seeds."""
    shares_of = dict.fromkeys(row["share"] for row in rows.values() if "share" in row)
    lines = []
    for each in shares_of:
        cells = [rows[f"{each} | {arm}"] for arm in ("learning", "choosing", "difference")]
        number = str(cells[0]["processors"])
        means = [f"{share(cell['mean'])} {interval(cell)}" for cell in cells]
        lines.append([f"{100 * each:g}", number, *means])
    return grid(["good thoughts in 100", "processors", "learning", "choosing", "difference"], lines)


def luck(rows: dict) -> str:
    """Three runs from each base, in the order of what the bases write."""
    ahead = load("ahead")
    first = ahead["rows"]["0.003 | learning"]["values"]
    shares_of = ahead["shares"]["0.003"]
    good = [f"{10_000 * x:.1f}" for x in shares_of["good"]]
    hardest = [f"{100_000 * x:.1f}" for x in shares_of["scarcest"]]
    lines = []
    for row, own, *written in zip(rows.values(), first, good, hardest, strict=True):
        lines.append([str(row["base"]), *written, shares([own, *row["values"]])])
    lines.sort(key=lambda line: -float(line[1]))
    head = ["base", "good in 10,000", "in the hardest tenth, in 100,000", "success of three runs"]
    return grid(head, lines)


def selecting(rows: dict) -> str:
    what = "good thoughts in 100 | thoughts a step"
    return across(in_a_hundred(rows), what, columns=SPENT, digits=3)


def group() -> str:
    """README's group of thoughts, before and after Act-PRM: the first five of them."""
    before, after = the_group("before"), the_group("after")
    times = {row["thought"]: row["times"] for row in after["thoughts"]}
    before["thoughts"].sort(key=lambda row: (-row["advantage"], -row["times"], row["reward"]))
    rows = []
    for row in before["thoughts"][:5]:
        rows.append([
            f"`{row['thought']}` {kind(row, before)}", share(row["reward"]),
            f"{row['advantage']:.2f}", f"{row['times']}", f"{times.get(row['thought'], 0)}",
        ])  # fmt: skip
    return grid(["thought", "reward", "advantage", "of 16, before training", "of 16, after"], rows)


def right_thoughts(rows: dict) -> str:
    """How many of the logs that an arm kept have right thoughts alone, seed by seed."""
    lines = []
    for arm, row in rows.items():
        logs, right = (" ".join(map(str, row[key])) for key in ("logs", "right"))
        lines.append([f"`{arm}`", logs, right, share(row["mean"])])
    return grid(["arm", "logs kept", "right at every step", "share"], lines)


def worlds() -> str:
    """Where thoughts help: four ladders, a line each."""
    lines = []
    for name, (world, where) in WORLDS.items():
        rows = load(name)["rows"]
        found = with_seeds(rows["act_prm"])
        if name == "errand":  # the one where it matters
            found += f" one step, {with_seeds(rows['act_prm_resampled'])} paths resampled"
        lines.append([f"{world}: {where}", share(rows["random"]["mean"]),
                      with_seeds(rows["action_sft"]), found,
                      with_seeds(rows["expert_thoughts"])])  # fmt: skip
    return grid(["world", "random", "no thought", "Act-PRM", "thought"], lines)


# ------------------------------------------------------------ Benchmarks and examples
def ablations(rows: dict) -> str:
    """Rewards as means, and with their seeds where those of training are far apart."""
    lines = []
    for name, row in rows.items():
        values = row["reward"]["values"]
        apart = max(values) - min(values) > 0.15
        line = [name, with_seeds(row["base"], 2), with_seeds(row["act_prm"], 2)]
        for reward in (row["reward"], row["held_out_reward"]):
            line.append(with_seeds(reward, 2) if apart else share(reward["mean"], 2))
        lines.append(line)
    return grid(["what", "`base`", "`act_prm`", "reward in training",
                 "reward from the state alone"], lines)  # fmt: skip


def objectives(rows: dict) -> str:
    lines = []
    for name, row in rows.items():
        rate = f"{row['lr']:.0e}".replace("e-0", "e-")
        lines.append([
            name, with_seeds(row), interval(row), share(min(row["values"])),
            " ".join(str(x or "-") for x in row["updates_to_.9"]),
            f"{rate} ({shares(row['tried'], 2)})", f"{row['seconds']:.0f}",
        ])  # fmt: skip
    return grid(["method", "success (seeds)", "95 % (t)", "worst seed", "updates to .9",
                 "lr (success of each)", "seconds"], lines)  # fmt: skip


def recipes(rows: dict) -> str:
    lines = []
    for world, row in rows.items():
        gain = row["gain"]
        lines.append([
            f"`{world}`", share(row["random"]["mean"]), with_seeds(row["SFT"]),
            with_seeds(row["SFT, then RL"]), f"{share(gain['mean'])} {interval(gain)}",
            f"{row['seconds'] / 60:.0f}",
        ])  # fmt: skip
    head = ["world", "random", "SFT", "SFT, then RL", "difference, 95 % (t)", "minutes a seed"]
    return grid(head, lines)


def kl_of(row: dict) -> str:
    """The KL of each seed; nothing where there was none."""
    digits = 3 if max(row["kl"]) < 1 else 2
    return shares(row["kl"], digits) if any(row["kl"]) else ""


def text_rewards(rows: dict) -> str:
    lines = []
    for name, row in rows.items():
        lines.append([name, shares(row["reward"]), shares(row["right"]), kl_of(row)])
    return grid(["", "reward", "answers that are right",
                 "KL to the warm start, nats a token, last ten updates"], lines)  # fmt: skip


def cafes(rows: dict) -> str:
    lines = []
    for name, row in rows.items():
        lines.append([
            name, shares(row["reward"]), shares(row["rouge_l"]), shares(row["distinct_2"]),
            kl_of(row), " ".join(f"{seconds / 60:.0f}" for seconds in row["seconds"]),
        ])  # fmt: skip
    return grid(["", "reward: share of words that praise", "ROUGE-L", "distinct-2",
                 "KL, nats a token, last ten updates", "minutes"], lines)  # fmt: skip


def nlpo(rows: dict) -> str:
    sets = (("whole vocabulary", "whole"), ("top-p .9", "whole"), ("top-p .9", "the same set"))
    lines = []
    for (sampling, likelihood), row in zip(sets, rows.values(), strict=True):
        gap = f"{row['log_ratio_first']:.0e}".replace("e-0", "e-")
        first, last = shares(row["updates_1_10"], 2), shares(row["updates_51_60"], 2)
        lines.append([sampling, likelihood, gap, first, last])
    return grid(["sampling", "likelihood", "mean \\|log ratio\\| before anything moved",
                 "success, updates 1-10", "51-60, seeds 0 1 2"], lines)  # fmt: skip


def adaptive_temperature(rows: dict) -> str:
    names = ("fixed at 1.0", "fixed at .2", "from .2 and adapted")
    lines = [[name, shares(row["values"])] for name, row in zip(names, rows.values(), strict=True)]
    return grid(["temperature", "success, seeds 0 1 2"], lines)


def looks(rows: dict) -> str:
    lines = []
    for arm, row in rows.items():
        lines.append([f"`{arm}`", f"{row['cpu_seconds']:.1f}", f"{row['to_keep']:.2f}",
                      f"{100 * row['share']:.1f} %", str(row["kB"])])  # fmt: skip
    return grid(["arm", "CPU seconds", "of them to keep", "share of the rest", "kB kept"], lines)


def prefetch(rows: dict) -> str:
    lines = []
    for level, row in rows.items():
        numbers = [f"{row[key]:.2f}" for key in ("seconds", "waiting", "learning")]
        lines.append([level.removeprefix("level "), *numbers])
    return grid(["level", "seconds an update", "waiting for the batch", "learning"], lines)


def actprm(rows: dict) -> str:
    lines = []
    for row in rows.values():
        counts = [f"{row[key]:,}" for key in ("T", "G", "state", "unique", "trees", "rows")]
        seconds = [f"{row[key]:.2f}" for key in ("trees_seconds", "rows_seconds")]
        lines.append([*counts, *seconds, f"{row['ratio']:.1f}x"])
    return grid(["T", "G", "state", "unique", "trees", "rows", "trees, s", "rows, s",
                 "rows / trees"], lines)  # fmt: skip


def growth(rows: dict) -> str:
    lines = []
    for row in rows.values():
        counts = [f"{row[key]:,}" for key in ("T", "G", "tokens", "unique")]
        lines.append([*counts, f"{row['seconds']:.2f}", f"{row['gigabytes']:.2f}"])
    return grid(["T", "G", "tokens read", "unique", "CPU seconds", "GiB"], lines)


def scoring(rows: dict) -> str:
    lines = []
    for row in rows.values():
        line = [f"{row[key]:,}" for key in ("logs", "T", "state")]
        for way in ("anew", "kept"):
            line += [f"{row[way]['tokens']:,}", f"{row[way]['seconds']:.2f}"]
        ratio = row["anew"]["seconds"] / row["kept"]["seconds"]
        line += [f"{ratio:.2f}x", f"{row['run']['seconds']:.2f}"]
        lines.append(line)
    ways = ["anew: tokens", "s", "kept: tokens", "s", "anew / kept", "run, s"]
    return grid(["logs", "T", "state", *ways], lines)


def update(rows: dict) -> str:
    """A whole update of Act-PRM, part by part, in both precisions."""
    lines = []
    for precision in precisions_of(rows):
        before, now = rows[f"before, {precision}"], rows[f"now, {precision}"]
        for part in ("think", "score", "learn", "update"):
            seconds = [f"{code[part]:.1f}" for code in (before, now)]
            ratio = f"{before[part] / now[part]:.2f}x"
            share = f"{now[f'{part}_of_ceiling']:.2f}"
            lines.append([precision, part, *seconds, ratio, share])
    return grid(["", "part", "before, s", "now, s", "before / now", "of the ceiling"], lines)


def precisions_of(rows: dict) -> list[str]:
    """Those in which an update was measured: not every processor multiplies bf16."""
    return [precision for precision in ("fp32", "bf16") if f"now, {precision}" in rows]


def update_whole(rows: dict) -> str:
    """The same, all parts together."""
    precisions = precisions_of(rows)
    lines = []
    for code, name in (("before", "commit `af726a6`"), ("now", "now")):
        lines.append([name, *(f"{rows[f'{code}, {p}']['update']:.1f}" for p in precisions)])
    return grid(["", *precisions], lines)


def tokens(rows: dict) -> str:
    """What is read over what has to be read."""
    phases = ("sampling", "scoring", "training")
    lines = []
    for logs, row in rows.items():
        quotients = [f"{row[phase]['quotient']:.2f}" for phase in phases]
        lines.append([logs, *quotients])
    return grid(["logs", *phases], lines)


def vs_peer(rows: dict) -> str:
    """Tokens and seconds of each part."""
    lines = []
    for regime, parts in rows.items():
        for part, row in parts.items():
            seconds = f"{row['median']:.2f} [{row['low']:.2f}, {row['high']:.2f}]"
            ratio = f"{row['ratio']:.2f}x" if "ratio" in row else ""
            read = f"{row['read']:,.0f}" if "read" in row else ""
            lines.append([regime, part, read, seconds, ratio])
    return grid(["regime", "", "tokens read", "seconds", "peer / minprm"], lines)


def vs_trl_ratios(rows: dict) -> str:
    lines = []
    for regime, parts in rows.items():
        ratios = [f"{row['ratio']:.1f}x" for row in parts.values() if "ratio" in row]
        size = f"{parts['step, TRL']['tokens']:.0f}"
        lines.append([f"{regime} ({size} on average)", *ratios])
    kinds = ["an update", "a whole step, plain loop", "a whole step, ours with vLLM"]
    return grid(["TRL / minprm", *kinds[: len(lines[0]) - 1]], lines)


def sampler(rows: dict) -> str:
    """Tokens a CPU second of each writer, and how often faster the plain sampler is."""
    writers = list({writer: None for measured in rows.values() for writer in measured})
    lines = []
    for size, measured in rows.items():
        line = [size]
        for writer in writers:
            row = measured.get(writer)
            text = f"{row['median']:,.0f}" if row else "not installed" * (writer in measured)
            line.append(f"{text} ({row['ratio']:.2f}x)" if row and "ratio" in row else text)
        lines.append(line)
    heads = ["`generate`" if name == "generate" else name for name in writers]
    return grid(["model", *heads], lines)


def parallel(rows: dict) -> str:
    """Seconds of one process, and how many times as fast two are."""
    lines = []
    for model, work in several(rows):
        for name in ("writing", "scoring", "update", "all three"):
            row = work[name]
            line = [
                model,
                name,
                f"{row['alone']['seconds']:.2f}",
                f"{row['at once']['ratio']:.2f}x",
            ]
            for held in WEIGHTS:
                ratio, low, high = (row[held][key] for key in ("ratio", "low", "high"))
                line.append(f"{ratio:.2f}x [{low:.2f}, {high:.2f}]")
            lines.append(line)
    return grid(["model", "", "one process, s", "two, nothing shared",
                 *(f"two, weights {held}" for held in WEIGHTS)], lines)  # fmt: skip


def parallel_sent(rows: dict) -> str:
    """Operations among all processes, and what one of them sends."""
    lines = []
    for model, work in several(rows):
        found = [(name, held, work[name][held]) for name in ("writing", "scoring", "update")
                 for held in WEIGHTS]  # fmt: skip
        split = f"update, {work['smaller']['micro_batches']} micro-batches"
        for name, held, row in [*found, (split, "spread", work["smaller"])]:
            calls = sum(one["calls"] for one in row["sent"].values())
            sent = sum(one["bytes"] for one in row["sent"].values())
            wire = f"{row['wire'] / 1e6:,.2f}" if "wire" in row else ""
            lines.append([model, name, held, str(calls), f"{sent / 1e6:,.2f}",
                          f"{sent / work['bytes']:.3f}", wire])  # fmt: skip
    return grid(["model", "", "weights", "operations", "MB a process sends", "of the model's size",
                 "MB on the wire"], lines)  # fmt: skip


def parallel_waiting(rows: dict) -> str:
    """What keeps two processes from being twice as fast."""
    lines = []
    for model, work in several(rows):
        for name in ("writing", "scoring", "update"):
            alone = work[name]["alone"]["tokens"][0]
            for held in WEIGHTS:
                row = work[name][held]
                tokens = " + ".join(f"{n:,}" for n in row["tokens"])
                waiting = ", ".join(f"{100 * part:.0f} %" for part in row["waiting"])
                lines.append([model, name, held, f"{alone:,}", tokens, waiting])
    return grid(["model", "", "weights", "tokens read by one", "by two", "waiting, of each"], lines)


def several(rows: dict) -> list[tuple[str, dict]]:
    """The models of the benchmark of several processes."""
    return [(model, work) for model, work in rows.items() if model != "beside TRL"]


def parallel_trl(rows: dict) -> str:
    one, two = rows["beside TRL"].values()
    lines = []
    for side in ("TRL", "minprm"):
        seconds = [found[side]["seconds"] for found in (one, two)]
        tokens = [f"{found[side]['tokens']:,.0f}" for found in (one, two)]
        lines.append([side, *tokens, *(f"{x:.2f}" for x in seconds),
                      f"{seconds[0] / seconds[1]:.2f}x"])  # fmt: skip
    ratios = [
        f"{found['TRL']['seconds'] / found['minprm']['seconds']:.2f}x" for found in (one, two)
    ]
    lines.append(["TRL / minprm", "", "", *ratios, ""])
    return grid(["an update", "tokens, one process", "two", "seconds, one process", "two",
                 "one / two"], lines)  # fmt: skip


def many_logs(rows: dict) -> str:
    """Memory by the number of logs."""
    walks = {name: found for name, found in rows.items() if name != "start"}
    counts = list(next(iter(walks.values())))
    lines = [[name, *(f"{found[n]['MiB']:,}" for n in counts)] for name, found in walks.items()]
    return grid(["MiB", *(f"{n} logs" for n in counts)], lines)


def many_logs_start(rows: dict) -> str:
    """CPU seconds before a run, by the number of lines."""
    found = rows["start"]
    seconds = [f"{row['cpu_seconds']:.1f}" for row in found.values()]
    return grid([f"{n} lines" for n in found], [seconds])


def gpu(rows: dict) -> str:
    """Updates and writing of models of several sizes on one card."""
    lines = []
    for name, row in rows.items():
        trees, alone = row["trees, tokens/s"], row["rows, tokens/s"]
        step, limit = row["a step, ms"], row["a step at the card's bandwidth, ms"]
        lines.append([name, f"{trees:,.0f}", f"{alone:,.0f}", f"{row['rows / trees']:.2f}x",
                      f"{row['MFU of trees, %']:.0f} %", f"{row['peak, GiB']:.0f}",
                      f"{step:.0f}", f"{limit:.1f}"])  # fmt: skip
    return grid(["model", "update as trees, tokens/s", "as rows, tokens/s", "trees are faster",
                 "MFU of trees", "peak, GiB", "a step of writing, ms", "reading all once, ms"],
                lines)  # fmt: skip


def gpu_blocks(rows: dict) -> str:
    """Seconds with a dense mask over those with blocks, by the length of a row."""
    measured = {name: row for name, row in rows.items() if "compiled in 6 updates" in row}
    columns = [name for name in next(iter(measured.values())) if name.startswith("dense")]
    lines = []
    for name, row in measured.items():
        lines.append([name, *(f"{row[column]:.2f}x" for column in columns)])
    return grid(["blocks are faster", *(name.rpartition(" ")[2] for name in columns)], lines)


def sync(rows: dict) -> str:
    lines = []
    for name, row in rows.items():
        lines.append([name, f"{row['median']:.2f}"])
    return grid(["", "seconds"], lines)


# ------------------------------------------------------------------ docs/code.md
def modules(folder: str) -> str:
    """The modules of a folder, each linked from docs/, with what it says of itself first."""
    lines = []
    for file in sorted((ROOT / folder).glob("*.py")):
        if file.name != "__init__.py":
            name = file.name.replace("__", r"\_\_")  # or it is bold
            lines.append([f"[{name}](../{folder}/{file.name})", first_sentence(file)])
    return grid(["module", "what it is"], lines)


def first_sentence(file: Path) -> str:
    told = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    paragraph = " ".join(told.split("\n\n")[0].split())
    return re.split(r"(?<=[.?]) ", paragraph)[0]


# Made of the rows of a file
def metrics() -> str:
    """Every metric: what it is, and what it looks like when something is broken."""
    rows = ["| metric | what it is | broken |", "|---|---|---|"]
    for name, metric in METRICS.items():
        meaning, broken = (FLAG.sub(r"`\1`", text.replace("|", "\\|")) for text in metric)
        rows.append(f"| `{name}` | {meaning} | {broken} |")
    return "\n".join(rows)


TABLES = {
    "cups": ladder, "errand": ladder, "rooms": ladder, "frozenlake": ladder,
    "cups-more": ladder, "frozenlake-more": ladder, "errand-two": one_line,
    "cups:six": six, "errand-right": right_thoughts,
    "act_prm": partial(successes, what="`act_prm.py`"),
    "pretrained": partial(successes, what="arm"),
    "ablations": ablations, "objectives": objectives, "text_rewards": text_rewards, "nlpo": nlpo,
    "recipes": recipes, "cafes": cafes, "choosing": partial(successes, what="arm"),
    "choosing_first": partial(successes, what="arm"),
    "restarts": partial(successes, what="runs"), "wider": partial(successes, what="updates"),
    "hanoi": partial(successes, what="arm"), "few_shot": few_shot, "ground": ground,
    "transfer": transfer,
    "harder": harder,
    "wrong_ways": wrong_ways,
    "agent": partial(successes, what="arm"), "won": partial(successes, what="round"),
    "adaptive_temperature": adaptive_temperature, "looks": looks, "prefetch": prefetch,
    "update": update, "update:whole": update_whole, "actprm": actprm, "growth": growth,
    "scoring": scoring,
    "tokens": tokens, "vs_trl": vs_peer, "vs_verl": vs_peer, "vs_trl_pretrained": vs_peer,
    "vs_trl:ratios": vs_trl_ratios,
    "parallel": parallel, "parallel:sent": parallel_sent, "parallel:waiting": parallel_waiting,
    "parallel:trl": parallel_trl,
    "sampler": sampler, "sampler_pretrained": sampler, "sync": sync,
    "gpu": gpu, "gpu:blocks": gpu_blocks,
    "many_logs": many_logs, "many_logs:start": many_logs_start,
    "ahead": on_fresh_seeds, "as_long": on_fresh_seeds, "passes": on_fresh_seeds,
    "rounds": on_fresh_seeds,
    "paired": on_all_processors, "luck": luck,
    "paid": partial(successes, what="weight"),
    "neighbours": partial(successes, what="base | method", ends=False),
    "unplanted": partial(successes, what="documents | swaps | arm", ends=False),
    "logs": partial(across, what="logs", columns=THINKING),
    "beyond": partial(seeds_across, what="raised on | arm", columns="234568", of="right"),
    "beyond_errand": longer_walks,
    "logs_errand": partial(across, what="logs", columns=ERRAND),
    "selecting": selecting,
    "several": partial(across, what="world | raised on", columns=PLAYED),
}  # fmt: skip
# Made of something else
OTHERS = {
    "worlds": worlds,
    "act_prm:group": group,
    "audit": lambda: audit.table(load("audit")),
    "metrics": metrics,
}

if __name__ == "__main__":
    main()
