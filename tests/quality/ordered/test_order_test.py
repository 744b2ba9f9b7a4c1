"""The test of order: what it promises, on simulated crowds and on the shared sets."""

import random
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.quality.crowd_sets import read_set
from benchmarks.quality.ordered import nominal, thresholds
from quality import CrowdLabels, encode, order_fit
from quality.ordered import order_test
from tests.quality.labels.strategies import crowds

QUICK = settings(max_examples=25, deadline=None, derandomize=True)


def names_of_nothing() -> CrowdLabels:
    """A table without labels, and with one class."""
    none = np.zeros(0, dtype=np.int64)
    return CrowdLabels.from_codes(none, none, none, workers=none, tasks=none, classes=np.array([1]))


@QUICK
@given(crowds())
def test_turning_the_order_round_turns_the_result_round(labels: CrowdLabels) -> None:
    turned = encode(
        labels.workers[labels.worker], labels.tasks[labels.task], labels.classes[labels.label],
        classes=labels.classes[::-1].tolist(),
    )  # fmt: skip
    one, other = order_fit(labels), order_fit(turned)
    assert other.z[::-1] == pytest.approx(one.z, abs=1e-9)
    assert other.lift[::-1] == pytest.approx(one.lift, abs=1e-9)


@QUICK
@given(crowds(), st.randoms(use_true_random=False))
def test_the_order_of_rows_and_names_of_workers_do_not_matter(
    labels: CrowdLabels, chance: random.Random
) -> None:
    names, rows = [f"n{w}" for w in range(labels.n_workers)], list(range(labels.n_labels))
    chance.shuffle(names)
    chance.shuffle(rows)
    other = encode(
        np.array(names)[labels.worker[rows]], labels.tasks[labels.task[rows]],
        labels.classes[labels.label[rows]], classes=labels.classes.tolist(),
    )  # fmt: skip
    assert order_fit(other).z == pytest.approx(order_fit(labels).z, abs=1e-12)
    assert order_fit(other).lift == pytest.approx(order_fit(labels).lift, abs=1e-12)


def slow_lift_and_z(labels: CrowdLabels) -> tuple[np.ndarray, np.ndarray]:
    """Both laws of chance as tables of pairs of classes, summed over all pairs across a boundary."""
    count, k = labels.counts().astype(float), labels.n_classes
    count = count[count.sum(axis=1) > 1]
    n, share = count.sum(axis=1), count.sum(axis=0) / max(count.sum(), 1.0)
    apart = (count * (n[:, None] - count) / (n - 1)[:, None]).sum() / max(count.sum(), 1.0)
    each = (1 - np.sqrt(max(1 - apart * k / max(k - 1, 1), 0.0))) / k
    tables = np.outer(share, share), np.add.outer(share, share) - min(each, share.min())
    found = np.zeros((2, k - 1))
    for at in range(k - 1):
        near = count[:, at] * count[:, at + 1] / (n - 1)
        across = count[:, : at + 1].sum(axis=1) * count[:, at + 1 :].sum(axis=1) / (n - 1)
        both = []
        for table in tables:
            close = table[at, at + 1]
            far = table[: at + 1, at + 1 :].sum() - close
            if not (close > 0 and far > 1e-12):
                both.append((0.0, 0.0))
                continue
            chance = close / (close + far)
            score = near - chance * across
            below = count[:, : at + 1].sum(axis=1)
            fewer = np.maximum(np.minimum(below, n - below), 1)
            by_chance = chance * (1 - chance) * (across**2 / fewer).sum()
            spread = np.sqrt(max((score**2).sum(), by_chance))
            odds = (near.sum() + 0.5) / ((across - near).sum() + 0.5)
            both.append((np.log(odds * far / close), score.sum() / spread if spread else 0.0))
        if not min(z for _, z in both) < 0 < max(z for _, z in both):
            found[:, at] = min(both, key=lambda one: (round(abs(one[1]), 9), abs(one[0])))
    return found[0], found[1]


@QUICK
@given(crowds())
def test_lift_and_z_are_of_all_pairs_across_each_boundary(labels: CrowdLabels) -> None:
    """Oracle: tables of all pairs of classes, which the test itself has no room for."""
    found, (lift, z) = order_fit(labels), slow_lift_and_z(labels)
    assert found.lift == pytest.approx(lift, abs=1e-9)
    assert found.z == pytest.approx(z, abs=1e-9)


def test_thousands_of_classes_take_no_table_of_their_pairs() -> None:
    """Four thousand classes: two tables of their pairs take 256 MB."""
    rng = np.random.default_rng(0)
    labels = encode(
        np.tile([0, 1], 50), np.repeat(np.arange(50), 2), rng.integers(4_000, size=100),
        classes=range(4_000),
    )  # fmt: skip
    tracemalloc.start()
    try:
        order_fit(labels)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 50e6


def test_many_tasks_take_no_table_of_tasks_by_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    """40,000 tasks of 200 classes: one such table takes 64 MB, and there were three."""
    rng = np.random.default_rng(0)
    labels = encode(
        np.arange(80_000) % 50, np.arange(80_000) // 2, rng.integers(200, size=80_000),
        classes=range(200),
    )  # fmt: skip
    tracemalloc.start()
    try:
        whole = order_fit(labels)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 60e6
    monkeypatch.setattr(order_test, "CELLS", 300 * 200)
    parts = order_fit(labels)
    assert parts.lift == pytest.approx(whole.lift, abs=1e-9)
    assert parts.z == pytest.approx(whole.z, abs=1e-9)


def test_an_order_is_shown_and_a_mixed_one_is_contradicted() -> None:
    """Twenty crowds of 2,500 labels: z at the wrong boundary is below -8 in each."""
    for seed in range(20):
        labels, _ = thresholds(np.random.default_rng(seed))
        assert order_fit(labels).verdict == "shown"
        mixed = np.array([0, 3, 1, 4, 2])[labels.label]
        found = order_fit(encode(labels.worker, labels.task, mixed, classes=range(5)))
        assert found.verdict == "contradicted"
        assert "speak against the order" in found.sentence()


def test_classes_confused_alike_are_shown_with_probability_of_01_at_most() -> None:
    """Of 100 crowds more than 8 would be shown in less than one case of 1e6, if it were .01."""
    shown = [
        order_fit(nominal(np.random.default_rng(seed))[0]).verdict == "shown" for seed in range(100)
    ]
    assert sum(shown) <= 8


@pytest.mark.parametrize(
    "often", [(0.4, 0.1, 0.1, 0.4), (0.6, 0.2, 0.1, 0.1), (0.1, 0.4, 0.4, 0.1)]
)
@pytest.mark.parametrize("by_popularity", [False, True])
def test_rare_and_frequent_classes_confused_alike_have_no_order(
    often: tuple[float, ...], by_popularity: bool
) -> None:
    """Errors fall on the wrong classes alike, or as often as they are true; 20,000 labels a crowd."""
    shown = contradicted = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        truth = rng.choice(4, size=4000, p=often)[np.repeat(np.arange(4000), 5)]
        guess = rng.choice(4, size=20_000, p=often if by_popularity else None)
        label = np.where(rng.random(20_000) < 0.6, truth, guess)
        rows = np.arange(20_000) % 10, np.repeat(np.arange(4000), 5), label
        verdict = order_fit(encode(*rows, classes=range(4))).verdict
        shown, contradicted = (
            shown + (verdict == "shown"),
            contradicted + (verdict == "contradicted"),
        )
    assert shown <= 2
    assert contradicted <= 4  # three boundaries at .01: one of 30 crowds


@pytest.mark.parametrize(
    ("often", "n_tasks"),
    [
        ((0.05, 0.9, 0.05), 400),
        ((0.49, 0.01, 0.01, 0.49), 1000),
        ((0.6, 0.3, 0.06, 0.03, 0.01), 500),
    ],
)
def test_pairs_that_are_too_rare_to_be_seen_are_no_evidence(
    often: tuple[float, ...], n_tasks: int
) -> None:
    """No pair of some kind is expected, or two: that there is none has probability .1 and more."""
    rng, verdicts = np.random.default_rng(0), set()
    for _ in range(40):
        truth = rng.choice(len(often), size=n_tasks, p=often).repeat(4)
        guess = rng.choice(len(often), size=n_tasks * 4, p=often)
        label = np.where(rng.random(n_tasks * 4) < 0.7, truth, guess)
        rows = np.tile(np.arange(4), n_tasks), np.arange(n_tasks).repeat(4), label
        verdicts.add(order_fit(encode(*rows, classes=range(len(often)))).verdict)
    assert verdicts == {"not shown"}


def test_three_classes_confused_alike_are_shown_with_probability_of_01_at_most() -> None:
    """As above; two boundaries, which share a pair, are the fewest."""
    rng, shown = np.random.default_rng(1), 0
    for _ in range(100):
        truth = rng.integers(3, size=400)
        label = np.where(rng.random((400, 5)) < 0.7, truth[:, None], rng.integers(3, size=(400, 5)))
        rows = np.tile(np.arange(5), 400), np.repeat(np.arange(400), 5), label.ravel()
        shown += order_fit(encode(*rows)).verdict == "shown"
    assert shown <= 8


@pytest.mark.parametrize("name", ["web", "adult2"])
def test_grades_are_shown(name: str, shared_data: Path) -> None:
    assert order_fit(read_set(shared_data / name)[0]).verdict == "shown"


@pytest.mark.parametrize("name", ["dog", "mill", "fact_eval", "leaves", "labelme", "music"])
def test_a_nominal_set_declared_ordinal_by_mistake_is_noticed(name: str, shared_data: Path) -> None:
    found = order_fit(read_set(shared_data / name)[0])
    assert found.verdict in ("not shown", "contradicted")
    assert " | " in found.sentence()


def test_two_classes_have_an_order_always() -> None:
    found = order_fit(encode(["ann", "bob"], [1, 1], ["no", "yes"]))
    assert (found.verdict, found.sentence()) == ("untested", "two classes have an order always")


def test_a_table_without_labels_has_no_boundaries() -> None:
    found = order_fit(names_of_nothing())
    assert (found.verdict, found.z.size, found.lift.size) == ("untested", 0, 0)


def test_tasks_of_one_label_say_nothing() -> None:
    found = order_fit(encode(["ann", "bob", "cy"], [1, 2, 3], ["a", "b", "c"]))
    assert found.z.tolist() == [0, 0]
    assert found.verdict == "not shown"
