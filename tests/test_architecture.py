"""Every line in its room: names, docstrings, commands, and what an import costs."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("flows", "quality", "learners", "privacy")
MODULES = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
PURE = [path for path in MODULES if path.relative_to(ROOT).parts[0] != "flows"]
BANNED = {"utils", "util", "common", "helpers", "base", "constants", "misc"}


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_has_a_docstring_and_a_true_all(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree)
    declared = [  # ruff sorts them
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__"
    ]
    names = [str(element.value) for element in getattr(declared[0], "elts", [])]
    module = importlib.import_module(name_of(path))
    assert [name for name in names if not hasattr(module, name)] == []


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_no_module_has_a_name_for_everything(path: Path) -> None:
    assert not BANNED & set(path.relative_to(ROOT).with_suffix("").parts)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_file_of_more_than_500_lines_says_why(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    reason = "Longer than 500 lines:" in (ast.get_docstring(ast.parse(text)) or "")
    assert reason or len(text.splitlines()) <= 500


@pytest.mark.parametrize("path", PURE, ids=name_of)
def test_pure_rooms_neither_assert_nor_print_nor_warn(path: Path) -> None:
    calls = {
        getattr(node.func, "id", getattr(node.func, "attr", ""))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
    }
    asserts = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Assert)]
    assert not asserts
    assert not calls & {"print", "warn"}


def is_kernel(node: ast.FunctionDef) -> bool:
    """Whether numba compiles it: `@kernel`, or a Python side of a compiled overload."""
    names = {getattr(getattr(d, "func", d), "id", "") for d in node.decorator_list}
    return bool(names & {"kernel", "overload", "no_type_check"})


@pytest.mark.parametrize(
    "path", [p for p in MODULES if p.is_relative_to(ROOT / "quality")], ids=name_of
)
def test_what_is_not_compiled_is_annotated(path: Path) -> None:
    """mypy lets `quality` leave annotations out, for kernels; nothing else does."""
    functions = [
        node
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
    ]
    compiled = {part for node in functions if is_kernel(node) for part in ast.walk(node)}
    for node in functions:
        given = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        typed = node.returns and all(a.annotation or a.arg in ("self", "cls") for a in given)
        assert typed or node in compiled, node.name


def public_functions() -> list[tuple[str, str]]:
    """Every public function and class of the pure rooms' packages."""
    return [
        (room, name)
        for room in ("quality", "privacy", "learners")
        for name in importlib.import_module(room).__all__
    ]


@pytest.mark.parametrize(("room", "name"), public_functions())
def test_a_public_name_has_a_docstring(room: str, name: str) -> None:
    named = getattr(importlib.import_module(room), name)
    if inspect.isclass(named) or inspect.isroutine(named):  # not an alias of a type
        assert (named.__doc__ or "").strip()


def test_the_readmes_commands_exist() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"`make ([a-z-]+)`", readme):
        assert re.search(rf"(?m)^{target}:", makefile), target
    help_text = subprocess.run(
        [sys.executable, "-m", "flows.cli", "--help"], capture_output=True, text=True, check=True
    ).stdout
    for command in set(re.findall(r"(?m)^\| `crowdassay ([a-z]+)", readme)):
        assert re.search(rf"(?m)^\W*{command}\b", help_text), command


def test_help_imports_nothing_heavy() -> None:
    heavy = ("prefect", "duckdb", "numba", "scipy", "sklearn", "matplotlib", "pyarrow", "opendp")
    code = (
        "import sys\nfrom typer.testing import CliRunner\nfrom flows.cli import app\n"
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0\n"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"


def test_a_plain_run_does_not_import_prefect() -> None:
    code = "import sys, flows.pipeline, flows.terminal; print('prefect' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "False"


@pytest.mark.parametrize("room", ["flows", "learners"])
def test_names_that_load_when_first_used_are_found_before(room: str) -> None:
    """A notebook completes them."""
    code = f"import {room}; print(set({room}.__all__) - set(dir({room})))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "set()"


def test_scikit_learn_is_imported_for_what_stands_on_it_alone() -> None:
    """It brings pandas and scipy.stats with it; what that takes: `python -m benchmarks.flows.startup`."""
    stages = "reading", "workers", "consensus", "publication", "class_ratios", "model", "reporting"
    code = (
        f"import sys, flows.pipeline, flows.terminal, privacy.noise, learners\n"
        f"import {', '.join(f'flows.stages.{stage}' for stage in stages)}\n"
        "heavy = {'sklearn', 'pandas', 'scipy.stats'}\n"
        "print(sorted(heavy & sys.modules.keys()))\n"
        "print([name for name in learners.__all__ if not hasattr(learners, name)])\n"
        "print(sorted(heavy & sys.modules.keys()))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.splitlines() == ["[]", "[]", "['pandas', 'scipy.stats', 'sklearn']"]


def test_nothing_but_the_ledger_reaches_a_sampler() -> None:
    """Beside the import contract: no other file names the noise source, in any way of importing it."""
    reaching = {
        name_of(path)
        for path in MODULES
        if re.search(
            r"privacy\.noise|from privacy import noise|NoiseSource|(import|from) opendp",
            path.read_text(),
        )
        and path.name != "noise.py"
    }
    assert reaching <= {"privacy.ledger.ledger", "privacy.mechanism"}
    assert "privacy.ledger.ledger" in reaching


def test_constraints_hold_names_and_versions_only() -> None:
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    assert "://" not in text
    assert all(re.match(r"[A-Za-z0-9_.-]+(\[.*\])?==", line) for line in text.splitlines() if line)
