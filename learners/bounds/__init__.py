"""TODO face of learners.bounds."""

from learners.bounds.bound import Bound, check_level, least
from learners.bounds.clopper_pearson import clopper_pearson_bound, largest_rate, upper_limit_at
from learners.bounds.pac_bayes import drawn_model_bound, exponential_gibbs_bound, gibbs_bound
from learners.bounds.transfer import (
    cdp_bound,
    log_transfer_tail,
    max_information_bound,
    private_training_bounds,
    transfer_bound,
)

__all__ = [
    "Bound",
    "cdp_bound",
    "check_level",
    "clopper_pearson_bound",
    "drawn_model_bound",
    "exponential_gibbs_bound",
    "gibbs_bound",
    "largest_rate",
    "least",
    "log_transfer_tail",
    "max_information_bound",
    "private_training_bounds",
    "transfer_bound",
    "upper_limit_at",
]
