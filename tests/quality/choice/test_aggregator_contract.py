"""What every aggregator promises, whatever its model; the list is in contracts.py."""

from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields
from inspect import signature
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from quality import CrowdLabels, encode, regular_assignment, simulate_crowd
from tests.quality.choice.contracts import AGGREGATORS, Aggregator
from tests.quality.labels.strategies import crowds

every_aggregator = pytest.mark.parametrize(
    "aggregator", AGGREGATORS, ids=[aggregator.name for aggregator in AGGREGATORS]
)
every_nameless = pytest.mark.parametrize(
    "aggregator",
    [aggregator for aggregator in AGGREGATORS if aggregator.nameless],
    ids=[aggregator.name for aggregator in AGGREGATORS if aggregator.nameless],
)

every_iterative = pytest.mark.parametrize(
    "rule",
    [aggregator.function for aggregator in AGGREGATORS if aggregator.iterative],
    ids=lambda rule: rule.__name__,
)


def columns(rng: np.random.Generator, n_classes: int = 3) -> tuple[np.ndarray, ...]:
    """Worker, task and label of 120 tasks by 24 workers, three of them malicious; no ties left."""
    assignment = regular_assignment(n_tasks=120, n_workers=24, labels_per_task=7, rng=rng)
    truth = rng.integers(n_classes, size=120)
    crowd = simulate_crowd(
        assignment, truth, n_classes=n_classes, adversaries={"malicious": 3}, rng=rng
    )
    return crowd.worker, crowd.task, crowd.label


@pytest.mark.long
@every_aggregator
@settings(max_examples=25, deadline=None, derandomize=True)
@given(labels=crowds())
def test_posterior_is_a_distribution_and_label_its_first_maximum(
    aggregator: Aggregator, labels: CrowdLabels
) -> None:
    result = aggregator.run(labels)
    posterior = result.posterior
    assert posterior.shape == (labels.n_tasks, labels.n_classes)
    assert (posterior >= 0).all()
    assert posterior.sum(axis=1) == pytest.approx(np.ones(labels.n_tasks), abs=1e-12)
    best = posterior >= posterior.max(axis=1, keepdims=True) - 1e-12
    assert result.label.dtype == np.int16
    assert np.array_equal(result.label, best.argmax(axis=1))
    assert np.array_equal(result.tied, best.sum(axis=1) > 1)


@every_aggregator
def test_result_is_frozen_and_its_arrays_read_only(
    aggregator: Aggregator, rng: np.random.Generator
) -> None:
    result = aggregator.run(encode(*columns(rng)))
    with pytest.raises(FrozenInstanceError):
        result.label = result.label  # type: ignore[misc]
    arrays = [getattr(result, field.name) for field in fields(result)]  # type: ignore[arg-type]
    assert not any(array.flags.writeable for array in arrays if isinstance(array, np.ndarray))
    assert repr(result).startswith(type(result).__name__)


@every_aggregator
def test_same_bytes_whatever_the_order_of_the_rows(
    aggregator: Aggregator, rng: np.random.Generator
) -> None:
    table = columns(rng)
    order = rng.permutation(len(table[0]))
    one = aggregator.run(encode(*table))
    other = aggregator.run(encode(*(column[order] for column in table)))
    assert one.posterior.tobytes() == other.posterior.tobytes()


@every_aggregator
def test_a_group_counts_as_one_voter(aggregator: Aggregator, rng: np.random.Generator) -> None:
    """The same as of the table in which the group's majority is one worker's label."""
    labels = encode(*columns(rng))
    groups = np.full(labels.n_workers, -1)
    groups[[2, 5, 11]], groups[[7, 8]] = 0, 1
    result = aggregator.run(labels, groups=groups)
    if aggregator.name == "weighted_majority":  # its weights are of the workers, not of the voters
        assert not np.array_equal(result.posterior, aggregator.run(labels).posterior)
        return
    merged = aggregator.run(labels.merge_workers(groups))
    assert result.posterior.tobytes() == merged.posterior.tobytes()
    for name in ("confusion", "reliability", "ability"):
        values = getattr(result, name, None)
        if values is not None:
            assert np.array_equal(values[11], values[2])
            assert np.array_equal(values[2], getattr(merged, name)[2])


@every_nameless
def test_groups_play_their_part_whatever_workers_are_called(
    aggregator: Aggregator, rng: np.random.Generator
) -> None:
    worker, task, label = columns(rng)
    names = rng.permutation(24)
    groups = np.full(24, -1)
    groups[[2, 5, 11]] = 0
    renamed = np.full(24, -1)
    renamed[names] = groups
    one = aggregator.run(encode(worker, task, label), groups=groups)
    other = aggregator.run(encode(names[worker], task, label), groups=renamed)
    assert np.abs(one.posterior - other.posterior).max() < 1e-4


@every_nameless
def test_names_of_workers_tasks_and_classes_play_no_part(
    aggregator: Aggregator, rng: np.random.Generator
) -> None:
    worker, task, label = columns(rng)
    workers, tasks, classes = rng.permutation(24), rng.permutation(120), np.array([2, 0, 1])
    one = aggregator.run(encode(worker, task, label))
    other = aggregator.run(encode(workers[worker], tasks[task], classes[label]))
    # a stopping rule may see a rounding difference: one iteration more or less
    assert one.posterior == pytest.approx(other.posterior[tasks][:, classes], abs=1e-4)
    assert np.array_equal(classes[one.label][~one.tied], other.label[tasks][~one.tied])


@every_aggregator
@pytest.mark.parametrize("workers_per_task", [1, 5])
def test_unanimous_tasks_get_the_class_all_gave(
    aggregator: Aggregator, workers_per_task: int
) -> None:
    task = np.repeat(np.arange(60), workers_per_task)
    worker = (task + np.tile(np.arange(workers_per_task), 60) * 3) % 20
    result = aggregator.run(encode(worker, task, task % 3))
    assert np.array_equal(result.label, np.arange(60) % 3)
    assert not result.tied.any()


@every_aggregator
def test_a_class_nobody_gives_is_nobodys_label(
    aggregator: Aggregator, rng: np.random.Generator
) -> None:
    result = aggregator.run(encode(*columns(rng), classes=[0, 1, 7, 2]))
    assert np.isfinite(result.posterior).all()
    assert not (result.label == 2).any()


@every_aggregator
def test_one_class_is_the_answer_everywhere(aggregator: Aggregator) -> None:
    result = aggregator.run(encode(["a", "b", "a"], [1, 1, 2], ["x", "x", "x"]))
    assert np.array_equal(result.posterior, np.ones((2, 1)))
    assert not result.tied.any()


@every_aggregator
def test_tasks_without_labels_leave_the_others_alone(
    aggregator: Aggregator, rng: np.random.Generator
) -> None:
    worker, task, label = columns(rng)
    newcomer = encode(np.append(worker, 99), np.append(task, 999), np.append(label, 0))
    labels = newcomer.keep_workers(newcomer.workers < 99)
    plain, result = aggregator.run(encode(worker, task, label)), aggregator.run(labels)
    assert result.posterior[:-1] == pytest.approx(plain.posterior, abs=1e-9)
    assert result.posterior[-1].sum() == pytest.approx(1)


@every_aggregator
def test_a_table_without_any_label_is_all_ties(aggregator: Aggregator) -> None:
    labels = encode(["a", "b"], [1, 2], ["x", "y"]).keep_workers(np.zeros(2, dtype=bool))
    result = aggregator.run(labels)
    assert result.tied.all()
    assert getattr(result, "converged", True)
    assert np.array_equal(result.posterior, np.full((2, 2), 0.5))


def asked_of(rule: Callable[..., Any]) -> dict[str, np.random.Generator]:
    """The generator, for rules that draw."""
    return {"rng": np.random.default_rng(0)} if "rng" in signature(rule).parameters else {}


@every_iterative
def test_not_converging_is_a_result(rule: Callable[..., Any]) -> None:
    labels = encode(["a", "b", "c"] * 2, [1, 1, 1, 2, 2, 2], list("xxyyyx"))
    result = rule(labels, max_iter=1, **asked_of(rule))
    assert (result.converged, result.n_iter) == (False, 1)
    assert "not converged after 1 iterations" in repr(result)


@every_iterative
@pytest.mark.parametrize(
    ("parameter", "value"), [("max_iter", 0), ("tol", -1.0), ("tol", np.nan), ("threads", 0)]
)
def test_parameters_out_of_range_are_refused(
    rule: Callable[..., Any], parameter: str, value: float
) -> None:
    labels = encode(["a", "b"], [1, 1], ["x", "y"])
    with pytest.raises(ValueError, match=f"{parameter} must be .*got {parameter}="):
        rule(labels, **{parameter: value}, **asked_of(rule))
