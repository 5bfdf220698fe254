"""The page's panels of a group, in a browser: its rows, its tokens, and the reward as a picture."""

import math
import re
import statistics

import pytest

from minprm.report.page import FOLDER, SCRIPTS, page

pytestmark = pytest.mark.slow

ACTION = ["open", "d"]
HOSTILE = "<img src=x onerror=hit=1></script><script>hit=1</script>\u202eevil\x1b[2J\ud800"


# --- data as report/gather.py makes it ---


def act(p: float) -> dict:
    likely = [[["open", 1.0]], [["d", p], ["b", 1 - p]]]
    return {"text": ACTION, "logp": [0.0, math.log(p)], "likely": likely}


def thought(words: str, reward: float, **other) -> dict:
    """Two drawn tokens between a tag that is not learned and an action that is."""
    tokens = {
        "text": ["<think>", words, "</think>", *ACTION], "role": "tzeaa",
        "advantage": [None, 1.5, 1.5, 2.0, 2.0], "sampler": [None, -1.0, -0.5, None, None],
        "before": [None, -1.1, -0.5, -0.2, -0.3], "after": [None, -0.9, -0.5, -0.1, -0.3],
        "entropy": [None, 0.7, 0.1, 0.2, 0.3],
    }  # fmt: skip
    return {
        "thought": words, "reward": reward, "advantage": 1.5, "action_weight": 2.0, "kind": None,
        "usable": True, "closed": True, "copied": False, "committed": False, "tokens": tokens,
        "action": act(max(reward, 0.01)), "up": None, "descendants": None, **other,
    }  # fmt: skip


def report(groups: list[list[dict]], method: str = "act_prm", **state) -> dict:
    frames = [
        {"update": 5 * i, "group": g, "without_thought": act(0.2)} for i, g in enumerate(groups)
    ]
    if method == "rl":
        for frame in frames:
            frame["without_thought"] = None
    state = {
        "task": "Cups-1", "step": 0, "where": "held out", "text": "ball under b .",
        "action": "open d", "prompt": ["<user>", "ball", "<asst>"], "frames": frames, **state,
    }  # fmt: skip
    settings = {"advantage": "posterior", "reward": "action_prob"}
    look = {"run": 0, "seed": 0, "stage": method, "method": method, "settings": settings}
    runs = [{"name": "one", "world": "cups", "model": "tiny", "about": "a ball", "knobs": {}}]
    return {
        "format": 1, "made": "now", "runs": runs, "looks": [{**look, "states": [state]}],
        "trees": [], "curves": [], "ladder": [], "episodes": [], "glossary": {}, "dropped": "",
        "what": "success", "note": "",
    }  # fmt: skip


def episode(won: bool) -> dict:
    turn = {"state": "ball", "thought": "x " * 200, "action": "open a", "reward": float(won)}
    kept = thought("x", float(won), won=won, turns=[turn, turn], action=None)
    kept["tokens"]["role"] = "sddds"
    return kept


FIRST = [thought("low", 0.2), thought("high", 0.9, committed=True), thought("none", 0.1)]
LAST = [thought("low", 0.8), thought("high", 0.9, committed=True), thought("none", 0.95)]


# --- the browser ---


@pytest.fixture
def show(open_tab, tmp_path):
    """Opens a page with this data."""

    def open_page(data: dict, width: int = 1280):
        file = tmp_path / "report.html"
        file.write_text(page(data))
        return open_tab(file, width, reduced_motion="reduce")

    return open_page


def words(tab, selector: str) -> list[str]:
    return tab.locator(selector).all_inner_texts()


def slide_to(tab, place: int) -> None:
    tab.locator("input[type=range]").fill(str(place))


def test_rows_go_by_reward_and_the_slider_shows_another_update(show):
    tab = show(report([FIRST, LAST]))
    assert words(tab, ".row .text") == ["high", "low", "none"]
    assert words(tab, ".row .r .num") == [".900", ".200", ".100"]
    slide_to(tab, 1)
    assert words(tab, ".row .text") == ["none", "high", "low"]
    assert tab.locator(".now").inner_text() == "update 5 of 5"
    assert words(tab, ".strip button .n") == ["1/3", "3/3"]


def test_the_page_counts_the_first_state_and_says_where_its_words_come_from(show):
    """A kind is the world's word: where there is none, nothing is said of it."""
    tab = show(report([FIRST, LAST]))
    head = tab.locator("#top").inner_text()
    assert "1 of 3 thoughts earn more than one half after 0 updates, and 3 of 3 after 5." in head
    assert "Their mean reward goes from .400 to .883." in head
    column = tab.locator(".heads div").nth(3).inner_text()
    how = tab.locator("#page section").first.inner_text()
    assert f"“{column}” is what the update did." in how
    assert "a label that the world gives it" not in how
    tab = show(report([[thought("low", 0.2, kind="wrong")]]))
    assert "a label that the world gives it" in tab.locator("#page section").first.inner_text()


def test_a_page_of_logs_names_no_world_and_says_which_tokens_learn(show):
    data = report([FIRST])
    assert "Underlined" in show(data).locator("#page").inner_text()
    data["runs"][0]["world"] = ""
    data["looks"][0]["settings"]["trained_on"] = "thought"
    tab = show(data)
    assert words(tab, ".over") == ["minprm report · one · tiny"]
    said = tab.locator("#page").inner_text()
    assert "Underlined" not in said and "learns from the thought alone" in said


@pytest.mark.parametrize(("continues", "head", "step"), [
    ("best", "A = G r / Σ r", "The rewards of the group"),
    ("own", "A, of r to the end", "The rewards of a path"),
    ("resample", "A = paths at the end", "descend from a thought"),
])  # fmt: skip
def test_the_page_says_what_an_advantage_is_made_of(continues, head, step, show):
    """Where paths are compared, no formula of this step's rewards gives the run's advantages."""
    data = report([FIRST])
    data["looks"][0]["settings"]["continues"] = continues
    tab = show(data)
    assert head in words(tab, ".heads div")
    assert step in tab.locator(".steps").inner_text()
    assert ("share of the reward" in tab.locator("#page").inner_text()) == (continues != "resample")
    tab.get_by_label("advantage", exact=True).select_option(label="mean · what if")
    assert "A = r − mean" in words(tab, ".heads div")


def test_of_rl_all_groups_are_counted_since_tasks_differ(show):
    data = report(
        [[episode(True), episode(False)], [episode(True)] * 2], method="rl", where="batch"
    )
    (look,) = data["looks"]
    second = {**look["states"][0], "task": "Cups-2", "frames": look["states"][0]["frames"][:1]}
    look["states"].append(second)
    head = show(data).locator("#top").inner_text()
    said = "each of another task, 2 of 4 episodes are won after 0 updates, and 2 of 2 after 5."
    assert said in head and "mean reward" not in head


def test_what_if_works_the_advantages_out_anew(show):
    tab = show(report([FIRST]))
    assert words(tab, ".row .A .num") == ["1.50"] * 3  # the run's own, as they were recorded
    tab.get_by_label("advantage", exact=True).select_option(label="mean_std · what if")
    rewards = [0.9, 0.2, 0.1]
    mean, std = statistics.mean(rewards), statistics.stdev(rewards)
    expected = [f"{(r - mean) / (std + 1e-4):.2f}".replace("-", "−") for r in rewards]
    assert words(tab, ".row .A .num") == expected
    tab.locator(".row").nth(2).click()
    drawn = tab.locator(".tok[data-i='1']").get_attribute("aria-label")
    assert drawn == f"none: pushed by {expected[2]}"
    # nobody drew the expert's action: its weight stays
    assert tab.locator(".tok[data-i='4']").get_attribute("aria-label") == "d: pushed by 2.00"


def test_a_row_says_how_likely_its_thought_was_before_and_after_the_update(show):
    tab = show(report([FIRST]))
    before, after = math.exp(-1.6), math.exp(-1.4)
    said = f"{before:.3f} → {after:.3f}".replace("0.", ".")
    assert words(tab, ".row .moved")[0].split("\n") == [said, f"× {after / before:.2f}"]


def test_a_token_without_loss_is_grey_and_the_others_have_their_numbers(show):
    tab = show(report([FIRST]))
    assert words(tab, ".tok.none") == ["<user>", "ball", "<asst>", "<think>"]
    tab.locator(".tok[data-i='1']").click()
    numbers = dict(zip(words(tab, ".read dt"), words(tab, ".read dd"), strict=True))
    assert numbers["ratio"] == f"{math.exp(-0.1):.4f}"
    assert numbers["sampler p"] == f"{math.exp(-1.0):.3f}".lstrip("0")
    assert numbers["trainer p"] == f"{math.exp(-1.1):.3f}".lstrip("0")
    assert numbers["entropy"] == "0.700 nats"
    tab.locator(".tok[data-i='3']").click()
    assert "not drawn" in tab.locator(".read").inner_text()


def test_the_picture_multiplies_the_probabilities_of_the_actions_tokens(show):
    tab = show(report([[*FIRST, thought("unreadable", 0.0, usable=False, action=act(0.999))]]))
    assert words(tab, ".pic .who button") == ["best thought", "median thought", "worst thought"]
    assert words(tab, ".pic .prod") == [".900", ".200", ".100", ".200"]


def test_arrow_keys_walk_through_rows_tokens_and_updates(show):
    tab = show(report([FIRST, LAST]))
    tab.locator(".row[aria-checked=true]").focus()
    tab.keyboard.press("ArrowDown")
    assert words(tab, ".row[aria-checked=true] .text") == ["low"]
    tab.locator(".tok[data-i='1']").focus()
    tab.keyboard.press("ArrowRight")
    assert words(tab, ".tok.on") == ["</think>"]
    tab.locator("input[type=range]").focus()
    tab.keyboard.press("ArrowRight")
    assert tab.locator(".now b").inner_text() == "5"
    tab.locator(".strip [aria-checked=true]").focus()
    tab.keyboard.press("ArrowLeft")
    assert tab.locator(".now b").inner_text() == "0"
    assert tab.evaluate("document.activeElement.closest('.strip') !== null")


def test_play_goes_to_the_next_update(show):
    tab = show(report([FIRST, LAST]))
    tab.get_by_label("play the updates").click()
    assert tab.locator(".now b").inner_text() == "5"


def test_an_rl_look_shows_episodes_turn_by_turn_and_no_picture(show):
    tab = show(report([[episode(False), episode(True)]], "rl", action=None, where="batch"))
    assert words(tab, ".row .why") == ["won, 2 turns", "lost, 2 turns"]
    assert tab.locator(".episode-turn").count() == 2
    assert tab.locator(".episode-turn details").first.get_attribute("open") is None
    assert tab.locator(".pic").count() == 0
    assert "Left out for RL" in tab.locator("main").inner_text()


def test_a_turn_without_an_action_stands_as_it_was_written_and_is_counted(show):
    lost = episode(False)
    lost["turns"][1] = {**lost["turns"][1], "action": "", "unreadable": "<think> left"}
    tab = show(report([[lost, episode(True)]], "rl", action=None, where="batch"))
    assert words(tab, ".row .why") == ["won, 2 turns", "lost, 2 turns · 1 unreadable"]
    assert words(tab, ".row .text")[1] == "open a → (unreadable) <think> left"
    tab.locator(".row").nth(1).click()
    assert words(tab, ".did .text") == ["open a", "(unreadable) <think> left"]


SAID = [  # (the method, its settings, what the page says then, what it says no more)
    ("act_prm", {"reward": "my.py:brief"}, "one of its own, my.py:brief", "is the product over"),
    ("act_prm", {"reward": "exact_match", "scored_by": "base"}, "writes the very", "frozen base"),
    ("act_prm", {"scored_by": "base"}, "The frozen base model reads", "writes the very"),
    ("act_prm", {"reward_span": "turn"}, "reads the tags around", "r(z) = p(a | s, z)\n"),
    ("act_prm", {"trained_on": "action_first"}, "no token carries a loss", "its weight is its own"),
    ("act_prm", {"thoughts_from": "state_action"}, "action in view", "the very action"),
    ("act_prm", {"baseline": "no_thought"}, "adds nothing to it weighs nothing", "Σ r"),
    ("act_prm", {"patience": 2}, "those of its best look", "action in view"),
    ("act_prm", {"continues": "own"}, "marks committed thoughts", "committed thought,"),
    ("rl", {"advantage": "mean", "reward": "success"}, "teaches nothing", "first token"),
    ("rl", {"advantage": "mean", "reward": "success"}, "in the episode carry its", "by the critic"),
    ("rl", {"advantage": "ema", "reward": "success"}, "carry its advantage", "teaches nothing"),
    ("rl", {"advantage": "gae", "reward": "success"}, "A critic guesses", "rewards of the group"),
    ("rl", {"advantage": "gae", "reward": "success"}, "that of its first token", "teaches nothing"),
    ("rl", {"advantage": "mean", "reward": "each turn's"}, "of that turn", "carry its advantage"),
    ("rl", {"advantage": "mean", "groups": "soft"}, "by the weight of its group", "by the critic"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "settings", "said", "not_said"), SAID)
def test_the_sentences_are_true_of_how_the_run_learns(show, method, settings, said, not_said):
    group = [episode(True), episode(False)] if method == "rl" else FIRST
    data = report([group, group], method)
    data["looks"][0]["settings"] |= settings
    words = show(data).locator("body").inner_text()
    assert said in words and not_said not in words


def test_what_is_said_of_unusual_knobs_is_not_said_of_the_usual_ones(show):
    words = show(report([FIRST, LAST])).locator("body").inner_text()
    assert "The reward of a thought is the product" in words and "r(z) = p(a | s, z)" in words
    assert not any(said in words for method, _, said, _ in SAID if method == "act_prm")


def test_a_group_that_was_thinned_says_where_its_tokens_are(show):
    bare = [{**z, "tokens": None, "action": None} for z in FIRST]
    tab = show(report([FIRST, bare]))
    slide_to(tab, 1)
    assert "They were kept before update 0." in tab.locator(".toks").inner_text()
    assert words(tab, ".row .moved") == ["–"] * 3


def test_a_thinned_thought_still_says_how_likely_it_was(show):
    """The sums stay when the tokens are left out; long thoughts are shown by the token."""
    sums = {"before": -80.0, "after": -40.0, "tokens": 80}
    tab = show(report([[thought("long", 0.9, tokens=None, written=sums)]]))
    first, second = math.exp(-1), math.exp(-0.5)
    said = f"{first:.3f} → {second:.3f}".replace("0.", ".")
    assert words(tab, ".row .moved")[0].split("\n") == [said, f"× {second / first:.2f}"]
    assert "p a token → after" in words(tab, ".heads div")


def test_a_sum_that_was_kept_goes_before_tokens_that_were_rounded(show):
    sums = {"before": math.log(0.5), "after": math.log(0.25), "tokens": 2}
    tab = show(report([[thought("rounded", 0.9, written=sums)]]))
    assert words(tab, ".row .moved")[0].split("\n") == [".500 → .250", "× 0.50"]


def test_a_run_without_groups_says_so(show):
    tab = show({**report([FIRST]), "looks": []})
    said = tab.locator("main").inner_text()
    assert "No groups were recorded" in said and "--watch 0" in said


def test_what_a_model_wrote_is_text(show):
    hostile = [thought(HOSTILE, 0.9, kind=HOSTILE), thought("constructor", 0.1, kind="constructor")]
    data = report([hostile], text=HOSTILE, action=HOSTILE, task=HOSTILE, prompt=[HOSTILE])
    data["runs"][0]["name"] = HOSTILE
    tab = show(data)
    assert tab.evaluate("typeof hit") == "undefined"
    assert tab.locator("img").count() == 0
    shown = tab.locator("body").inner_text()
    assert "\u202e" not in shown and "\x1b" not in shown
    assert "⟨U+202E⟩evil⟨U+001B⟩[2J⟨U+D800⟩" in shown


@pytest.mark.parametrize("width", [320, 390, 900, 1800])
def test_no_width_scrolls_sideways(show, width):
    wordy = {key: values * 16 for key, values in act(0.9).items()}
    group = [thought("x" * 900, 0.5, action=wordy), thought("short", 0.4, action=wordy)] * 4
    data = report([group] * 20, text="y" * 900)
    for frame in data["looks"][0]["states"][0]["frames"]:
        frame["without_thought"] = wordy
    tab = show(data, width)
    assert tab.locator(".chip").count() == 4 * 32
    assert tab.evaluate("document.documentElement.scrollWidth") <= width


def test_no_two_scripts_give_a_name_twice():
    names = []
    for script in SCRIPTS:
        source = (FOLDER / f"{script}.js").read_text()
        names += re.findall(r"^(?:const|let|function) (\w+)", source, re.MULTILINE)
    assert sorted(names) == sorted(set(names))


def test_the_page_opens_at_the_group_in_which_the_best_thought_stands_out_most(show):
    alike = [thought("a", 0.1), thought("b", 0.1), thought("c", 0.1)]
    one_right = [thought("d", 0.9), thought("e", 0.1), thought("f", 0.1)]
    one_wrong = [thought("g", 0.9), thought("h", 0.9), thought("i", 0.1)]
    tab = show(report([alike, one_right, one_wrong]))
    assert tab.evaluate("[VIEW.state, VIEW.frame]") == [0, 1]
    assert "d" in tab.get_by_role("radiogroup", name="the group").inner_text()
