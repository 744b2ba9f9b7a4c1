"""What class ratios of rows that come in blocks take, learning and asking apart.

``python -m benchmarks.learners.streamed_ratios``
"""

from __future__ import annotations

import time

import numpy as np

from benchmarks.publish import parser_of, publish
from learners import learn_streamed_ratios

HEADER = ("labelled rows", "learned, cpu s", "new rows", "asked, cpu s", "most off")
N_BAGS, N_NEW, N_CLASSES, N_FEATURES, BLOCK = 18, 2, 3, 8, 3000
NOISE = 1e-6  # variance of a published share


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--rows", nargs="+", type=int, default=[200_000, 2_000_000, 8_000_000])
    row(2_000)  # what a first call loads
    rows = [row(n) for n in parser.parse_args().rows]
    publish(
        "streamed_ratios", "Class ratios of rows in blocks", HEADER, rows,
        note=(
            f"{N_FEATURES} features around the means of {N_CLASSES} classes, in {N_BAGS} bags with "
            f"proportions of variance {NOISE:g} and {N_NEW} without, a ninth as many rows; blocks of "
            f"{BLOCK:,} rows. CPU seconds of one thread. The last column is the largest difference of a "
            "class's ratio from its share."
        ),
    )  # fmt: skip


def row(n_labelled: int) -> tuple[str, ...]:
    rng = np.random.default_rng(0)
    centre = rng.normal(size=(N_CLASSES, N_FEATURES))
    share = rng.dirichlet(np.full(N_CLASSES, 5.0), size=N_BAGS + N_NEW)
    sizes = [n_labelled // N_BAGS] * N_BAGS + [n_labelled // 9 // N_NEW] * N_NEW
    truth = [rng.choice(N_CLASSES, size=n, p=p) for n, p in zip(sizes, share, strict=True)]
    drawn = [centre[code] + rng.normal(size=(len(code), N_FEATURES)) for code in truth]
    bags = [[bag[at : at + BLOCK] for at in range(0, len(bag), BLOCK)] for bag in drawn]
    exact = np.array([np.bincount(code, minlength=N_CLASSES) / len(code) for code in truth])
    noise = NOISE * (np.eye(N_CLASSES) - 1 / N_CLASSES)
    off = rng.multivariate_normal(np.zeros(N_CLASSES), noise, size=N_BAGS)
    begin = time.process_time()
    model = learn_streamed_ratios(
        bags[:N_BAGS], exact[:N_BAGS] + off, noise=np.tile(noise, (N_BAGS, 1, 1))
    )
    learned = time.process_time()
    found = np.array([one.ratio for one in model.ratios(bags[N_BAGS:])])
    asked = time.process_time()
    most = np.abs(found - exact[N_BAGS:]).max()
    return (
        f"{sum(sizes[:N_BAGS]):,}", f"{learned - begin:.2f}", f"{sum(sizes[N_BAGS:]):,}",
        f"{asked - learned:.2f}", f"{most:.4f}",
    )  # fmt: skip


if __name__ == "__main__":
    main()
