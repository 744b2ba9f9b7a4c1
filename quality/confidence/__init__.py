"""How far a consensus label can be believed: calibrated confidence, and its reliability on gold.

:func:`calibrate` takes labels and the posterior of any aggregator; for tables in shards there are
:func:`support_by_shards` and :func:`calibrate_support`. :func:`reliability` compares any confidence
with gold.

>>> from quality import encode, majority_vote
>>> labels = encode(["ann", "bob", "cy"] * 2, [1, 1, 1, 2, 2, 2], list("xxxyyx"))
>>> calibrate(labels, majority_vote(labels).posterior).confidence.round(2)
array([0.92, 0.63])
"""

from quality.confidence.calibration import (
    MIN_GOLD,
    CalibratedConfidence,
    RightnessPrior,
    calibrate,
    calibrate_support,
)
from quality.confidence.gold_check import Reliability, calibration_error, reliability
from quality.confidence.support import (
    Support,
    error_rates,
    log_odds,
    log_votes,
    shared_errors,
    shares_of_classes,
    support_by_shards,
    task_support,
)

__all__ = [
    "MIN_GOLD", "CalibratedConfidence", "Reliability", "RightnessPrior", "Support",
    "calibrate", "calibrate_support", "calibration_error", "error_rates", "log_odds", "log_votes",
    "reliability", "shared_errors", "shares_of_classes",
    "support_by_shards", "task_support",
]  # fmt: skip
