"""Two cells in MOOSE, the successor of GENESIS; runs in an environment of its own.

It prints the rates of the cells of Hodgkin and Huxley and of Connor and Stevens by the last interval, by
MOOSE's exponential Euler at dt = .01 ms with tables of 30,000 rows. Units are mV, ms, µA, mS and µF for
each cm².
"""

import json
import sys

import moose
import numpy as np

DT = 0.01
LOW, HIGH, ROWS = -150.0, 150.0, 30_000
# (power, alpha, beta) of each gate, in GENESIS's form (A + B v) / (C + exp((v + D) / F))
HH = {
    "Na": (120, 50, (3, (-4, -0.1, -1, 40, -10), (4, 0, 0, 65, 18)),
           (1, (0.07, 0, 0, 65, 20), (1, 0, 1, 35, -10))),
    "K": (36, -77, (4, (-0.55, -0.01, -1, 55, -10), (0.125, 0, 0, 65, 80))),
}  # fmt: skip
CS = {
    "Na": (120, 55, (3, (-0.38 * 29.7, -0.38, -1, 29.7, -10), (15.2, 0, 0, 54.7, 1 / 0.0556)),
           (1, (0.266, 0, 0, 48, 20), (3.8, 0, 1, 18, -10))),
    "K": (20, -72, (4, (-0.02 * 45.7, -0.02, -1, 45.7, -10), (0.25, 0, 0, 55.7, 80))),
}  # fmt: skip


def a_current(v):
    """Steady states and time constants of the two gates of Connor and Stevens's A current."""
    a = (0.0761 * np.exp(0.0314 * (v + 94.22)) / (1 + np.exp(0.0346 * (v + 1.17)))) ** (1 / 3)
    b = (1 + np.exp(0.0688 * (v + 53.3))) ** -4
    of_a = 0.3632 + 1.158 / (1 + np.exp(0.0497 * (v + 55.96)))
    of_b = 1.24 + 2.678 / (1 + np.exp(0.0624 * (v + 50)))
    return (a, of_a), (b, of_b)


def channel(cell, name, most, reversal, *powers):
    """A channel on a cell, whose gates are still to be set."""
    made = moose.HHChannel(f"{cell.path}/{name}")
    made.Gbar, made.Ek = most, reversal
    made.Xpower = powers[0]
    if len(powers) > 1:
        made.Ypower = powers[1]
    moose.connect(cell, "channel", made, "channel")
    gates = [moose.element(f"{made.path}/gate{axis}") for axis in "XY"[: len(powers)]]
    for gate in gates:
        gate.useInterpolation = True
    return gates


def rate(kind, current, ms):
    """Hertz of a cell by its last interval; 0 below two spikes."""
    if moose.exists("/cell"):
        moose.delete("/cell")
    cell = moose.Compartment("/cell")
    cell.Cm, cell.Rm, cell.inject = 1, 1 / 0.3, current
    cell.Em = -54.387 if kind == "hh" else -17
    cell.initVm = -65 if kind == "hh" else -68
    for name, (most, reversal, *gates) in (HH if kind == "hh" else CS).items():
        for gate, (_, alpha, beta) in zip(
            channel(cell, name, most, reversal, *(one[0] for one in gates)), gates, strict=True
        ):
            gate.setupAlpha([*alpha, *beta, ROWS, LOW, HIGH])
    if kind == "cs":
        v = np.linspace(LOW, HIGH, ROWS + 1)
        for gate, (steady, tau) in zip(
            channel(cell, "A", 47.7, -75, 3, 1), a_current(v), strict=True
        ):
            gate.min, gate.max, gate.divs = LOW, HIGH, ROWS
            gate.tableA, gate.tableB = steady / tau, 1 / tau
    trace = moose.Table("/cell/trace")
    moose.connect(trace, "requestOut", cell, "getVm")
    for tick in range(10):
        moose.setClock(tick, DT)
    moose.reinit()
    moose.start(ms)
    v = np.array(trace.vector)
    up = np.flatnonzero((v[:-1] < 0) & (v[1:] >= 0))
    times = (up - v[up] / (v[up + 1] - v[up])) * DT
    return float(1000 / (times[-1] - times[-2])) if len(times) > 1 else 0.0


def main(squid, shore):
    print(
        json.dumps(
            {
                "moose": moose.__version__,
                "hh": [rate("hh", one, 200) for one in squid],
                "cs": [rate("cs", one, 600) for one in shore],
            }
        )
    )


if __name__ == "__main__":
    main(*(map(float, one.split(",")) for one in sys.argv[1:]))
