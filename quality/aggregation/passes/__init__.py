"""What an EM fit does with the labels: kernels of the E step and of the vote, and checks of its arguments."""

from quality.aggregation.passes.arguments import (
    MAX_CELLS,
    check_cells,
    check_em,
    check_gold,
    check_smoothing,
)
from quality.aggregation.passes.coins import coin_pass, coin_vote, coins_pay
from quality.aggregation.passes.em_pass import PUT, UNROLLED, majority_pass, task_pass, wide_pass

__all__ = [
    "MAX_CELLS", "PUT", "UNROLLED", "check_cells", "check_em", "check_gold", "check_smoothing",
    "coin_pass", "coin_vote", "coins_pay", "majority_pass", "task_pass", "wide_pass",
]  # fmt: skip
