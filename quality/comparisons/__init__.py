"""Comparisons: which of two items is better, by workers who may err, lean to a side, or call a tie.

:func:`encode_comparisons` checks and codes a table of comparisons. :func:`bradley_terry` ranks items as if
all workers were alike; :func:`crowd_bradley_terry` also estimates how each of them judges.
:func:`rank_intervals` returns the ranks an item may have, :func:`next_pairs` the pairs to compare next.

>>> import numpy as np
>>> table = encode_comparisons(["ann", "bob", "cy"], ["a", "b", "a"], ["b", "c", "c"], ["a", "b", "a"])
>>> found = crowd_bradley_terry(table)
>>> found.items[np.argsort(-found.score)]
array(['a', 'b', 'c'], dtype='<U1')
"""

from quality.comparisons.bradley_terry_newton import BradleyTerry, bradley_terry
from quality.comparisons.comparison_table import (
    LEFT,
    RIGHT,
    SIDES,
    TIE,
    Comparisons,
    encode_comparisons,
)
from quality.comparisons.crowd_judges import CrowdBradleyTerry, crowd_bradley_terry
from quality.comparisons.pair_choice import NextPairs, next_pairs
from quality.comparisons.points_scores import PointScores, scores_of_points
from quality.comparisons.rank_sets import RankIntervals, rank_intervals

__all__ = [
    "LEFT", "RIGHT", "SIDES", "TIE", "BradleyTerry", "Comparisons", "CrowdBradleyTerry", "NextPairs",
    "PointScores", "RankIntervals", "bradley_terry", "crowd_bradley_terry", "encode_comparisons",
    "next_pairs", "rank_intervals", "scores_of_points",
]  # fmt: skip
