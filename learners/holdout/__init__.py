"""A holdout that can be asked more than once: by noise, by counting answers, or by moving in steps.

A run asks `Thresholdout`, which is differentially private and paid for once by the ledger;
`agreeing_holdout_bound` and `private_holdout_bound` turn its `GateAnswer` into a bound on the true
error. `thresholdout_advice` and `largest_budget` set it up from public numbers.

>>> from fractions import Fraction
>>> gate = Thresholdout(threshold=0.02, sigma=0.001, budget=1)
>>> answer = GateAnswer(0.9, "agrees", 1, asked=1, refuted=0, number=1, epsilon=Fraction(1, 5))
>>> round(agreeing_holdout_bound(answer, gate, n=10_000, level=0.95).value, 4)
0.1462

If every month brings fresh records, each is used once: `judge_pooled` adds up such counts.

`CandidateGate` judges candidates that others choose, such as prompts, by their scores on two sets.
`MetricGate` asks for the area under the ROC curve (`Auc`) in place of a mean. `CertifiedHoldout` is not
private, and its bounds are narrower at most sizes; `holdout_widths` compares the kinds.

For comparison alone, unused by runs: the Ladder (`climb`, `best_step`, `ladder_error`).
"""

from learners.holdout.candidate_gate import CandidateAnswer, CandidateGate, candidate_price
from learners.holdout.certified import CertifiedHoldout, CertifiedState
from learners.holdout.gate_bounds import agreeing_holdout_bound, private_holdout_bound
from learners.holdout.ladder import best_step, climb, ladder_error
from learners.holdout.metric_gate import Auc, MetricGate
from learners.holdout.pooled_gate import (
    PooledVerdict,
    ScoreCounts,
    judge_pooled,
    planned_power,
    pooled_error_limit,
)
from learners.holdout.sizing import (
    fitted_gate,
    holdout_widths,
    largest_budget,
    thresholdout_advice,
)
from learners.holdout.thresholdout import GateAnswer, Thresholdout

__all__ = [
    "Auc", "CandidateAnswer", "CandidateGate", "CertifiedHoldout", "CertifiedState", "GateAnswer",
    "MetricGate", "PooledVerdict", "ScoreCounts", "Thresholdout", "agreeing_holdout_bound",
    "best_step", "candidate_price", "climb", "fitted_gate", "holdout_widths", "judge_pooled",
    "ladder_error", "largest_budget", "planned_power", "pooled_error_limit", "private_holdout_bound",
    "thresholdout_advice",
]  # fmt: skip
