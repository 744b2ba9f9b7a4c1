"""The documentation: what it names exists, what it shows runs, and the site builds without a network."""

from __future__ import annotations

import ast
import importlib.util
import re
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted(
    path for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")) if path.is_file()
)
TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
COMMAND = re.compile(r"python -m (benchmarks\.\w+)")


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
