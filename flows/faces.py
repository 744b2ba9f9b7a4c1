"""Faces of sub-rooms whose names load when they are first used, so that a command pays for what it uses.

A face lists its names in ``__all__`` and imports them under ``if TYPE_CHECKING``, for checkers and
readers. `late_face` reads those imports to find each name's module.

>>> from flows import tables  # neither DuckDB nor Arrow is loaded
>>> tables.find_files.__module__
'flows.tables.sources'
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

__all__ = ["late_face"]


def late_face(face: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for the package `face`.

    Examples
    --------
    >>> get, names = late_face("flows")
    >>> get("load_settings").__name__
    'load_settings'
    >>> "run_pipeline" in names()
    True
    """

    @cache
    def homes() -> dict[str, str]:
        source = sys.modules[face].__loader__.get_source(face)  # type: ignore[union-attr]
        return {
            name.name: node.module
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.ImportFrom) and node.module
            for name in node.names
        }

    def get(name: str) -> Any:
        if name not in sys.modules[face].__all__:
            raise AttributeError(f"module {face!r} has no attribute {name!r}")
        return getattr(import_module(homes()[name]), name)

    def names() -> list[str]:
        return sorted({*vars(sys.modules[face]), *sys.modules[face].__all__})

    return get, names
