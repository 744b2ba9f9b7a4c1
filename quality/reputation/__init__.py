"""Reputation of workers: penalties, the filters that follow them, and robustness.

To remove workers use :func:`filter_dishonest`, which bounds how many honest ones go, or
:func:`filter_workers` for a given number. :func:`soft_penalty` is the measure for both, and
:func:`graded_penalty` if classes are grades. :func:`hard_level` and :func:`balanced_penalty` are for
adversaries who label a great deal, and :func:`relative_penalty` compares them with the penalty of an honest
worker with the same tasks. :func:`robustness_bounds` bounds how many tasks k adversaries could turn.
Functions named ``..._by_shards`` work on a table in shards.

>>> from quality import encode
>>> soft_penalty(encode(["ann", "bob", "cy", "ann"], [1, 1, 1, 2], list("xyxx")))
array([0.5, 1. , 0.5])

The other names are for :mod:`quality.reports`.
"""

from quality.reputation.false_removal import FilteredDishonest, filter_dishonest
from quality.reputation.filtering import Filtered, filter_workers
from quality.reputation.graded_answers import graded_penalty
from quality.reputation.honest_population import HonestPopulation
from quality.reputation.penalties import (
    BalancedLoads,
    balanced_loads,
    balanced_penalty,
    hard_level,
    hard_penalty,
    mean_share,
    reputation_weight,
    share_sums,
    shares_of,
    soft_penalty,
    soft_penalty_by_shards,
)
from quality.reputation.penalty_tails import chance_words
from quality.reputation.relative_load import relative_penalty
from quality.reputation.robustness import RobustnessBounds, robustness_bounds, weakest_workers
from quality.reputation.sharded_false_removal import filter_dishonest_by_shards
from quality.reputation.sharded_filtering import filter_workers_by_shards

__all__ = [
    "BalancedLoads", "Filtered", "FilteredDishonest", "HonestPopulation", "RobustnessBounds",
    "balanced_loads", "balanced_penalty", "chance_words", "filter_dishonest", "filter_dishonest_by_shards",
    "filter_workers", "filter_workers_by_shards", "graded_penalty", "hard_level", "hard_penalty",
    "mean_share", "relative_penalty", "reputation_weight", "robustness_bounds", "share_sums",
    "shares_of", "soft_penalty", "soft_penalty_by_shards", "weakest_workers",
]  # fmt: skip
