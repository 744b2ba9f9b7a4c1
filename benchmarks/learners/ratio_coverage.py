"""Coverage of the intervals of class ratios, for what they are for: the population's ratio.

``python -m benchmarks.learners.ratio_coverage``
"""

from __future__ import annotations

import numpy as np

from benchmarks.publish import publish
from learners import learn_ratios

ROWS, FEATURES, TRAININGS, EACH, BANDWIDTH, LEVEL = 100, 10, 30, 6, 4.5, 0.9
MIXED = {"differently": 1.0, "alike": 10.0, "very much alike": 30.0}
CLASSES = (2, 3, 5)


def measure(n_classes: int, concentration: float) -> tuple[str, ...]:
    """Coverage with its standard error over trainings, mean width, and what the diagnostics say."""
    held, width, reliability = [], [], []
    for seed in range(TRAININGS):
        rng = np.random.default_rng([seed, n_classes, int(concentration)])
        centre = rng.normal(scale=3 / 20**0.5, size=(n_classes + 1, FEATURES))[:n_classes]
        mixed = rng.dirichlet(np.full(n_classes, concentration), size=2 * n_classes + 2)
        counts = rng.multinomial(ROWS, mixed)
        bags = [group(centre, count, rng) for count in counts]
        model = learn_ratios(bags, counts / ROWS, bandwidth=BANDWIDTH, level=LEVEL)
        inside = []
        for _ in range(EACH):
            ratio = rng.dirichlet(np.ones(n_classes))
            found = model.ratio(group(centre, rng.multinomial(ROWS, ratio), rng))
            if found.interval is not None:
                low, high = found.interval.T
                inside.append(((low <= ratio) & (ratio <= high)).mean())
                width.append((high - low).mean())
            reliability.append(found.diagnostics.reliability)
        held.append(np.mean(inside))
    error = np.std(held, ddof=1) / len(held) ** 0.5
    told = np.median(reliability)
    return f"{np.mean(held):.2f} ± {error:.2f}", f"{np.mean(width):.2f}", f"{told:.2f}"


def group(centre: np.ndarray, count: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Rows of each class: normal, independent features of deviation 1."""
    return np.repeat(centre, count, axis=0) + rng.normal(size=(count.sum(), FEATURES))


def main() -> None:
    rows = [
        (str(n_classes), name, *measure(n_classes, concentration))
        for n_classes in CLASSES
        for name, concentration in MIXED.items()
    ]
    publish(
        "ratio_coverage",
        "Coverage of class ratios' intervals",
        ["classes", "labelled groups are mixed", "population's ratio held", "width", "reliability"],
        rows,
        note=(
            f"Share of the {LEVEL:.0%} intervals of kernel mean matching that hold the ratio of the "
            "population that an unlabelled group is drawn from (class by class), and its standard error "
            f"over {TRAININGS} trainings of {EACH} groups each; width is the intervals' mean. Groups of "
            f"{ROWS} rows, twice as many labelled ones as classes and two; normal classes of ten features, "
            "centres 3 deviations apart. Mixed differently, alike or very much alike: shares from a "
            "Dirichlet law of parameter 1, 10 or 30. Reliability is the median of what the diagnostics tell; "
            "below 0.75, with three classes or more, they warn that intervals hold less often than they say."
        ),
    )


if __name__ == "__main__":
    main()
