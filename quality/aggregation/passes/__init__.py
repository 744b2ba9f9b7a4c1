"""What an EM fit does with the labels: kernels of its steps and of the vote, and checks of its arguments."""

from quality.aggregation.passes.arguments import (
    MAX_CELLS,
    check_cells,
    check_em,
    check_gold,
    check_smoothing,
)
from quality.aggregation.passes.coins import coin_pass, coin_vote, coins_pay
from quality.aggregation.passes.dirichlet import (
    dirichlet_moved,
    dirichlet_weights,
    exp_digamma,
    subtype_weights,
)
from quality.aggregation.passes.em_pass import (
    PUT,
    UNROLLED,
    lanes_pass,
    majority_pass,
    task_pass,
    wide_pass,
)
from quality.aggregation.passes.lanes import whole_lanes

__all__ = [
    "MAX_CELLS", "PUT", "UNROLLED", "check_cells", "check_em", "check_gold", "check_smoothing",
    "coin_pass", "coin_vote", "coins_pay", "dirichlet_moved", "dirichlet_weights", "exp_digamma",
    "lanes_pass", "majority_pass", "subtype_weights", "task_pass", "whole_lanes", "wide_pass",
]  # fmt: skip
