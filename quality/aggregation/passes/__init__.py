"""The kernels of an EM fit: its steps over the labels, and the soft majority vote."""

from quality.aggregation.passes.coins import coin_pass, coin_vote, coins_pay
from quality.aggregation.passes.dirichlet import (
    STRIP,
    dirichlet_moved,
    dirichlet_weights,
    exp_digamma,
    exp_digammas,
    subtype_weights,
)
from quality.aggregation.passes.em_pass import (
    PUT,
    UNROLLED,
    find_places,
    majority_pass,
    task_pass,
    wide_pass,
)
from quality.aggregation.passes.lanes import LANES, in_lines, whole_lanes
from quality.aggregation.passes.subtypes import (
    class_posterior,
    deal,
    find_rows,
    narrow,
    subtype_pass,
)

__all__ = [
    "LANES", "PUT", "STRIP", "UNROLLED", "class_posterior", "coin_pass", "coin_vote", "coins_pay", "deal",
    "dirichlet_moved", "dirichlet_weights", "exp_digamma", "exp_digammas", "find_places", "find_rows",
    "in_lines", "majority_pass", "narrow", "subtype_pass", "subtype_weights", "task_pass", "whole_lanes",
    "wide_pass",
]  # fmt: skip
