"""The page's later panels in a browser: curves, ladder, episodes, tree, and where it comes from."""

import pytest

from minprm.report.page import page

pytestmark = pytest.mark.slow

HOSTILE = "<img src=x onerror=hit=1></script><script>hit=1</script>\u202eevil\x1b[2J\ud800"
NAMED = "⟨U+202E⟩evil⟨U+001B⟩[2J⟨U+D800⟩"


# --- data as report/gather.py makes it ---


def curve(stage: str, values: list, seed: int = 0, run: int = 0, **metrics: list) -> dict:
    updates = list(range(len(values)))
    metrics = {"reward/mean": values, **metrics}
    return {"run": run, "seed": seed, "stage": stage, "updates": updates, "metrics": metrics}


def look(*updates: int) -> dict:
    frames = [{"update": update, "group": [], "without_thought": None} for update in updates]
    state = {
        "task": "Cups-1", "step": 0, "where": "held out", "text": "ball", "action": "open d",
        "prompt": [], "frames": frames,
    }  # fmt: skip
    settings = {"advantage": "posterior"}
    return {
        "run": 0, "seed": 0, "stage": "act_prm", "method": "act_prm", "settings": settings,
        "states": [state],
    }  # fmt: skip


def arm(name: str, seeds: list[float], low: float, high: float, run: int = 0) -> dict:
    rows = [
        {"seed": i, "success": x, "thought_rate": 1.0, "copy_rate": 0.0, "seconds": 2.0}
        for i, x in enumerate(seeds)
    ]
    mean = sum(seeds) / len(seeds)
    return {"run": run, "arm": name, "mean": mean, "low": low, "high": high, "rows": rows}


def turn(thought: str | None = "look twice", **other) -> dict:
    return {
        "state": "ball", "thought": thought, "action": "open a", "expert": "open b", "right": False,
        "reward": 0.0, "tokens": 2, "copied": False, "closed": True, "valid": True, **other,
    }  # fmt: skip


def episode(task: int | str, won: bool, *turns: dict, outgrown: bool = False) -> dict:
    return {"task": task, "won": won, "outgrown": outgrown, "turns": list(turns) or [turn()]}


def played(name: str, *episodes: dict, seed: int = 0) -> dict:
    return {"run": 0, "arm": name, "seed": seed, "episodes": list(episodes)}


def tree(update: int, *ups: list[int | None]) -> dict:
    """Columns of thoughts by the index of the thought before; those of the last one survive."""
    steps, alive = [], set(range(len(ups[-1])))
    for column in reversed(ups):
        thoughts = [
            {
                "thought": f"thought {i}", "reward": 0.5, "up": up, "kind": None,
                "descendants": int(i in alive),
            }
            for i, up in enumerate(column)
        ]  # fmt: skip
        steps.insert(0, {"state": "ball", "action": "open d", "thoughts": thoughts})
        alive = {up for i, up in enumerate(column) if i in alive}
    return {
        "run": 0, "seed": 0, "stage": "act_prm:resample", "update": update, "task": "Errand-1",
        "where": "held out", "steps": steps,
    }  # fmt: skip


def data(**parts) -> dict:
    run = {"name": "one", "world": "cups", "model": "tiny", "about": "", "knobs": {"seeds": [0, 1]}}
    empty = {name: [] for name in ("looks", "trees", "curves", "ladder", "episodes")}
    told = {"format": 1, "made": "now", "glossary": {}, "dropped": "", "what": "success"}
    return {"runs": [run], "note": "", **told, **empty, **parts}


TWO_RUNS = [{"name": "one", "knobs": {}}, {"name": "two", "knobs": {}}]


# --- the browser ---


@pytest.fixture
def show(open_tab, tmp_path):
    """Opens a page with this data."""

    def open_page(width: int = 1280, **parts):
        file = tmp_path / "report.html"
        file.write_text(page(data(**parts)))
        return open_tab(file, width)

    return open_page


def texts(tab, selector: str) -> list[str]:
    return [" ".join(words.split()) for words in tab.locator(selector).all_inner_texts()]


def pieces(tab, values: list) -> list[int]:
    """How many points each piece of a curve has."""
    track = {"updates": list(range(len(values))), "values": values}
    return tab.evaluate("track => piecesOf(track).map((piece) => piece.length)", track)


# --- d: curves ---


def test_a_missing_value_is_a_gap_and_what_is_measured_seldom_is_still_one_line(show):
    seldom = [None, None, None, None, 0.1, None, None, None, None, 0.2]
    tab = show(curves=[curve("rl", [0.1] * 10, **{"eval/success": seldom})])
    assert tab.locator("figure").first.locator(".bold circle").count() == 2
    assert tab.locator("figure").last.locator(".bold circle").count() == 0
    assert pieces(tab, [0.1, 0.2, None, 0.4, 0.5, 0.6]) == [2, 3]
    assert pieces(tab, [None, None, 0.1, None, None, 0.2, None, None, 0.3]) == [3]
    assert pieces(tab, [0.1, None, 0.2, None, 0.3, None, None, None, 0.4, None, 0.5]) == [3, 2]
    assert pieces(tab, [None, 0.3, None]) == [1] and pieces(tab, [None]) == []


def test_the_mean_of_seeds_is_taken_where_all_of_them_run(show):
    curves = [curve("rl", [0.0, 0.2, 0.4]), curve("rl", [0.2, 0.4], seed=1)]
    tab = show(curves=curves)
    mean = tab.evaluate("linesOf('reward/mean')[0].mean")
    assert mean["values"] == pytest.approx([0.1, 0.3, None])
    assert tab.locator("figure .thin path").count() == 2
    assert tab.locator("figure .bold path").count() == 1


def test_each_metric_has_an_axis_that_suits_it(show):
    tab = show(curves=[curve("rl", [0.1, 0.2])])
    axis = lambda values: tab.evaluate("values => axisFor(values)", values)  # noqa: E731
    assert axis([0.001, 0.9])["ticks"] == [0, 0.5, 1]
    assert axis([0.02, 3.0])["log"] and not axis([0.5, 3.0])["log"]
    low = axis([-3.0, 5.0])["ticks"]
    assert low[0] <= -3 and low[-1] >= 5 and 0 in low
    assert axis([7.0])["ticks"][0] < axis([7.0])["ticks"][-1]
    close = tab.evaluate("[0, 1, .003, .00305, -.0031, 10.02, 2e-8].map(tickWords)")
    assert close == ["0", "1", ".003", ".00305", "−.0031", "10.02", "2·10⁻⁸"]
    words = tab.evaluate("[0, .1871, 1, 12.34, 1234, 2.84e-8, -3e-8, .99999].map(amount)")
    assert words == ["0", ".187", "1.00", "12.3", "1234", "2.8·10⁻⁸", "−3·10⁻⁸", "1.00"]


def test_stages_are_overlaid_in_colours_of_their_own_six_at_once(show):
    stages = ["act_prm", *(f"act_prm+relabel+sft:{i}" for i in range(7))]
    tab = show(curves=[curve(stage, [0.1, 0.2]) for stage in stages])
    buttons = tab.locator(".stages button")
    assert texts(tab, ".stages button")[1] == "sft:0 after act_prm, relabel"
    buttons.first.click()  # the last one on view stays
    assert buttons.first.get_attribute("aria-pressed") == "true"
    for i in range(1, 6):
        buttons.nth(i).click()
    colours = tab.evaluate("[...CURVES.colours.values()]")
    assert sorted(colours) == [0, 1, 2, 3, 4, 5] and buttons.nth(6).is_disabled()
    assert tab.locator("figure .curve").count() == 6
    buttons.nth(2).click()
    assert buttons.nth(6).is_enabled()
    tab = show(curves=[curve(f"rl:{i}", [0.1, 0.2]) for i in range(8)])
    assert tab.locator("figure .curve").count() == 6


def test_runs_differ_by_their_dashes(show):
    curves = [curve("rl", [0.1, 0.2]), curve("rl", [0.3, 0.4], run=1)]
    tab = show(runs=TWO_RUNS, curves=curves)
    dashes = tab.locator("figure .bold path").evaluate_all(
        "paths => paths.map((path) => getComputedStyle(path).strokeDasharray)"
    )
    assert dashes[0] == "none" and dashes[1] != "none"
    assert texts(tab, ".values .value") == ["one .200", "two .400"]


def test_seeds_are_read_off_at_the_update_of_their_mean(show):
    """The second seed stopped early, so that the mean ends there."""
    tab = show(curves=[curve("rl", [0.1, 0.2, 0.9]), curve("rl", [0.3, 0.4], seed=1)])
    assert texts(tab, ".values .value") == [".300 .200 .400 at 1"]


def test_values_are_read_off_by_keys_and_by_pointing(show):
    success = [None, 0.3, None, None]
    tab = show(curves=[curve("rl", [0.1, 0.2, 0.3, 0.4], **{"eval/success": success})])
    assert texts(tab, ".values") == [".300 at 1", ".400"]  # at first the last update
    tab.locator(".reader input").focus()
    tab.keyboard.press("Home")
    assert texts(tab, ".values") == ["–", ".100"]
    tab.keyboard.press("ArrowRight")
    assert texts(tab, ".values") == [".300", ".200"]
    box = tab.locator("svg.curves").first.bounding_box()
    tab.mouse.move(box["x"] + box["width"] - 14, box["y"] + 40)
    assert texts(tab, ".reader b") == ["3"]


def test_a_mark_jumps_to_the_samples_of_its_update(show):
    tab = show(looks=[look(0, 1, 9)], curves=[curve("act_prm", [0.1] * 9)])
    tab.evaluate("listeners.push((what) => (document.title = what))")
    marks = tab.locator(".mark")
    assert marks.count() == 3 and tab.locator(".mark[tabindex='0']").count() == 1
    marks.first.focus()
    tab.keyboard.press("End")
    tab.keyboard.press("Enter")
    assert tab.evaluate("[VIEW.look, VIEW.frame]") == [0, 2] and tab.title() == "frame"
    assert texts(tab, ".reader b") == ["9"]
    assert tab.locator(".mark.on").get_attribute("aria-label").endswith("before update 9")
    tab.evaluate("(VIEW.frame = 1, changed('frame'))")  # the slider above moves the reading too
    assert texts(tab, ".reader b") == ["1"]
    assert tab.evaluate("apart([0, 1, 2, 90], 10, 100)") == [0, 10, 20, 90]
    assert tab.evaluate("apart([0, 98, 99], 10, 100)") == [0, 90, 100]


def test_any_metric_can_be_put_on_view(show):
    numbers = {"policy/kl": [0.1, 0.2], "constructor": [1.0, 2.0], "__proto__": [3.0, 4.0]}
    tab = show(curves=[curve("rl", [0.1, 0.2], **numbers), curve("rl", [0.1, 0.2], seed=1)])
    assert texts(tab, "figure .figure-head") == ["reward/mean"]
    tab.locator(".more summary").click()
    for name in numbers:
        tab.get_by_label(name.split("/")[-1], exact=True).check()
    assert texts(tab, "figure .figure-head")[1:] == sorted(numbers)
    assert texts(tab, ".values")[1:] == ["4.00", "2.00", ".200"]  # only one seed has them
    tab.get_by_label("mean").uncheck()
    assert "reward/mean" not in texts(tab, "figure .figure-head")


def test_two_thousand_updates_are_drawn_as_means_and_one_as_a_dot(show):
    tab = show(curves=[curve("rl", [i / 2000 for i in range(2000)]), curve("act_prm", [0.5])])
    assert tab.locator("figure .bold circle").count() == 1
    tab.locator(".stages button").first.click()
    assert "bold: means of" in texts(tab, "figure .figure-head")[0]
    points = tab.locator("figure .curve .bold path").last.get_attribute("d").count("L")
    assert 50 < points < 400


# --- e: the ladder ---


def test_the_ladder_shows_seeds_as_dots_on_their_interval(show):
    ladder = [arm("random", [0.0], 0.0, 0.1), arm("act_prm", [0.5, 0.75], 0.4, 0.9)]
    tab = show(ladder=ladder)
    row = tab.locator(".arm-row.act-prm")
    assert row.locator(".dot").count() == 2 and row.locator(".numbers").inner_text() == ".625"
    places = row.locator(".dot, .interval").evaluate_all("all => all.map((dot) => dot.style.left)")
    assert places == ["40%", "50%", "75%"]
    assert tab.locator(".arm-row.reference .arm").inner_text() == "random"
    tab.locator(".more summary").click()
    assert texts(tab, "tbody tr")[1] == "act_prm .625 .400 to .900 .500 .750 1.00 .000 2"


def test_two_runs_stand_against_each_other_and_a_difference_may_be_chance(show):
    first = [arm("base", [0.1], 0.0, 0.3), arm("act_prm", [0.5], 0.4, 0.6), arm("rl", [0.2], 0, 1)]
    second = [arm("base", [0.2], 0.1, 0.4, run=1), arm("act_prm", [0.9], 0.8, 1.0, run=1)]
    tab = show(runs=TWO_RUNS, ladder=first + second)
    assert texts(tab, ".change") == ["+.100", "+.400", "–"]
    assert texts(tab, ".change.clear") == ["+.400"]
    assert "not run" in tab.locator(".arm-row").nth(2).inner_text()
    tab.get_by_label("first run").select_option("two")
    tab.get_by_label("second run").select_option("one")
    assert texts(tab, ".change") == ["−.100", "−.400", "–"]


def test_the_ladder_names_the_split_and_warns_of_different_worlds(show):
    first, second = arm("base", [0.1], 0.0, 0.3), arm("base", [0.2], 0.1, 0.4, run=1)
    assert "Share of test tasks solved" in show(ladder=[first]).locator("#page").inner_text()
    knobs = {"split": "validation"}
    runs = [{"name": name, "world": "cups", "knobs": knobs} for name in ("one", "two")]
    words = show(runs=runs, ladder=[first, second]).locator("#page").inner_text()
    assert "Share of validation tasks solved" in words and "different worlds" not in words
    runs[1] = {**runs[1], "world": "rooms"}
    words = show(runs=runs, ladder=[first, second]).locator("#page").inner_text()
    assert "These runs are of different worlds" in words


# --- f: episodes ---


def test_each_filter_finds_its_episodes(show):
    kinds = {
        "copied": episode("copied", True, turn(copied=True)),
        "unclosed": episode("unclosed", True, turn(), turn(closed=False)),
        "illegal": episode("illegal", True, turn(valid=False)),
        "outgrown": episode("outgrown", False, outgrown=True),
    }
    won = [episode(task, True) for task in kinds]
    tab = show(episodes=[played("base", *kinds.values()), played("act_prm", *won)])
    filters = tab.get_by_role("group", name="which tasks").locator("button")
    counted = {"all": 4, "disagree": 1, "lost": 1, **dict.fromkeys(kinds, 1)}
    for place, (value, count) in enumerate(counted.items()):
        assert filters.nth(place).inner_text().endswith(f" {count}")
        filters.nth(place).click()
        assert tab.locator(".task-row button").count() == count
        if value in kinds:
            assert tab.locator(".task-name .text").inner_text() == value


def test_a_turn_without_an_action_stands_as_it_was_written(show):
    turns = turn(action="", unreadable="<think> left"), turn(action="")
    tab = show(episodes=[played("base", episode("a", False, *turns))])
    assert texts(tab, ".action > .text") == ["(unreadable) <think> left", "(no action)"]


def test_tasks_are_paired_by_name_and_the_first_on_view_is_one_that_parts_the_arms(show):
    base = played("base", episode("a", True), episode("b", False), episode(7, False))
    other = played("act_prm", episode("7", True), episode("b", False), episode("a", True))
    tab = show(episodes=[base, other])
    assert tab.locator(".task-name .text").inner_text() == "7"
    assert texts(tab, ".side-head") == ["base lost", "act_prm won"]
    tab.locator(".task-row [aria-pressed='true']").focus()
    tab.keyboard.press("Home")
    tab.keyboard.press("Enter")
    assert tab.locator(".task-name .text").inner_text() == "a"
    tab.keyboard.press("ArrowRight")  # the focus is where it was
    assert tab.evaluate("document.activeElement.ariaLabel").startswith("task 2:")


def test_in_another_world_the_same_number_is_another_task(show):
    worlds = [{"name": name, "world": name, "knobs": {}} for name in ("cups", "rooms")]
    base = played("base", episode(7, True))
    other = {**played("act_prm", episode(7, False)), "run": 1}
    tab = show(runs=worlds, episodes=[base, other])
    assert tab.locator(".task-row button").count() == 2
    assert texts(tab, ".side-head") == ["base won", "act_prm not kept"]
    tab = show(runs=[worlds[0], worlds[0]], episodes=[base, other])
    assert tab.locator(".task-row button").count() == 1


def test_thoughts_open_together_and_the_word_at_which_they_part_is_underlined(show):
    mine = episode(1, False, turn("under b now c"))
    its = episode(1, True, turn("under b now d", action="open b", right=True))
    tab = show(episodes=[played("base", mine), played("act_prm", its)])
    assert tab.locator("details.thought[open]").count() == 0
    tab.locator("details.thought summary").first.click()
    tab.locator("details.thought[open]").nth(1).wait_for()
    assert texts(tab, ".parts-here") == ["c", "d"]
    assert texts(tab, ".action") == ["open a the expert: open b", "open b as the expert"]
    assert "they act differently" in tab.locator(".turn").inner_text()


def test_what_is_not_known_is_not_judged_and_a_long_state_is_folded(show):
    unknown = turn(None, expert=None, right=None, state="x" * 5000)
    tab = show(episodes=[played("base", episode(1, False, unknown), seed=3)])
    assert texts(tab, ".action") == ["open a"] and "no thought" in texts(tab, ".side")[0]
    assert tab.locator(".state-text details").count() == 1
    assert tab.locator(".turns").inner_text().count("x") < 300
    assert tab.get_by_role("button", name="one won, one lost").count() == 0  # one arm alone


def test_an_arm_without_the_seed_on_view_shows_its_own(show):
    sets = [played("base", episode(1, True)), played("base", episode(1, False), seed=1)]
    tab = show(episodes=[*sets, played("act_prm", episode(1, True))])
    tab.get_by_label("seed of the episodes").select_option("seed 1")
    assert texts(tab, ".side-head") == ["base lost", "act_prm won"]
    assert "act_prm is of seed 0" in tab.locator(".whose").inner_text()


# --- g: the tree ---


def test_the_tree_shows_the_kin_of_a_thought_and_obeys_the_keys(show):
    tab = show(trees=[tree(20, [None, None], [0, 1]), tree(0, [None, None], [0, 0], [1, 1])])
    assert texts(tab, ".whose button") == [
        "before update 0: 1 of 2 live on", "before update 20: 2 of 2 live on",
    ]  # fmt: skip
    assert tab.locator(".family circle").count() == 6
    assert tab.locator(".family circle.live").count() == 1 + 1 + 2
    assert tab.locator(".family circle.kin").count() == 1 + 2 + 2
    tab.locator("svg.family").focus()
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("ArrowDown")
    assert tab.locator(".family circle.kin").count() == 1 + 1 + 2
    assert "step 2, reward .500" in tab.locator(".found-thought").inner_text()
    tab.locator(".whose button").last.click()
    assert tab.locator(".family circle").count() == 4


# --- h: where it comes from; names; everything together ---


def test_the_foot_says_how_to_go_on_and_what_was_left_out(show):
    run = {"name": "mine", "command": "minprm train", "commit": "abc", "libraries": {"torch": "2"}}
    run["knobs"] = {"seeds": [0, 1], "sft.updates": 7}
    tab = show(runs=[run], dropped="Half of it.")
    told = tab.locator("#foot").inner_text()
    for words in (
        "minprm train",
        "minprm train --run mine --resume",
        "commit abc · torch 2",
        "0 1",
        "Half of",
    ):
        assert words in told
    assert "sft.updates 7" in told


def test_a_name_says_what_broken_looks_like_to_pointer_and_keyboard(show):
    glossary = {"reward/mean": {"what": "mean r(z)", "broken": "flat"}}
    tab = show(curves=[curve("rl", [0.1], constructor=[0.1])], glossary=glossary)
    name, tip = tab.locator("figure .meaning"), tab.locator("figure .tip")
    assert not tip.is_visible()
    name.hover()
    assert tip.is_visible() and tip.inner_text() == "mean r(z)\nbroken: flat"
    assert name.get_attribute("aria-describedby") == tip.get_attribute("id")
    tab.keyboard.press("Escape")
    assert not tip.is_visible()
    tab.mouse.move(0, 0)
    name.focus()
    assert tip.is_visible()
    assert tab.evaluate("metricName('constructor').querySelector('.tip')") is None


def everything(words: str) -> dict:
    """One of each panel, in whose every place stand these words."""
    said = episode(words, False, turn(words, state=words, action=words, expert=words))
    grown = tree(0, [None], [0])
    grown["task"] = grown["steps"][0]["action"] = grown["steps"][0]["thoughts"][0]["thought"] = (
        words
    )
    run = dict.fromkeys(("name", "command", "about", "model", "machine", "files"), words)
    return {
        "runs": [{**run, "knobs": {words: words}, "libraries": {words: words}}],
        "curves": [curve(words, [0.1, 0.2], **{words: [0.3, 0.4]}), curve("rl", [0.1])],
        "ladder": [arm(words, [0.5], 0.4, 0.6)], "note": words, "what": words, "dropped": words,
        "episodes": [played(words, said), played("base", said)], "trees": [grown],
        "glossary": {"reward/mean": {"what": words, "broken": words}},
    }  # fmt: skip


def test_no_word_of_a_file_is_obeyed(show):
    tab = show(**everything(HOSTILE))
    for summary in tab.locator("summary").all():
        summary.click()
    assert tab.evaluate("typeof hit") == "undefined"
    assert tab.locator("img").count() == 0
    assert tab.inner_text("body").count(NAMED) > 15
    seen = tab.evaluate(
        """() => [...document.querySelectorAll("#page *, #foot *")].flatMap((element) => [
            element.textContent, element.title, element.getAttribute("aria-label")])"""
    )
    assert not [words for words in seen if words and ("\u202e" in words or "\x1b" in words)]


@pytest.mark.parametrize("width", [320, 1800])
def test_nothing_is_wider_than_the_window(show, width):
    tab = show(width=width, **everything("a_long_name_" * 12))
    assert tab.evaluate("document.documentElement.scrollWidth") <= width


def test_a_panel_without_data_is_not_there(show):
    tab = show()
    panels = "[curvesPanel(), ladderPanel(), episodesPanel(), treePanel()]"
    assert tab.evaluate(panels) == [None] * 4
