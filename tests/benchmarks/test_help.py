"""Every benchmark's command says what it does, with an example, and begins nothing before it has."""

import ast
import contextlib
import io
import runpy
import sys
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def commands() -> list[str]:
    """The modules that are run by name; another interpreter runs those called `..._side`."""
    files = (ROOT / "benchmarks").rglob("*.py")
    named = (".".join(path.relative_to(ROOT).with_suffix("").parts) for path in files)
    return sorted(
        name for name in named if not name.endswith("_side") and '"__main__"' in source_of(name)
    )


def source_of(name: str) -> str:
    return (ROOT / f"{name.replace('.', '/')}.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", commands())
def test_a_commands_docstring_shows_how_it_is_called(name: str) -> None:
    assert f"python -m {name}" in (ast.get_docstring(ast.parse(source_of(name))) or "")


def test_help_shows_the_docstring_and_does_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them in this process: an import of each takes longer than the rest."""
    for name in commands():
        monkeypatch.setattr(sys, "argv", [name, "--help"])
        said = io.StringIO()
        with warnings.catch_warnings(), contextlib.redirect_stdout(said):
            warnings.simplefilter("ignore", RuntimeWarning)  # of a module that others have imported
            with pytest.raises(SystemExit) as end:
                runpy.run_module(name, run_name="__main__", alter_sys=False)
        assert end.value.code == 0, name
        first = (ast.get_docstring(ast.parse(source_of(name))) or "").splitlines()[0]
        assert said.getvalue().startswith(f"usage: python -m {name} "), name
        assert first in said.getvalue(), name
