"""The population simulator beside Brian2, NEURON, MOOSE and pyddm: neurons, decisions, a crowd, and speed.

``python -m benchmarks.learners.genesis [campaigns]`` writes the page.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from benchmarks.peers.peers import GENESIS, MOOSE
from benchmarks.publish import parser_of, publish
from learners.genesis import Simulation, decide_many, diffusion_law

Row = tuple[str, str, str, str]
CROWDS = Path(str(files("sample_data"))) / "crowds"
HH = {7: 58.309, 10: 68.306, 20: 86.505, 50: 117.096}  # Hz, Brian2 2.9 rk4 with dt = .01
PEER_STEPS = 1000  # of Brian2's network
# Hz, Brian2 2.9 measured before; it now runs beside
CS = {8.5: 9.73, 9: 18.55, 10: 34.05, 15: 91.07, 20: 132.45, 30: 191.20}
FIGURE_4 = {  # ms; the ends are Brian2's, measured before
    "neuron1": [1.69, 16.52, 31.03, 45.53, 60.02, 74.51, 88.96],
    "neuron2": [6.78, 21.92, 36.46, 50.96, 65.46, 79.95, 94.39],
}
DIFFUSION = [(0.5, 1.0), (1.0, 1.0), (2.0, 0.8), (0.0, 1.0)]
ACCUMULATOR = {0.0: (0.251, 1.155), 0.5: (0.561, 0.921), 1.0: (0.791, 0.701), 2.0: (0.962, 0.435)}
NETWORK = """
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
set neuron1/dendrite/synapse gmax 2
copy neuron1 to neuron2
connect neuron1/axon to neuron2/dendrite/synapse -weight 1 -delay 3
set neuron1/cell-body inject 15
graph #/cell-body potential
"""
LARGE = """
include hodgkin_huxley.g
create neutral /proto
make_hh /proto/soma
create axon /proto/axon
link /proto/soma to /proto/axon
foreach d (d1 d2)
  create passive_compartment /proto/{d}
  create synapse /proto/{d}/s
  set /proto/{d}/s gmax .01
  link /proto/{d}/s to /proto/{d}
  link /proto/{d} to /proto/soma
end
for (i = 0; i < 500; i = i + 1)
  copy /proto to /c{i}
end
delete /proto
set /c#/soma inject 12
"""


def simulation(seed: int = 0) -> Simulation:
    return Simulation(
        rng=np.random.default_rng(seed), read=lambda name: (CROWDS / name).read_text()
    )


def cell(inject: float, kind: str, ms: float, dt: float = 0.01, euler: int = 0) -> Simulation:
    library = {"hh": "hodgkin_huxley.g", "cs": "connor_stevens.g"}[kind]
    sim = simulation()
    sim.script(f"include {library}\nsetclock {dt}\nmake_{kind} /soma\ncreate axon /soma/axon")
    sim.script(f"link /soma to /soma/axon\nset /soma inject {inject}\ngraph /soma V")
    sim.set("/##[CLASS=compartment]", euler=euler)
    sim.set("/##[CLASS=channel]", euler=euler)
    sim.step(round(ms / dt))
    return sim


def rate(sim: Simulation) -> float:
    times = sim.spikes("/soma/axon").time
    return 1000 / (times[-1] - times[-2]) if len(times) > 1 else 0.0


def neurons(figure: Figure, peer: dict[str, Any]) -> Iterator[Row]:
    left, right = figure.axes[:2]
    squid = dict(zip(HH, peer.get("brian_rates", HH.values()), strict=True))
    crab = dict(zip(CS, peer.get("brian_slow_rates", CS.values()), strict=True))
    for name, kind, wanted, ms, tolerance in (
        ("Hodgkin and Huxley", "hh", squid, 200, "0.1 %"),
        ("Connor and Stevens", "cs", crab, 600, "1 %"),
    ):
        found = {one: rate(cell(one, kind, ms)) for one in wanted}
        for place, (one, hertz) in enumerate(wanted.items()):
            beside = "".join(
                f"; {other} {rates[place]:.2f}"
                for other, rates in peer.get(f"{kind}_beside", {}).items()
            )
            said = f"{found[one]:.2f} Hz, {found[one] / hertz - 1:+.2%}"
            yield f"{name}, I = {one}", f"{hertz:.2f} Hz{beside}", tolerance, said
        (line,) = left.plot(list(found), list(found.values()), label=f"{name}, here")
        left.plot(list(wanted), list(wanted.values()), "o", color=line.get_color(), mfc="none")
    left.set(xlabel="current (µA/cm²)", ylabel="spikes per second", title="Rates; circles: Brian2")
    left.legend(frameon=False, fontsize=8)
    sim = simulation()
    sim.script(NETWORK)
    sim.step(10_000)
    reference = dict(zip(FIGURE_4, peer.get("figure_4", FIGURE_4.values()), strict=True))
    for shift, (name, times) in enumerate(reference.items()):
        spikes = sim.spikes(f"/network/{name}/axon").time
        off = np.abs(spikes - times).max()
        wanted = f"{times[0]:.2f} ... {times[-1]:.2f} ms"
        said = f"{spikes[0]:.2f} ... {spikes[-1]:.2f} ms, off by {off:.2f}"
        yield f"Script of figure 4, {name}, seven spikes", wanted, "0.1 ms", said
        trace = sim.data(f"/network/{name}/cell-body", "V")
        right.plot(trace.time, trace.value - 130 * shift, lw=0.8, label=name)
    right.set(xlabel="ms", xlim=(-2, 125), yticks=[], title="Figure 4: one neuron drives the other")
    right.legend(frameon=False, fontsize=8, loc="upper right")
    yield from convergence()


def convergence() -> Iterator[Row]:
    reference = cell(10, "hh", 10, dt=0.05 / 64).data("/soma", "V").value[::64]
    for euler, wanted in ((0, ">= 1.9"), (1, "about 1")):
        errors = []
        for k in range(4):
            v = cell(10, "hh", 10, dt=0.05 / 2**k, euler=euler).data("/soma", "V").value
            errors.append(np.sqrt(np.mean((v[:: 2**k] - reference) ** 2)))
        orders = np.log2(np.array(errors[:-1]) / errors[1:])
        name = "Euler" if euler else "exponential, staggered"
        yield (
            f"Order of convergence, {name}",
            wanted,
            "-",
            f"{orders.min():.2f} to {orders.max():.2f}",
        )


def decisions(figure: Figure, peer: dict[str, Any]) -> Iterator[Row]:
    axes = figure.axes[2]
    rng = np.random.default_rng(0)
    solved = peer.get("decisions", [None] * len(DIFFUSION))
    for (drift, bound), theirs in zip(DIFFUSION, solved, strict=True):
        more = "" if theirs is None else f"; pyddm {theirs[0]:.4f}, {theirs[1]:.4f} s"
        law = diffusion_law(drift=drift, bound=bound)
        how = {"options": 2, "drift": drift, "bound": bound, "relative": True}
        made = decide_many(200_000, **how, rng=rng)
        raw = decide_many(200_000, **how, corrected=False, rng=rng)
        off = f"without the correction {(raw.label == 0).mean():.4f}, {raw.seconds.mean():.4f} s"
        yield (
            f"Drift-diffusion, v = {drift}, a = {bound}",
            f"{law.accuracy:.4f}, {law.seconds:.4f} s{more}", "0.006, 1.5 %",
            f"{(made.label == 0).mean():.4f}, {made.seconds.mean():.4f} s ({off})",
        )  # fmt: skip
    usual = {"bound": 1.0, "noise": 0.5, "leak": 0.2, "inhibition": 0.2, "base": 0.5}
    for drift, (accuracy, seconds) in ACCUMULATOR.items():
        made = decide_many(
            200_000, options=4, drift=drift, **usual, step=0.01, corrected=False, rng=rng
        )
        said = f"{(made.label == 0).mean():.3f}, {made.seconds.mean():.3f} s"
        yield (
            f"Leaky accumulator of 4, gain {drift}, as the prototype stepped",
            f"{accuracy}, {seconds} s", "0.01, 2 %", said,
        )  # fmt: skip
    limit = decide_many(50_000, options=4, drift=1.0, **usual, step=0.001, rng=rng)
    made = decide_many(200_000, options=4, drift=1.0, **usual, rng=rng)
    yield (
        "Leaky accumulator of 4, gain 1, at steps of .02 beside .001",
        f"{(limit.label == 0).mean():.3f}, {limit.seconds.mean():.3f} s", "-",
        f"{(made.label == 0).mean():.3f}, {made.seconds.mean():.3f} s",
    )  # fmt: skip
    drifts = np.linspace(0, 2.5, 26)
    axes.plot(drifts, [diffusion_law(drift=v, bound=1).accuracy for v in drifts], label="law")
    for corrected, mark in ((True, "o"), (False, "x")):
        points = [
            decide_many(
                20_000, options=2, drift=v, bound=1.0, relative=True, corrected=corrected, rng=rng
            )
            for v in drifts[::3]
        ]
        label = "corrected bound" if corrected else "uncorrected"
        axes.plot(drifts[::3], [(one.label == 0).mean() for one in points], mark, label=label)
    axes.set(xlabel="drift", ylabel="accuracy", title="Drift-diffusion, steps of .02")
    axes.legend(frameon=False, fontsize=8)


def auc(score: np.ndarray, bad: np.ndarray) -> float:
    above = score[bad][:, None] - score[~bad]
    return float((above > 0).mean() + 0.5 * (above == 0).mean())


def crowds(campaigns: int, figure: Figure) -> Iterator[Row]:
    axes = figure.axes[3]
    found, agreements = [], {}
    for seed in range(campaigns):
        sim = simulation(seed)
        sim.script((CROWDS / "copiers.g").read_text(), name="copiers.g")
        sim.run()
        record, live = sim.result("/labels"), sim.result("/consensus")
        places = zip(record.worker_path, record.worker_row, strict=True)
        code = {place: one for one, place in enumerate(places)}
        order = [code[place] for place in zip(live.worker_path, live.worker_row, strict=True)]
        median = np.array([np.median(record.seconds[record.worker == one]) for one in order])
        bad = live.worker_kind != "honest"
        both = sum(
            (np.median(v) - v) / np.median(abs(v - np.median(v)))
            for v in (live.agreement, np.log(median))
        )
        majority = (live.label == live.truth).mean()
        found.append((auc(-live.agreement, bad), auc(both, bad), majority))
        for kind in dict.fromkeys(live.worker_kind):
            here = live.worker_kind == kind
            accuracy = record.accuracy[order][here].mean()
            agreements.setdefault(kind, []).append((live.agreement[here].mean(), accuracy))
            if seed == 0:
                axes.plot(live.agreement[here], median[here], "o", ms=3, label=str(kind))
    axes.set(xlabel="live agreement", ylabel="median seconds", title="120 workers, four personas")
    axes.legend(frameon=False, fontsize=8)
    one, two, majority = np.array(found).T
    n = f"{campaigns} crowds of copiers.g"
    yield f"AUC of live agreement, bad against honest, {n}", "0.993", ">= 0.98", spread(one)
    yield "the same with response times", "1.000", ">= 0.99", spread(two)
    yield "Accuracy of the majority", "0.921", "-", spread(majority)
    for kind, pairs in agreements.items():
        agreement, accuracy = np.mean(pairs, axis=0)
        yield f"Agreement and accuracy, {kind}", "-", "-", f"{agreement:.3f}, {accuracy:.3f}"


def spread(values: np.ndarray) -> str:
    return f"{values.mean():.3f} ({values.min():.3f} to {values.max():.3f})"


def speed(peer: dict[str, Any]) -> Iterator[Row]:
    sim = simulation()
    sim.script(LARGE)
    rng = np.random.default_rng(1)
    for k in range(10_000):
        a, b = rng.integers(500, size=2)
        delay = float(rng.uniform(1, 5))
        sim.connect(f"/c{a}/axon", f"/c{b}/d{1 + k % 2}/s", delay=delay)
    sim.step(200)
    took = []
    for _ in range(5):
        start = time.process_time()
        sim.step(400)
        took.append((time.process_time() - start) / 400 * 1000)
    theirs = peer.get("step_ms", 0.93)
    yield (
        "500 cells of 3 compartments, 1,000 synapses, 10,000 connections",
        f"{theirs:.2f} ms a step (Brian2, Cython)", "<= 0.3 ms",
        f"{min(took):.3f} ms of CPU a step, {theirs / min(took):.1f} times as fast",
    )  # fmt: skip
    start = time.process_time()
    decide_many(
        300_000, options=2, drift=0.5, bound=1.0, relative=True, rng=np.random.default_rng(0)
    )
    each = 0.3 / (time.process_time() - start)
    drawn = peer.get("drawn_per_second")
    beside = "; pyddm's trials, one by one, " + (f"{drawn:,.0f}" if drawn else "not run")
    yield (
        "Decisions, v = .5, a = 1",
        f"0.4 to 1.6 million a second{beside}",
        "-",
        f"{each:.2f} million",
    )
    start = time.process_time()
    sim = simulation()
    sim.script((CROWDS / "copiers.g").read_text())
    sim.run()
    yield (
        "Labels of copiers.g",
        "-",
        "-",
        f"{21_000 / (time.process_time() - start):,.0f} a CPU second",
    )


def ask_peers() -> dict[str, Any]:
    """What Brian2, NEURON, pyddm and MOOSE say; nothing of those that cannot be installed."""
    printed = GENESIS.run("genesis_side.py", str(PEER_STEPS))
    found = json.loads(printed.splitlines()[-1]) if printed else {}
    currents = (",".join(map(str, one)) for one in (HH, CS))
    printed = MOOSE.run("moose_side.py", *currents)
    moose = json.loads(printed.splitlines()[-1]) if printed else {}
    beside: dict[str, dict[str, Any]] = {"hh": {}, "cs": {}}
    if found:
        beside["hh"]["NEURON"] = found["neuron_rates"]
    for kind, rates in beside.items():
        if moose:
            rates["MOOSE"] = moose[kind]
        found[f"{kind}_beside"] = rates
    return found | ({"moose": moose["moose"]} if moose else {})


def note(peer: dict[str, Any]) -> str:
    """Return where the references come from."""
    if "brian" in peer:
        source = (
            f"Brian2 {peer['brian']} (rk4; its network exponential Euler, Cython), NEURON {peer['neuron']} "
            f"(its own mechanism hh) and pyddm {peer['pyddm']} (its solver, at .005) ran beside this."
        )
    else:
        source = (
            "References for neurons and for the network's speed are figures of Brian2 2.9, measured before "
            "on a comparable machine: it could not be installed here."
        )
    if "moose" in peer:
        source += f" So did MOOSE {peer['moose']}, the successor of GENESIS."
    return f"""{source}

- Rates are by the last interval; cells run for 200 and 600 ms at dt = .01 ms. The first reference is
  Brian2's, and the deviation is from it.
- References of the drift-diffusion are its closed forms. Those of the accumulator are a prototype's, which
  stepped by .01 without a corrected bound.
- References of the crowd are the prototype's too, whose workers had parameters of their own. Live agreement
  is the running mean of agreeing with the majority so far.
- Times are CPU time on a busy machine."""


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("campaigns", nargs="?", type=int, default=10)
    campaigns = parser.parse_args().campaigns
    figure = Figure(figsize=(10, 7), layout="constrained")
    figure.subplots(2, 2)
    peer = ask_peers()
    rows = [
        *neurons(figure, peer),
        *decisions(figure, peer),
        *crowds(campaigns, figure),
        *speed(peer),
    ]
    publish(
        "genesis",
        "The population simulator: neurons, decisions, a crowd and speed",
        ("what", "reference", "tolerance", "here"),
        rows,
        note=note(peer),
        picture=figure,
    )


if __name__ == "__main__":
    main()
