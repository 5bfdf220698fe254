"""The page in a browser: drawn, clicked through, safe. Skipped without Playwright or Chromium."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from minprm.report import page as pages
from minprm.report.page import write_page
from shared.pages import HOSTILE, hostile_run, make_run

pytestmark = pytest.mark.slow

WIDTHS = (320, 390, 1280, 1800)


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, Path]:
    """The pages of three makes: of one run, of two runs, of a run in which all text is hostile."""
    folder = tmp_path_factory.mktemp("runs")
    one, two = make_run(folder / "one"), make_run(folder / "two", success=0.5)
    evil = hostile_run(folder / "evil")
    bare = make_run(folder / "bare")
    for file in bare.iterdir():
        if file.name != "config.json":
            file.unlink()
    found = {"one": write_page([one]), "evil": write_page([evil]), "bare": write_page([bare])}
    return found | {"two": write_page([two, one])}


@pytest.fixture
def opened(open_tab, files) -> Callable:
    """Opens a page by its name."""
    return lambda name, **settings: open_tab(files[name], **settings)


def click_all(tab) -> int:
    """Clicks each button and takes each choice of each list, once. Returns how many there were."""
    for place in range(tab.locator("button").count()):
        button = tab.locator("button").nth(place)
        if button.count() and button.is_visible() and button.is_enabled():
            button.dispatch_event("click")
    for place in range(tab.locator("select").count()):
        options = tab.locator("select").nth(place).locator("option").count()
        for option in range(options):
            tab.locator("select").nth(place).select_option(index=option)
    for folded in tab.locator("summary").all():
        folded.dispatch_event("click")
    return tab.locator("button").count() + tab.locator("select").count()


# --- drawn ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["one", "two", "evil", "bare"])
def test_a_page_is_drawn_and_clicked_through_without_an_error(name, opened):
    tab = opened(name)
    assert tab.locator("h1").inner_text()
    assert tab.locator("section").count() >= (2 if name == "bare" else 8)
    click_all(tab)
    assert "undefined" not in tab.locator("body").inner_text()
    assert "NaN" not in tab.locator("main").inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["two", "evil", "bare"])
def test_no_page_scrolls_sideways_at_any_width(name, scheme, opened, resize):
    tab = opened(name, color_scheme=scheme)
    stages = tab.get_by_label("run, stage and seed")
    for stage in range(max(stages.locator("option").count(), 1)):
        if stages.count():
            stages.select_option(index=stage)
        for width in WIDTHS:
            resize(tab, width)
            wide = tab.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, f"{name}, stage {stage}: {wide} at {width}"


def test_light_and_dark_differ_and_both_can_be_read(opened):
    """Contrast of text and ground, as WCAG counts it: at least 4.5 to 1."""
    grounds = []
    for scheme in ("light", "dark"):
        tab = opened("one", color_scheme=scheme)
        colours = tab.evaluate("(({color, backgroundColor}) => [color, backgroundColor])"
                               "(getComputedStyle(document.body))")  # fmt: skip
        text, ground = (luminance(colour) for colour in colours)
        assert (max(text, ground) + 0.05) / (min(text, ground) + 0.05) > 4.5
        grounds.append(ground)
    assert grounds[0] > 0.5 > grounds[1]


def luminance(colour: str) -> float:
    """Relative luminance of `rgb(r, g, b)`."""
    parts = [int(x) / 255 for x in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


# --- safe -----------------------------------------------------------------------------------------


def test_nothing_that_a_model_wrote_becomes_an_element_or_runs(opened):
    plain, evil = opened("one"), opened("evil")
    click_all(evil)
    assert evil.evaluate("typeof window.pwned") == "undefined"
    assert evil.locator("img, iframe, object, embed, form, a[href^=javascript]").count() == 0
    for tag in ("script", "style", "link", "meta"):
        assert evil.locator(tag).count() == plain.locator(tag).count()
    on = "[...document.querySelectorAll('*')].flatMap((e) => e.getAttributeNames())"
    assert not [name for name in evil.evaluate(on) if name.startswith("on")]


def test_hostile_text_is_shown_letter_by_letter(opened):
    tab = opened("evil")
    shown = tab.locator("main").inner_text()
    assert HOSTILE[0] in shown and HOSTILE[1] in shown and "__proto__" in shown
    assert "⟨U+202E⟩" in shown and "⟨U+001B⟩" in shown and "⟨U+D800⟩" in shown
    assert not set(shown) & {"\u202e", "\x1b", "\x00", "\u2028"}


def test_the_policy_forbids_scripts_and_requests_of_others(opened, complaints):
    """If text did become an element, nothing would come of it."""
    tab = opened("one")
    tab.evaluate("""() => {
        document.body.insertAdjacentHTML("beforeend", '<img src="https://example.org/x.png">');
        const script = document.createElement("script");
        script.textContent = "window.pwned = 1";
        document.body.append(script);
        document.body.insertAdjacentHTML("beforeend", "<b onclick='window.pwned = 2'>b</b>");
        document.querySelector("b:last-child").click();
    }""")
    tab.wait_for_timeout(50)
    assert tab.evaluate("typeof window.pwned") == "undefined"
    assert sum("Content Security Policy" in text for text in complaints) >= 2
    complaints.clear()


# --- used -----------------------------------------------------------------------------------------


def slider(tab):
    return tab.get_by_role("slider", name="update", exact=True)


def test_the_slider_changes_the_group_by_the_keyboard(opened):
    tab = opened("one")
    group = tab.get_by_role("radiogroup", name="the group")
    slider(tab).press("Home")
    before = group.inner_text()
    assert "update 0" in tab.locator("main").inner_text()
    slider(tab).focus()
    for _ in range(3):
        slider(tab).press("ArrowRight")
    assert slider(tab).get_attribute("aria-valuetext") == "update 15"
    assert group.inner_text() != before
    slider(tab).press("Home")
    assert slider(tab).get_attribute("aria-valuetext") == "update 0"
    assert group.inner_text() == before


def test_what_has_the_focus_can_be_seen(opened):
    """Tab goes through the page; whatever it meets is drawn otherwise than without the focus."""
    tab = opened("one")
    look = """(element) => {
        const { outlineStyle, outlineColor, boxShadow, borderColor } = getComputedStyle(element);
        return [outlineStyle, outlineColor, boxShadow, borderColor].join();
    }"""
    met = 0
    for _ in range(12):
        tab.keyboard.press("Tab")
        focused = tab.evaluate_handle("document.activeElement")
        if focused.evaluate("(element) => element === document.body"):
            break
        seen = focused.evaluate(look)
        focused.evaluate("(element) => element.blur()")
        assert focused.evaluate(look) != seen, focused.evaluate("(element) => element.outerHTML")
        focused.evaluate("(element) => element.focus()")
        met += 1
    assert met >= 5


def test_the_rows_of_a_group_stand_best_first_and_say_what_they_earned(opened):
    tab = opened("one")
    slider(tab).press("Home")
    rows = tab.get_by_role("radiogroup", name="the group").get_by_role("radio")
    texts = rows.all_inner_texts()
    assert len(texts) == 4
    assert [i for i in "3210" if f"ball under d {i}" in texts["3210".index(i)]] == [*"3210"]
    assert ".400" in texts[0] and "committed" in texts[0]


def test_another_stage_shows_its_own_groups(opened):
    tab = opened("one")
    stages = tab.get_by_label("run, stage and seed")
    stages.select_option(label="rl · seed 0")
    slider(tab).press("Home")
    assert "in update 0" in tab.locator("main").inner_text()
    slider(tab).press("End")
    assert "in update 10" in tab.locator("main").inner_text()


def test_a_what_if_advantage_changes_the_push_and_not_the_rewards(opened):
    tab = opened("one")
    slider(tab).press("Home")
    group = tab.get_by_role("radiogroup", name="the group")
    before = group.inner_text()
    tab.get_by_label("advantage", exact=True).select_option(label="mean_std · what if")
    after = group.inner_text()
    assert before != after and "−" in after
    for reward in (".400", ".300", ".200", ".100"):
        assert reward in before and reward in after


def test_the_data_in_the_page_is_what_was_written(opened):
    tab = opened("evil")
    data = json.loads(tab.locator("#data").text_content())
    kinds = [z["kind"] for z in data["looks"][0]["states"][0]["frames"][0]["group"]]
    assert kinds == HOSTILE


def test_a_filter_shows_the_tasks_that_it_names(opened):
    tab = opened("one")
    tasks = tab.get_by_role("group", name="tasks", exact=True).get_by_role("button")
    filters = tab.get_by_role("group", name="which tasks")
    assert tasks.count() == 4
    filters.get_by_role("button", name="one won, one lost 3").click()
    assert tasks.count() == 3
    assert tab.get_by_role("button", name="task 2: base lost, act_prm won").count() == 1
    assert filters.get_by_role("button", name="thought never closed 0").is_disabled()


def test_a_task_is_found_by_the_keyboard_and_its_thoughts_unfold(opened):
    tab = opened("one")
    tasks = tab.get_by_role("group", name="tasks", exact=True)
    tasks.get_by_role("button", name="task 2:").focus()
    tab.keyboard.press("ArrowLeft")
    tab.keyboard.press("Enter")
    assert tab.locator("button[aria-label^='task 1:']").get_attribute("aria-pressed") == "true"
    tab.locator("details.thought summary").first.click()
    assert tab.locator("details.thought[open]").first.inner_text().count("ball under d") == 1


def test_a_mark_below_the_curves_jumps_to_its_group(opened):
    tab = opened("one")
    tab.get_by_role("button", name="act_prm, seed 0, before update 10").click()
    assert slider(tab).get_attribute("aria-valuetext") == "update 10"


def test_arrow_keys_go_through_the_tree_of_paths(opened):
    tab = opened("one")
    tree = tab.get_by_role("application", name="tree of thoughts")
    tree.focus()
    panel = tab.locator("section").filter(has=tree)
    tab.keyboard.press("ArrowRight")
    assert "step 2, reward" in panel.inner_text()
    tab.keyboard.press("ArrowDown")
    assert ".200 for" in panel.inner_text()


def test_two_runs_are_named_wherever_their_numbers_stand(opened):
    tab = opened("two")
    said = tab.locator("main").inner_text()
    assert "+.400" in said  # act_prm, .9 against .5
    assert tab.get_by_label("run, stage and seed").locator("option").count() == 6
    assert tab.locator("footer").inner_text().count("minprm train --preset smoke") == 2


def test_the_foot_says_what_was_left_out(open_tab, tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "SIZE", 150_000)
    tab = open_tab(write_page([make_run(tmp_path / "big", words="ball under d . " * 40)]))
    assert "Left out to keep this file small: " in tab.locator("footer").inner_text()
    rows = tab.get_by_role("radiogroup", name="the group").get_by_role("radio")
    for row in rows.all_inner_texts():  # with tokens or without, it says what the update did
        assert "→" in row
    click_all(tab)
