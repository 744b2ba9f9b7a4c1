"""The learning array: cells beside obvious code, lanes apart, and what is refused.

Golden numbers are those of the paper (Bridges et al., NIPS 2002) and of closed forms; tolerances of
statistical tests are at least six standard errors, false alarm 1e-8 or less.
"""

from __future__ import annotations

import io
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture

from learners.streams import CELLS, FPLA, ConfigError, FloatingGate

AGREE = {"inputs": ["x", "y"], "outputs": ["out"]}


def array_of(op: str, *, inputs: tuple[str, ...] = ("x", "y"), **params: Any) -> FPLA:
    """An array of one cell, whose output is kept."""
    cell = {"op": op, "in": list(inputs), "out": "out", "name": "cell", **params}
    return FPLA.from_config({"cells": [cell], "io": {"inputs": list(inputs), "outputs": ["out"]}})


def run(array: FPLA, *columns: np.ndarray, lane: int = 0) -> None:
    array.partial_fit(np.full(len(columns[0]), lane), np.column_stack(columns))


@pytest.mark.parametrize(
    ("op", "params", "inputs", "expected"),
    [
        ("mirror", {"g": 3.0}, {"x": 2.0}, 6.0),
        ("diode", {}, {"x": -2.0}, 0.0),
        ("diode", {}, {"x": 2.0}, 2.0),
        ("pair", {"g": 2.0, "s": 0.5}, {"x": 1.0, "y": 0.5}, 2 * np.tanh(1.0)),
        ("prod", {}, {"x": 3.0, "y": -2.0}, -6.0),
        ("cmp", {}, {"x": 3.0, "y": 2.0}, 1.0),
        ("cmp", {}, {"x": 2.0, "y": 2.0}, 0.0),
        ("bias", {"c": 0.25}, {}, 0.25),
    ],
)
def test_a_cell_without_state_computes_its_formula(
    op: str, params: dict[str, float], inputs: dict[str, float], expected: float
) -> None:
    array = array_of(op, inputs=tuple(inputs), **params)
    assert array.step(0, **inputs)["out"] == pytest.approx(expected)


def test_values_of_cells_that_drive_one_net_add_and_polarity_n_subtracts() -> None:
    cells = [
        {"op": "mirror", "in": ["x"], "out": "high"},
        {"op": "cap", "in": ["x"], "out": "high", "polarity": "n", "gamma": 0.5},
    ]
    array = FPLA.from_config({"cells": cells, "io": {"inputs": ["x"], "outputs": ["high"]}})
    found = [array.step(0, x=x)["high"] for x in (4.0, 8.0)]
    assert found == [0.0, 8.0 - 6.0]  # less the running mean


def test_cond_is_an_exact_running_mean_at_first_and_leaky_then() -> None:
    array = array_of("cond", gamma=0.25)
    x = np.array([1.0, 0, 0, 1, 1, 0, 1])
    expected = 0.0
    for n, one in enumerate(x, start=1):
        expected += max(0.25, 1 / n) * (one - expected)
        assert array.step(0, x=one, y=1.0)["out"] == pytest.approx(expected)


def test_cond_has_the_error_that_theory_gives_it_and_is_blind_where_not_y() -> None:
    """RMSE within 20 % of sqrt(mean p(1-p) γ/(2-γ)), 19 values of p at 10,000 events."""
    rng, gamma = np.random.default_rng(0), 0.01
    p = np.arange(0.05, 0.96, 0.05)
    error = []
    for _ in range(20):  # the theory is of the mean square: 380 lanes
        x = (rng.random((20_000, len(p))) < p).astype(float)
        y = (rng.random(x.shape) < 0.5).astype(float)
        x[y == 0] = rng.random() < 0.5  # must not matter
        array = array_of("cond", gamma=gamma)
        lanes = np.tile(np.arange(len(p)), len(x))
        array.partial_fit(lanes, np.column_stack([x.ravel(), y.ravel()]))
        error.append(array.read("out") - p)
    theory = np.sqrt(np.mean(p * (1 - p)) * gamma / (2 - gamma))
    assert abs(np.sqrt(np.mean(np.square(error))) / theory - 1) < 0.2


def test_the_slope_is_that_of_the_paper_and_of_the_closed_form() -> None:
    """388 points, x uniform within -1 and 1, slope .5, noise 5 %: .4924 as in the paper's figure 4."""
    rng, decay, mu = np.random.default_rng(1), 5.1e-4, 0.1
    n, seeds = 388, 400
    x = rng.uniform(-1, 1, size=(n, seeds))
    y = 0.5 * x + 0.05 * rng.normal(size=x.shape)
    array = array_of("regr", mu=mu, decay=decay)
    lanes = np.tile(np.arange(seeds), n)
    array.partial_fit(lanes, np.column_stack([x.ravel(), y.ravel()]))
    plus, minus = array.cell_state("cell").T
    slope = plus - minus
    assert abs(slope.mean() - 0.4924) < 0.004
    assert abs(slope.mean() - 0.5 / (1 + decay / (mu / 3))) < 0.004
    assert np.abs(slope - 0.4924).max() < 0.05
    assert (plus > 0).all()
    assert (minus > 0).all()


def test_the_bump_finds_location_and_width() -> None:
    """A logistic of the same spread: width σ√3/π, from a start 5 standard deviations away."""
    rng = np.random.default_rng(2)
    x = rng.normal(1, 0.3, size=2000)
    array = array_of("bump", inputs=("x",), K=1, gamma=0.01, start=-1.5, width=0.5)
    run(array, x)
    _, at, width, share = array.cell_state("cell")[0]
    assert abs(at - x.mean()) < 0.05
    assert abs(width / (0.3 * np.sqrt(3) / np.pi) - 1) < 0.1
    assert share == pytest.approx(1)


def test_the_bump_steps_less_as_it_comes_closer_and_answers_most_to_what_it_is_shown() -> None:
    """The paper's figure 5b."""
    array = array_of("bump", inputs=("x",), gamma=0.05, start=-2.0, fixed=1, width=0.5)
    places = []
    for _ in range(300):
        array.step(0, x=1.0)
        places.append(array.cell_state("cell")[0, 1])
    steps = np.diff(places)
    late = steps[100:]
    assert (late[:-1] >= late[1:]).all()
    probes = np.linspace(-1, 3, 81)
    response = [array.step(0, x=x, learn=False)["out"] for x in probes]
    assert probes[int(np.argmax(response))] == pytest.approx(1.0, abs=0.051)


def test_a_bump_of_fixed_width_withstands_outliers() -> None:
    rng = np.random.default_rng(3)
    x = np.where(rng.random(4000) < 0.1, 8.0, rng.normal(1, 0.3, size=4000))
    array = array_of("bump", inputs=("x",), gamma=0.01, start=1.5, width=0.165, fixed=1)
    run(array, x)
    assert abs(array.cell_state("cell")[0, 1] - 1) < 0.1
    assert abs(x.mean() - 1) > 0.5


@pytest.mark.parametrize("hard", [0, 1])
def test_the_mixture_of_bumps_clusters_response_times_as_a_batch_mixture_does(hard: int) -> None:
    """One pass over 5000 log times of three kinds; soft within .01 of scikit-learn's mixture, ARI."""
    rng = np.random.default_rng(4)
    kind = rng.choice(3, p=[0.3, 0.5, 0.2], size=5000)
    x = np.array([0.0, 1.5, 3.0])[kind] + 0.3 * rng.normal(size=5000)
    array = array_of("bump", inputs=("x",), K=3, gamma=0.005, warm=100, s_min=0.02, hard=hard)
    run(array, x)
    _, *state = array.cell_state("cell")[0]
    at, width, share = np.array(state[:9]).reshape(3, 3)
    z = np.abs(x[:, None] - at) / width
    score = np.log(share / width) - z - 2 * np.log1p(np.exp(-z))
    ours = adjusted_rand_score(kind, score.argmax(axis=1))
    batch = GaussianMixture(3, random_state=0).fit(x[:, None]).predict(x[:, None])
    assert ours >= adjusted_rand_score(kind, batch) - (0.05 if hard else 0.01)


def test_the_floating_gate_comes_to_rest_where_its_law_says() -> None:
    """R² at least .999 over p, of the mean weight after the gate has settled."""
    rng, gate = np.random.default_rng(5), FloatingGate(sigma=1.0, epsilon=0.8, eta_both=0.4)
    p = np.arange(0.1, 0.95, 0.1)
    x = rng.random((40_000, len(p))) < p
    down = np.where(x, gate.eta_both, gate.eta_single)
    lanes = np.tile(np.arange(len(p)), len(x))
    array = array_of("fg", inc=0.003, dec=0.003, sigma=1.0, epsilon=0.8)
    weights = []
    for part in np.array_split(np.arange(lanes.size), 200):
        array.partial_fit(lanes[part], np.column_stack([x.ravel(), down.ravel()])[part])
        weights.append(array.read("out"))
    found, law = np.mean(weights[20:], axis=0), gate.weight(p)
    assert 1 - np.sum((found - law) ** 2) / np.sum((law - law.mean()) ** 2) > 0.999
    np.testing.assert_allclose(gate.invert(law), p)


def test_a_linear_floating_gate_counts() -> None:
    array = array_of("fg", inc=0.5, dec=0.25, linear=1, start=1.0)
    assert array.step(0, x=1.0, y=0.0)["out"] == 1.5
    assert array.step(0, x=0.0, y=1.0)["out"] == 1.25


def test_a_floating_gate_that_gains_alone_stays_a_number() -> None:
    """Its weight grew past all numbers, and the next loss made it none for ever."""
    array = array_of("fg", inc=0.5, dec=0.5)
    run(array, np.ones(60), np.zeros(60))
    assert 1e100 < array.read("out")[0] < np.inf
    for _ in range(3):
        array.step(0, x=1.0, y=1.0)
    assert np.isfinite(array.read("out")[0])
    run(array, np.ones(40), np.ones(40))
    assert np.isfinite(array.read("out")[0])


@pytest.mark.parametrize("odd", [-0.1, np.nan, 1.5])
def test_a_gate_at_rest_is_asked_for_probabilities_and_weights(odd: float) -> None:
    gate = FloatingGate()
    with pytest.raises(ValueError, match=r"p must be in \[0, 1\], got "):
        gate.weight(np.array([0.5, odd]))
    if not odd > 0:
        with pytest.raises(ValueError, match="a weight must be >= 0, got "):
            gate.invert(np.array([0.5, odd]))


def test_a_table_is_a_cond_cell_for_each_entry() -> None:
    rng = np.random.default_rng(6)
    label, truth = rng.integers(3, size=(2, 500))
    array = array_of("table", K=3, gamma=0.05)
    run(array, label, truth)
    found = array.cell_state("cell")[0, 3:].reshape(3, 3)
    for t in range(3):
        for k in range(3):
            cond = array_of("cond", gamma=0.05)
            run(cond, (label == k).astype(float), (truth == t).astype(float))
            assert found[t, k] == pytest.approx(cond.read("out")[0])


@pytest.mark.parametrize(("before", "after"), [(0.9, 0.6), (1.0, 0.6), (0.02, 0.0)])
def test_cusum_is_the_recursion_of_its_source(before: float, after: float) -> None:
    rng = np.random.default_rng(7)
    x = (rng.random(400) < np.where(np.arange(400) < 200, before, after)).astype(float)
    array = array_of("cusum", inputs=("x",), h=5, d=0.2, window=250, warm_up=60)
    run(array, x)
    mean = total = at = 0.0
    for n, one in enumerate(x, start=1):
        if n > 60:
            p = min(max(mean, 0.05), 0.97)
            q = max(0.02, p - float(np.float32(0.2)))
            total = max(0, total + one * np.log(q / p) + (1 - one) * np.log((1 - q) / (1 - p)))
            at = at or (n if total > 5 else 0)
        mean += max(1 / n, 1 / 250) * (one - mean)
    np.testing.assert_allclose(array.cell_state("cell")[0], [400, mean, total, at], rtol=1e-9)
    assert at > 200 or after == 0  # so low a rate has hardly room to fall


def test_a_bump_has_no_density_before_its_first_values_are_in() -> None:
    array = array_of("bump", inputs=("x",), K=2, warm=3)
    run(array, np.array([1.0, 2.0]))
    assert np.isnan(array.step(0, x=1.0, learn=False)["out"])
    run(array, np.array([3.0]))
    assert np.isfinite(array.step(0, x=1.0, learn=False)["out"])


def test_a_cell_with_delay_reads_the_lanes_last_event_and_so_may_close_a_cycle() -> None:
    cells = [
        {"op": "cap", "in": ["sum"], "out": "held", "gamma": 1.0, "delay": True},
        {"op": "mirror", "in": ["x"], "out": "sum"},
        {"op": "mirror", "in": ["held"], "out": "sum"},
    ]
    array = FPLA.from_config({"cells": cells, "io": {"inputs": ["x"], "outputs": ["sum"]}})
    found = [array.step(lane, x=1.0)["sum"] for lane in (0, 1, 0, 0)]
    assert found == [1, 1, 2, 3]  # an accumulator, for each lane its own


def test_what_is_not_finite_is_no_event_for_the_cells_that_read_it() -> None:
    array = FPLA.from_config({
        "cells": [
            {"op": "cap", "in": ["x"], "out": "mean"},
            {"op": "cap", "in": ["y"], "out": "other"},
        ],
        "io": {"inputs": ["x", "y"], "outputs": ["mean", "other"]},
    })  # fmt: skip
    array.step(0, x=2.0, y=3.0)
    for odd in (np.nan, np.inf, -np.inf):
        assert array.step(0, x=odd, y=3.0) == {"mean": 2.0, "other": 3.0}
    assert array.events.tolist() == [4]


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("op", [name for name, cell in CELLS.items() if cell.stateful])
def test_no_cell_learns_from_what_is_not_finite(op: str, odd: float) -> None:
    inputs = ("x", "y")[: CELLS[op].n_inputs]
    array = array_of(op, inputs=inputs)
    for _ in range(3):
        array.step(0, **dict.fromkeys(inputs, 1.0))
    before = array.cell_state("cell")
    for name in inputs:
        array.step(0, **{**dict.fromkeys(inputs, 1.0), name: odd})
    np.testing.assert_array_equal(array.cell_state("cell"), before)


def test_a_slope_stays_finite_where_x_is_far_from_zero() -> None:
    """At mu x² > 2 each step would overshoot more than the last."""
    rng = np.random.default_rng(10)
    x = np.concatenate([rng.uniform(-1, 1, size=500), np.full(200, -30.0)])
    array = array_of("regr", mu=0.1)
    run(array, x, 0.5 * x)
    plus, minus = array.cell_state("cell")[0]
    assert plus - minus == pytest.approx(0.5)
    assert plus < 10


def test_without_learning_no_state_changes() -> None:
    rng = np.random.default_rng(8)
    array = array_of("bump", inputs=("x",), K=2, warm=10)
    run(array, rng.normal(size=50))
    before = array.cell_state("cell")
    array.partial_fit(np.zeros(20, int), {"x": rng.normal(size=20)}, learn=False)
    assert (array.cell_state("cell") == before).all()


def mixed() -> FPLA:
    return FPLA.from_config({
        "cells": [
            {"op": "cond", "in": ["x", "y"], "out": "p"},
            {"op": "regr", "in": ["x", "y"], "out": "fit", "polarity": "n"},
            {"op": "bump", "in": ["x"], "out": "density", "K": 2, "warm": 5},
            {"op": "cusum", "in": ["y"], "out": "sum"},
            {"op": "cap", "in": ["sum"], "out": "late", "delay": True},
        ],
        "io": {"inputs": ["x", "y"], "outputs": ["p", "fit", "density", "sum", "late"]},
    })  # fmt: skip


def events(n: int = 400, lanes: int = 5) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(9)
    return rng.integers(lanes, size=n), rng.random((n, 2)).round()


def test_lanes_do_not_touch_each_other() -> None:
    lanes, values = events()
    together, alone = mixed(), mixed()
    together.partial_fit(lanes, values)
    for lane in range(5):
        mine = lanes == lane
        alone.partial_fit(lanes[mine], values[mine])
    for net in together.program.outputs:
        np.testing.assert_array_equal(together.read(net), alone.read(net))


def test_the_state_is_of_fixed_size() -> None:
    lanes, values = events()
    array = mixed()
    array.partial_fit(lanes, values)
    size = len(array.snapshot())
    array.partial_fit(lanes, values)
    assert len(array.snapshot()) == size


def test_a_snapshot_is_restored_to_the_bit_and_holds_no_pickle(tmp_path: Any) -> None:
    lanes, values = events()
    array = mixed()
    array.partial_fit(lanes[:200], values[:200])
    data = array.snapshot()
    again = FPLA.from_snapshot(data)
    for one in (array, again):
        one.partial_fit(lanes[200:], values[200:])
    assert again.snapshot() == array.snapshot()
    assert array.restore(data).snapshot() == data
    (tmp_path / "state.npz").write_bytes(data)
    with np.load(tmp_path / "state.npz", allow_pickle=False) as file:
        assert set(file) == {"bitstream", "state", "events"}


def test_a_foreign_or_damaged_snapshot_is_refused() -> None:
    data = mixed().snapshot()
    with pytest.raises(ConfigError, match="of this array's configuration"):
        array_of("cond").restore(data)
    with pytest.raises(ConfigError, match="cannot be read"):
        mixed().restore(data[:100])
    file = io.BytesIO()
    np.save(file, np.zeros(3))
    for read in (FPLA.from_snapshot, mixed().restore):
        with pytest.raises(ConfigError, match=r"must be an \.npz file"):
            read(file.getvalue())


def test_a_snapshot_with_any_bit_turned_is_refused_or_the_same() -> None:
    array = array_of("cond")
    array.step(0, x=1.0, y=1.0)
    data = array.snapshot()
    for at in range(len(data)):
        for bit in (0, 3):
            bad = bytearray(data)
            bad[at] ^= 1 << bit
            with suppress(ConfigError):
                assert FPLA.from_snapshot(bytes(bad)).snapshot() == data


def test_disjoint_lanes_are_merged_and_shared_ones_refused() -> None:
    lanes, values = events()
    whole, low, high = mixed(), mixed(), mixed()
    whole.partial_fit(lanes, values)
    low.partial_fit(lanes[lanes < 2], values[lanes < 2])
    high.partial_fit(lanes[lanes >= 2], values[lanes >= 2])
    for net in whole.program.outputs:
        np.testing.assert_array_equal(low.merge(high).read(net), whole.read(net))
        break
    assert low.snapshot() == whole.snapshot()
    with pytest.raises(ValueError, match="disjoint, got lane 2 in both"):
        low.merge(high)
    with pytest.raises(ConfigError, match="same configuration"):
        low.merge(array_of("cond"))


def test_a_lane_that_is_reset_begins_anew() -> None:
    lanes, values = events()
    array, fresh = mixed(), mixed()
    array.partial_fit(lanes, values)
    array.reset(np.array([3]))
    mine = lanes == 3
    array.partial_fit(lanes[mine], values[mine])
    fresh.partial_fit(lanes, values)
    for net in fresh.program.outputs:
        np.testing.assert_array_equal(array.read(net), fresh.read(net))
    assert array.state_frame()["events"].tolist() == fresh.events.tolist()


@pytest.mark.parametrize(
    ("lanes", "values", "message"),
    [
        (np.array([0, -1]), np.zeros((2, 2)), "lanes must be >= 0, got -1 at event 1"),
        (np.array([0.5]), np.zeros((1, 2)), "lanes must be a vector of whole numbers"),
        (np.array([2**62]), np.zeros((1, 2)), f"lane {2**62} asks for the memory"),
        (np.array([2**63 - 1]), np.zeros((1, 2)), "without gaps"),
        (np.array([2**63 + 5], np.uint64), np.zeros((1, 2)), f"lane {2**63 + 5} asks"),
        (np.array([10**14]), np.zeros((1, 2)), "without gaps"),
        (np.array([0]), np.zeros((1, 3)), r"values must have shape \(1, 2\)"),
        (np.array([0]), {"x": np.zeros(1)}, r"missing or unknown: \['y'\]"),
        (np.array([0]), {"x": np.zeros(2), "y": np.zeros(1)}, "x must have a value for each"),
    ],
)
def test_events_that_do_not_fit_are_refused(lanes: Any, values: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mixed().partial_fit(lanes, values)


def test_what_cannot_be_read_is_refused() -> None:
    array = mixed()
    with pytest.raises(ValueError, match="net must be an output"):
        array.read("x")
    with pytest.raises(ValueError, match="name must be a cell"):
        array.cell_state("nobody")
    array.step(0, x=1.0, y=1.0)
    with pytest.raises(ValueError, match="within 0 and 0"):
        array.read("p", np.array([1]))


def test_lanes_that_memory_does_not_hold_are_refused_and_lose_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    array = mixed()
    array.partial_fit(np.array([0, 1]), np.ones((2, 2)))
    before = array.snapshot()

    def tile(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(np, "tile", tile)
    with pytest.raises(ValueError, match="lane 10000 asks for the memory of 10001 lanes"):
        array.partial_fit(np.array([0, 10_000]), np.ones((2, 2)))
    assert array.snapshot() == before


@pytest.mark.refusal
@pytest.mark.parametrize("lanes", [np.array([0.5]), np.array([True, False])], ids=str)
def test_lanes_that_are_no_whole_numbers_are_neither_read_nor_reset(lanes: Any) -> None:
    """Half of a lane was lane 0, and a mask was the lanes 1 and 0."""
    array = mixed()
    array.partial_fit(np.array([0, 1]), np.ones((2, 2)))
    for of in (array.reset, lambda one: array.read("p", one)):
        with pytest.raises(ValueError, match="lanes must be whole numbers"):
            of(lanes)
    with pytest.raises(ValueError, match="lanes must be a vector of whole numbers"):
        array.step(0.5, x=1.0, y=1.0)  # type: ignore[arg-type]
    assert array.events.tolist() == [1, 1]


def test_outputs_named_like_a_column_of_the_frame_take_no_columns_place() -> None:
    array = FPLA.from_config({
        "cells": [{"op": "cap", "in": ["x"], "out": "events"}],
        "io": {"inputs": ["x"], "outputs": ["events"]},
    })  # fmt: skip
    array.step(0, x=5.0)
    frame = {name: column.tolist() for name, column in array.state_frame().items()}
    assert frame == {"lane": [0], "events": [1], "output events": [5.0]}
