"""Neurons against figures of Brian2 2.9 and NEURON 9.0.2, and against solve_ivp."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from learners.genesis import Simulation

FIGURE_4 = """
include hodgkin_huxley.g
create neutral /network
ce /network
create neutral neuron1
make_hh neuron1/cell-body
create passive_compartment neuron1/dendrite
create synapse neuron1/dendrite/synapse
create axon neuron1/axon
link neuron1/dendrite to neuron1/cell-body
link neuron1/dendrite/synapse to neuron1/dendrite
link neuron1/cell-body to neuron1/axon
set neuron1/dendrite Em -65 Ra 2
set neuron1/dendrite/synapse gmax 2 tau 2 E 0
copy neuron1 to neuron2
connect neuron1/axon to neuron2/dendrite/synapse -weight 1 -delay 3
set neuron1/cell-body inject 15
"""


def cell(inject, *, kind="hh", dt=0.01, ms=200.0):
    """A cell with a constant current, after so many milliseconds."""
    library = {"hh": "hodgkin_huxley.g", "cs": "connor_stevens.g"}[kind]
    sim = Simulation(rng=np.random.default_rng(0))
    sim.script(f"include {library}\nsetclock {dt}\nmake_{kind} /soma\ncreate axon /soma/axon")
    sim.script(f"link /soma to /soma/axon\nset /soma inject {inject}\ngraph /soma V")
    sim.step(round(ms / dt))
    return sim


def test_a_cell_that_begins_above_the_threshold_has_not_crossed_it():
    sim = Simulation(rng=np.random.default_rng(0))
    sim.script(
        "create compartment /c\nset /c V0 20 Em 20\ncreate axon /c/x\nlink /c to /c/x\nstep 50"
    )
    assert sim.get("/c", "V") > 0
    assert len(sim.spikes("/c/x").time) == 0


def rate(sim):
    """Spikes a second, by the last interval."""
    times = sim.spikes("/soma/axon").time
    return 1000 / (times[-1] - times[-2]) if len(times) > 1 else 0.0


@pytest.mark.long
@pytest.mark.parametrize(
    ("inject", "spikes", "hertz", "first", "highest", "lowest"),
    [
        (2, 0, None, None, -60.04, -65.09), (5, 1, None, 2.98, 39.06, -75.61),
        (6, 2, None, 2.63, 39.42, -75.50), (7, 12, 58.309, 2.37, 39.69, -75.40),
        (10, 14, 68.306, 1.90, 40.27, -75.08), (20, 18, 86.505, 1.27, 41.30, -74.04),
        (50, 24, 117.096, 0.75, 42.96, -71.06),
    ],
)  # fmt: skip
def test_the_cell_of_hodgkin_and_huxley_fires_as_in_brian2(
    inject, spikes, hertz, first, highest, lowest
):
    sim = cell(inject)
    times = sim.spikes("/soma/axon").time
    voltage = sim.data("/soma", "V").value
    assert len(times) == spikes
    assert abs(voltage.max() - highest) <= 0.1
    assert abs(voltage.min() - lowest) <= 0.1
    if first is not None:
        assert abs(times[0] - first) <= 0.03
    if hertz is not None:
        assert abs(rate(sim) / hertz - 1) <= 0.001


def test_with_longer_steps_the_rate_stays():
    assert abs(rate(cell(10, dt=0.05)) / 68.306 - 1) <= 0.008
    assert abs(rate(cell(10, dt=0.1)) - 67.99) <= 0.5


def test_repetitive_firing_begins_between_6_and_6_3():
    sim = cell(6.3)
    assert len(sim.spikes("/soma/axon").time) == 11
    assert abs(rate(sim) - 52.4) <= 0.1


@pytest.mark.long
@pytest.mark.parametrize(
    ("inject", "hertz"), [(8, 0.0), (8.5, 9.73), (10, 34.05), (20, 132.45), (30, 191.20)]
)
def test_the_cell_of_connor_and_stevens_fires_slowly(inject, hertz):
    assert abs(rate(cell(inject, kind="cs", ms=600.0)) - hertz) <= 0.01 * hertz


def test_without_its_a_current_it_cannot_be_slow():
    sim = cell(0, kind="cs", ms=0.0)
    sim.set("/soma/A", gmax=0.0)
    sim.step(60_000)
    assert abs(rate(sim) / 156.0 - 1) <= 0.01


def test_the_script_of_figure_4():
    """Spike times of the two neurons: Brian2 has 1.69 ... 88.96 and 6.78 ... 94.39."""
    sim = Simulation(rng=np.random.default_rng(0))
    sim.script(FIGURE_4)
    sim.step(10_000)
    first = [1.70, 16.52, 31.03, 45.53, 60.02, 74.51, 89.01]
    second = [6.79, 21.92, 36.46, 50.96, 65.46, 79.95, 94.44]
    for name, wanted in (("neuron1", first), ("neuron2", second)):
        found = sim.spikes(f"/network/{name}/axon").time
        assert len(found) == len(wanted)
        assert np.abs(found - wanted).max() <= 0.1


def steepness(errors):
    """The orders of convergence, by halving."""
    return np.log2(np.array(errors[:-1]) / errors[1:])


def reference(times):
    """The same cell by an adaptive solver of order eight; its rates are written out."""

    def rates(v):
        return (
            0.1 * (v + 40) / (1 - np.exp(-(v + 40) / 10)), 4 * np.exp(-(v + 65) / 18),
            0.07 * np.exp(-(v + 65) / 20), 1 / (1 + np.exp(-(v + 35) / 10)),
            0.01 * (v + 55) / (1 - np.exp(-(v + 55) / 10)), 0.125 * np.exp(-(v + 65) / 80),
        )  # fmt: skip

    def change(_, state):
        v, m, h, n = state
        am, bm, ah, bh, an, bn = rates(v)
        current = 0.3 * (-54.387 - v) + 120 * m**3 * h * (50 - v) + 36 * n**4 * (-77 - v)
        moved = (am * (1 - m) - bm * m, ah * (1 - h) - bh * h, an * (1 - n) - bn * n)
        return (10 + current, *moved)

    a = rates(-65.0)
    start = (-65.0, *(a[k] / (a[k] + a[k + 1]) for k in (0, 2, 4)))
    span = (0, times[-1] + 1e-6)
    found = solve_ivp(change, span, start, "DOP853", times, rtol=1e-10, atol=1e-10)
    return found.y[0]


def test_one_compartment_converges_with_order_two_and_euler_with_order_one():
    """Rms error of V over 10 ms; .3695, .0931, .0233 and .0058 were measured with a prototype."""
    times = np.arange(201) * 0.05
    wanted = reference(times)
    errors = {0: [], 1: []}
    for euler, found in errors.items():
        for halvings in range(4):
            sim = cell(10, dt=0.05 / 2**halvings, ms=0.0)
            sim.set("/##[CLASS=compartment]", euler=euler)
            sim.set("/##[CLASS=channel]", euler=euler)
            sim.step(200 * 2**halvings)
            voltage = sim.data("/soma", "V").value[:: 2**halvings]
            found.append(np.sqrt(np.mean((voltage - wanted) ** 2)))
    assert (steepness(errors[0]) >= 1.9).all()
    assert np.abs(np.array(errors[0]) / [0.3695, 0.0931, 0.0233, 0.0058] - 1).max() < 0.02
    assert (np.abs(steepness(errors[1]) - 1) < 0.1).all()


def test_a_rate_is_continuous_where_it_is_0_by_0_and_exact_where_its_denominator_is_small():
    """Both rates are those of one gate in the long run, whose other rate is 1."""

    def opened(rate, v):
        sim = Simulation(rng=np.random.default_rng(0))
        sim.script("create compartment /c\ncreate channel /c/n\nlink /c/n to /c")
        sim.set("/c/n", x_power=1.0, x_alpha=rate, x_beta=(1.0, 0.0, 1.0, 0.0, 1e9))
        sim.set("/c", V0=v)
        sim.reset()
        gate = sim.get("/c/n", "x")
        return 0.5 * gate / (1 - gate)  # the other rate is 1 / 2

    hole = -50.0 - 10.0 * np.log(2.0)
    broken = (0.2 * hole, -0.2, -2.0, 50.0, -10.0)
    for v in (hole - 1e-4, hole, hole + 1e-4):
        assert opened(broken, v) == pytest.approx(1.0, abs=1e-4)
    steep = (1e-7, 0.0, 0.0, 0.0, 5.0)
    assert opened(steep, -80.0) == pytest.approx(1e-7 * np.exp(16.0))


def test_a_synapse_follows_an_alpha_function():
    """Its conductance after an event of weight w is gmax w (t/tau) exp(1 - t/tau)."""
    sim = Simulation(rng=np.random.default_rng(0))
    sim.script("include hodgkin_huxley.g\nsetclock .01\nmake_hh /a\ncreate axon /a/axon")
    sim.script("link /a to /a/axon\nset /a inject 10\ncreate compartment /b")
    sim.script("create synapse /b/s\nset /b/s gmax 2 tau 3\nlink /b/s to /b\ngraph /b/s g")
    sim.script("connect /a/axon to /b/s -weight .5 -delay 1\nstep 1000")
    (first, *_) = sim.spikes("/a/axon").time
    time, g = sim.data("/b/s", "g")
    since = time - first - 1
    wanted = np.where(since > 0, 2 * 0.5 * since / 3 * np.exp(1 - since / 3), 0.0)
    np.testing.assert_allclose(g, wanted, atol=1e-9)


def test_a_passive_compartment_relaxes_exactly():
    """Exponential Euler is exact without channels: V - Em falls as exp(-t / (Rm C))."""
    sim = Simulation(rng=np.random.default_rng(0))
    sim.script("setclock .5\ncreate compartment /c\nset /c Rm 10 C 2 Em -70 V0 -50\ngraph /c V")
    sim.step(40)
    time, v = sim.data("/c", "V")
    np.testing.assert_allclose(v, -70 + 20 * np.exp(-time / 20), rtol=1e-12)


def test_a_membrane_without_a_leak_is_a_capacitor():
    sim = Simulation(rng=np.random.default_rng(0))
    sim.script(
        "setclock .5\ncreate compartment /c\nset /c Rm {inf} C 2 inject 3\ngraph /c V\nstep 4"
    )
    time, v = sim.data("/c", "V")
    np.testing.assert_allclose(v, -65 + 1.5 * time)


def test_an_axon_rests_after_it_has_fired():
    often, seldom = cell(20), cell(20, ms=0.0)
    seldom.set("/soma/axon", refractory=30.0)
    seldom.step(20_000)
    gaps = np.diff(seldom.spikes("/soma/axon").time)
    assert gaps.min() >= 30
    assert len(gaps) < len(often.spikes("/soma/axon").time)
