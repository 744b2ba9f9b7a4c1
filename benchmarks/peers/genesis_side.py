"""Neurons in Brian2 and NEURON and decisions in pyddm; runs in an environment of its own.

``python genesis_side.py STEPS`` prints the rates of the cells of Hodgkin and Huxley and of Connor and Stevens
by the last interval, the spikes of figure 4's two neurons, the CPU milliseconds that a network of 500 cells
takes for each of so many steps, and accuracy, mean seconds and speed of the drift-diffusion. Units are mV,
ms, µA and mS for each cm².
"""

import json
import sys
import time

import brian2 as b
import neuron
import numpy as np
import pyddm

CURRENTS = (7, 10, 20, 50)
SHORE = (8.5, 9, 10, 15, 20, 30)  # of Connor and Stevens's cell, a crab's
DIFFUSION = ((0.5, 1.0), (1.0, 1.0), (2.0, 0.8), (0.0, 1.0))
DRAWN = 1_000  # choices, one after another, as pyddm simulates them
GATES = """
dm/dt = (1 / exprel(-(v + 40) / 10) * (1 - m) - 4 * exp(-(v + 65) / 18) * m) / ms : 1
dh/dt = (.07 * exp(-(v + 65) / 20) * (1 - h) - h / (1 + exp(-(v + 35) / 10))) / ms : 1
dn/dt = (.1 / exprel(-(v + 55) / 10) * (1 - n) - .125 * exp(-(v + 65) / 80) * n) / ms : 1
"""
CURRENT = "120 * m**3 * h * (50 - v) + 36 * n**4 * (-77 - v) + .3 * (-54.387 - v)"
CELL = f"dv/dt = ({CURRENT} + inject) / ms : 1\ninject : 1\n{GATES}"
SLOW = """
dv/dt = (120 * m**3 * h * (55 - v) + 20 * n**4 * (-72 - v) + 47.7 * a**3 * b * (-75 - v)
    + .3 * (-17 - v) + inject) / ms : 1
dm/dt = (3.8 / exprel(-.1 * (v + 29.7)) * (1 - m) - 15.2 * exp(-.0556 * (v + 54.7)) * m) / ms : 1
dh/dt = (.266 * exp(-.05 * (v + 48)) * (1 - h) - 3.8 / (1 + exp(-.1 * (v + 18))) * h) / ms : 1
dn/dt = (.2 / exprel(-.1 * (v + 45.7)) * (1 - n) - .25 * exp(-.0125 * (v + 55.7)) * n) / ms : 1
da/dt = ((.0761 * exp(.0314 * (v + 94.22)) / (1 + exp(.0346 * (v + 1.17))))**(1 / 3) - a)
    / (.3632 + 1.158 / (1 + exp(.0497 * (v + 55.96)))) / ms : 1
db/dt = ((1 + exp(.0688 * (v + 53.3)))**(-4) - b)
    / (1.24 + 2.678 / (1 + exp(.0624 * (v + 50)))) / ms : 1
inject : 1
"""  # the cell of Connor and Stevens
PASSIVE = "(-65 - {v}) * .3 + (v - {v}) / 2 + {g} * (0 - {v})"  # leak, axial current, synapse
SYNAPSE = """
g{k} = {gmax} * exp(1) / 2 * y{k} : 1
dy{k}/dt = x{k} / ms - y{k} / (2 * ms) : 1
dx{k}/dt = -x{k} / (2 * ms) : 1
du{k}/dt = ({current}) / ms : 1
"""
FIRES = {"threshold": "v > 0", "refractory": "v > 0"}


def at_rest(group):
    """Set the gates to their steady state at -65 mV."""
    group.v = -65
    v = -65.0
    a = 1 / (np.expm1(-(v + 40) / 10) / (-(v + 40) / 10))
    group.m = a / (a + 4)
    group.h = 0.07 / (0.07 + 1 / (1 + np.exp(-(v + 35) / 10)))
    a = 0.1 / (np.expm1(-(v + 55) / 10) / (-(v + 55) / 10))
    group.n = a / (a + 0.125)
    return group


def with_dendrites(n_cells, n_dendrites, gmax, method):
    """Cells with passive dendrites, a synapse on each."""
    names = range(n_dendrites)
    axial = "".join(f" + (u{k} - v) / 2" for k in names)
    equations = f"dv/dt = ({CURRENT} + inject{axial}) / ms : 1\ninject : 1\n{GATES}"
    for k in names:
        current = PASSIVE.format(v=f"u{k}", g=f"g{k}")
        equations += SYNAPSE.format(k=k, gmax=gmax, current=current)
    group = b.NeuronGroup(n_cells, equations, method=method, **FIRES)
    for k in names:
        setattr(group, f"u{k}", -65)
    return at_rest(group)


def brian_rates():
    b.start_scope()
    cells = at_rest(b.NeuronGroup(len(CURRENTS), CELL, method="rk4", **FIRES))
    return last_rates(cells, CURRENTS, 200 * b.ms)


def brian_slow_rates():
    b.start_scope()
    cells = b.NeuronGroup(len(SHORE), SLOW, method="rk4", **FIRES)
    cells.v, cells.h, cells.b = -68, 1, 0.5  # forgotten long before the last interval
    return last_rates(cells, SHORE, 600 * b.ms)


def last_rates(cells, currents, duration):
    """Hertz by the last interval."""
    cells.inject = currents
    spikes = b.SpikeMonitor(cells)
    b.Network(cells, spikes).run(duration)
    times = [np.asarray(one / b.ms) for one in spikes.spike_trains().values()]
    return [float(1000 / (t[-1] - t[-2])) for t in times]


def brian_figure_4():
    b.start_scope()
    cells = with_dendrites(2, 1, 2, "rk4")
    cells.inject = [15, 0]
    wire = b.Synapses(cells, cells, on_pre="x0_post += 1")
    wire.connect(i=0, j=1)
    wire.delay = 3 * b.ms
    spikes = b.SpikeMonitor(cells)
    b.Network(cells, wire, spikes).run(100 * b.ms)
    return [(one / b.ms).tolist() for one in spikes.spike_trains().values()]


def brian_network(steps):
    """CPU milliseconds a step, the best of five."""
    b.start_scope()
    cells = with_dendrites(500, 2, 0.01, "exponential_euler")
    cells.inject = 12
    rng = np.random.default_rng(1)
    network = b.Network(cells)
    for k in range(2):
        wire = b.Synapses(cells, cells, on_pre=f"x{k}_post += 1")
        wire.connect(i=rng.integers(500, size=5000), j=rng.integers(500, size=5000))
        wire.delay = rng.uniform(1, 5, size=5000) * b.ms
        network.add(wire)
    network.run(200 * b.defaultclock.dt)
    took = []
    for _ in range(5):
        start = time.process_time()
        network.run(steps * b.defaultclock.dt)
        took.append((time.process_time() - start) / steps * 1000)
    return min(took)


def neuron_rates():
    """Rates by NEURON's own mechanism of Hodgkin and Huxley at 6.3 degrees, of second order."""
    h = neuron.h
    h.load_file("stdrun.hoc")
    found = []
    for current in CURRENTS:
        cell = h.Section(name="soma")
        cell.insert("hh")
        cell.L = cell.diam = 10
        cell.cm = 1
        for part in cell:
            part.hh.el = -54.387
        clamp = h.IClamp(cell(0.5))
        clamp.delay, clamp.dur = 0, 1e9
        clamp.amp = current * np.pi * cell.L * cell.diam * 1e-8 * 1e3  # nA of µA/cm²
        spikes = h.Vector()
        counter = h.APCount(cell(0.5))
        counter.thresh = 0
        counter.record(spikes)
        h.celsius, h.dt, h.steps_per_ms, h.secondorder = 6.3, 0.01, 100, 2
        h.finitialize(-65)
        h.continuerun(200)
        times = np.array(spikes)
        found.append(float(1000 / (times[-1] - times[-2])))
    return found


def decisions():
    """Accuracy and mean seconds by pyddm's solver, its CPU milliseconds, and choices drawn a CPU second."""
    found = []
    for drift, bound in DIFFUSION:
        model = diffusion(drift, bound, dx=0.005, dt=0.005)
        start = time.process_time()
        solved = model.solve()
        took = (time.process_time() - start) * 1000
        density = solved.pdf("correct") + solved.pdf("error")
        mean = (density * solved.t_domain).sum() / density.sum()
        found.append([float(solved.prob("correct")), float(mean), took])
    model = diffusion(*DIFFUSION[0], dx=0.02, dt=0.02)
    start = time.process_time()
    for seed in range(DRAWN):
        model.simulate_trial(seed=seed)
    return found, DRAWN / (time.process_time() - start)


def diffusion(drift, bound, **steps):
    """A model without lapses, whose time is long enough for every decision."""
    return pyddm.Model(
        drift=pyddm.DriftConstant(drift=drift), noise=pyddm.NoiseConstant(noise=1),
        bound=pyddm.BoundConstant(B=bound), overlay=pyddm.OverlayNone(), T_dur=20, **steps,
    )  # fmt: skip


def main(steps):
    b.prefs.codegen.target = "cython"
    b.defaultclock.dt = 0.01 * b.ms
    solved, drawn = decisions()
    print(
        json.dumps(
            {
                "brian": b.__version__,
                "neuron": neuron.__version__,
                "pyddm": pyddm.__version__,
                "brian_rates": brian_rates(),
                "brian_slow_rates": brian_slow_rates(),
                "neuron_rates": neuron_rates(),
                "figure_4": brian_figure_4(),
                "step_ms": brian_network(steps),
                "decisions": solved,
                "drawn_per_second": drawn,
            }
        )
    )


if __name__ == "__main__":
    main(int(sys.argv[1]))
