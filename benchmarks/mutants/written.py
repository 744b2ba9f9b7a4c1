"""Mutants written by hand: faults that no rule makes, planted in a copy of the tree.

Each is a piece of text that must occur exactly once in its file, and what stands there instead.
"""

import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

__all__ = ["WRITTEN", "Written", "check_written", "try_written"]

ROOMS = ("flows", "learners", "privacy", "quality", "sample_data", "tests", "benchmarks")


@dataclass(frozen=True, slots=True)
class Written:
    """One fault: what it breaks, where, the text and its replacement, and the tests that must notice."""

    name: str
    path: str
    old: str
    new: str
    tests: tuple[str, ...]


WRITTEN: tuple[Written, ...] = ()


def check_written(root: Path) -> None:
    """Raise ValueError for a mutant whose text does not occur exactly once."""
    for one in WRITTEN:
        found = (root / one.path).read_text(encoding="utf-8").count(one.old)
        if found != 1:
            raise ValueError(f"{one.path} must hold the text of {one.name!r} once, got {found}")


def try_written(one: Written, root: Path) -> int:
    """Plant a mutant in a copy and run its tests there; 1 if one of them failed, 0 if none."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for room in ROOMS:
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(root / room, copy / room, ignore=ignored)
        shutil.copy(root / "pyproject.toml", copy)
        path = copy / one.path
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace(one.old, one.new), encoding="utf-8")
        command = [sys.executable, "-B", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
        done = subprocess.run([*command, *one.tests], cwd=copy, capture_output=True, check=False)
        if done.returncode not in (0, 1):  # no test ran: the mutant or its list is wrong
            raise RuntimeError(f"{one.name!r}: {done.stdout.decode()[-2000:]}")
        return done.returncode
