"""How likely a crowd without bias is held to be, before gold: settled with families of sets left out.

python -m benchmarks.quality.gold_shares_odds
"""

from __future__ import annotations

from unittest.mock import patch

import numpy as np

from benchmarks.publish import parser_of, publish
from benchmarks.quality.crowd_sets import FAMILIES, SETS
from benchmarks.quality.gold_shares import N_GOLD, noise, populations, private
from quality.shares import released

ODDS, PRICES, DRAWS = (1, 2, 3, 5, 8), (1.0, 2.0), 300
HARM = 2.0  # times which the most by which a set is above its count is added to the mean error
NOTE = (
    "Mean L1 error of `quality.noisy_shares` at a total price, by the odds that a crowd has no bias against "
    f"that it has one, with {N_GOLD} random gold tasks ({DRAWS} draws). Harm: error above that of the "
    "count at the same price, on the set where it is most. The rule: least mean error plus "
    f"{HARM:g} times the harm. Left out: each family of sets has the odds that the rule takes on all others. "
    "The product has odds of {chosen:g}."
)


def main() -> None:
    parser_of(__doc__).parse_args()
    found = populations()
    families = [tuple(name for name in family if name in found) for family in FAMILIES]
    rows: list[tuple[str, ...]] = []
    for price in PRICES:
        error = np.array([errors(found, price, odds) for odds in ODDS]).T
        count = [of_the_count(whole, price) for whole in found.values()]
        names, harm = list(found), error - np.array(count)[:, None]
        first = np.array([name in SETS for name in names])
        for number, odds in enumerate(ODDS):
            at = error[:, number], harm[:, number]
            rows.append((f"epsilon {price:g}, odds {odds}", *described(names, first, *at)))
        taken = np.zeros(len(names), dtype=np.int64)
        for family in filter(None, families):
            out = np.isin(names, family)
            taken[out] = np.argmin(
                error[~out].mean(axis=0) + HARM * np.maximum(harm[~out].max(axis=0), 0)
            )
        used = sorted({ODDS[number] for number in taken})
        at = tuple(np.take_along_axis(x, taken[:, None], axis=1)[:, 0] for x in (error, harm))
        title = f"epsilon {price:g}, left out: odds {used[0]} to {used[-1]}"
        rows.append((title, *described(names, first, *at)))
    publish(
        "gold_shares_odds",
        "Odds of a crowd without bias, families left out",
        ("price and odds", "mean of the first nine", "mean of all", "harm", "on"),
        rows,
        note=NOTE.format(chosen=released.ODDS[-1] / released.ODDS[:-1].sum()),
    )


def of_the_count(whole: np.ndarray, price: float) -> float:
    """Mean L1 error of the count that has the whole price."""
    drawn = noise(len(whole), 2 / price, 10 * DRAWS, np.random.default_rng(1))
    off = drawn + whole.sum(axis=1) - whole.sum(axis=0)
    return float(np.abs(off / whole.sum()).sum(axis=1).mean())


def errors(found: dict[str, np.ndarray], price: float, odds: float) -> list[float]:
    """Mean L1 error on each set; the draws are the same for all odds."""
    prior = np.array([1.0, 1.0, 1.0, 3.0 * odds])
    with patch.object(released, "ODDS", prior):
        return [
            private(whole, price, N_GOLD, DRAWS, np.random.default_rng(1)).l1
            for whole in found.values()
        ]


def described(
    names: list[str], first: np.ndarray, error: np.ndarray, harm: np.ndarray
) -> tuple[str, ...]:
    means = error[first].mean(), error.mean(), harm.max()
    return (*(f"{value:.4f}" for value in means), names[int(np.argmax(harm))])


if __name__ == "__main__":
    main()
