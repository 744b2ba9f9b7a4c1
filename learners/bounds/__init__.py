"""Upper bounds on a model's true error, each with the assumption it rests on.

A run takes the `least` of `clopper_pearson_bound` (records that training never saw) and
`transfer_bound` (the training records of a differentially private procedure).

>>> holdout = clopper_pearson_bound(6, 60, level=0.975)
>>> training = transfer_bound(30, 400, epsilon=0.05, level=0.975)
>>> best = least([holdout, training])
>>> best.name, round(best.value, 4), round(best.level, 4)
('private transfer', 0.1166, 0.95)

Records are independent draws of one population. Records of one subject are not: `rows` is the most that a
subject may have. A count of errors is as private as the data, and so is a bound computed from it.

For comparison alone, unused by runs: the published `cdp_bound` and `max_information_bound`, which
`private_training_bounds` sets beside `transfer_bound`, and the PAC-Bayes bounds `gibbs_bound`,
`drawn_model_bound` and `exponential_gibbs_bound` (``python -m benchmarks.learners.generalisation_bounds``).
"""

from learners.bounds.bound import (
    Bound,
    check_level,
    check_rows_of_one,
    independent_records,
    least,
    root_above,
)
from learners.bounds.clopper_pearson import clopper_pearson_bound, largest_rate, upper_limit_at
from learners.bounds.pac_bayes import drawn_model_bound, exponential_gibbs_bound, gibbs_bound
from learners.bounds.published import cdp_bound, max_information_bound, private_training_bounds
from learners.bounds.transfer import log_transfer_tail, transfer_bound

__all__ = [
    "Bound", "cdp_bound", "check_level", "check_rows_of_one", "clopper_pearson_bound",
    "drawn_model_bound", "exponential_gibbs_bound", "gibbs_bound", "independent_records", "largest_rate",
    "least", "log_transfer_tail", "max_information_bound", "private_training_bounds", "root_above",
    "transfer_bound", "upper_limit_at",
]  # fmt: skip
