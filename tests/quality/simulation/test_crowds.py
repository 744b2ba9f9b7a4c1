"""Simulated crowds: different workers on every task, and workers who do what their kind says."""

import tracemalloc
from typing import Any

import numpy as np
import pytest

from quality import (
    CrowdLabels,
    SimulatedCrowd,
    encode,
    power_law_assignment,
    regular_assignment,
    robustness_bounds,
    simulate_crowd,
    soft_penalty,
)
from quality.simulation import crowds
from quality.simulation.crowds import STRATEGIES, Assignment
from tests.quality.choice.contracts import AGGREGATORS, Aggregator

PERFECT = (1e9, 1e-12)  # Beta parameters of a worker who is always right


@pytest.fixture
def crowd(rng: np.random.Generator) -> SimulatedCrowd:
    """40 workers, 3 of each kind of adversary, 3 classes, 4,000 tasks."""
    assignment = regular_assignment(n_tasks=4000, n_workers=40, labels_per_task=8, rng=rng)
    truth = rng.choice(3, p=[0.5, 0.3, 0.2], size=4000)
    adversaries = dict.fromkeys(STRATEGIES, 3)
    return simulate_crowd(assignment, truth, n_classes=3, adversaries=adversaries, rng=rng)


def labels_of(crowd: SimulatedCrowd, kind: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """Tasks and labels of each worker of a kind."""
    workers = np.flatnonzero(crowd.kind == kind)
    return [(crowd.task[crowd.worker == w], crowd.label[crowd.worker == w]) for w in workers]


def test_there_are_as_many_of_each_kind_as_asked(crowd: SimulatedCrowd) -> None:
    kinds, counts = np.unique(crowd.kind, return_counts=True)
    found = dict(zip(kinds.tolist(), counts.tolist(), strict=True))
    assert found == {"honest": 28, "random": 3, "malicious": 3, "uniform": 3, "colluding": 3}
    assert np.array_equal(np.isnan(crowd.accuracy), crowd.kind != "honest")


def test_malicious_workers_are_always_wrong_in_every_way(crowd: SimulatedCrowd) -> None:
    for task, label in labels_of(crowd, "malicious"):
        assert (label != crowd.truth[task]).all()
        assert len(set(zip(crowd.truth[task].tolist(), label.tolist(), strict=True))) == 6


def test_uniform_workers_give_one_class_each(crowd: SimulatedCrowd) -> None:
    assert all(len(set(label.tolist())) == 1 for _, label in labels_of(crowd, "uniform"))


def test_colluding_workers_follow_one_script(crowd: SimulatedCrowd) -> None:
    script: dict[int, int] = {}
    for task, label in labels_of(crowd, "colluding"):
        for one, said in zip(task.tolist(), label.tolist(), strict=True):
            assert script.setdefault(one, said) == said
    assert set(script.values()) == {0, 1, 2}


def test_random_workers_give_every_class_equally_often(crowd: SimulatedCrowd) -> None:
    """2,400 labels: Hoeffding puts a share beyond 0.06 with probability below 2 * e^-17.2 = 7e-8."""
    label = np.concatenate([label for _, label in labels_of(crowd, "random")])
    assert len(label) == 2400
    assert np.bincount(label, minlength=3) / 2400 == pytest.approx(np.full(3, 1 / 3), abs=0.06)


def test_honest_workers_are_right_as_often_as_their_accuracy(crowd: SimulatedCrowd) -> None:
    """800 labels each: Hoeffding, 0.11 off has probability 2 * e^-19.3 = 8e-9, for 28 below 3e-7."""
    accuracy = crowd.accuracy[crowd.kind == "honest"]
    for (task, label), expected in zip(labels_of(crowd, "honest"), accuracy, strict=True):
        assert len(label) == 800
        assert np.mean(label == crowd.truth[task]) == pytest.approx(expected, abs=0.11)


def test_a_copying_worker_repeats_most_of_what_her_model_said_five_tasks_behind(
    rng: np.random.Generator,
) -> None:
    """8 copying workers, 795 labels each, one tenth of them mistakes.

    Hoeffding: 0.08 off has probability below 2 * e^-10.1 for one, 7e-4; 0.04 off for all 6,360
    together below 2 * e^-20.3 = 3e-9.
    """
    assignment = regular_assignment(n_tasks=4000, n_workers=40, labels_per_task=8, rng=rng)
    truth = rng.integers(3, size=4000)
    found = simulate_crowd(assignment, truth, n_classes=3, adversaries={"copying": 8}, rng=rng)
    n_copies = n_same = 0
    for copier in np.flatnonzero(found.kind == "copying"):
        model = found.model[copier]
        assert found.kind[model] == "honest"
        said = dict(
            zip(found.task[found.worker == model], found.label[found.worker == model], strict=True)
        )
        task, label = found.task[found.worker == copier], found.label[found.worker == copier]
        assert len(set(task.tolist())) == len(task) == len(said) - 5
        n_same += sum(said[t] == k for t, k in zip(task, label, strict=True))
        n_copies += len(task)
    assert n_copies == 6360
    assert n_same / n_copies == pytest.approx(0.9, abs=0.04)
    assert (found.model[found.kind == "honest"] == -1).all()
    assert (np.diff(found.task) >= 0).all()


def mirrored(seed: int) -> tuple[SimulatedCrowd, SimulatedCrowd, float]:
    """Six mirrors in a crowd of the always right; the same where all they deny is true; theorem 3's L."""
    rng = np.random.default_rng(seed)
    assignment = power_law_assignment(
        n_tasks=120, n_workers=30, labels_per_task=2, exponent=1.2, rng=rng
    )
    truth = rng.integers(2, size=120)
    chosen = {"n_classes": 2, "adversaries": {"sophisticated": 6}, "reliability": PERFECT}
    one = simulate_crowd(assignment, truth, rng=np.random.default_rng(seed), **chosen)
    assert (one.accuracy[one.kind == "honest"] == 1).all()
    denied = np.unique(one.task[one.label != truth[one.task]])
    turned = truth.copy()
    turned[denied] = 1 - turned[denied]
    other = simulate_crowd(assignment, turned, rng=np.random.default_rng(seed), **chosen)
    honest = (one.kind == "honest")[one.worker]
    seen = encode(one.worker[honest], one.task[honest], one.label[honest], classes=[0, 1])
    bounds = robustness_bounds(seen, max_adversaries=6)
    assert bounds.method[5] == "exact"
    return one, other, float(bounds.name_blind[5])


def table(crowd: SimulatedCrowd, name: np.ndarray | None = None) -> CrowdLabels:
    """Its labels, the workers under other names if there are any."""
    worker = crowd.worker if name is None else name[crowd.worker]
    return encode(worker, crowd.task, crowd.label, classes=[0, 1])


@pytest.mark.parametrize("seed", range(4))
def test_sophisticated_workers_and_their_models_could_change_places_without_a_trace(
    seed: int,
) -> None:
    one, other, bound = mirrored(seed)
    mirrors = np.flatnonzero(one.kind == "sophisticated")
    assert len(set(one.model[mirrors].tolist())) == 6
    assert (one.truth != other.truth).sum() == 2 * bound > 0
    exchanged = np.arange(len(one.kind))
    exchanged[mirrors], exchanged[one.model[mirrors]] = one.model[mirrors], mirrors
    swapped, plain = table(one, exchanged), table(other)
    for name in ("worker", "task", "label"):
        assert np.array_equal(getattr(swapped, name), getattr(plain, name))
    penalty = np.full(len(one.kind), np.nan)
    penalty[table(one).workers] = soft_penalty(table(one))
    assert penalty[mirrors] == pytest.approx(penalty[one.model[mirrors]])


@pytest.mark.parametrize("rule", AGGREGATORS, ids=lambda rule: rule.name)
def test_no_rule_errs_on_fewer_tasks_than_theorem_3_says(rule: Aggregator) -> None:
    """Two crowds that differ in names alone: what is right in the one is wrong in the other.

    The second is given under exchanged names, so that a rule which looks at names sees the same.
    """
    one, other, bound = mirrored(0)
    mirrors = np.flatnonzero(one.kind == "sophisticated")
    exchanged = np.arange(len(one.kind))
    exchanged[mirrors], exchanged[one.model[mirrors]] = one.model[mirrors], mirrors
    wrong = []
    for crowd, name in ((one, None), (other, None if rule.nameless else exchanged)):
        labels = table(crowd, name)
        wrong.append(np.count_nonzero(rule.run(labels).label != crowd.truth[labels.tasks]))
    assert max(wrong) >= bound > 5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"adversaries": {"sophisticated": 3}}, "adversaries must leave 3 honest workers"),
        ({"adversaries": {"copying": 1, "random": 3}}, "adversaries must leave 1 honest workers"),
        ({"n_classes": 1}, "n_classes must be >= 2, got n_classes=1"),
        ({"adversaries": {"sleepy": 1}}, r"adversaries must be of .*got \['sleepy'\]"),
        ({"adversaries": {"random": 5}}, "adversaries must be at most all 4 workers"),
        ({"adversaries": {"random": -1}}, "adversaries must be at most all 4 workers"),
        pytest.param(
            {"adversaries": {"random": 1.5}},
            "adversaries must be at most all 4 workers, in whole numbers, got",
            marks=pytest.mark.refusal,
        ),
        ({"truth": np.array([0, 2])}, "truth must be 2 class codes below 2"),
        ({"truth": np.array([0])}, "truth must be 2 class codes below 2"),
        pytest.param(
            {"adversaries": {"sleepy": 1, 3: 1}},
            r"adversaries must be of .*got \[3, 'sleepy'\]",
            marks=pytest.mark.refusal,
        ),
        pytest.param(
            {"truth": np.array([0.0, 1.0])},
            "truth must be 2 class codes below 2, got float64",
            marks=pytest.mark.refusal,
        ),
        ({"reliability": (0.0, 1.0)}, r"reliability must be two numbers in \(0, 1e300\], got"),
        ({"reliability": (1.0, float("nan"))}, "reliability must be two numbers in"),
        # the sum of the two overflows, and every worker would be wrong always
        ({"reliability": (1e308, 1e308)}, "reliability must be two numbers in"),
        pytest.param(
            {"reliability": (1.0, 2.0, 3.0)},
            "reliability must be two numbers in",
            marks=pytest.mark.refusal,
        ),
        pytest.param(
            {"reliability": ("a", 1.0)},
            r"reliability must be two numbers in .*got \('a', 1.0\)",
            marks=pytest.mark.refusal,
        ),
    ],
)
def test_what_does_not_fit_is_refused(
    change: dict[str, Any], message: str, rng: np.random.Generator
) -> None:
    assignment = regular_assignment(n_tasks=2, n_workers=4, labels_per_task=2, rng=rng)
    arguments: dict[str, Any] = {
        "truth": np.array([0, 1]), "n_classes": 2, "adversaries": {}, "rng": rng,
    } | change  # fmt: skip
    with pytest.raises(ValueError, match=message):
        simulate_crowd(assignment, **arguments)


@pytest.mark.parametrize(
    ("worker", "task", "message"),
    [
        ([0, 1], [0, 2], "worker and task must be as many codes"),
        ([0, 3], [0, 1], "worker and task must be as many codes"),
        ([-1, 1], [0, 1], "worker and task must be as many codes"),
        pytest.param(
            [0], [0, 1], "worker and task must be as many codes", marks=pytest.mark.refusal
        ),
        ([0, 1], [1, 0], "task must ascend"),
    ],
)
def test_an_assignment_that_names_nobody_or_is_out_of_order_cannot_be_made(
    worker: list[int], task: list[int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Assignment(np.array(worker), np.array(task), n_workers=3, n_tasks=2)


@pytest.mark.refusal
def test_labels_are_whole_numbers_whatever_kind_of_codes_the_truth_has(
    rng: np.random.Generator,
) -> None:
    """Unsigned codes of 64 bits and signed ones add up to floating point."""
    assignment = regular_assignment(n_tasks=20, n_workers=8, labels_per_task=3, rng=rng)
    chosen = {"n_classes": 100, "adversaries": {"malicious": 2, "shifted": 2, "part_time": 2}}
    plain = simulate_crowd(assignment, np.full(20, 99), rng=np.random.default_rng(1), **chosen)
    for kind in (np.uint64, np.uint8, np.int8):
        truth = np.full(20, 99, dtype=kind)
        found = simulate_crowd(assignment, truth, rng=np.random.default_rng(1), **chosen)
        assert found.label.dtype == found.truth.dtype == np.int64
        assert np.array_equal(found.label, plain.label)


def test_imitators_take_no_room_for_labels_that_they_do_not_copy(rng: np.random.Generator) -> None:
    """Four hundred of a thousand imitate: a look of each at every label takes 30 MB."""
    assignment = regular_assignment(n_tasks=20_000, n_workers=1_000, labels_per_task=5, rng=rng)
    truth = rng.integers(2, size=20_000)
    tracemalloc.start()
    try:
        simulate_crowd(assignment, truth, n_classes=2, adversaries={"copying": 400}, rng=rng)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20e6


def rows_are_different_workers(worker: np.ndarray, labels_per_task: int) -> bool:
    """Whether no task asks a worker twice."""
    rows = np.sort(worker.reshape(-1, labels_per_task), axis=1)
    return bool((np.diff(rows, axis=1) > 0).all())


@pytest.mark.parametrize(("n_tasks", "n_workers", "labels_per_task"), [
    (50, 10, 3), (7, 5, 5), (1, 9, 2), (40, 11, 7), (30, 1, 1), (100, 8, 5),
])  # fmt: skip
def test_each_task_asks_different_workers(
    n_tasks: int, n_workers: int, labels_per_task: int, rng: np.random.Generator
) -> None:
    sizes = {"n_tasks": n_tasks, "n_workers": n_workers, "labels_per_task": labels_per_task}
    for assignment in (
        regular_assignment(**sizes, rng=rng),
        power_law_assignment(**sizes, rng=rng),
    ):
        assert np.array_equal(np.bincount(assignment.task), np.full(n_tasks, labels_per_task))
        assert rows_are_different_workers(assignment.worker, labels_per_task)
        assert assignment.worker.max() < n_workers
    degree = np.bincount(regular_assignment(**sizes, rng=rng).worker, minlength=n_workers)
    assert np.ptp(degree) <= 1
    assert n_tasks * labels_per_task % n_workers or np.ptp(degree) == 0


def test_regular_tasks_are_not_labelled_by_fixed_teams(rng: np.random.Generator) -> None:
    """12 workers in threes: a few fixed teams would repeat, shuffled decks give many teams."""
    worker = regular_assignment(n_tasks=400, n_workers=12, labels_per_task=3, rng=rng).worker
    teams = {tuple(sorted(team)) for team in worker.reshape(-1, 3).tolist()}
    assert len(teams) > 100


@pytest.mark.parametrize("exponent", [30.0, 1e4, 1e308])
def test_draws_end_however_steep_the_activity_is(exponent: float, rng: np.random.Generator) -> None:
    sizes = {"n_tasks": 20, "n_workers": 12, "labels_per_task": 12}
    drawn = power_law_assignment(**sizes, exponent=exponent, rng=rng).worker.reshape(20, 12)
    assert rows_are_different_workers(drawn, 12)
    # the next in rank has a chance of 1 - (11/12)^30 = .93 at least
    assert np.mean(drawn == np.median(drawn, axis=0)) > (0.7 if exponent < 1e3 else 0.999)


def test_keys_draw_by_the_law_of_redrawing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each ordered pair of 4 workers, exponent 1, 60,000 tasks: six standard errors are below .012."""
    sizes, shares = {"n_tasks": 60_000, "n_workers": 4, "labels_per_task": 2}, []
    for rounds in (1_000, 1):
        monkeypatch.setattr(crowds, "MAX_ROUNDS", rounds)
        drawn = power_law_assignment(**sizes, exponent=1.0, rng=np.random.default_rng(3)).worker
        shares.append(np.bincount(drawn.reshape(-1, 2) @ [4, 1], minlength=16) / 60_000)
    assert shares[1] == pytest.approx(shares[0], abs=0.012)


def test_activity_falls_off_as_the_power_law_says(rng: np.random.Generator) -> None:
    """One label per task, so shares are exactly rank ** -1 / 2.929 for 10 workers.

    Hoeffding: a share of 40,000 draws is off by 0.0145 with probability below 2 * e^-16.8 = 1e-7,
    for 10 shares below 1e-6.
    """
    assignment = power_law_assignment(
        n_tasks=40_000, n_workers=10, labels_per_task=1, exponent=1.0, rng=rng
    )
    share = np.sort(np.bincount(assignment.worker, minlength=10))[::-1] / 40_000
    expected = 1 / np.arange(1, 11)
    assert share == pytest.approx(expected / expected.sum(), abs=0.0145)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_tasks": 0}, "n_tasks must be >= 1, got n_tasks=0"),
        ({"labels_per_task": 0}, "labels_per_task must be in .*got labels_per_task=0"),
        ({"labels_per_task": 5}, "labels_per_task must be in .*got labels_per_task=5"),
    ],
)
def test_sizes_out_of_range_are_refused(
    change: dict[str, Any], message: str, rng: np.random.Generator
) -> None:
    sizes: dict[str, Any] = {"n_tasks": 3, "n_workers": 4, "labels_per_task": 2} | change
    for assign in (regular_assignment, power_law_assignment):
        with pytest.raises(ValueError, match=message):
            assign(**sizes, rng=rng)
    for exponent in (float("nan"), float("inf"), -1.0):
        with pytest.raises(
            ValueError, match=f"exponent must be >= 0 and finite, got exponent={exponent}"
        ):
            power_law_assignment(
                n_tasks=1, n_workers=1, labels_per_task=1, exponent=exponent, rng=rng
            )
