"""The cards of workers: what they say of simulated workers, and how often the alarms are right and wrong.

Statistical tests are seeded. Figures of the drift test are those of `python -m benchmarks.learners.streams`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from learners.streams import (
    FPLA,
    ConfigError,
    StreamMonitor,
    WorkerCards,
    alarm_levels,
    constant_rate_interval,
)


def watched(right: np.ndarray, **knobs: float) -> WorkerCards:
    """Cards of workers whose labels are right or wrong, of shape (workers, labels)."""
    rng = np.random.default_rng(0)
    n_workers, n = right.shape
    monitor = StreamMonitor(2, **knobs)
    truth = rng.integers(2, size=n_workers * n)
    lanes = np.tile(np.arange(n_workers), n)
    label = np.where(right.T.ravel(), truth, 1 - truth)
    monitor.partial_fit(lanes, label=label, consensus=truth)
    return monitor.cards()


def test_reliability_and_its_interval_hold_the_rate() -> None:
    """95 % intervals cover 2,000 workers' rates: below 92 % by chance less often than 1e-8."""
    rng = np.random.default_rng(1)
    for n in (20, 1000):
        rate = rng.uniform(0.3, 0.95, size=2000)
        cards = watched(rng.random((2000, n)) < rate[:, None])
        assert np.mean((cards.low <= rate) & (rate <= cards.high)) > 0.92
        assert np.mean((cards.always_low <= rate) & (rate <= cards.always_high)) > 0.95
        assert cards.n_judged.tolist() == [n] * 2000


def test_drift_is_found_as_soon_as_the_specification_asks() -> None:
    """Fresh workers, .90 to .65 at label 500: false alarms ≤ .01 a thousand, found ≥ .98, delay ≤ 45."""
    rng = np.random.default_rng(2)
    n = np.arange(1000)
    fallen = watched(rng.random((2000, 1000)) < np.where(n < 500, 0.9, 0.65))
    stable = watched(rng.random((2000, 1000)) < 0.9)
    assert np.mean(stable.drift_at > 0) <= 0.01
    after = fallen.drift_at[fallen.drift_at > 500] - 500
    assert len(after) >= 0.98 * 2000
    assert np.median(after) <= 45
    proven = fallen.proven_at
    assert np.mean(proven > 500) > 0.98
    assert np.median(proven[proven > 500]) - 500 < 150
    assert 2 < (np.median(proven[proven > 500]) - 500) / np.median(after) < 4


@pytest.mark.long
@pytest.mark.parametrize("rate", [0.5, 0.8, 0.95])
def test_the_alarm_valid_at_any_time_is_wrong_in_few_campaigns(rate: float) -> None:
    """The worst stopping time is whenever it first alarms: 200 campaigns of 20 workers, ≤ 5 % with any.

    Of campaigns that are wrong 5 % of the time, 22 or more of 200 would be wrong with probability 4e-4; this
    finds far fewer, because the e-value is kept from below.
    """
    rng = np.random.default_rng(3)
    wrong = 0
    for _ in range(200):
        cards = watched(rng.random((20, 600)) < rate)
        wrong += bool((cards.proven_at > 0).any())
    assert wrong <= 10


def test_the_e_value_is_one_at_most_in_the_mean() -> None:
    """Of all sequences of 12, weighed by their probability, for every rate: no sampling."""
    n = 12
    right = (np.arange(2**n)[:, None] >> np.arange(n)) & 1 > 0
    monitor = StreamMonitor(2)
    lanes = np.tile(np.arange(2**n), n)
    label = right.T.ravel().astype(int)
    monitor.partial_fit(lanes, label=label, consensus=np.ones(label.size, int))
    e = monitor.array.cell_state("proof")[:, 6]
    ones = right.sum(axis=1)
    for p in np.linspace(0.01, 0.99, 25):
        assert np.sum(e * p**ones * (1 - p) ** (n - ones)) <= 1


@pytest.mark.parametrize("rates", [(0.9, 0.3), (0.0, 0.0)])  # none right: a rate below .02 stays
def test_the_evidence_is_the_mixture_of_its_source(rates: tuple[float, float]) -> None:
    """Beside the mixture written out over all times of the fall and all falls."""
    rng = np.random.default_rng(4)
    x = rng.random(40) < np.where(np.arange(40) < 25, *rates)
    monitor = StreamMonitor(2)
    monitor.partial_fit(np.zeros(40, int), label=x.astype(int), consensus=np.ones(40, int))
    ones = np.concatenate([[0], np.cumsum(x)])[:40]
    q = (ones + 0.5) / (np.arange(40) + 1)
    law = np.where(x, q, 1 - q)
    c, t = 500, np.arange(1, 41)
    total = c / (40 + c) * law.prod()
    for drop in (0.1, 0.2, 0.35):
        fallen = np.maximum(np.minimum(0.02, q), q - drop)
        after = np.where(x, fallen, 1 - fallen)
        for k in t:
            weight = c / ((k + c) * (k + c - 1)) / 3
            total += weight * law[: k - 1].prod() * after[k - 1 :].prod()
    e = monitor.array.cell_state("proof")[0, 6]
    assert e == pytest.approx(total / law.prod() / (2 * np.sqrt(40)))


def test_the_levels_of_all_lanes_add_up_to_the_false_alarm_rate() -> None:
    levels = alarm_levels(10**6, false_alarm=0.05)
    assert 0.0499 < levels.sum() < 0.05
    assert (np.diff(levels) < 0).all()


def test_the_confidence_sequence_holds_a_constant_rate_at_all_times_at_once() -> None:
    """400 workers looked at after each of 300 labels: outside ever for 5 % at most, found far fewer."""
    rng = np.random.default_rng(5)
    n_workers, rate = 400, 0.85
    monitor, ever = StreamMonitor(2), np.zeros(400, bool)
    everyone, one = np.arange(n_workers), np.ones(n_workers, int)
    for _ in range(300):
        monitor.partial_fit(everyone, label=(rng.random(n_workers) < rate) * 1, consensus=one)
        cards = monitor.cards()
        ever |= ~((cards.always_low <= rate) & (rate <= cards.always_high))
    assert ever.mean() <= 0.05
    low, high = constant_rate_interval(np.zeros(1), np.zeros(1), np.ones(1), level=0.95)
    assert (low[0], high[0]) == (0, 1)


@pytest.mark.parametrize("level", [0.0, 1.0, 1.5, np.nan])
def test_levels_of_alarms_and_intervals_are_within_0_and_1(level: float) -> None:
    with pytest.raises(ValueError, match="level must be within 0 and 1, got level="):
        constant_rate_interval(np.ones(1), np.ones(1), np.ones(1), level=level)
    with pytest.raises(ValueError, match="false_alarm must be within 0 and 1, got false_alarm="):
        alarm_levels(3, false_alarm=level)


def test_the_confusion_is_that_of_the_worker() -> None:
    rng = np.random.default_rng(6)
    confusion = np.array([[0.8, 0.1, 0.1], [0.3, 0.6, 0.1], [0.0, 0.2, 0.8]])
    truth = rng.integers(3, size=6000)
    label = (rng.random(6000)[:, None] > confusion[truth].cumsum(axis=1)).sum(axis=1)
    monitor = StreamMonitor(3)
    monitor.partial_fit(np.zeros(6000, int), label=label, consensus=truth)
    found = monitor.cards().confusion[0]
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert np.abs(found - confusion).max() < 0.2  # over five standard deviations of a memory of 200


def test_the_fatigue_slope_is_the_loss_of_reliability_over_a_hundred_labels() -> None:
    rng = np.random.default_rng(7)
    n_workers, n = 200, 3000
    position = np.tile(np.arange(n) % 100, (n_workers, 1))
    for slope in (0.0, -0.3):
        right = rng.random(position.shape) < 0.9 + slope * position / 100
        monitor = StreamMonitor(2)
        lanes, truth = np.tile(np.arange(n_workers), n), np.ones(n_workers * n, int)
        monitor.partial_fit(
            lanes, label=right.T.ravel() * 1, consensus=truth, position=position.T.ravel()
        )
        assert monitor.cards().fatigue.mean() == pytest.approx(slope, abs=0.05)


def test_sessions_of_thousands_of_labels_leave_the_fatigue_slope_bounded() -> None:
    """When a session ends, the position falls by so much that single steps used to overshoot."""
    rng = np.random.default_rng(11)
    monitor, n = StreamMonitor(2), 6000
    right = (rng.random(n) < 0.9).astype(int)
    monitor.partial_fit(
        np.zeros(n, int), label=right, consensus=np.ones(n, int), position=np.arange(n) % 3000
    )
    assert abs(monitor.cards().fatigue[0]) < 0.2
    assert monitor.array.cell_state("fatigue").max() < 100


def test_skimmers_and_readers_are_told_apart_by_their_times() -> None:
    rng = np.random.default_rng(8)
    reads = rng.random(2000) < 0.7
    seconds = np.exp(np.where(reads, np.log(12), np.log(1.5)) + 0.25 * rng.normal(size=2000))
    monitor = StreamMonitor(2)
    one = np.ones(2000, int)
    monitor.partial_fit(one * 0, label=one, consensus=one, seconds=seconds)
    cards = monitor.cards()
    assert cards.fast_seconds[0] == pytest.approx(1.5, rel=0.15)
    assert cards.slow_seconds[0] == pytest.approx(12, rel=0.15)
    assert cards.slow_share[0] == pytest.approx(0.7, abs=0.2)


def test_what_is_not_known_is_nan_and_no_alarm() -> None:
    monitor = StreamMonitor(2)
    monitor.partial_fit(np.array([2]), label=np.array([1]), consensus=np.array([-1]))
    cards = monitor.cards()
    assert np.isnan(cards.reliability).all()
    assert np.isnan([cards.fatigue, cards.fast_seconds, cards.slow_share]).all()
    assert cards.n_judged.tolist() == cards.drift_at.tolist() == cards.proven_at.tolist() == [0] * 3
    assert repr(cards) == "WorkerCards(3 workers, 0 drifting, 0 proven)"
    with pytest.raises(ValueError, match="read-only"):
        cards.reliability[0] = 1


def test_fatigue_is_not_known_of_a_worker_who_was_never_judged() -> None:
    """It was 0, as of one who stays the same."""
    monitor, place = StreamMonitor(2), np.arange(100)
    for lane, consensus in enumerate((-1, 1)):
        monitor.partial_fit(np.full(100, lane), label=place % 2,
                            consensus=np.full(100, consensus), position=place.astype(float))  # fmt: skip
    assert np.isnan(monitor.cards().fatigue).tolist() == [True, False]


@pytest.mark.refusal
@pytest.mark.parametrize("name", ["seconds", "position"])
@pytest.mark.parametrize(("given", "sentence"), [
    (np.array([1, 2], "m8[ns]"), r"{name} must be numbers, got timedelta64\[ns\]; a duration is"),
    (np.array(["2020", "2021"], "M8[Y]"), r"{name} must be numbers, got datetime64\[Y\]"),
    (np.array(["1", "x"]), "{name} must be numbers, got <U1"),
    (np.array([{}, 1]), "{name} must be numbers, got object"),
    (np.ones(2) * 1j, "{name} must be numbers, got complex128"),
    (np.ones(3), r"{name} must have a value for each of 2 labels, got \(3,\)"),
])  # fmt: skip
def test_what_is_no_number_of_seconds_is_refused(name: str, given: Any, sentence: str) -> None:
    """Durations of pandas were taken for billions of seconds."""
    monitor, zero = StreamMonitor(2), np.zeros(2, int)
    with pytest.raises(ValueError, match=sentence.format(name=name)):
        monitor.partial_fit(zero, label=zero, consensus=zero, **{name: given})
    assert monitor.n_lanes == 0
    monitor.partial_fit(zero, label=zero, consensus=zero, **{name: np.array([None, 1.5], object)})


def stream(n: int = 3000) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(9)
    return {
        "lanes": rng.integers(7, size=n),
        "label": rng.integers(2, size=n),
        "consensus": rng.integers(-1, 2, size=n),
        "position": np.arange(n) % 50.0,
        "seconds": rng.lognormal(size=n),
    }


def feed(monitor: StreamMonitor, columns: dict[str, np.ndarray], rows: slice) -> None:
    lanes, *_ = columns.values()
    monitor.partial_fit(
        lanes[rows], **{name: one[rows] for name, one in columns.items() if name != "lanes"}
    )


def test_the_cards_do_not_depend_on_how_labels_are_cut_into_batches() -> None:
    columns, whole, cut = stream(), StreamMonitor(2), StreamMonitor(2)
    feed(whole, columns, slice(None))
    for start in range(0, 3000, 137):
        feed(cut, columns, slice(start, start + 137))
    assert whole.snapshot() == cut.snapshot()


def test_a_monitor_restored_goes_on_with_the_same_results_to_the_bit() -> None:
    columns, monitor = stream(), StreamMonitor(2, threshold=7.5)
    feed(monitor, columns, slice(1000))
    again = StreamMonitor.from_snapshot(monitor.snapshot())
    assert again.n_classes == 2
    for one in (monitor, again):
        feed(one, columns, slice(1000, None))
    assert monitor.snapshot() == again.snapshot()
    assert StreamMonitor(2, threshold=7.5).restore(again.snapshot()).n_lanes == 7
    with pytest.raises(ConfigError, match="this array's configuration"):
        StreamMonitor(2).restore(again.snapshot())


def test_the_snapshot_of_another_array_is_refused() -> None:
    cells = [{"op": "cap", "in": ["x"], "out": "mean"}]
    other = FPLA.from_config({"cells": cells, "io": {"inputs": ["x"], "outputs": ["mean"]}})
    with pytest.raises(ConfigError, match="the snapshot must be a monitor's"):
        StreamMonitor.from_snapshot(other.snapshot())
    with pytest.raises(ConfigError, match="cannot be read"):
        StreamMonitor.from_snapshot(other.snapshot()[:50])


def test_lanes_are_reset_and_merged() -> None:
    columns, whole = stream(), StreamMonitor(2)
    feed(whole, columns, slice(None))
    halves = StreamMonitor(2), StreamMonitor(2)
    for half, mine in zip(halves, (columns["lanes"] < 3, columns["lanes"] >= 3), strict=True):
        feed(half, {name: one[mine] for name, one in columns.items()}, slice(None))
    assert halves[0].merge(halves[1]).snapshot() == whole.snapshot()
    whole.reset(np.array([1]))
    assert whole.cards().n_judged[1] == 0


def test_a_monitor_of_more_classes_has_the_same_cards() -> None:
    columns, monitor = stream(), StreamMonitor(2)
    feed(monitor, columns, slice(None))
    wide = monitor.with_classes(4)
    old, new = monitor.cards(), wide.cards()
    for name in WorkerCards.__slots__:
        if name != "confusion":
            np.testing.assert_array_equal(getattr(old, name), getattr(new, name))
    np.testing.assert_array_equal(new.confusion[:, :2, :2], old.confusion)
    assert (new.confusion[:, :2, 2:] == 0).all()
    assert (new.confusion[:, 2:] == 0.25).all()
    feed(wide, {**columns, "label": columns["label"] + 2}, slice(None))
    monitor.partial_fit(np.array([7]), label=np.array([1]), consensus=np.array([0]))
    rows = monitor.with_classes(4).cards().confusion[7]
    assert rows[0].tolist() == [0, 1, 0, 0]
    assert (rows[1] == 0.25).all()  # of a class that she has not met
    with pytest.raises(ConfigError, match="at least 4"):
        wide.with_classes(3)


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"n_classes": 1}, "n_classes must be within 2 and 256"),
        pytest.param(
            {"n_classes": "2"},
            "within 2 and 256, and whole, got n_classes='2'",
            marks=pytest.mark.refusal,
        ),
        pytest.param(
            {"n_classes": 2, "threshold": 10**400}, "h of cell 'drift'", marks=pytest.mark.refusal
        ),
        ({"n_classes": 2, "gamma": 0.0}, "gamma of cell 'reliability'"),
        ({"n_classes": 2, "false_alarm": 1.0}, "alpha of cell 'proof'"),
        ({"n_classes": 2, "drop": 0.0}, "d of cell 'drift'"),
        ({"n_classes": 2, "threshold": 1e300}, "h of cell 'drift' must be > 0 in single precision"),
        (
            {"n_classes": 2, "gamma": 1e-50},
            "gamma of cell 'reliability' must be .* single precision",
        ),
    ],
)
def test_a_knob_out_of_range_is_refused(knobs: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        StreamMonitor(**knobs)  # type: ignore[arg-type]


@pytest.mark.refusal
def test_a_number_may_be_numpys() -> None:
    knobs = {"gamma": np.float32(0.02), "warm_up": np.int64(60), "false_alarm": np.float64(0.05)}
    monitor = StreamMonitor(np.int64(2), **knobs)  # type: ignore[arg-type]
    assert monitor.array.bitstream() == StreamMonitor(2).array.bitstream()


@pytest.mark.refusal
def test_classes_that_are_no_numbers_are_refused() -> None:
    zero, monitor = np.zeros(1, int), StreamMonitor(2)
    for odd in (np.array(["a"]), np.array([{}])):
        with pytest.raises(ValueError, match="label must be whole numbers, got"):
            monitor.partial_fit(zero, label=odd, consensus=zero)
    monitor.partial_fit(zero, label=np.array([1], object), consensus=zero)
    assert monitor.cards().n_judged.tolist() == [1]


def test_a_lane_that_is_reset_has_the_level_of_its_alarm_again() -> None:
    """The guarantee is for each beginning: what falls twice is proven twice, each time at the same label."""
    right = np.r_[np.ones(400), np.zeros(100)].astype(int)
    monitor, proven = StreamMonitor(2), []
    for _ in range(2):
        monitor.partial_fit(np.zeros(500, int), label=right, consensus=np.ones(500, int))
        proven.append(monitor.cards().proven_at[0])
        monitor.reset()
    assert proven[0] == proven[1] > 400


def test_a_class_out_of_range_is_refused() -> None:
    zero = np.zeros(1, int)
    with pytest.raises(ValueError, match="label must be within 0 and 1, got 2 to 2"):
        StreamMonitor(2).partial_fit(zero, label=zero + 2, consensus=zero)
    with pytest.raises(ValueError, match="consensus must be within -1 and 1"):
        StreamMonitor(2).partial_fit(zero, label=zero, consensus=zero - 2)
    with pytest.raises(ValueError, match="level must be within 0 and 1"):
        StreamMonitor(2).cards(level=1.0)
    for name in ("label", "consensus"):
        given = {"label": zero, "consensus": zero, name: zero + 0.5}
        with pytest.raises(ValueError, match=f"{name} must be whole numbers, got 0.5"):
            StreamMonitor(2).partial_fit(zero, **given)
    for shape in ((2,), (), (1, 1)):
        with pytest.raises(ValueError, match="vectors of the same length, got shapes"):
            StreamMonitor(2).partial_fit(zero, label=zero, consensus=np.zeros(shape, int))


def test_it_is_imported_from_the_room_and_costs_a_start_nothing() -> None:
    import subprocess  # this test alone starts a process
    import sys

    code = (
        "import sys, learners; print('numba' in sys.modules, 'learners.streams' in sys.modules)\n"
        "from learners import FPLA, StreamMonitor; print(StreamMonitor(2).n_lanes)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False", "0"]
