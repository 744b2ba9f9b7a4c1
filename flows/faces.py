"""Faces of sub-rooms whose names are imported when they are first used, so that a start stays quick."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["late_face"]


def late_face(
    face: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for a face; `homes` has the names of each of its files.

    Examples
    --------
    >>> find, names = late_face("flows", {"files": "file_digest write_whole"})
    >>> find("file_digest").__module__, "file_digest" in names()
    ('flows.files', True)
    """
    home = {name: f"{face}.{module}" for module, names in homes.items() for name in names.split()}

    def find(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {face!r} has no attribute {name!r}")
        return getattr(import_module(home[name]), name)

    def names() -> list[str]:
        return [*vars(sys.modules[face]), *home]

    return find, names
