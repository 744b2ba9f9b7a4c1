"""False alarms and power of the test of fit for class ratios.

``python -m benchmarks.learners.ratio_fit``
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.learners.ratio_sets import digits
from benchmarks.publish import parser_of, publish
from learners.class_ratios.bags import LabelledBags
from learners.class_ratios.kernels import NystroemMap, feature_scale, fit_features
from learners.class_ratios.matched_means import BagMean, MixtureFit
from learners.class_ratios.model import FIT_LEVEL

ROWS, DRAWS, EACH, FEATURES = 500, 2000, 20, 10
NEW_SHARE, SHIFT, SHIFTED = 0.3, 0.5, 2
NOISES = (0.0, 0.02)
CLASSES = (2, 5)

Sampler = Callable[[int, int, np.random.Generator], np.ndarray]
"""Rows of a class: the class, how many, a generator; the class after the last is never labelled."""


@dataclass(frozen=True)
class Trained:
    """A test of fit after training, and what to draw unlabelled groups from."""

    sample: Sampler
    n_classes: int
    scale: np.ndarray
    embed: NystroemMap
    fit: MixtureFit

    def p_value(self, group: np.ndarray) -> float:
        """Chance of so large a residual, were the group a mixture."""
        feature = self.embed(group / self.scale)
        return self.fit.p_value(BagMean.of(feature, np.eye(feature.shape[1])))


def normal_classes(separation: float, n_classes: int, rng: np.random.Generator) -> Sampler:
    """Normal classes of ten independent features, their centres normal with this deviation."""
    centre = rng.normal(scale=separation, size=(n_classes + 1, FEATURES))
    return lambda k, n, source: centre[k] + source.normal(size=(n, FEATURES))


def digit_classes(n_classes: int, rng: np.random.Generator) -> Sampler:
    """Pen-written digits, a random choice of them."""
    x, y = digits()
    chosen = rng.permutation(10)[: n_classes + 1]
    rows = [np.flatnonzero(y == digit) for digit in chosen]
    return lambda k, n, source: x[source.choice(rows[k], size=n)]


def drawn(sample: Sampler, count: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.concatenate([sample(k, n, rng) for k, n in enumerate(count)])


def trained(sample: Sampler, n_classes: int, noise: float, rng: np.random.Generator) -> Trained:
    """Twice as many labelled groups as classes, mixed at random; noise of this deviation on each share."""
    counts = rng.multinomial(ROWS, rng.dirichlet(np.ones(n_classes), size=2 * n_classes))
    while np.linalg.cond(counts) > 15:
        counts = rng.multinomial(ROWS, rng.dirichlet(np.ones(n_classes), size=2 * n_classes))
    bags = [drawn(sample, count, rng) for count in counts]
    scale = feature_scale(np.concatenate(bags))
    centre = np.eye(n_classes) - 1 / n_classes
    shown = counts / ROWS + noise * rng.normal(size=counts.shape) @ centre
    shown = np.maximum(shown, 0) / np.maximum(shown, 0).sum(axis=1, keepdims=True)
    told = np.tile(noise**2 * centre, (len(counts), 1, 1)) if noise else None
    labelled = LabelledBags.of([bag / scale for bag in bags], shown, told)
    embed = fit_features(labelled.points)
    features = [embed(bag) for bag in labelled.points]
    return Trained(sample, n_classes, scale, embed, MixtureFit.of_features(labelled, features))


def unlabelled(model: Trained, kind: str, rng: np.random.Generator) -> np.ndarray:
    """A group: a mixture, one with rows of a class never seen, or one with shifted features."""
    new = round(NEW_SHARE * ROWS) if kind == "a class never seen" else 0
    count = rng.multinomial(ROWS - new, rng.dirichlet(np.ones(model.n_classes)))
    group = drawn(model.sample, np.append(count, new), rng)
    if kind == "a shift":
        group[:, :SHIFTED] += SHIFT * model.scale[:SHIFTED]
    return group


def models(
    make: Callable[[int, np.random.Generator], Sampler], n_classes: int, noise: float, n: int
) -> Iterator[tuple[Trained, np.random.Generator]]:
    for seed in range(n):
        rng = np.random.default_rng([seed, n_classes, round(1000 * noise)])
        yield trained(make(n_classes, rng), n_classes, noise, rng), rng


def rejected(
    make: Callable[[int, np.random.Generator], Sampler],
    n_classes: int,
    noise: float,
    kind: str,
    draws: int,
) -> float:
    """Share of unlabelled groups that the test calls no mixtures."""
    found = [
        model.p_value(unlabelled(model, kind, rng)) < FIT_LEVEL
        for model, rng in models(make, n_classes, noise, draws // EACH)
        for _ in range(EACH)
    ]
    return float(np.mean(found))


SETTINGS: dict[str, Callable[[int, np.random.Generator], Sampler]] = {
    "normal, centres .5 apart": lambda c, rng: normal_classes(0.5 / 20**0.5, c, rng),
    "normal, centres 3 apart": lambda c, rng: normal_classes(3 / 20**0.5, c, rng),
    "pen digits": digit_classes,
}


def main() -> None:
    parser_of(__doc__).parse_args()
    rows = []
    for name, make in SETTINGS.items():
        for n_classes in CLASSES:
            for noise in NOISES:
                alarms = rejected(make, n_classes, noise, "a mixture", DRAWS)
                power = [
                    rejected(make, n_classes, noise, kind, DRAWS // 10)
                    for kind in ("a class never seen", "a shift")
                ]
                rows.append(
                    (
                        name,
                        str(n_classes),
                        f"{noise:g}",
                        f"{alarms:.4f}",
                        *(f"{p:.3f}" for p in power),
                    )
                )
    publish(
        "ratio_fit",
        "Test of fit for class ratios",
        ["classes", "number", "noise of shares", "false alarms", "found: 30 % of a new class",
         "found: a shift"],
        rows,
        note=NOTE,
    )  # fmt: skip


NOTE = (
    f"An unlabelled group of {ROWS} rows is tested against twice as many labelled groups of {ROWS} as "
    f"there are classes, mixed at random; {EACH} groups for each training, at the level {FIT_LEVEL:g}. "
    f"False alarms: share of {DRAWS:,} groups that are mixtures of the classes, with shares at random, and "
    f"are said to be none; at most 0.01 is promised. Found: share of {DRAWS // 10} groups of which "
    f"{NEW_SHARE:.0%} are of a class never labelled, or whose first {SHIFTED} features are shifted by half "
    "a standard deviation. Normal classes have ten independent features of deviation 1 and centres that "
    "are as far apart as said (root mean square); pen digits have 16 features, and the rows of a group "
    "are drawn with replacement. Noise is the standard deviation on each share of a labelled group "
    "that is published, and is told to the test. Classes .5 apart overlap so far that a new one among them "
    "can hardly be told from a mixture; there the test must only be silent."
)


if __name__ == "__main__":
    main()
