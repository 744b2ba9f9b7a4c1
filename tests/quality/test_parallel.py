"""Chunks, the same bytes on any number of threads, and progress that changes nothing."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import quality
from quality import (
    CrowdLabels,
    auto,
    balanced_loads,
    balanced_penalty,
    conflict_graph,
    dawid_skene,
    encode,
    filter_workers,
    glad,
    hierarchical_dawid_skene,
    kos,
    kos_plus,
    majority_vote,
    one_coin_dawid_skene,
    power_law_assignment,
    regular_assignment,
    robustness_bounds,
    simulate_crowd,
    worker_report,
)
from quality.choice.automatic import CANDIDATES
from quality.parallel import MAX_CHUNKS, MIN_ROWS, chunk_starts, shared_out


def seeded(rule: Callable[..., Any]) -> Callable[..., Any]:
    return lambda labels, **asked: rule(labels, rng=np.random.default_rng(5), **asked)


ITERATIVE: dict[str, Callable[..., Any]] = {
    "Dawid–Skene": dawid_skene,
    "one-coin Dawid–Skene": one_coin_dawid_skene,
    "hierarchical Dawid–Skene": hierarchical_dawid_skene,
    "GLAD": glad,
    "KOS": seeded(kos),
    "KOS+": seeded(kos_plus),
}
every_rule = pytest.mark.parametrize("what", ITERATIVE)


def crowd_of(rng: np.random.Generator, n_classes: int) -> CrowdLabels:
    assignment = regular_assignment(n_tasks=120, n_workers=24, labels_per_task=7, rng=rng)
    truth = rng.integers(n_classes, size=120)
    crowd = simulate_crowd(
        assignment, truth, n_classes=n_classes, adversaries={"random": 3}, rng=rng
    )
    return encode(crowd.worker, crowd.task, crowd.label, classes=range(n_classes))


@every_rule
@pytest.mark.parametrize("n_classes", [2, 3])
def test_watching_changes_no_byte(rng: np.random.Generator, what: str, n_classes: int) -> None:
    labels = crowd_of(rng, n_classes)
    alone = ITERATIVE[what](labels, max_iter=13)
    watched = ITERATIVE[what](labels, max_iter=13, progress=lambda *_: None)
    for field in fields(alone):
        one, other = (np.asarray(getattr(found, field.name)) for found in (alone, watched))
        assert one.tobytes() == other.tobytes()


@every_rule
@pytest.mark.parametrize("tol", [0.0, 1e-3])
def test_every_iteration_is_told_and_no_step_twice(
    rng: np.random.Generator, what: str, tol: float
) -> None:
    """Two classes, where one iteration is one step; 13 are no multiple of any inner round."""
    told: list[tuple[str, int, int]] = []
    result = ITERATIVE[what](
        crowd_of(rng, 2), max_iter=13, tol=tol, progress=lambda *step: told.append(step)
    )
    assert told == [(what, done, 13) for done in range(1, result.n_iter + 1)]
    assert result.converged or result.n_iter == 13


@pytest.mark.parametrize("what", ["KOS", "KOS+"])
def test_the_steps_of_all_classes_are_one_work(rng: np.random.Generator, what: str) -> None:
    told: list[int] = []
    ITERATIVE[what](
        crowd_of(rng, 3), max_iter=4, tol=0.0, progress=lambda _, done, total: told.append(done)
    )
    assert told == [3, 6, 9, 12]  # three classes side by side


def test_the_choice_among_candidates_tells_of_every_fit(rng: np.random.Generator) -> None:
    """Seven candidates on two folds of three deals, then on all labels; watching changes nothing."""
    labels, told = crowd_of(rng, 2), list[tuple[str, int, int]]()
    alone = auto(labels, n_folds=2)
    watched = auto(labels, n_folds=2, progress=lambda *step: told.append(step))
    names = list(CANDIDATES)
    assert told[:42] == [(f"candidates: {names[at % 7]}", at, 49) for at in range(42)]
    weighing = [score.name for score in alone.scores if score.weight]
    assert [what for what, _, _ in told[42:]] == [f"candidates: {name}" for name in weighing]
    assert alone.posterior.tobytes() == watched.posterior.tobytes()
    assert repr(alone.scores) == repr(watched.scores)


@every_rule
def test_what_progress_raises_ends_the_work(rng: np.random.Generator, what: str) -> None:
    def cancel(_: str, done: int, __: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ITERATIVE[what](crowd_of(rng, 2), tol=0.0, progress=cancel)


def test_balanced_loads_tell_of_their_waves_and_cutting_them_changes_no_byte(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a small graph many waves are one stretch; here each becomes its own."""
    edges = power_law_assignment(n_tasks=4_000, n_workers=200, labels_per_task=5, rng=rng)
    labels = encode(edges.worker, edges.task, rng.integers(2, size=len(edges.task)))
    graph, stretch, wave = conflict_graph(labels), list[Any](), list[Any]()
    whole = balanced_loads(graph, progress=lambda *step: stretch.append(step))
    monkeypatch.setattr("quality.matching.levels.AT_ONCE", 1)
    cut = balanced_loads(graph, progress=lambda *step: wave.append(step))
    assert wave == [("balanced loads", n + 1, 10_000) for n in range(whole.n_iter)]
    assert stretch[-1] == wave[-1]
    assert len(stretch) < len(wave)
    assert whole.load.tobytes() == cut.load.tobytes()
    assert whole.share.data.tobytes() == cut.share.data.tobytes()
    assert (whole.n_iter, whole.converged) == (cut.n_iter, cut.converged)


def test_what_progress_raises_ends_the_waves(rng: np.random.Generator) -> None:
    def cancel(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        balanced_penalty(crowd_of(rng, 2), progress=cancel)


def test_the_search_for_what_rests_on_few_workers_tells_of_its_steps(
    rng: np.random.Generator,
) -> None:
    """Nine tasks of two workers each, so that the search has something to decide."""
    edges = regular_assignment(n_tasks=9, n_workers=6, labels_per_task=2, rng=rng)
    labels, told = encode(edges.worker, edges.task, edges.task % 2), list[tuple[str, int, int]]()
    alone = robustness_bounds(labels, max_adversaries=3, max_steps=40)
    watched = robustness_bounds(
        labels, max_adversaries=3, max_steps=40, progress=lambda *step: told.append(step)
    )
    done = [step for _, step, _ in told]
    assert {(what, total) for what, _, total in told} == {("robustness", 3 * 41)}
    assert done == sorted(set(done))
    assert {1, 2, 42, 43, 83, 84} <= set(done)  # for each k the greedy choice and a first step
    assert alone.name_blind.tobytes() == watched.name_blind.tobytes()


def test_a_worker_report_tells_of_what_takes_longest(rng: np.random.Generator) -> None:
    labels, told = crowd_of(rng, 3), list[tuple[str, int, int]]()
    filtered, posterior = filter_workers(labels, n_workers=1), majority_vote(labels).posterior
    alone = worker_report(labels, filtered, posterior)
    watched = worker_report(labels, filtered, posterior, progress=lambda *step: told.append(step))
    assert {what for what, _, _ in told} == {"hard penalties", "balanced loads"}
    assert alone.balanced_penalty.tobytes() == watched.balanced_penalty.tobytes()


@pytest.fixture(scope="module")
def labels() -> CrowdLabels:
    """140,000 labels: cut into chunks for tasks and for workers alike."""
    rng = np.random.default_rng(0)
    assignment = regular_assignment(n_tasks=20_000, n_workers=100, labels_per_task=7, rng=rng)
    truth = rng.integers(3, size=20_000)
    crowd = simulate_crowd(assignment, truth, n_classes=3, adversaries={"random": 20}, rng=rng)
    table = encode(crowd.worker, crowd.task, crowd.label)
    assert min(len(chunk_starts(start)) for start in (table.task_start, table.worker_start)) > 4
    return table


@every_rule
def test_same_bytes_on_any_number_of_threads(labels: CrowdLabels, what: str) -> None:
    one, *others = (ITERATIVE[what](labels, max_iter=6, threads=n) for n in (1, 2, 3, None))
    for other in others:
        for field in fields(one):
            mine, its = (np.asarray(getattr(found, field.name)) for found in (one, other))
            assert mine.tobytes() == its.tobytes()


@every_rule
def test_no_threads_are_refused(what: str) -> None:
    with pytest.raises(ValueError, match="threads must be >= 1 or None, got threads=0"):
        ITERATIVE[what](encode(["a", "b"], [1, 1], ["x", "y"]), threads=0)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 3 * MIN_ROWS), min_size=1, max_size=40))
def test_chunks_hold_every_unit_once_and_few_are_many_rows(sizes: list[int]) -> None:
    start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    cut = chunk_starts(start)
    assert (cut[0], cut[-1]) == (0, len(sizes))
    assert (np.diff(cut) >= 0).all()
    n_chunks = len(cut) - 1
    assert 1 <= n_chunks <= MAX_CHUNKS
    assert n_chunks == 1 or n_chunks * MIN_ROWS <= start[-1]
    # nobody has more than her part and one unit
    assert np.diff(start[cut]).max() <= start[-1] / n_chunks + max(sizes) + 1


def test_chunks_that_sums_of_their_own_would_not_pay_for_are_not_cut() -> None:
    start = np.arange(0, 10 * MIN_ROWS + 1, 10)
    assert len(chunk_starts(start)) == 9
    assert chunk_starts(start, 20 * MIN_ROWS).tolist() == [0, len(start) - 1]


@pytest.mark.parametrize("threads", [None, 1, 2, 7])
def test_results_come_in_the_order_of_the_chunks(threads: int | None) -> None:
    with shared_out(threads, 5) as shared:
        assert shared(lambda chunk: chunk**2) == [0, 1, 4, 9, 16]
        assert shared(lambda chunk: chunk) == [0, 1, 2, 3, 4]


CALLED = """from quality.parallel import kernel
TERM = {term}

@kernel
def inner(x):
    return x * {factor}
"""
CALLING = """from inner import TERM, inner
from quality.parallel import kernel

@kernel
def outer(x):
    return middle(x) + TERM

@kernel
def middle(x):
    return inner(x)

print(outer(3))
"""


@pytest.mark.long
def test_a_kernel_is_compiled_anew_where_one_that_it_calls_has_changed(tmp_path: Path) -> None:
    """Numba stamps saved code by the caller's file alone: an upgrade went on with the old callee."""
    (tmp_path / "outer.py").write_text(CALLING)
    found = []
    for factor, term in ((2, 1), (2, 1), (5, 1), (5, 7)):
        (tmp_path / "inner.py").write_text(CALLED.format(factor=factor, term=term))
        root = str(Path(quality.__file__).parents[1])
        run = subprocess.run(
            [sys.executable, str(tmp_path / "outer.py")],
            env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "kernels"), "PYTHONPATH": root},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        saved = sorted(path.stat().st_mtime_ns for path in tmp_path.rglob("outer*outer*.nbc"))
        found.append((int(run.stdout), saved))
    assert [value for value, _ in found] == [7, 7, 16, 22]
    assert found[0][1] == found[1][1]  # which is loaded


ENDED = """import signal, sys
from numba.core.codegen import CPUCodeLibrary
plain = CPUCodeLibrary._object_getbuffer_hook.__func__

def ended_while_code_is_asked_for(cls, library):
    signal.raise_signal(signal.SIGTERM)
    return plain(cls, library)

if sys.argv.pop() == "ended":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
    CPUCodeLibrary._object_getbuffer_hook = classmethod(ended_while_code_is_asked_for)
from quality.parallel import kernel

@kernel
def doubled(x):
    return 2 * x

print(doubled(3))
"""


def test_a_signal_that_comes_while_a_kernel_is_loaded_ends_the_process_as_anywhere(
    tmp_path: Path,
) -> None:
    """The process died of a segmentation fault: LLVM took the exception for missing code."""
    (tmp_path / "doubled.py").write_text(ENDED)
    root = str(Path(quality.__file__).parents[1])
    found = [
        subprocess.run(
            [sys.executable, str(tmp_path / "doubled.py"), how],
            env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "kernels"), "PYTHONPATH": root},
            capture_output=True, text=True, check=False,
        )
        for how in ("whole", "ended")
    ]  # fmt: skip
    assert [(run.returncode, run.stdout) for run in found] == [(0, "6\n"), (7, "")]
