"""Collusion pairs: the exact test, simulated colluders, and honest crowds left alone."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.stats import binom, hypergeom

from benchmarks.quality.pair_test import collusion_pairs
from quality import CrowdLabels, encode, regular_assignment, simulate_crowd
from tests.quality.labels.strategies import crowds

QUICK = settings(max_examples=60, deadline=None, derandomize=True)


def slow_pairs(labels: CrowdLabels) -> dict[tuple[int, int], tuple[int, int, int, int, float]]:
    """Shared, wrong, wrong, same, p-value of each pair: dictionaries, and SciPy's hypergeometric."""
    said: dict[int, dict[int, int]] = {t: {} for t in range(labels.n_tasks)}
    for worker, task, label in zip(labels.worker, labels.task, labels.label, strict=True):
        said[int(task)][int(worker)] = int(label)
    found = {}
    for u, v in combinations(range(labels.n_workers), 2):
        strata: dict[int, list[tuple[bool, bool]]] = {}
        same = 0
        for answers in said.values():
            others = [label for worker, label in answers.items() if worker not in (u, v)]
            counts = sorted(((others.count(k), k) for k in set(others)), reverse=True)
            if u not in answers or v not in answers or not counts:
                continue
            n_best, best = counts[0]
            if len(others) - n_best > len(others) / 5:
                continue
            level = int(np.ceil(10 * (len(others) - n_best) / len(others) - 1e-9))
            strata.setdefault(level, []).append((answers[u] != best, answers[v] != best))
            same += answers[u] != best and answers[u] == answers[v]
        if not strata:
            continue
        chance = np.ones(1)
        for tasks in strata.values():
            a, b = sum(x for x, _ in tasks), sum(y for _, y in tasks)
            chance = np.convolve(chance, hypergeom.pmf(range(len(tasks) + 1), len(tasks), a, b))
        flat = [task for tasks in strata.values() for task in tasks]
        wrong = sum(x for x, _ in flat), sum(y for _, y in flat)
        found[u, v] = (len(flat), *wrong, same, float(chance[same:].sum()))
    return found


def crowd_of(rng: np.random.Generator, n_classes: int, **adversaries: int):  # type: ignore[no-untyped-def]
    """40 workers, 2000 tasks, 9 labels each: about 92 shared tasks a pair."""
    assignment = regular_assignment(n_tasks=2000, n_workers=40, labels_per_task=9, rng=rng)
    truth = rng.integers(n_classes, size=2000)
    crowd = simulate_crowd(assignment, truth, n_classes=n_classes, adversaries=adversaries, rng=rng)
    return encode(crowd.worker, crowd.task, crowd.label), crowd.kind


@QUICK
@given(crowds())
def test_it_is_the_slow_test(labels: CrowdLabels) -> None:
    pairs, expected = collusion_pairs(labels, min_shared=1), slow_pairs(labels)
    found = {
        (int(u), int(v)): (int(n), int(a), int(b), int(m), p)
        for (u, v), n, (a, b), m, p in zip(
            pairs.worker, pairs.n_shared, pairs.n_wrong, pairs.n_same, pairs.p_value, strict=True
        )
    }
    assert found.keys() == expected.keys()
    for pair, values in expected.items():
        assert found[pair] == pytest.approx(values, abs=1e-9)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_colluders_are_flagged_and_hardly_anybody_else(
    rng: np.random.Generator, n_classes: int
) -> None:
    """Four follow one script; of their six pairs nearly all, and of 774 others at most three."""
    labels, kind = crowd_of(rng, n_classes, colluding=4)
    pairs = collusion_pairs(labels)
    guilty = (kind[pairs.worker] == "colluding").all(axis=1)
    assert np.count_nonzero(pairs.flagged & guilty) >= 5
    assert np.count_nonzero(pairs.flagged & ~guilty) <= 3


@pytest.mark.parametrize("adversaries", [{}, {"random": 12}])
def test_independent_workers_are_left_alone(
    rng: np.random.Generator, adversaries: dict[str, int]
) -> None:
    """30 crowds without a colluding pair. Each raises an alarm with probability 0.05 at most: more
    than 10 alarms happen with probability < 1e-6."""
    assert binom.sf(10, 30, 0.05) < 1e-6
    alarms = sum(
        collusion_pairs(crowd_of(rng, 2, **adversaries)[0]).flagged.any() for _ in range(30)
    )
    assert alarms <= 10


def test_p_values_are_no_smaller_than_chance_has_it(rng: np.random.Generator) -> None:
    """All pairs of ten crowds of independent workers; the count is discrete, so it is far below."""
    p_value = np.concatenate(
        [collusion_pairs(crowd_of(rng, 2, random=10)[0]).p_value for _ in range(10)]
    )
    for x in (0.01, 0.05, 0.2):
        assert np.mean(p_value <= x) <= x


def test_names_play_no_part(rng: np.random.Generator) -> None:
    labels, _ = crowd_of(rng, 2, colluding=3)
    renamed = encode(
        rng.permutation(40)[labels.worker], rng.permutation(2000)[labels.task], 1 - labels.label
    )
    one, other = collusion_pairs(labels), collusion_pairs(renamed)
    assert np.sort(one.p_value) == pytest.approx(np.sort(other.p_value), rel=1e-9)
    assert np.count_nonzero(one.flagged) == np.count_nonzero(other.flagged)


def test_same_on_every_run(rng: np.random.Generator) -> None:
    labels, _ = crowd_of(rng, 3, colluding=3)
    one, other = collusion_pairs(labels), collusion_pairs(labels)
    assert one.p_value.tobytes() == other.p_value.tobytes()
    assert one.worker.tobytes() == other.worker.tobytes()


def test_without_a_pair_nothing_is_tested() -> None:
    pairs = collusion_pairs(encode(["a", "b"], [1, 2], ["x", "y"]))
    assert repr(pairs) == "CollusionPairs(0 pairs tested, 0 flagged)"


@pytest.mark.parametrize(
    ("parameter", "value"),
    [("false_discovery_rate", 0.0), ("false_discovery_rate", np.nan), ("min_shared", 0)],
)
def test_parameters_out_of_range_are_refused(parameter: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{parameter} must be .*got {parameter}="):
        collusion_pairs(encode(["a"], [1], ["x"]), **{parameter: value})
