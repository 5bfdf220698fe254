"""README and the book: links lead somewhere, commands are understood, code runs, and the site of
all pages is built without a warning."""

import ast
import doctest
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from html.parser import HTMLParser
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from unittest import mock
from urllib.parse import unquote

import pytest
from torch.distributed.run import get_args_parser

from docs import outside
from examples import refund
from examples.text_rewards import Flags
from minprm.__main__ import COMMANDS
from minprm.commands import ask, cli, export, logs, report

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
BOOK = sorted(DOCS.glob("*.md"))
TOP = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "benchmarks/README.md", "evidence/README.md")
FOLDERS = ("minprm", "benchmarks", "evidence", "examples", "docs", "tests", "notebooks")
PAGES = [*(ROOT / name for name in TOP), *BOOK]
SITE = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
SPAN = re.compile(r"(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
LINK = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)\)|(?:src|href)=\"([^\"]+)\"")
HEADING = re.compile(r"^#+ (.*)", re.MULTILINE)
CHAPTER = re.compile(r"^\d+\. \[(.*?)\]\((\w+\.md)\)", re.MULTILINE)
# Programs that are not ours, and flags of theirs
OTHERS = ("pip ", "pytest ", "--pdb", "git ", "uv ", "vllm ", "docker ", "tensorboard ",
          "torchrun ", "--run-path")  # fmt: skip
TYPED = re.compile(r"(minprm train|torchrun .* --|python \S+) \S")  # with flags or arguments
FILE = re.compile(r"[\w-]+(?:/[\w-]+)*\.(?:py|md|toml|ipynb)")
FLAG = re.compile(r"(?<![\w-])--[a-z][\w.-]*\w")


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def prose(text: str) -> str:
    """The page without fenced code and comments."""
    return COMMENT.sub("", FENCE.sub("", text))


def spans(text: str) -> list[str]:
    """The code within sentences."""
    return [" ".join(code.split()) for _, code in SPAN.findall(prose(text))]


def slug(heading: str) -> str:
    """The name by which a forge links to a heading.

    >>> slug("`--rl.*`, and [GRPO](objectives.md): which?")
    '--rl-and-grpo-which'
    """
    shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    return re.sub(r"[^\w -]", "", shown.strip().lower()).replace(" ", "-")


def slugs(page: Path) -> list[str]:
    return [slug(heading) for heading in HEADING.findall(FENCE.sub("", text_of(page)))]


@pytest.fixture(params=PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def page(request) -> Path:
    return request.param


@pytest.fixture(params=CHAPTER.findall(text_of(DOCS / "index.md")), ids=lambda link: link[1])
def chapter(request) -> Path:
    return DOCS / request.param[1]


# --- links ----------------------------------------------------------------------------------------


def test_every_link_leads_to_a_file_and_a_heading(page):
    outside_code = SPAN.sub("", prose(text_of(page)))
    for target in map("".join, LINK.findall(outside_code)):
        if re.match(r"https?://|mailto:", target):
            continue
        path, _, anchor = unquote(target).partition("#")
        file = page.parent / path if path else page
        assert file.exists(), target
        assert file.resolve().is_relative_to(ROOT), target
        assert not anchor or anchor in slugs(file), target


def test_no_page_has_two_headings_of_one_name(page):
    assert len(slugs(page)) == len(set(slugs(page)))


def nav_of(entries: list) -> list[tuple[str, str]]:
    """(title, page) of each entry, those of sections included."""
    found = []
    for entry in entries:
        for title, value in {"": entry}.items() if isinstance(entry, str) else entry.items():
            found += nav_of(value) if isinstance(value, list) else [(title, value)]
    return found


def test_the_site_has_every_page_in_the_order_of_the_index():
    index = text_of(DOCS / "index.md")
    chapters = [
        (f"{i}. {title}", file) for i, (title, file) in enumerate(CHAPTER.findall(index), 1)
    ]
    others = re.findall(r"^- \[(.*?)\]\((\w+\.md)\)", index, re.MULTILINE)
    assert nav_of(SITE["nav"]) == [("", "index.md"), *chapters, *others]
    assert {file for _, file in nav_of(SITE["nav"])} == {page.name for page in BOOK}
    assert len(chapters) == 11


# --- commands, flags, files -----------------------------------------------------------------------


def commands_of(fence: str) -> list[str]:
    """Each command of a block, without its comment; a backslash carries a line on."""
    found = []
    for line in fence.replace("\\\n", " ").splitlines():
        bare = re.sub(r"(^|\s)#.*", "", line)
        found += [part.strip() for part in bare.split("&&") if part.strip()]
    return found


def told_by(page: Path) -> list[str]:
    """Every command of a page: those of its blocks, but for what needs the change above it, and
    those in sentences that have flags or arguments."""
    text = re.sub(r"^```diff\n.*?^```bash", "```", text_of(page), flags=re.MULTILINE | re.DOTALL)
    found = []
    for kind, code in FENCE.findall(text):
        found += commands_of(code) if kind == "bash" else []
    found += [code for code in spans(text) if TYPED.match(code)]
    return [command for command in found if "…" not in command]


def evaluation(argv: list[str]) -> None:
    ask.check(cli.read_flags(ask.Evaluation, argv, "minprm evaluate"), cli.given_knobs(argv))


def reports(argv: list[str]) -> None:
    cli.read_flags(report.Report, argv, "minprm report")


READERS = {
    "train": cli.parse,
    "evaluate": evaluation,
    "report": reports,
    "logs": lambda argv: cli.read_flags(logs.Logs, argv, "minprm logs"),
    "judge": lambda argv: cli.read_flags(
        import_module("minprm.commands.judge").Judge, argv, "minprm judge"
    ),
    "export": lambda argv: cli.read_flags(export.Export, argv, "minprm export"),
    "serve": lambda argv: cli.read_flags(
        import_module("minprm.commands.serve").Serve, argv, "minprm serve", return_unknown_args=True
    ),
    "record": lambda argv: cli.read_flags(
        import_module("minprm.commands.record").Record, argv, "minprm record"
    ),
}


def understand(command: str) -> None:
    """Fails where the program would not know what is meant."""
    words = shlex.split(command)
    if words[0] == "torchrun":
        told = get_args_parser().parse_args(words[1:])
        by_name = ["-m"] if told.module else []
        words = ["python", *by_name, told.training_script, *told.training_script_args]
        with mock.patch.dict(os.environ, WORLD_SIZE=told.nproc_per_node):
            understand(shlex.join(words))
        return
    if words[:3] == ["python", "-m", "minprm"]:
        words = ["minprm", *words[3:]]
    if words[0] == "python" and words[1] in ("train.py", "evaluate.py"):
        words = ["minprm", words[1].removesuffix(".py"), *words[2:]]
    if words[0] == "minprm" and words[1] in COMMANDS:
        READERS[words[1]](words[2:])
    elif words[0] == "minprm":
        assert words[1].startswith("-"), command
    elif words[:2] == ["python", "-m"]:
        assert find_spec(words[2]), command
    elif words[0] == "python" and words[1].endswith(".py"):
        assert (ROOT / words[1]).exists(), command
    for word in words:
        if word.split("/")[0] in FOLDERS and "/" in word:
            assert (ROOT / word.partition(":")[0]).exists(), command  # FILE.py:NAME


def test_every_command_is_understood(page, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    Path("my.toml").write_text("")
    Path("examples").symlink_to(ROOT / "examples")
    # a flag that names an agent loads it
    Path("mine.py").write_text(text_of(ROOT / "examples/agent.py"))
    refund.write_all(Path("refund"), seed=0)
    for command in told_by(page):
        try:
            understand(command)
        except SystemExit as stop:
            assert not stop.code, command  # --help


def test_commands_are_found():
    assert sum(len(told_by(page)) for page in PAGES) > 100


@pytest.fixture(scope="module")
def known_flags() -> set[str]:
    """The flags of every program of ours, as their help or their files name them."""
    knobs = set()
    for schema in (cli.Config, ask.Evaluation, logs.Logs, report.Report, export.Export, Flags):
        for name in names_of(schema):
            flag = "--" + name.replace("_", "-")
            knobs |= {flag, re.sub(r"([^.-][^.]*)$", r"no-\1", flag)}
    for folder in FOLDERS:
        for file in [*ROOT.glob("*.py"), *(ROOT / folder).rglob("*.py")]:
            knobs |= set(re.findall(r"\"(--[\w-]+)\"", text_of(file)))
    return knobs


def names_of(schema: type, prefix: str = "") -> list[str]:
    """The knobs of a dataclass, those of its parts by both names."""
    found = []
    for field in schema.__dataclass_fields__.values():
        found.append(prefix + field.name)
        if hasattr(field.default_factory, "__dataclass_fields__"):
            found += names_of(field.default_factory, f"{prefix}{field.name}.")
    return found


def test_every_flag_in_a_sentence_is_one(page, known_flags):
    for code in spans(text_of(page)):
        if not code.startswith(OTHERS) and "*" not in code:
            assert set(FLAG.findall(code)) <= known_flags, code


def test_every_file_in_a_sentence_exists(page):
    for code in spans(text_of(page)):
        ours = FILE.fullmatch(code) and code.split("/")[0] in FOLDERS
        if ours and f"Save it as `{code}`" not in text_of(page):
            assert (ROOT / code).exists(), code


def test_no_page_names_a_place_on_somebodys_machine(page):
    assert not re.findall(r"(?<![\w.:/])/(?:root|home|Users|work|opt|mnt)/", text_of(page))


# --- code -----------------------------------------------------------------------------------------


def test_what_a_page_shows_of_python_is_python_and_its_examples_run(page):
    for kind, code in FENCE.findall(text_of(page)):
        if kind != "python":
            continue
        if ">>>" in code:
            test = doctest.DocTestParser().get_doctest(code, {}, page.name, str(page), 0)
            assert not doctest.DocTestRunner().run(test).failed
        elif not code.startswith(" "):  # lines of a file, which the next test compares
            ast.parse(code)


def test_code_that_is_quoted_stands_in_the_file_that_the_sentence_before_names(page):
    text = text_of(page)
    for fence in FENCE.finditer(text):
        before = re.split(r"\n\n|(?<=[.:?]) ", text[: fence.start()].strip())[-1]
        files = [file for file in spans(before) if FILE.fullmatch(file) and (ROOT / file).exists()]
        quoted = fence[1] == "python" and fence[2].startswith(" ")
        assert files or not quoted, f"say whose lines these are: {fence[2]}"
        if quoted:
            assert fence[2] in text_of(ROOT / files[-1]), f"{files[-1]}: {fence[2]}"


def test_the_sites_links_to_code_lead_to_the_forge():
    assert doctest.testmod(outside) == (0, 3)
    assert doctest.testmod(sys.modules[__name__]) == (0, 1)


# --- how a page looks -----------------------------------------------------------------------------


def test_no_line_of_prose_is_longer_than_100_columns(page):
    for line in prose(text_of(page)).splitlines():
        if not line.startswith(("|", "![")) and "://" not in line:
            assert len(line) <= 100, line


def test_a_chapter_opens_with_a_picture_and_ends_with_what_to_run(chapter):
    text = text_of(chapter)
    assert re.match(r"# \d+\. ", text)
    assert any(line.startswith("![") for line in text.splitlines()[:15])
    assert re.findall(r"^## (.*)", text, re.MULTILINE)[-1] == "Run this"
    assert "```bash" in text.split("## Run this")[1]


def test_the_glossary_explains_words_that_the_book_or_the_code_uses():
    pages = {*BOOK, *(ROOT / "minprm").rglob("*.py")} - {DOCS / "glossary.md"}
    others = " ".join(map(text_of, pages)).lower()
    words = re.findall(r"^\| \*\*(.*?)\*\*", text_of(DOCS / "glossary.md"), re.MULTILINE)
    assert len(words) > 40
    for word in words:
        assert word.lower() in others, word


# --- the site -------------------------------------------------------------------------------------


class Built(HTMLParser):
    """What the tests ask a built page."""

    def __init__(self, page: Path):
        super().__init__()
        self.ids, self.links, self.fetched, self.images = [], [], [], []
        self.feed(text_of(page))

    def handle_starttag(self, tag: str, attrs: list) -> None:
        found = dict(attrs)
        if re.fullmatch(r"h\d", tag) and "id" in found:
            self.ids.append(found["id"])
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if tag in ("img", "script", "iframe") and "src" in found:
            self.fetched.append(found["src"])
        if tag == "link" and found["rel"] in ("stylesheet", "icon", "preload", "preconnect"):
            self.fetched.append(found["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The built site. Skips where Zensical is not there."""
    pytest.importorskip("zensical", reason='needs Zensical: pip install -e ".[dev]"')
    folder = tmp_path_factory.mktemp("project")
    shutil.copy(ROOT / "zensical.toml", folder)
    shutil.copytree(DOCS, folder / "docs")
    built = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict"],
        cwd=folder, capture_output=True, text=True,
    )  # fmt: skip
    assert built.returncode == 0, built.stdout + built.stderr
    return folder / "site"


@pytest.mark.slow
def test_the_site_leads_and_looks_as_the_pages_do(site):
    for page in BOOK:
        file = site / ("" if page.stem == "index" else page.stem) / "index.html"
        built = Built(file)
        assert built.ids == slugs(page), "an anchor of a forge is none of the site"
        assert "&lt;!--" not in text_of(file).replace("<code>&lt;!--", "")
        assert not [src for src in built.fetched if "://" in src], "something is fetched"
        assert 'md-component="source"' not in text_of(file), "GitHub is asked for stars"
        for link in [*built.links, *built.fetched]:
            target = file.parent / unquote(link.partition("#")[0])
            if "://" not in link:
                assert target.is_file() or (target / "index.html").is_file(), link


@pytest.mark.slow
def test_links_to_code_name_the_home_of_the_project(site):
    home = tomllib.loads(text_of(ROOT / "pyproject.toml"))["project"]["urls"]["Homepage"]
    assert SITE["repo_url"] == home
    links = Built(site / "idea" / "index.html").links
    assert f"{home}/blob/main/act_prm.py" in links
    assert f"{home}/edit/main/docs/idea.md" in links
