"""The documentation: what it names exists, what it shows runs, and the site builds without a network."""

from __future__ import annotations

import ast
import importlib.util
import os
import pydoc
import re
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.main import get_command

from benchmarks.flows import default_run
from benchmarks.peers import comparison
from flows import crowdkit
from flows.aggregators import AGGREGATORS
from flows.cli import app
from flows.cli.root import DAY
from flows.settings import (
    GateSettings,
    Section,
    Settings,
    key_sentences,
    section_of,
    variables_of,
)
from flows.stages import STAGES
from learners.genesis import Simulation
from learners.holdout import sizing

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted(
    path for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")) if path.is_file()
)
TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
COMMAND = re.compile(r"python -m ((?>benchmarks(?:\.\w+)+))(?!\.<)")
FILE = re.compile(r"`([\w./<>]+\.py)(?:::\w+)?`")
FOLDER = re.compile(
    r"`((?:flows|quality|learners|privacy|tests|docs|benchmarks|sample_data)/[\w/]*)`"
)
NAME = re.compile(
    r"`((?:flows|quality|learners|privacy|benchmarks)(?:\.\w+)+(?<!\.json))(?:\([^`]*\))?`"
)
SHELL = re.compile(r"```\w*\n(.*?)```", re.DOTALL)
CALL = re.compile(r"`crowdassay ([a-z][^`]*)`")
LINE = re.compile(r"(?m)^(?:\$ | *- run: )?crowdassay ([a-z].*)$")
FILES = {str(path.relative_to(ROOT)) for path in ROOT.glob("*/**/*.py")}
BENCHMARKS = sorted((ROOT / "benchmarks").rglob("*.py"))


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def commands_of(command: Any, *words: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the words of every command with the command, a group before its own."""
    yield words, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands_of(inner, *words, name)


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_test_a_page_names_exists(page: Path) -> None:
    for file, name in TEST.findall(page.read_text(encoding="utf-8")):
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        tests = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert not name or name in tests, f"{file} has no {name}"


@pytest.mark.parametrize("page", [*PAGES, *BENCHMARKS], ids=named)
def test_every_command_a_page_or_a_benchmark_names_can_be_run(page: Path) -> None:
    for module in COMMAND.findall(re.sub(r"\s+", " ", page.read_text(encoding="utf-8"))):
        found = importlib.util.find_spec(module)
        assert found is not None, module
        assert found.origin is not None
        assert "__main__" in Path(found.origin).read_text(encoding="utf-8"), module


OPTIONS = {
    words: {"--help", *(option for one in command.params for option in one.opts)}
    | {option for one in command.params for option in one.secondary_opts}
    for words, command in commands_of(get_command(app))
}


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_option_of_a_command_that_a_page_shows_exists(page: Path) -> None:
    """In a line of a block or within backticks, as far as the next command of the shell."""
    text = page.read_text(encoding="utf-8")
    lines = [line for block in SHELL.findall(text) for line in LINE.findall(block)]
    for called in (*lines, *CALL.findall(SHELL.sub("", text))):
        first, *rest = re.split(r"\s[|&>]|;\s", called, maxsplit=1)[0].split()
        words = (first, *rest[:1]) if (first, *rest[:1]) in OPTIONS else (first,)
        assert words in OPTIONS, called
        asked = {word.partition("=")[0] for word in rest if re.match("--?[a-z]", word)}
        assert asked <= OPTIONS[words], called


@pytest.mark.parametrize("page", BENCHMARKS, ids=named)
def test_a_benchmark_names_its_own_command(page: Path) -> None:
    """Scripts that another environment runs have none."""
    text = page.read_text(encoding="utf-8")
    if "__main__" in text and not page.stem.endswith("_side"):
        module = ".".join(page.relative_to(ROOT).with_suffix("").parts)
        assert f"python -m {module}" in (ast.get_docstring(ast.parse(text)) or "")


@pytest.mark.parametrize("page", [*PAGES, *BENCHMARKS], ids=named)
def test_every_file_and_folder_a_page_or_a_benchmark_names_exists(page: Path) -> None:
    """A file may go by its last parts; one with `<name>` stands for those that are there."""
    text = page.read_text(encoding="utf-8")
    for file in FILE.findall(text):
        pattern = f"*/{file.replace('<name>', '*')}"
        assert any(fnmatchcase(f"/{known}", pattern) for known in FILES), file
    for folder in FOLDER.findall(text):
        assert (ROOT / folder).exists(), folder


@pytest.mark.parametrize("page", [*PAGES, *BENCHMARKS], ids=named)
def test_every_name_of_a_room_on_a_page_or_in_a_benchmark_exists(page: Path) -> None:
    """Of the longest module in it, attribute by attribute."""
    for dotted in NAME.findall(page.read_text(encoding="utf-8")):
        assert pydoc.locate(dotted) is not None, dotted


def pages_module() -> ModuleType:
    """`docs/pages.py`, which mkdocs calls when it builds the site."""
    pytest.importorskip("mkdocs", reason="the extra docs is not installed")
    found = importlib.util.spec_from_file_location("pages", ROOT / "docs" / "pages.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules["pages"] = module
    found.loader.exec_module(module)
    return module


def test_contributing_shows_the_files_that_an_addition_takes() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    _, *sections = re.split(r"(?m)^## Add an? ", text)
    steps = {part.splitlines()[0]: re.findall(r"(?m)^\d\. `(\S+)`: ", part) for part in sections}
    assert {what: len(files) for what, files in steps.items()} == {
        "aggregator": 3,
        "mechanism": 3,
        "stage": 4,
        "platform": 3,
        "table format": 2,
    }
    assert all(FILE.fullmatch(f"`{file}`") for files in steps.values() for file in files)


def test_the_index_of_decisions_lists_every_decision_once() -> None:
    text = (ROOT / "DECISIONS.md").read_text(encoding="utf-8")
    listed = re.findall(r"(?m)^- \[(.+)\]\(#.+\)$", text)
    assert sorted(listed) == sorted(re.findall(r"(?m)^## [\d-]+: (.+)$", text))


def test_decisions_stand_newest_first() -> None:
    text = (ROOT / "DECISIONS.md").read_text(encoding="utf-8")
    days = re.findall(r"(?m)^## ([\d-]+): ", text)
    assert days == sorted(days, reverse=True)


def test_the_navigation_lists_every_page_that_is_written_by_hand() -> None:
    """Pages of results are listed by a page of their own, so that mkdocs does not ask for the others."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    docs = ROOT / "docs"
    written = {str(path.relative_to(docs)) for path in docs.rglob("*.md")}
    listed = set(re.findall(r"([\w/-]+\.md)$", text, re.MULTILINE))
    assert {page for page in written if not page.startswith("results/")} <= listed


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_no_page_has_a_formula_that_the_site_shows_as_it_is_typed(page: Path) -> None:
    """The site loads nothing that sets formulas between dollar signs; markup of the page does it."""
    text = re.sub(r"`[^`]*`", "", SHELL.sub("", page.read_text(encoding="utf-8")))
    assert re.findall(r"\$[^$\n]*[\\^_{][^$\n]*\$|\$\w\$", text) == []


COMPARISON = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")


def test_every_figure_of_the_comparison_is_read_from_a_page_that_a_command_wrote() -> None:
    pages = pages_module()
    named = pages.FIGURE.findall(COMPARISON)
    assert len(named) > 20
    for page, row, column in named:
        found = pages.figure(page, row, column)
        assert re.match(r"\d", found) or page == "comparison.md", (page, row, column)
    assert "{{" not in pages.PROBED.sub("", pages.FIGURE.sub("", COMPARISON))
    assert pages.figure("aggregators.md", "majority_vote", "rule") == "majority_vote"


def test_no_cell_of_the_comparison_is_written_by_hand() -> None:
    """Except a row's first cell, the question, its last, a link, and `1x`, a library beside itself."""
    pages = pages_module()
    tables = re.findall(r"(?m)^\|.*\n\|[-|]+\n((?:\|.*\n)*)", COMPARISON)
    rows = [line.strip("|\n ").split(" | ") for table in tables for line in table.splitlines()]
    assert len(rows) > 15
    for _, *cells in rows:
        for cell in cells:
            found = pages.FIGURE.sub("", cell).strip(" |")
            assert found in ("", "1x") or re.fullmatch(r"\[.*\]\(.*\)|\([^)]*\)", found), cell


@pytest.mark.parametrize("row", comparison.ROWS, ids=lambda row: f"{row.peer}, {row.what}")
def test_our_side_of_the_comparison_is_what_its_probe_answers_now(row: comparison.Row) -> None:
    assert pages_module().figure("comparison.md", f"{row.peer}, {row.what}", "here") == row.here()


def test_every_row_of_the_comparison_is_one_of_the_command_and_stands_on_the_page() -> None:
    pages = pages_module()
    _, *rows = pages.cells_of("comparison.md")
    asked = [(row.peer, row.what, row.how) for row in comparison.ROWS]
    assert [(peer, what, how) for peer, what, _, _, how in rows] == asked
    assert all(there and here for _, _, there, here, _ in rows)
    assert pages.PROBED.findall(COMPARISON) == list(comparison.PEERS)


def test_the_comparisons_versions_are_those_that_are_run() -> None:
    run = {comparison.named(peer) for peer in comparison.PEERS}
    assert {" ".join(words) for words in re.findall(r"(?m)^## (\S+) ([\d.]+) ", COMPARISON)} == run
    found = (ROOT / "docs" / "results" / "comparison.md").read_text(encoding="utf-8")
    assert all(version in found for version in run)


def test_what_a_billion_labels_would_take_follows_from_the_largest_run_on_shards() -> None:
    rows = default_run.rows_of(default_run.PAGE.read_text(encoding="utf-8"))
    totals = default_run.totals_in(rows)
    assert max(totals) == 100_000_000
    carried = default_run.carried_on(totals)
    assert [row for title, *_ in carried for row in rows[title]] == carried


def test_the_reference_of_settings_has_every_key_with_its_sentence_and_its_variable() -> None:
    text = pages_module().settings()
    known = variables_of(Settings)
    assert len(known) > 50
    for variable, (*inside, key) in known.items():
        section: type[Section] = Settings
        for name in inside:
            section = section_of(section.model_fields[name].annotation) or section
        sentence = key_sentences(section)[key]
        (row,) = (line for line in text.splitlines() if line.endswith(f"; `{variable}` |"))
        assert row.startswith(f"| `{key}` | {sentence}<br>")
    assert "<br>number, at least 0, below 1; default `0.0`; " in text
    assert "<br>list of number, above 0; default `[0.001, 0.003, 0.01]`; " in text
    assert "<br>whole number, at least 1; `CROWDASSAY__CONSENSUS__MAX_ITER` |" in text


def test_the_operators_that_the_script_language_lists_compute_in_a_script() -> None:
    """Two slashes are an operator of Python, but here all behind them was left out in silence."""
    (listed,) = re.findall(r"(?m)^Expressions have `([^`]+)`", pages_module().GRAMMAR)
    for operator in listed.split():
        sim = Simulation(rng=np.random.default_rng(0))
        sim.script(f"x = 7 {operator} 2\necho {{x == {eval(f'7 {operator} 2')}}}")
        assert sim.output == ["1"], operator


def test_the_page_of_the_run_folder_has_a_row_for_every_output_of_a_stage() -> None:
    rows = re.findall(r"(?m)^\| `(\S+)` \| .+ \| (anybody|internal)", pages_module().run_folder())
    outputs = [output for stage in STAGES for output in stage.outputs]
    assert rows == [(one.name, "anybody" if one.public else "internal") for one in outputs]


@pytest.mark.parametrize("room", ["quality", "privacy", "learners", "flows"])
def test_the_reference_has_an_entry_for_every_name_of_a_face(room: str) -> None:
    """In a table above its group, and below it in full."""
    text = pages_module().reference(room)
    names = {f"{room}.{name}" for name in importlib.import_module(room).__all__}
    assert names - set(re.findall(r"(?m)^::: (\S+)$", text)) == set()
    assert names - set(re.findall(r"(?m)^\| \[`\w+`\]\[(\S+)\] \| \S", text)) == set()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    pytest.importorskip("mkdocs", reason="the extra docs is not installed")
    folder = tmp_path_factory.mktemp("site")
    # with --quiet mkdocs counts no warnings, and a link to nowhere would pass
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(folder)]
    environment = dict(os.environ, NO_MKDOCS_2_WARNING="1")
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(list(folder.rglob("*.html"))) > 40
    return folder


@pytest.mark.slow
def test_no_page_of_the_site_asks_another_host_for_anything(site: Path) -> None:
    """Links that a reader follows are no requests; what a page loads by itself lies beside it."""
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not re.findall(r"<(?:script|img|iframe)[^>]* src=\"?(?:https?:)?//[^>]*>", text)
        assert not re.findall(r"<link[^>]*stylesheet[^>]* href=\"?(?:https?:)?//[^>]*>", text)


@pytest.mark.slow
def test_every_name_of_a_face_stands_on_the_built_page_and_no_role_is_left_raw(site: Path) -> None:
    for room in ("quality", "privacy", "learners", "flows"):
        text = (site / "reference" / f"{room}.html").read_text(encoding="utf-8")
        entries = set(re.findall(r'<h\d id="([\w.]+)"', text))
        names = {f"{room}.{name}" for name in importlib.import_module(room).__all__}
        assert names - entries == set()
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert re.findall(r":(?:attr|class|data|exc|func|meth|mod|obj):", text) == [], page.name


PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)
HOW_TO = sorted((ROOT / "docs" / "how-to").glob("*.md"))


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_first_python_of_a_first_screen_runs(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [
        (f"w{w}", f"t{t}", "cat" if t % 2 or w == t else "dog") for w in range(4) for t in range(9)
    ]
    pd.DataFrame(rows, columns=["worker", "task", "label"]).to_csv("labels.csv", index=False)
    text = (ROOT / page).read_text(encoding="utf-8")
    exec(compile(PYTHON.findall(text)[0], page, "exec"), {})


def test_the_readme_names_every_command_and_the_order_of_a_day_too() -> None:
    named = set(
        re.findall(r"`crowdassay ([a-z]+)", (ROOT / "README.md").read_text(encoding="utf-8"))
    )
    groups = {group.name for group in app.registered_groups}
    commands = {one.name or one.callback.__name__ for one in app.registered_commands} | groups
    assert commands - named == set()
    assert commands == set(DAY)


@pytest.mark.parametrize("page", HOW_TO, ids=lambda page: page.stem)
def test_the_python_of_a_how_to_page_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `frame`, a small crowd as a pandas frame, for pages that use one."""
    monkeypatch.chdir(tmp_path)
    rows = [(f"w{w}", f"t{t}", ["cat", "dog"][(t * w) % 2]) for w in range(4) for t in range(6)]
    known = {"frame": pd.DataFrame(rows, columns=["worker", "task", "label"])}
    for code in PYTHON.findall(page.read_text(encoding="utf-8")):
        exec(compile(code, str(page), "exec"), known)


SAID_IN_VERBS = [
    str(folder.relative_to(ROOT))
    for room in ("flows", "learners", "privacy", "quality")
    for folder in (ROOT / room, *sorted((ROOT / room).rglob("*")))
    if any(folder.glob("*.py"))
]
NO_VERB = re.compile(
    r"(?:An?|The|How|Whether|What|Who(?:se|m)?|Where|Which|Some|All|Mean|Everybody(?:'s)?|Nobody)\b"
    r"|(?!Return|Say)\w+ of\b"  # a number of, the names of, ...
)


@pytest.mark.parametrize("room", SAID_IN_VERBS)
def test_the_docstring_of_a_function_begins_with_what_it_does(room: str) -> None:
    """Return, raise, add up ...; that of a property is what it is."""
    found = [
        f"{path.stem}.{node.name}"
        for path in sorted((ROOT / room).glob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
        and NO_VERB.match(ast.get_docstring(node) or "")
        and not any("property" in ast.unparse(one) for one in node.decorator_list)
    ]
    assert found == []


def test_the_scripts_that_a_page_calls_by_name_are_those_that_run_by_themselves() -> None:
    """All that come along stand on the page; the one that the others include has no recorder of its own."""
    text = (ROOT / "docs" / "how-to" / "simulate.md").read_text(encoding="utf-8")
    shipped = {path.name for path in (ROOT / "sample_data" / "crowds").glob("*.g")}
    listed, rest = re.split(r"Ten scripts come along and run by their names", text)[1].split(
        "\n\nThe nine", 1
    )
    assert set(re.findall(r"`(\w+\.g)`", listed)) == shipped - {"honest.g"}
    assert len(shipped) == 11
    assert "`include honest.g`" in rest
    including = [
        name
        for name in shipped
        if "include honest.g" in (ROOT / "sample_data" / "crowds" / name).read_text()
    ]
    assert len(including) == 9


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_what_a_page_pipes_from_a_growing_table_has_its_header(page: Path) -> None:
    """`tail -f` alone begins ten lines before the end."""
    for line in SHELL.findall(page.read_text(encoding="utf-8")):
        assert not re.search(r"tail (?!-n \+1 )[^|\n]*\| crowdassay", line)


def row_of(page: str, first: str) -> dict[str, str]:
    heads, *rows = pages_module().cells_of(page)
    (row,) = (cells for cells in rows if cells[0] == first)
    return dict(zip(heads, row, strict=True))


QUALITY = ROOT / "docs" / "mathematics" / "quality.md"


def test_what_confidence_puts_first_is_as_the_page_of_its_command_has_it() -> None:
    row = row_of("first_tasks.md", "all, against the lowest share of votes")
    orders = "confidence", "the model", "confidence × the model"
    wanted = [
        float(row[f"{rule}, {one}"]) for rule in ("auto", "hierarchical DS") for one in orders
    ]
    said = re.search(
        r"these are ([\d.]+) times those .*? says ([\d.]+) times, .*? ([\d.]+) times \(`auto`; of"
        r" hierarchical Dawid–Skene ([\d.]+), ([\d.]+) and ([\d.]+)\)",
        QUALITY.read_text(encoding="utf-8"),
        re.DOTALL,
    )
    assert said is not None
    assert [float(one) for one in said.groups()] == [wanted[n] for n in (0, 1, 2, 3, 4, 5)]


def test_what_levels_are_worth_on_thinned_sets_is_as_the_page_of_its_command_has_it() -> None:
    text = QUALITY.read_text(encoding="utf-8")
    said = re.findall(r"(\.\d{3}) → (\.\d{3})", text)
    wanted = []
    for left in ("2 labels a task", "3 labels a task", "half of the workers", "150 tasks"):
        row = row_of("calibration.md", f"mean of 20 sets with {left} left")
        cells = (row[f"hierarchical DS, gold{more}"] for more in (", not in levels", ""))
        wanted.append(tuple(cell.split(" / ")[0].removeprefix("0") for cell in cells))
    assert said == wanted


def test_how_far_the_pool_is_behind_the_vote_in_crowds_that_hardly_know_is_as_measured() -> None:
    """In all crowds whose labels are a tenth or a fifth better than a guess: a point and a half at most."""
    heads, *rows = pages_module().cells_of("weak_crowds.md")
    right = {(row[0], row[1], row[3]): float(row[heads.index("right")].split()[0]) for row in rows}
    behind = {
        (crowd, skill): right[crowd, skill, "MV"] - right[crowd, skill, "auto"]
        for crowd in ("2 classes", "3 classes", "5 classes")
        for skill in ("0.1", "0.2")
    }
    assert max(behind.values()) <= 0.015


def test_the_pool_is_above_every_rule_on_crowds_drawn_at_random() -> None:
    """Of those that know something; and majority vote is a point ahead of it in none."""
    _, *rows = pages_module().cells_of("random_crowds.md")
    those = [row for row in rows if row[0].startswith("that know, ") and row[2] != "–"]
    assert len(those) == 17
    assert all(float(row[2]) <= float(row[3]) for row in those)
    assert row_of("random_crowds.md", "that know, majority_vote")["auto behind"] == "0"


def test_the_page_of_the_holdout_says_how_large_its_noise_is_and_what_settings_refuse() -> None:
    text = (ROOT / "docs" / "how-to" / "holdout.md").read_text(encoding="utf-8")
    assert f"standard deviation of {sizing.COMPARISON**0.5:.1f} `sigma`" in text
    assert (
        3 * sizing.COMPARISON**0.5 / 20 < 1
    )  # of a twentieth of the threshold three deviations fit
    assert GateSettings(threshold=0.1, sigma=0.09).sigma == 0.09
    with pytest.raises(ValueError, match="sigma must be below threshold"):
        GateSettings(threshold=0.1, sigma=0.1)


def test_the_numbers_of_aggregators_and_of_crowd_kits_classes_are_those_there_are() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    page = (ROOT / "docs" / "how-to" / "crowd-kit.md").read_text(encoding="utf-8")
    assert "Thirteen aggregators, each with its posterior, and `auto`" in index
    assert len(AGGREGATORS) == 13 + 1
    assert "[eleven classes](docs/how-to/crowd-kit.md)" in readme
    assert len(crowdkit.__all__) == 11
    first = page.split("```", 1)[0]
    assert set(re.findall(r"`(\w+)`", first)) == set(crowdkit.__all__)
