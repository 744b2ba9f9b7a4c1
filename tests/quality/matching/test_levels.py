"""Levels against all optima of small graphs, and against the balanced loads."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.sparse import csr_array

from quality import CrowdLabels, encode, hard_penalty
from quality.matching.levels import load_levels
from quality.reputation.penalties import balanced_loads, hard_level
from tests.quality.labels.strategies import Row, bipartite, crowds, label_rows, named_crowd

QUICK = settings(max_examples=80, deadline=None, derandomize=True)


def loads_of_all_optima(table: np.ndarray) -> np.ndarray:
    """Every assignment is tried; the load vectors of the cheapest, one row each."""
    machines = [np.flatnonzero(row).tolist() for row in table]
    loads = np.array(
        [np.bincount(chosen, minlength=table.shape[1]) for chosen in product(*machines)]
    )
    cost = (loads * (loads + 1) // 2).sum(axis=1)
    cheapest: np.ndarray = loads[cost == cost.min()]
    return cheapest


@QUICK
@given(bipartite(max_jobs=6, max_machines=4))
def test_level_and_least_are_the_extreme_loads_over_all_optima(table: np.ndarray) -> None:
    """Oracle: enumeration."""
    levels, loads = load_levels(csr_array(table)), loads_of_all_optima(table)
    assert np.array_equal(loads.max(axis=0), levels.level)
    assert np.array_equal(loads.min(axis=0), levels.least)
    assert levels.load.tolist() in loads.tolist()


def test_levels_do_not_depend_on_the_order_of_jobs_and_machines(rng: np.random.Generator) -> None:
    """400 graphs of up to 60 x 25, each in four further orders, whose optima do differ."""
    n_optima_differ = 0
    for _ in range(400):
        n_jobs, n_machines = rng.integers(1, 61), rng.integers(1, 26)
        table = rng.random((n_jobs, n_machines)) < rng.uniform(0.03, 0.5)
        table[np.arange(n_jobs), rng.integers(n_machines, size=n_jobs)] = True
        levels = load_levels(csr_array(table))
        for _ in range(4):
            jobs, machines = rng.permutation(n_jobs), rng.permutation(n_machines)
            turned = load_levels(csr_array(table[jobs][:, machines]))
            assert np.array_equal(levels.level[machines], turned.level)
            assert np.array_equal(levels.least[machines], turned.least)
            n_optima_differ += not np.array_equal(levels.load[machines], turned.load)
    assert n_optima_differ > 100


def test_they_are_the_balanced_load_rounded_up_and_down(rng: np.random.Generator) -> None:
    for _ in range(300):
        table = rng.random((rng.integers(1, 40), rng.integers(1, 20))) < rng.uniform(0.05, 0.6)
        table = table[table.any(axis=1)]
        levels, balanced = load_levels(csr_array(table)), balanced_loads(csr_array(table))
        assert balanced.converged
        assert np.array_equal(np.ceil(balanced.load), levels.level)
        assert np.array_equal(np.floor(balanced.load), levels.least)


@QUICK
@given(label_rows())
def test_renaming_changes_nobodys_level(rows: list[Row]) -> None:
    turn = {"a": "c", "b": "a", "c": "b"}
    renamed = named_crowd([(w[::-1], t[::-1], turn[k]) for w, t, k in rows])
    labels = named_crowd(rows)
    place = [renamed.workers.tolist().index(w[::-1]) for w in labels.workers.tolist()]
    assert np.array_equal(hard_level(labels), hard_level(renamed)[place])


@QUICK
@given(crowds())
def test_the_level_is_the_hard_penalty_or_one_more(labels: CrowdLabels) -> None:
    assert np.isin(hard_level(labels) - hard_penalty(labels), (0, 1)).all()


def test_no_conflict_no_level() -> None:
    assert hard_level(encode(["ann", "bob"], [1, 2], ["x", "y"])).tolist() == [0, 0]
    assert load_levels(csr_array((0, 3))).least.tolist() == [0, 0, 0]


def test_a_job_without_machines_is_refused() -> None:
    with pytest.raises(ValueError, match="every job must have a machine, job 1 has none"):
        load_levels(csr_array([[1, 1], [0, 0]]))


def test_the_result_is_read_only() -> None:
    levels = load_levels(csr_array([[1, 1], [1, 0]]))
    for name in ("level", "least", "load", "assigned"):
        assert not getattr(levels, name).flags.writeable
