"""Late faces: every name is found, checkers and readers see the same names, and nothing loads before use."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import flows
import flows.tables

LATE = [
    ".".join(path.parent.relative_to(Path(flows.__file__).parents[1]).parts)
    for path in sorted(Path(flows.__file__).parent.rglob("__init__.py"))
    if "late_face(" in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("face", LATE)
def test_every_name_of_a_late_face_is_found_and_imported_for_checkers(face: str) -> None:
    module = importlib.import_module(face)
    assert module.__file__ is not None
    block = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    imported = {
        name.name
        for node in ast.walk(block)
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
    defined = {
        getattr(target, "id", "") for node in block.body for target in getattr(node, "targets", ())
    } | {getattr(node, "name", "") for node in block.body}
    assert set(module.__all__) <= (imported | defined) & set(dir(module))
    assert all(getattr(module, name) is not None for name in module.__all__)


def test_a_name_that_a_late_face_lacks_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"module 'flows\.tables' has no attribute 'absent'"):
        flows.tables.absent  # noqa: B018


def test_a_late_face_loads_nothing_before_a_name_is_used() -> None:
    heavy = "'duckdb', 'numba', 'prefect', 'pyarrow', 'scipy', 'sqlalchemy'"
    code = (
        f"import sys, {', '.join(LATE)}\nprint([name for name in ({heavy}) if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
