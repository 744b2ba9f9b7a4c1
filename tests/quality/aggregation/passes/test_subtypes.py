"""The passes of EBCC: the same as task by task in logarithms, in parts of eight truths."""

import numpy as np
import pytest

from quality.aggregation.passes import (
    class_posterior,
    deal,
    find_rows,
    in_lines,
    narrow,
    subtype_pass,
)

N_ROWS, N_TASKS = 9, 60


def by_part(table: np.ndarray) -> np.ndarray:
    """A table of rows and truths, as kernels have it: a part for every eight truths."""
    parts = table.reshape(len(table), -1, 8).transpose(1, 0, 2)
    return np.ascontiguousarray(parts).reshape(len(parts), -1)


def by_row(parts: np.ndarray) -> np.ndarray:
    """The same, the other way."""
    return parts.reshape(len(parts), -1, 8).transpose(1, 0, 2).reshape(parts.shape[1] // 8, -1)


def some_tasks(per_task: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Where each task's labels begin, and the row of each; some tasks have none."""
    size = rng.integers(per_task + 1, size=N_TASKS)
    size[7] = 0
    start = np.concatenate([[0], np.cumsum(size)])
    return start, rng.integers(N_ROWS, size=start[-1]).astype(np.int32)


@pytest.mark.parametrize("n_truths", [8, 16, 40])
@pytest.mark.parametrize("per_task", [1, 4, 900])
@pytest.mark.parametrize("room", [13, 100])
def test_the_pass_of_eight_truths_at_a_time_is_that_of_one(
    n_truths: int, per_task: int, room: int, rng: np.random.Generator
) -> None:
    """Also where products underflow, and for tasks without labels."""
    table = rng.dirichlet(np.full(n_truths, 0.3), N_ROWS) + 1e-9
    prior = rng.dirichlet(np.ones(n_truths))
    start, row = some_tasks(per_task, rng)
    expected, mass, log_likelihood = np.zeros(table.shape), np.zeros(n_truths), 0.0
    posterior = np.tile(prior, (N_TASKS, 1))
    for task in np.flatnonzero(np.diff(start)):
        rows = row[start[task] : start[task + 1]]
        score = np.log(prior) + np.log(table[rows]).sum(axis=0)
        highest = score.max()
        share = np.exp(score - highest)
        log_likelihood += highest + np.log(share.sum())
        posterior[task] = share / share.sum()
        np.add.at(expected, rows, posterior[task])
        mass += posterior[task]
    parts, counts, given = by_part(table), by_part(np.ones(table.shape)), np.ones(n_truths)
    work = in_lines(len(parts), room * 8), np.empty(room)
    rows = start, row * np.int32(8)
    found = subtype_pass(0, N_TASKS, *rows, prior, parts, counts, given, *work, np.empty(n_truths))
    assert found == pytest.approx(log_likelihood, rel=1e-12)
    assert by_row(counts) == pytest.approx(expected, abs=1e-8)
    assert given == pytest.approx(mass, abs=1e-10)
    of_class, truth = np.empty((N_TASKS, 2)), np.arange(n_truths)
    found = class_posterior(0, N_TASKS, n_truths // 2, *rows, truth, prior, parts, *work, of_class)
    assert found == pytest.approx(log_likelihood, rel=1e-12)
    summed = posterior.reshape(N_TASKS, 2, -1).sum(axis=2)
    assert of_class == pytest.approx(summed, abs=1e-10)


def test_rows_are_the_answers_that_each_worker_gives(rng: np.random.Generator) -> None:
    worker = rng.choice([0, 1, 3], size=40).astype(np.int32)  # worker 2 gives none
    label = (rng.integers(3, size=40) * (worker != 1)).astype(np.int16)
    place, answer, start = np.empty(40, np.int32), np.empty(12, np.int64), np.empty(5, np.int64)
    n_rows = find_rows(worker, label, place, answer, start)
    pairs, of_label = np.unique(np.stack([worker, label]), axis=1, return_inverse=True)
    assert n_rows == pairs.shape[1]
    assert answer[:n_rows].tolist() == pairs[1].tolist()
    assert np.diff(start).tolist() == np.bincount(pairs[0], minlength=4).tolist()
    assert place.tolist() == (8 * of_label).tolist()


def test_votes_are_dealt_to_the_subtypes_of_the_classes_that_have_some(
    rng: np.random.Generator,
) -> None:
    start, row = some_tasks(4, rng)
    label = rng.integers(2, size=len(row)).astype(np.int16)
    labelled = np.flatnonzero(np.diff(start))
    drawn = rng.standard_exponential((len(labelled), 2, 5))
    counts, mass = np.zeros((2, N_ROWS * 8)), np.zeros(16)
    deal(
        0, N_TASKS, start, row * np.int32(8), label, drawn, counts, mass, np.ones((2, 8 * N_TASKS)),
        np.empty(N_TASKS),
    )  # fmt: skip
    expected, votes = np.zeros((N_ROWS, 16)), np.zeros((N_TASKS, 2))
    task = np.repeat(np.arange(N_TASKS), np.diff(start))
    np.add.at(votes, (task, label), 1)
    shares = votes[labelled] / votes[labelled].sum(axis=1, keepdims=True)
    belief = np.zeros((N_TASKS, 16))
    dealt = drawn / drawn.sum(axis=2, keepdims=True) * shares[:, :, np.newaxis]
    belief[labelled, :10] = dealt.reshape(-1, 10)
    np.add.at(expected, row, belief[task])
    assert by_row(counts) == pytest.approx(expected, rel=1e-12)
    assert mass == pytest.approx(belief.sum(axis=0), rel=1e-12)


def test_what_is_not_empty_moves_to_the_front_with_all_that_belongs_to_it(
    rng: np.random.Generator,
) -> None:
    mass, truth = np.zeros(24), np.arange(24)
    full = np.array([1, 5, 8, 15, 16, 17, 23])
    mass[full] = rng.random(7) + 1
    table, pseudo = rng.random((N_ROWS, 24)), rng.random((2, 24))
    parts, before = by_part(table), by_part(pseudo)
    first = mass.copy()
    assert narrow(mass, truth, parts, before, 3) == 1
    kept = truth[:8]
    assert set(full) < set(kept.tolist())
    assert (np.diff(kept) > 0).all()
    assert mass[:8].tolist() == first[kept].tolist()
    assert by_row(parts)[:, :8].tolist() == table[:, kept].tolist()
    assert by_row(before)[:, :8].tolist() == pseudo[:, kept].tolist()
    assert narrow(mass, truth, parts, before, 1) == 1  # one part is always left


def test_all_subtypes_are_left_of_a_table_without_labels(rng: np.random.Generator) -> None:
    truth, table, pseudo = np.arange(24), rng.random((N_ROWS, 24)), rng.random((2, 24))
    assert narrow(np.zeros(24), truth, by_part(table), by_part(pseudo), 3) == 3
    assert truth.tolist() == list(range(24))
