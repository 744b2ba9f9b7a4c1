"""Alpha with its interval: R's krippendorffsalpha, a slow jackknife, Krippendorff's examples, invariances."""

import math
from dataclasses import astuple
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import t as student

from quality import (
    CrowdLabels,
    LocalEngine,
    alpha_by_class,
    alpha_by_group,
    alpha_by_shards,
    alpha_interval,
    cut_labels,
    encode,
    krippendorff_alpha,
)
from quality.agreement import METRICS, Alpha
from quality.agreement.alpha_jackknife import alpha_of_distances
from tests.quality.labels.strategies import crowds

QUICK = settings(max_examples=60, deadline=None, derandomize=True)
# four observers, twelve units, of which the last has one label
KRIPPENDORFF = ["123321412...", "1233224125.3", ".3332342251.", "12332441251."]


def observed(table: list[str]) -> CrowdLabels:
    rows = [
        (observer, unit, int(label))
        for observer, answers in enumerate(table)
        for unit, label in enumerate(answers)
        if label != "."
    ]
    return encode(*zip(*rows, strict=True))


def distances(labels: CrowdLabels, metric: str, values: np.ndarray) -> np.ndarray:
    """Krippendorff's distances of two classes, as he defines them."""
    size = labels.n_classes
    if metric == "nominal":
        return 1.0 - np.eye(size)
    if metric == "interval":
        return (values[:, None] - values) ** 2
    paired = np.diff(labels.task_start)[labels.task] > 1
    given_ = np.bincount(labels.label[paired], minlength=size)
    found = np.zeros((size, size))
    for c, k in combinations(range(size), 2):
        between = given_[c : k + 1].sum() - (given_[c] + given_[k]) / 2
        found[c, k] = found[k, c] = between**2
    return found


def slow_hughes(
    labels: CrowdLabels, distance: np.ndarray, level: float
) -> tuple[float, float, float]:
    """Pair by pair and leaving out one task after the other, as R's krippendorffsalpha 2.0 does it."""
    tasks = [labels.label[labels.task == task] for task in np.unique(labels.task)]

    def eta(units: list[np.ndarray]) -> float:
        every = np.concatenate(units)
        n, a = len(every), len(units)
        two = [unit for unit in units if len(unit) > 1]
        apart = sum(
            sum(distance[x, y] for x, y in combinations(unit, 2)) / (len(unit) - 1) for unit in two
        )
        mse = apart / sum(map(len, two))
        sst = distance[np.ix_(every, every)].sum() / 2 / n
        with np.errstate(all="ignore"):
            return float(np.log((sst - (n - a) * mse) / (a - 1) / mse))

    a, sizes = len(tasks), np.array([len(unit) for unit in tasks])
    n = sizes.sum()
    mean = (n - (sizes**2).sum() / n) / (a - 1)
    centre = eta(tasks)
    pseudo = [a * centre - (a - 1) * eta(tasks[:u] + tasks[u + 1 :]) for u in range(a)]
    reach = student.ppf((1 + level) / 2, a - 1) * math.sqrt(np.var(pseudo, ddof=1) / a)

    def alpha(e: float) -> float:
        return (math.exp(e) - 1) / (math.exp(e) - 1 + mean)

    return alpha(centre), alpha(centre - reach), alpha(centre + reach)


def test_the_tables_of_rs_krippendorffsalpha() -> None:
    """Golden: the package's own tests (version 2.0) print 0.756, (0.228, 0.951) and at 99 % (-0.008, 0.975).

    Its customary method prints 0.743 for the same example.
    """
    labels = observed(KRIPPENDORFF)
    found, wide = alpha_interval(labels), alpha_interval(labels, level=0.99)
    assert round(found.value, 3) == 0.743
    assert round(found.unbiased, 3) == 0.756
    assert (round(found.lower, 3), round(found.upper, 3)) == (0.228, 0.951)
    assert (round(wide.lower, 3), round(wide.upper, 3)) == (-0.008, 0.975)
    assert (found.n_tasks, found.n_labels) == (12, 40)


def test_influence_of_a_unit_is_that_of_rs_krippendorffsalpha() -> None:
    """Golden: the package's tests print -0.114 (customary) and -0.11 (Hughes) for unit 6 of the example."""
    labels = observed(KRIPPENDORFF)
    without = labels.keep_labels(labels.task != 5)
    found, left = alpha_interval(labels), alpha_interval(without)
    assert round(found.value - left.value, 3) == -0.114
    assert round(found.unbiased - left.unbiased, 3) == -0.11


@pytest.mark.parametrize(("metric", "alpha"), [("ordinal", 0.815), ("interval", 0.849)])
def test_krippendorffs_ordinal_and_interval_example(metric: str, alpha: float) -> None:
    """Golden: Krippendorff (2011), section E: the same labels, ordinal 0.815 and interval 0.849."""
    labels = observed(KRIPPENDORFF)
    found = alpha_interval(labels, metric, values=[1, 2, 3, 4, 5])
    assert found.value == pytest.approx(alpha, abs=5e-4)


@pytest.mark.parametrize("metric", METRICS)
def test_value_and_interval_are_those_of_the_slow_jackknife(metric: str) -> None:
    """Oracle: every pair, every task left out, on 20 crowds with missing labels; 1e-9."""
    rng = np.random.default_rng(5)
    for _ in range(20):
        n_tasks, size = int(rng.integers(6, 25)), int(rng.integers(2, 6))
        truth = np.repeat(rng.integers(size, size=n_tasks), 5)
        label = np.where(rng.random(5 * n_tasks) < 0.6, truth, rng.integers(size, size=5 * n_tasks))
        there = rng.random(5 * n_tasks) < 0.8
        task, worker = np.repeat(np.arange(n_tasks), 5)[there], np.tile(np.arange(5), n_tasks)
        labels = encode(worker[there], task, label[there], classes=range(size))
        values = np.sort(rng.normal(size=size))
        distance = distances(labels, metric, values)
        found = alpha_interval(labels, metric, values=values, level=0.9)
        expected = slow_hughes(labels, distance, 0.9)
        if math.isfinite(found.lower):
            assert (found.unbiased, found.lower, found.upper) == pytest.approx(expected, abs=1e-9)
            assert found.lower <= found.unbiased <= found.upper
        else:
            assert not np.isfinite(expected).all()


@QUICK
@given(crowds())
def test_for_nominal_labels_the_value_is_krippendorffs_alpha(labels: CrowdLabels) -> None:
    assert alpha_interval(labels).value == pytest.approx(krippendorff_alpha(labels), nan_ok=True)


@QUICK
@given(crowds(), st.sampled_from(METRICS), st.randoms(use_true_random=False))
def test_value_and_interval_do_not_depend_on_the_order(labels, metric, random) -> None:
    values = np.arange(labels.n_classes)
    before = alpha_interval(labels, metric, values=values)
    task, worker = (
        np.array(random.sample(range(n), n)) for n in (labels.n_tasks, labels.n_workers)
    )
    classes = (
        np.array(random.sample(range(labels.n_classes), labels.n_classes))
        if metric == "nominal"
        else values
    )
    moved = encode(
        worker[labels.worker], task[labels.task], classes[labels.label], classes=list(values)
    )
    after = alpha_interval(moved, metric, values=values)
    for name in ("value", "unbiased", "lower", "upper"):
        one, other = getattr(before, name), getattr(after, name)
        assert one == pytest.approx(other, abs=1e-7, nan_ok=True)


def some_crowd(n_classes: int) -> CrowdLabels:
    rng = np.random.default_rng(n_classes)
    truth = np.repeat(rng.integers(n_classes, size=60), 3)
    label = np.where(rng.random(180) < 0.7, truth, rng.integers(n_classes, size=180))
    return encode(np.tile(np.arange(3), 60), np.repeat(np.arange(60), 3), label)


def test_an_ordinal_metric_of_two_classes_is_the_nominal_one() -> None:
    labels = some_crowd(2)
    nominal, ordinal = alpha_interval(labels), alpha_interval(labels, "ordinal")
    for name in ("value", "unbiased", "lower", "upper"):
        assert getattr(nominal, name) == pytest.approx(getattr(ordinal, name), abs=1e-12)


def test_numbers_may_be_shifted_and_scaled() -> None:
    labels = some_crowd(4)
    one = alpha_interval(labels, "interval", values=[1, 2, 3, 4])
    other = alpha_interval(labels, "interval", values=1e6 + 7 * np.array([1, 2, 3, 4.0]))
    assert (one.value, one.lower, one.upper) == pytest.approx(
        (other.value, other.lower, other.upper), abs=1e-8
    )


@pytest.mark.parametrize("scale", [1e-310, 1e-200, 1e200, 8e307])
def test_numbers_of_any_size_give_the_alpha_of_their_ratios(scale: float) -> None:
    labels = observed(KRIPPENDORFF)
    one = alpha_interval(labels, "interval", values=[-2.0, -1.0, 0.0, 1.0, 2.0][: labels.n_classes])
    numbers = scale * np.array([-2.0, -1.0, 0.0, 1.0, 2.0][: labels.n_classes])
    other = alpha_interval(labels, "interval", values=numbers)
    assert (other.value, other.lower) == pytest.approx((one.value, one.lower), rel=1e-9)


def test_a_class_that_nobody_gave_may_be_any_number() -> None:
    labels = encode(
        ["ann", "bob"] * 4, [1, 1, 2, 2, 3, 3, 4, 4], [1, 1, 2, 3, 3, 3, 2, 1], classes=range(1, 5)
    )
    near, far = (alpha_interval(labels, "interval", values=[1, 2, 3, last]) for last in (4, 1e8))
    assert far.value == pytest.approx(near.value, rel=1e-9)
    assert far.upper == pytest.approx(near.upper, rel=1e-6)


def test_classes_without_order_are_ordered_by_their_values() -> None:
    labels = some_crowd(3)
    turned = encode(
        labels.worker, labels.task, np.array([2, 0, 1])[labels.label],
        classes=[0, 1, 2],
    )  # fmt: skip
    # class 0 is now called 2, class 1 is called 0 and class 2 is called 1
    assert alpha_interval(turned, "ordinal", values=[1, 2, 0]).value == pytest.approx(
        alpha_interval(labels, "ordinal").value
    )


def test_with_two_classes_both_are_the_alpha_of_the_whole() -> None:
    labels = some_crowd(2)
    whole = alpha_interval(labels)
    for found in alpha_by_class(labels):
        assert (found.value, found.lower) == pytest.approx((whole.value, whole.lower))
        assert found.metric == "nominal"


def test_alpha_of_a_class_is_that_of_the_class_against_all_others() -> None:
    labels = some_crowd(3)
    for code, found in enumerate(alpha_by_class(labels)):
        alone = encode(labels.worker, labels.task, labels.label == code)
        assert found.value == pytest.approx(krippendorff_alpha(alone))
        whole = astuple(alpha_interval(alone, "nominal"))
        assert astuple(found) == pytest.approx(whole, nan_ok=True)


@pytest.mark.parametrize("code", [-1, 3, 99])
def test_a_code_of_no_class_is_refused(code: int) -> None:
    message = f"codes must be of classes, from 0 to 2, got {min(code, 1)} to {max(code, 1)}"
    with pytest.raises(ValueError, match=message):
        alpha_by_class(some_crowd(3), np.array([1, code]))
    assert len(alpha_by_class(some_crowd(3), np.array([2, 0]))) == 2


@pytest.mark.refusal
@pytest.mark.parametrize("codes", [np.array([[0, 1]]), np.array([0.0, 1.0])])
def test_codes_that_are_no_row_of_whole_numbers_are_refused(codes: np.ndarray) -> None:
    """A table of codes was one class that nobody gave, with an alpha of NaN."""
    with pytest.raises(
        ValueError, match=f"codes must be a row of whole numbers, got {codes.dtype}"
    ):
        alpha_by_class(some_crowd(3), codes)


@pytest.mark.parametrize("metric", METRICS)
def test_the_alpha_of_a_group_is_that_of_the_table_of_its_tasks_alone(metric: str) -> None:
    labels, values = some_crowd(3), [0.0, 1.0, 5.0]
    group = np.arange(60) % 4 - 1
    found = alpha_by_group(labels, group, 3, metric, values=values)
    for code in range(3):
        alone = labels.keep_labels(group[labels.task] == code)
        assert found[code] == alpha_interval(alone, metric, values=values)


def test_full_agreement_is_1_without_an_interval_and_nothing_is_undefined() -> None:
    agreed = alpha_interval(
        encode([1, 2] * 4, np.repeat(np.arange(4), 2), np.repeat([0, 1, 0, 1], 2))
    )
    assert (agreed.value, agreed.unbiased) == (1, 1)
    assert math.isnan(agreed.lower)
    alone = alpha_interval(encode([1, 2, 3], [1, 2, 3], [0, 1, 0]))
    assert math.isnan(alone.value)
    assert math.isnan(alone.unbiased)


@pytest.mark.parametrize("metric", ["nominal", "ordinal", "interval"])
@pytest.mark.parametrize("n_apart", [0, 1, 2])
def test_there_is_no_interval_if_one_task_alone_shows_a_disagreement(
    metric: str, n_apart: int
) -> None:
    """Without that task there is none; rounding of squares must not be taken for one."""
    values = None if metric == "nominal" else [0.1, 0.7, 1.3, 2.9]
    for seed in range(20):
        rng = np.random.default_rng(seed)
        label = np.tile(np.append(rng.integers(4, size=12), [0, 1]), (3, 1))
        label[0, :n_apart] = (label[0, :n_apart] + 1) % 4
        rows = np.repeat([0, 1, 2], 14), np.tile(np.arange(14), 3), label.ravel()
        labels = encode(*rows, classes=range(4))
        found = [alpha_interval(labels, metric, values=values)]
        if metric == "nominal":
            found += alpha_by_class(labels)
        for one in found[:1] if n_apart == 2 else found:
            assert math.isnan(one.lower) == math.isnan(one.upper) == (n_apart < 2)
        if n_apart == 0:
            assert (found[0].value, found[0].unbiased) == (1, 1)


def test_the_alphas_of_thousands_of_classes_take_no_pass_over_all_tasks_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Counted in elements of a class's arrays: its own tasks, and the numbers of labels of the others."""
    rng, sizes = np.random.default_rng(0), []
    label = rng.integers(2_000, size=6_000)
    labels = encode(np.tile([0, 1, 2], 2_000), np.repeat(np.arange(2_000), 3), label)

    def counted(n: np.ndarray, *rest: Any) -> Alpha:
        sizes.append(len(n))
        return alpha_of_distances(n, *rest)

    monkeypatch.setattr("quality.agreement.alpha.alpha_of_distances", counted)
    found = alpha_by_class(labels)
    assert len(found) == len(sizes) == labels.n_classes
    assert max(sizes) <= 4  # of a task's three labels none, one, two or all are of the class
    assert {one.n_tasks for one in found} == {2_000}


def test_the_interval_covers_the_alpha_of_the_population() -> None:
    """Statistical: 400 crowds of 60 tasks; with 0.95, outside 356 to 397 has probability below 1e-6."""
    rng = np.random.default_rng(8)
    prior, right, covered = np.array([0.5, 0.3, 0.2]), 0.7, 0
    given_ = right * np.eye(3) + (1 - right) / 2 * (1 - np.eye(3))
    apart = 1 - (prior @ given_**2).sum()
    alpha = 1 - apart / (1 - ((prior @ given_) ** 2).sum())
    for _ in range(400):
        truth = np.repeat(rng.choice(3, 60, p=prior), 4)
        label = np.where(rng.random(240) < right, truth, (truth + rng.integers(1, 3, 240)) % 3)
        found = alpha_interval(
            encode(np.tile(np.arange(4), 60), np.repeat(np.arange(60), 4), label)
        )
        covered += found.lower <= alpha <= found.upper
    assert 356 <= covered <= 397


def test_the_interval_covers_too_little_where_hardly_anybody_disagrees() -> None:
    """As its docstring says; 400 tables, so that both shares have a standard error of about .03."""
    rng, n_tasks, intervals, covered = np.random.default_rng(9), 30, 0, 0
    known = 0.97  # else a guess among three classes: alpha is the chance that both knew
    for _ in range(400):
        truth = np.repeat(rng.integers(3, size=n_tasks), 2)
        label = np.where(rng.random(len(truth)) < known, truth, rng.integers(3, size=len(truth)))
        rows = np.tile([0, 1], n_tasks), np.repeat(np.arange(n_tasks), 2), label
        found = alpha_interval(encode(*rows, classes=range(3)))
        intervals += math.isfinite(found.lower)
        covered += found.lower <= known**2 <= found.upper
    assert 0.25 <= intervals / 400 <= 0.42
    assert 0.80 <= covered / intervals <= 0.94


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("given_", "sentence"),
    [
        ({"metric": "ratio"}, "metric must be one of nominal, ordinal, interval"),
        ({"metric": "interval"}, "needs values"),
        ({"metric": "interval", "values": [1.0]}, "values must be 3 finite numbers"),
        ({"metric": "ordinal", "values": [1.0, 2.0, np.nan]}, "values must be 3 finite numbers"),
        (
            {"metric": "ordinal", "values": ["low", "mid", "high"]},
            "values must be 3 finite numbers",
        ),
        ({"metric": "ordinal", "values": [1, 2, 10**400]}, "values must be 3 finite numbers"),
        ({"metric": "ordinal", "values": [[1], [2, 3], [4]]}, "values must be 3 finite numbers"),
        ({"metric": "ordinal", "values": np.array([1j, 2, 3])}, "values must be 3 finite numbers"),
        ({"metric": "ordinal", "values": np.arange(3).astype("M8[D]")}, "values must be 3 finite"),
        ({"level": 1.0}, "level must be in"),
    ],
)
def test_what_is_refused(given_: dict, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        alpha_interval(some_crowd(3), **given_)


@pytest.mark.refusal
def test_groups_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="group must be one code"):
        alpha_by_group(some_crowd(3), np.zeros(60, dtype=int), 0)
    with pytest.raises(ValueError, match="group must be one code"):
        alpha_by_group(some_crowd(3), np.zeros(60), 1)


def test_a_group_does_not_go_through_the_tasks_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of as many groups as tasks: differences of all tasks' starts are taken once."""
    labels, seen, diff = some_crowd(3), [], np.diff
    monkeypatch.setattr(
        np, "diff", lambda x, *rest, **named: seen.append(len(x)) or diff(x, *rest, **named)
    )
    assert len(alpha_by_group(labels, np.arange(60), 60)) == 60
    assert sum(n == 61 for n in seen) == 1


@QUICK
@given(crowds(), st.integers(0, 30), st.sampled_from(["nominal", "ordinal"]))
def test_alpha_by_shards_is_that_of_the_whole_table_to_the_bit(labels, place, metric):
    cuts = [0, min(place, labels.n_tasks), labels.n_tasks]
    found = alpha_by_shards(LocalEngine(cut_labels(labels, cuts)), metric, level=0.9)
    np.testing.assert_equal(astuple(found), astuple(alpha_interval(labels, metric, level=0.9)))


@pytest.mark.refusal
def test_numbers_of_classes_are_refused_on_shards():
    engine = LocalEngine(cut_labels(observed(KRIPPENDORFF), [0, 5, 12]))
    with pytest.raises(ValueError, match="metric must be nominal or ordinal on shards"):
        alpha_by_shards(engine, "interval")
