"""Watch workers with river's detectors and statistics; runs in an environment of its own.

``python river_side.py EVENTS.npz``: `fallen` and `stable` of shape (workers, labels), of 0 and 1; it prints
for each detector the share of stable workers with an alarm, of fallen ones found after the fall, and the
median delay; the CPU microseconds of a card for each event; and the estimates of the live rate.
"""

import csv
import json
import statistics
import sys
import time

import numpy as np

if not hasattr(csv.DictReader, "__class_getitem__"):  # river 0.26.0 expects it, Python 3.12 has it
    csv.DictReader.__class_getitem__ = classmethod(lambda cls, _: cls)

import river
from river import cluster, drift, linear_model, metrics, optim, stats

FALL = 500
DETECTORS = {
    "ADWIN": drift.ADWIN,
    "PageHinkley": drift.PageHinkley,
    "PageHinkley, tuned (δ = .05, λ = 10)": lambda: drift.PageHinkley(delta=0.05, threshold=10.0),
    "HDDM_A": drift.binary.HDDMA,
}
TIMED = 200  # workers' labels for the card's time: 200 of 50 workers


def first_alarm(detector, row, errors):
    for n, x in enumerate(row, start=1):
        detector.update(bool(not x) if errors else float(x))
        if detector.drift_detected:
            return n
    return 0


def judged(make, fallen, stable):
    errors = make is drift.binary.HDDMA
    lower = "PageHinkley" in type(make()).__name__
    wrong = [first_alarm(make(), 1 - row if lower else row, errors) for row in stable]
    found = [first_alarm(make(), 1 - row if lower else row, errors) for row in fallen]
    delays = [n - FALL for n in found if n > FALL]
    return [
        sum(n > 0 for n in wrong) / len(wrong),
        len(delays) / len(found),
        statistics.median(delays) if delays else None,
    ]


def card():
    """The parts of a card: live mean, slope, two clusters, confusion, and two detectors."""
    return (
        stats.EWMean(fading_factor=0.02),
        linear_model.LinearRegression(optimizer=optim.SGD(0.02), intercept_lr=0.0),
        cluster.KMeans(n_clusters=2, seed=0),
        metrics.ConfusionMatrix(),
        drift.ADWIN(),
        drift.PageHinkley(delta=0.05, threshold=10.0),
    )


def card_microseconds(rows):
    rng = np.random.default_rng(0)
    cards = [card() for _ in rows]
    place, seconds = rng.uniform(-1, 1, size=rows.shape), rng.lognormal(2, 0.5, size=rows.shape)
    events = [
        (w, float(rows[w, n]), {"x": float(place[w, n])}, {"s": float(np.log(seconds[w, n]))})
        for n in range(rows.shape[1])
        for w in range(len(rows))
    ]
    start = time.process_time()
    for w, x, where, took in events:
        mean, slope, times, confusion, change, other = cards[w]
        mean.update(x)
        slope.learn_one(where, x)
        times.learn_one(took)
        confusion.update(True, x > 0.5)
        change.update(x)
        other.update(1.0 - x)
    return 1e6 * (time.process_time() - start) / rows.size


def live(rows):
    found = []
    for row in rows:
        mean = stats.EWMean(fading_factor=0.02)
        for x in row:
            mean.update(float(x))
        found.append(mean.get())
    return found


with np.load(sys.argv[1]) as data:
    fallen, stable = data["fallen"].astype(int), data["stable"].astype(int)
answer = {
    "version": river.__version__,
    "detectors": {name: judged(make, fallen, stable) for name, make in DETECTORS.items()},
    "microseconds": min(card_microseconds(stable[:50, :TIMED]) for _ in range(5)),
    "live": live(stable),
}
print(json.dumps(answer))
