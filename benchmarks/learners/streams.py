"""The learning array and the cards of workers beside what was asked of them, and beside river.

``python -m benchmarks.learners.streams`` writes the page. Streams are drawn with seeds that no test
uses; river's detectors see fewer of them, because they take longer.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture

from benchmarks.peers.peers import RIVER
from benchmarks.publish import parser_of, publish
from learners import FPLA, StreamMonitor, WorkerCards

FALL, LENGTH = 500, 1000
WORKERS, RIVER_WORKERS = 4000, 200
CAMPAIGNS, CREW = 1000, 20
RATES = ((0.90, 0.65), (0.80, 0.60), (0.95, 0.80))
HEADER = ["what", "here", "asked", "river"]
Row = tuple[str, str, str, str]


def drawn(rng: np.random.Generator, n: int, before: float, after: float) -> np.ndarray:
    rate = np.where(np.arange(LENGTH) < FALL, before, after)
    return np.asarray(rng.random((n, LENGTH)) < rate)


def watched(right: np.ndarray) -> WorkerCards:
    n, length = right.shape
    monitor = StreamMonitor(2)
    one = np.ones(right.size, int)
    monitor.partial_fit(np.tile(np.arange(n), length), label=right.T.ravel() * 1, consensus=one)
    return monitor.cards()


def told(at: np.ndarray, stable: np.ndarray) -> str:
    """Share of stable workers with an alarm, of fallen ones found, and the median delay."""
    found = at[at > FALL] - FALL
    delay = f"{np.median(found):.0f}" if found.size else "-"
    return f"{np.mean(stable > 0):.4f} / {found.size / at.size:.3f} / {delay}"


def drift(peer: dict[str, Any]) -> Iterator[Row]:
    rng = np.random.default_rng(11)
    rivals = {
        name: f"{name}: {wrong:.3f} / {found:.3f} / {'-' if delay is None else f'{delay:.0f}'}"
        for name, (wrong, found, delay) in peer.get("detectors", {}).items()
    }
    for before, after in RATES:
        fallen = watched(drawn(rng, WORKERS, before, after))
        stable = watched(drawn(rng, WORKERS, before, before))
        main = (before, after) == RATES[0]
        asked = "≤ .01 / ≥ .98 / ≤ 45" if main else "-"
        beside = "; ".join(rivals.values()) if main and rivals else "-"
        what = f"{before:.2f} to {after:.2f}: false alarms in 1,000 labels / found / median delay"
        yield (f"CUSUM, {what}", told(fallen.drift_at, stable.drift_at), asked, beside)
        yield (f"valid at any time, {what}", told(fallen.proven_at, stable.proven_at), "-", "-")


def campaigns() -> Iterator[Row]:
    rng = np.random.default_rng(12)
    for rate in (0.6, 0.9):
        wrong = 0
        for _ in range(CAMPAIGNS // 50):
            for crew in np.split(drawn(rng, 50 * CREW, rate, rate), 50):
                wrong += bool((watched(crew).proven_at > 0).any())
        yield (
            f"campaigns of {CREW} stable workers at {rate:.2f} with any alarm valid at any time",
            f"{wrong / CAMPAIGNS:.4f} of {CAMPAIGNS:,}",
            "≤ .05",
            "-",
        )


def one_cell(op: str, inputs: tuple[str, ...], **params: float) -> FPLA:
    cell = {"op": op, "in": list(inputs), "out": "out", "name": "cell", **params}
    return FPLA.from_config({"cells": [cell], "io": {"inputs": list(inputs), "outputs": ["out"]}})


def cells() -> Iterator[Row]:
    rng, gamma = np.random.default_rng(13), 0.01
    p = np.arange(0.05, 0.96, 0.05)
    errors = []
    for _ in range(20):
        array = one_cell("cond", ("x", "y"), gamma=gamma)
        y = rng.random((20_000, len(p))) < 0.5
        x = np.where(y, rng.random(y.shape) < p, rng.random(y.shape) < 0.5)
        lanes = np.tile(np.arange(len(p)), len(x))
        array.partial_fit(lanes, np.column_stack([x.ravel(), y.ravel()]).astype(float))
        errors.append(array.read("out") - p)
    theory = float(np.sqrt(np.mean(p * (1 - p)) * gamma / (2 - gamma)))
    found = float(np.sqrt(np.mean(np.square(errors))))
    yield ("conditional probability, γ = .01: RMSE", f"{found:.4f}", f"{theory:.4f} ± 20 %", "-")
    seeds, n = 400, 388
    x = rng.uniform(-1, 1, size=(n, seeds))
    y = 0.5 * x + 0.05 * rng.normal(size=x.shape)
    array = one_cell("regr", ("x", "y"), mu=0.1, decay=5.1e-4)
    array.partial_fit(np.tile(np.arange(seeds), n), np.column_stack([x.ravel(), y.ravel()]))
    plus, minus = array.cell_state("cell").T
    slope = plus - minus
    yield (
        "slope of 388 points of slope .5: mean, standard deviation",
        f"{slope.mean():.4f}, {slope.std():.4f}",
        ".4924 ± .004 (the chip's)",
        "-",
    )
    yield from mixture(rng)


def mixture(rng: np.random.Generator) -> Iterator[Row]:
    ours, batch = [], []
    for _ in range(5):
        kind = rng.choice(3, p=[0.3, 0.5, 0.2], size=5000)
        x = np.array([0.0, 1.2, 2.4])[kind] + 0.3 * rng.normal(size=5000)
        array = one_cell("bump", ("x",), K=3, gamma=0.005, warm=100, s_min=0.02)
        array.partial_fit(np.zeros(5000, int), {"x": x})
        at, width, share = array.cell_state("cell")[0, 1:10].reshape(3, 3)
        z = np.abs(x[:, None] - at) / width
        score = np.log(share / width) - z - 2 * np.log1p(np.exp(-z))
        ours.append(adjusted_rand_score(kind, score.argmax(axis=1)))
        fitted = GaussianMixture(3, random_state=0).fit(x[:, None])
        batch.append(adjusted_rand_score(kind, fitted.predict(x[:, None])))
    yield (
        "three kinds of response times, one pass over 5,000: ARI, mean of five",
        f"{np.mean(ours):.3f}",
        f"≥ {np.mean(batch) - 0.01:.3f} (a batch mixture's, less .01)",
        "-",
    )


def speed(peer: dict[str, Any]) -> Iterator[Row]:
    rng, n, crew = np.random.default_rng(14), 1_000_000, 500
    lanes, truth = rng.integers(crew, size=n), rng.integers(2, size=n)
    label = np.where(rng.random(n) < 0.9, truth, 1 - truth)
    position, seconds = np.arange(n) % 100.0, rng.lognormal(2, 0.5, size=n)
    watched(np.ones((2, 2), bool))  # compiles
    best = np.inf
    for _ in range(5):
        monitor = StreamMonitor(2)
        start = time.process_time()
        monitor.partial_fit(lanes, label=label, consensus=truth, position=position, seconds=seconds)
        best = min(best, time.process_time() - start)
    micro = 1e6 * best / n
    theirs = peer.get("microseconds")
    yield (
        "a worker's whole card: events in a CPU second",
        f"{1 / micro:.2f} million",
        "≥ 2 million on an idle core",
        "-" if theirs is None else f"{1 / theirs:.3f} million",
    )
    yield (
        "a worker's card: CPU µs an event (there: the same parts)",
        f"{micro:.2f}" + ("" if theirs is None else f", {theirs / micro:.0f} times as fast"),
        "≥ 15 times",
        "-" if theirs is None else f"{theirs:.1f}",
    )
    size = monitor.array.program.start.nbytes
    yield ("bytes a worker, for ever", f"{size}", "-", "-")


def estimates(stable: np.ndarray, peer: dict[str, Any]) -> Iterator[Row]:
    here = watched(stable).reliability - RATES[0][0]
    theirs = np.array(peer.get("live", [])) - RATES[0][0]
    yield (
        "live reliability at γ = .02 after 1,000 labels at .90: RMSE",
        f"{np.sqrt(np.mean(here**2)):.4f}",
        f"{np.sqrt(0.09 * 0.02 / 1.98):.4f} (theory)",
        f"EWMean: {np.sqrt(np.mean(theirs**2)):.4f}" if theirs.size else "-",
    )


def ask_river(fallen: np.ndarray, stable: np.ndarray) -> dict[str, Any]:
    """What river says of the same workers; nothing if it cannot be installed."""
    with TemporaryDirectory() as folder:
        events = Path(folder) / "events.npz"
        np.savez(events, fallen=fallen, stable=stable)
        printed = RIVER.run("river_side.py", str(events))
    return json.loads(printed) if printed else {}


def picture() -> Figure:
    """A worker who falls, watched label by label, and how soon each alarm comes."""
    rng = np.random.default_rng(15)
    right = drawn(rng, 1, *RATES[0])[0]
    monitor, live = StreamMonitor(2), []
    one = np.ones(1, int)
    for x in right:
        monitor.partial_fit(one * 0, label=one * x, consensus=one)
        cards = monitor.cards()
        live.append((cards.reliability[0], cards.low[0], cards.high[0]))
    mean, low, high = np.array(live).T
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    left, side = figure.subplots(1, 2, width_ratios=(3, 2))
    n = np.arange(1, LENGTH + 1)
    left.fill_between(n, low, high, alpha=0.25, color="tab:blue", linewidth=0)
    left.plot(n, mean, color="tab:blue", label="live reliability, 95 %")
    left.step([0, FALL, LENGTH], [*RATES[0], RATES[0][1]], where="post", color="black",
              linestyle="dotted", label="the truth")  # fmt: skip
    for at, colour, name in (
        (cards.drift_at[0], "tab:orange", "CUSUM"),
        (cards.proven_at[0], "tab:red", "valid at any time"),
    ):
        left.axvline(at, color=colour, label=f"{name}: label {at}")
    left.set(xlabel="judged label", ylim=(0.4, 1.0), title="a worker who falls to .65 at label 500")
    left.legend(loc="lower left", fontsize=8)
    fallen = watched(drawn(rng, WORKERS, *RATES[0]))
    for at, colour, name in (
        (fallen.drift_at, "tab:orange", "CUSUM"),
        (fallen.proven_at, "tab:red", "valid at any time"),
    ):
        delay = np.sort(at[at > FALL] - FALL)
        side.plot(delay, np.arange(1, delay.size + 1) / at.size, color=colour, label=name)
    side.set(xlabel="labels after the fall", xlim=(0, 300), title="share of fallen workers found")
    side.legend(loc="lower right", fontsize=8)
    return figure


def main() -> None:
    parser_of(__doc__).parse_args()
    rng = np.random.default_rng(10)
    stable = drawn(rng, RIVER_WORKERS, RATES[0][0], RATES[0][0])
    peer = ask_river(drawn(rng, RIVER_WORKERS, *RATES[0]), stable)
    rows = [*drift(peer), *campaigns(), *cells(), *estimates(stable, peer), *speed(peer)]
    version = f"river {peer['version']}" if peer else "river, which could not be installed here,"
    publish(
        "streams",
        "Learning from streams",
        HEADER,
        rows,
        note=(
            f"Drift: {WORKERS:,} workers that fall at label {FALL} of {LENGTH:,} and {WORKERS:,} that do "
            f"not. {version} saw {RIVER_WORKERS} and {RIVER_WORKERS} other ones. The alarm valid at any "
            "time shares .05 among all workers of a campaign, and is looked at after every label. Times are "
            "CPU time, the best of five in one run on a shared machine; their ratio is of the same run. "
            "River's card has EWMean, LinearRegression, KMeans, ConfusionMatrix, ADWIN and PageHinkley."
        ),
        picture=picture(),
    )


if __name__ == "__main__":
    main()
