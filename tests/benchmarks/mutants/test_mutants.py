"""The mutants themselves: what is planted changes what runs, and a list that is out of date is noticed."""

from __future__ import annotations

import importlib.util
import sys
import weakref
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks.mutants import run
from benchmarks.mutants.operators import mutants_of
from benchmarks.mutants.planting import Alive, reach_of
from benchmarks.mutants.survivors import SURVIVORS
from benchmarks.mutants.written import WRITTEN, check_written

SOURCE = """
from functools import lru_cache

class Gate:
    def __init__(self, limit):
        self.limit = limit

    @property
    def open(self):
        return self.limit > 0

@lru_cache
def covered(price, left):
    if not price <= left:
        raise ValueError("too dear")
    return True
"""


def module_of(path: Path) -> ModuleType:
    """A module of that text, imported."""
    path.write_text(SOURCE, encoding="utf-8")
    found = importlib.util.spec_from_file_location("gate", path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_every_condition_guard_and_truth_value_is_changed_once() -> None:
    assert [one.name for one in mutants_of(SOURCE)] == [
        "Gate.open: self.limit > 0: > becomes >=",
        "covered: not price <= left: not is dropped",
        "covered: price <= left: <= becomes <",
        "covered: raise ValueError('too dear'): raise is dropped",
        "covered: True: True becomes False",
    ]


def test_a_planted_mutant_is_what_runs_and_what_was_remembered_is_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "gate.py"
    edge, _, boundary, guard, _ = mutants_of(SOURCE)
    module = module_of(path)
    kept = module.covered
    assert kept(1, 1)
    assert not module.Gate(0).open
    assert Alive().plant(path, edge)
    assert module.Gate(0).open
    assert Alive().plant(path, boundary)
    with pytest.raises(ValueError, match="too dear"):
        kept(1, 1)
    other = module_of(path)
    assert Alive().plant(path, guard)
    assert other.covered(2, 1)


def test_a_proxy_of_what_is_gone_is_passed_over(tmp_path: Path) -> None:
    """Any library may leave one behind, and to ask it for its class raises."""
    path = tmp_path / "gate.py"
    module = module_of(path)
    gone = weakref.proxy(module.Gate(0))
    with pytest.raises(ReferenceError):
        isinstance(gone, ModuleType)
    assert Alive().functions[str(path)]


TESTS = """
import gate

def test_covered():
    assert gate.covered(1, 1)

def test_open():
    assert gate.Gate(1).open
"""


def test_a_mutant_meets_the_tests_that_reach_its_statement_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, tests = tmp_path / "gate.py", tmp_path / "test_gate.py"
    tests.write_text(TESTS, encoding="utf-8")
    edge, _, _, guard, _ = mutants_of(SOURCE)
    monkeypatch.setitem(sys.modules, "gate", module_of(path))
    reach = reach_of([str(tests)], [path])
    names = {
        one.name: [test.rpartition("::")[2] for test in reach.tests_of(path, one.statement)]
        for one in mutants_of(SOURCE)
    }
    assert names[edge.name] == ["test_open"]
    assert names["covered: not price <= left: not is dropped"] == ["test_covered"]
    assert names[guard.name] == []
    assert not module_of(path).covered.__wrapped__.__code__.co_names.count("__reached__")


def test_names_are_unique_and_hang_on_no_line_number() -> None:
    path = run.targets()[0]
    text = path.read_text(encoding="utf-8")
    names = [one.name for one in mutants_of(text)]
    assert max(Counter(names).values()) == 1
    assert names == [one.name for one in mutants_of(f"\n\n{text}")]


def test_every_target_has_tests_beside_it() -> None:
    assert len(run.targets()) > 25
    for folder in {path.parent.relative_to(run.ROOT) for path in run.targets()}:
        by_command = folder.name == "without_run"  # its commands' tests, which TESTS names
        assert by_command or any((run.ROOT / "tests" / folder).glob("test_*.py")), folder
    assert all((run.ROOT / one).exists() for one in run.TESTS)


def test_every_mutant_by_hand_still_has_its_place() -> None:
    """Where the code has changed, the mutant is to be changed with it."""
    check_written(run.ROOT)
    assert len({one.name for one in WRITTEN}) == len(WRITTEN) > 30
    for one in WRITTEN:
        assert (run.ROOT / one.tests[0]).is_file()
        assert one.old != one.new


def test_every_survivor_has_a_reason() -> None:
    assert all(len(reason) > 20 for reason in SURVIVORS.values())
