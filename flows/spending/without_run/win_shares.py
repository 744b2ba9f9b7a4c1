"""Shares of wins of items that were compared, published under differential privacy, with ranks from them.

Each answer deals two half points; their sums by item are paid for and drawn once, together. Shares of wins,
Bradley and Terry's scores, and intervals of ranks follow from what was drawn, and cost nothing more. Who
compared which items is public; what was preferred is not.

>>> publish_win_shares(Path("state"), comparisons, PublicationTerms("arena", epsilon=1.0))  # doctest: +SKIP
WinShares(items=('model-a', 'model-b'), ...)
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64

from flows.settings import SettingsError
from flows.spending.account import open_state
from flows.spending.without_run.campaign_terms import (
    PublicationTerms,
    check_terms,
    noise_of,
    open_campaign,
)
from privacy import Cost, LatticeLaplace, Publication, Unit, win_points
from quality import Comparisons, rank_intervals
from quality.comparisons import SIDES, scores_of_points

__all__ = ["WinShares", "check_rank_level", "publish_win_shares"]

UNIT = Unit.ANSWER
HALF = 0.5  # of a comparison, in a half point
MAX_LEVEL = 0.9995  # of rank intervals, which are made of 2,000 draws
SEED = 0  # of the draws behind rank intervals: the same points give the same page
MAX_ITEMS = 5_000  # scores and ranks hold matrices of every two items


@dataclass(frozen=True, slots=True, eq=False)
class WinShares:
    """A publication: noisy half points of each item, and what follows from them.

    Parameters
    ----------
    items
        Names, in the order of the rows.
    met
        Comparisons that each item was in, as published.
    noisy, share, low, high
        Released half points; the share of its comparisons that an item won, a tie as half of one, in [0, 1];
        and the ends of intervals that cover the noise.
    score, error, rank, best, worst
        Log strength by Bradley and Terry and its standard error, with noise and chance; the place of each
        item, and those that it may have, for all items at once.
    half_width, scale
        By how many half points one errs at most, at the level; scale of the noise.
    budget, spent
        The campaign's budget, and what of it is spent.
    arithmetic
        How the noise was drawn.
    paid_before, stale
        Whether the points were drawn by an earlier call, and whether the data are others now.
    """

    terms: PublicationTerms
    items: tuple[str, ...]
    met: Int64[np.ndarray, " items"]
    noisy: Int64[np.ndarray, " items"]
    share: Float64[np.ndarray, " items"]
    low: Float64[np.ndarray, " items"]
    high: Float64[np.ndarray, " items"]
    score: Float64[np.ndarray, " items"]
    error: Float64[np.ndarray, " items"]
    rank: Int64[np.ndarray, " items"]
    best: Int64[np.ndarray, " items"]
    worst: Int64[np.ndarray, " items"]
    half_width: int
    scale: float
    budget: Cost
    spent: float
    arithmetic: str
    paid_before: bool
    stale: bool

    def public(self) -> dict[str, Any]:
        """Return released values and public facts, by name: all that a page or a file may show."""
        columns = {
            "item": list(self.items),
            "comparisons": self.met.tolist(),
            "noisy_half_points": self.noisy.tolist(),
            **{
                name: getattr(self, name).tolist()
                for name in ("share", "low", "high", "score", "error", "rank", "best", "worst")
            },
        }
        order = np.argsort(self.rank, kind="stable").tolist()
        terms = self.terms
        return {
            "name": terms.campaign, "publication": terms.publication, "epsilon": terms.epsilon,
            "delta": 0.0, "budget": float(self.budget.epsilon),
            "budget_delta": float(self.budget.delta), "unit": str(UNIT), "level": terms.level,
            "mechanism": "lattice Laplace", "scale": self.scale, "arithmetic": self.arithmetic,
            "half_width_half_points": self.half_width, "n_comparisons": int(self.met.sum()) // 2,
            "rows": [{name: values[at] for name, values in columns.items()} for at in order],
        }  # fmt: skip


def check_rank_level(level: float) -> None:
    """Raise SettingsError for a level that the draws behind rank intervals cannot reach."""
    if not 0 < level <= MAX_LEVEL:
        raise SettingsError(f"--level must be above 0 and at most {MAX_LEVEL:g}, got {level:g}")


def publish_win_shares(state: Path, comparisons: Comparisons, terms: PublicationTerms) -> WinShares:
    """Pay for the half points of each item, draw them and return what follows; or return what was drawn.

    Parameters
    ----------
    state
        Folder with the ledger, made if it is missing.
    comparisons
        Who preferred what. Workers, items and who compared which of them are **public**.
    terms
        What is asked for.

    Raises
    ------
    SettingsError
        If the campaign has no budget and none is given, has another, or should have begun and has not; if
        a term is out of its range, or price and level give no interval; if there are more than 5,000 items,
        or one of them was never compared, or is called left, right or tie.
    BudgetError
        If what is left does not cover the price; nothing is spent or drawn then.
    LedgerError, UnitError
        As `Ledger.release`.

    Notes
    -----
    **Guarantees.** Under a key what was published comes back, with the comparisons that it was of, whatever
    the answers are now.
    **Privacy.** `win_points` has the proof. What `public` returns depends on the answers through the released
    points alone.
    """
    check_terms(terms)
    check_rank_level(terms.level)
    items = comparisons.items.astype(str)
    _check_items(comparisons, items)
    pairs, times = _met(comparisons)
    publication = None
    if terms.publication is not None:
        facts = {"items": items.tolist(), "pairs": pairs.tolist(), "times": times.tolist()}
        publication = Publication(terms.publication, "", json.dumps(facts))
    query = win_points(
        comparisons.left, comparisons.right, comparisons.outcome, n_items=len(items),
        dataset=terms.campaign, publication=publication,
    )  # fmt: skip
    noise_of(terms, len(items), l1=query.l1)
    ledger = open_state(state)
    budget = open_campaign(ledger, state, terms, unit=UNIT, n=len(comparisons.left))
    release = ledger.release(LatticeLaplace(terms.epsilon), query)
    if release.facts:
        facts = json.loads(release.facts)
        items = np.array(facts["items"])
        pairs, times = (np.array(facts[what], dtype=np.int64) for what in ("pairs", "times"))
    met = _matrix(pairs, times, len(items))
    noisy, n = np.array(release.value, dtype=np.int64), met.sum(axis=1)
    law, half_width = noise_of(terms, len(items), l1=query.l1)  # of as many items as were published
    low, share, high = (
        np.clip(HALF * (noisy + moved) / n, 0.0, 1.0) for moved in (-half_width, 0, half_width)
    )
    found = scores_of_points(met, HALF * noisy, HALF**2 * law.covariance)
    ranks = rank_intervals(
        found.score, found.covariance, level=terms.level, rng=np.random.default_rng(SEED)
    )
    return WinShares(
        terms, tuple(items.tolist()), n.astype(np.int64), noisy, share, low, high, found.score,
        np.sqrt(found.covariance.diagonal()), ranks.rank, ranks.best, ranks.worst, half_width, law.scale,
        budget, float(ledger.statement(terms.campaign, entries=0).spent.epsilon),
        release.event.arithmetic, not release.fresh, release.stale,
    )  # fmt: skip


def _check_items(comparisons: Comparisons, items: np.ndarray) -> None:
    """Raise SettingsError, before anything is paid, for items of which no share could be told.

    All winners together say whether they are sides or items. If an item is called like a side, one answer can
    say so for all, and what is paid for is one answer.
    """
    if not len(items) <= MAX_ITEMS:
        raise SettingsError(
            f"ranks hold a covariance of every two items, so there must be at most {MAX_ITEMS:,} of them, "
            f"got {len(items):,}; nothing was spent"
        )
    if alike := sorted(SIDES.keys() & set(items.tolist())):
        raise SettingsError(
            f"items must not be called left, right or tie, as winners are, got {alike[0]!r}: a single answer "
            "could decide how all others are read; rename it; nothing was spent"
        )
    compared = np.isin(np.arange(len(items)), [comparisons.left, comparisons.right])
    if not compared.all():
        raise SettingsError(
            f"every item must be in a comparison, and {str(items[~compared][0])!r} is in none; nothing was "
            "spent"
        )


def _met(
    comparisons: Comparisons,
) -> tuple[Int64[np.ndarray, "pairs 2"], Int64[np.ndarray, " pairs"]]:
    """Return the pairs of items that were compared, the lower code first, and how often."""
    n_items = len(comparisons.items)
    both = np.sort(np.stack([comparisons.left, comparisons.right]).astype(np.int64), axis=0)
    code, times = np.unique(both[0] * n_items + both[1], return_counts=True)
    return np.stack(np.divmod(code, n_items), axis=1), times.astype(np.int64)


def _matrix(
    pairs: Int64[np.ndarray, "pairs 2"], times: Int64[np.ndarray, " pairs"], n_items: int
) -> Float64[np.ndarray, "items items"]:
    """Return how often each pair of items was compared, both ways round."""
    met = np.zeros((n_items, n_items))
    low, high = pairs.T
    met[low, high] = met[high, low] = times
    return met
