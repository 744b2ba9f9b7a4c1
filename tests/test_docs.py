"""The documentation: what it names exists, what it shows runs, and the site builds without a network."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest

from benchmarks.peers import comparison
from flows.settings import Section, Settings, section_of, variables_of

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted(
    path for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")) if path.is_file()
)
TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
COMMAND = re.compile(r"python -m (benchmarks(?:\.\w+)+)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_test_a_page_names_exists(page: Path) -> None:
    for file, name in TEST.findall(page.read_text(encoding="utf-8")):
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        tests = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert not name or name in tests, f"{file} has no {name}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_a_page_names_can_be_run(page: Path) -> None:
    for module in COMMAND.findall(page.read_text(encoding="utf-8").replace("\n", " ")):
        found = importlib.util.find_spec(module)
        assert found is not None
        assert found.origin is not None
        assert "__main__" in Path(found.origin).read_text(encoding="utf-8"), module


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


COMPARISON = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")


def test_every_figure_of_the_comparison_is_read_from_a_page_that_a_command_wrote() -> None:
    pages = pages_module()
    named = pages.FIGURE.findall(COMPARISON)
    assert len(named) > 20
    for page, row, column in named:
        told = pages.figure(page, row, column)
        assert re.match(r"\d", told) or page == "comparison.md", (page, row, column)
    assert "{{" not in pages.PROBED.sub("", pages.FIGURE.sub("", COMPARISON))
    assert pages.figure("aggregators.md", "majority_vote", "rule") == "majority_vote"


def test_no_cell_of_the_comparison_is_written_by_hand() -> None:
    """But a row's first, which asks, and its last, which links; and `1x`, a peer beside itself."""
    pages = pages_module()
    tables = re.findall(r"(?m)^\|.*\n\|[-|]+\n((?:\|.*\n)*)", COMPARISON)
    rows = [line.strip("|\n ").split(" | ") for table in tables for line in table.splitlines()]
    assert len(rows) > 15
    for _, *cells in rows:
        for cell in cells:
            told = pages.FIGURE.sub("", cell).strip(" |")
            assert told in ("", "1x") or re.fullmatch(r"\[.*\]\(.*\)|\([^)]*\)", told), cell


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
    assert {" ".join(said) for said in re.findall(r"(?m)^## (\S+) ([\d.]+) ", COMPARISON)} == run
    told = (ROOT / "docs" / "results" / "comparison.md").read_text(encoding="utf-8")
    assert all(version in told for version in run)


def test_the_reference_of_settings_has_every_key_with_its_sentence_and_its_variable() -> None:
    text = pages_module().settings()
    known = variables_of(Settings)
    assert len(known) > 50
    for variable, (*inside, key) in known.items():
        section: type[Section] = Settings
        for name in inside:
            section = section_of(section.model_fields[name].annotation) or section
        said = section.model_fields[key].description
        (row,) = (line for line in text.splitlines() if line.endswith(f"; `{variable}` |"))
        assert row.startswith(f"| `{key}` | {said}<br>")
    assert "<br>number, at least 0, below 1; default `0.0`; " in text
    assert "<br>list of number, above 0; default `[0.001, 0.003, 0.01]`; " in text
    assert "<br>whole number, at least 1; `CROWDASSAY__CONSENSUS__MAX_ITER` |" in text


@pytest.mark.slow
def test_no_page_of_the_site_asks_another_host_for_anything(tmp_path: Path) -> None:
    """Links that a reader follows are no requests; what a page loads by itself lies beside it."""
    pytest.importorskip("mkdocs", reason="the extra docs is not installed")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, env=dict(os.environ, NO_MKDOCS_2_WARNING="1"), check=True)
    built = sorted(tmp_path.rglob("*.html"))
    assert len(built) > 40
    for page in built:
        text = page.read_text(encoding="utf-8")
        assert not re.findall(r"<(?:script|img|iframe)[^>]* src=\"?(?:https?:)?//[^>]*>", text)
        assert not re.findall(r"<link[^>]*stylesheet[^>]* href=\"?(?:https?:)?//[^>]*>", text)


PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)
HOW_TO = sorted((ROOT / "docs" / "how-to").glob("*.md"))


@pytest.mark.parametrize("page", HOW_TO, ids=lambda page: page.stem)
def test_the_python_of_a_how_to_page_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `frame`, a small crowd as pandas holds it, where the page speaks of one."""
    monkeypatch.chdir(tmp_path)
    rows = [(f"w{w}", f"t{t}", ["cat", "dog"][(t * w) % 2]) for w in range(4) for t in range(6)]
    known = {"frame": pd.DataFrame(rows, columns=["worker", "task", "label"])}
    for code in PYTHON.findall(page.read_text(encoding="utf-8")):
        exec(compile(code, str(page), "exec"), known)
