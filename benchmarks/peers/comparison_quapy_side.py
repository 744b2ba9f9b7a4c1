"""Print as JSON what QuaPy answers to each probe of `benchmarks.peers.comparison`.

Its own interpreter runs this script.
"""

import contextlib
import json
import sys
import warnings

import numpy as np
from quapy.method.aggregative import ACC, PACC
from quapy.method.confidence import AggregativeBootstrap
from sklearn.linear_model import LogisticRegression

warnings.simplefilter("ignore")
ROWS = np.random.default_rng(0).normal(size=(200, 2))
LABELS = (ROWS[:, 0] > 0).astype(int)


def proportions_of_groups_alone() -> str:
    """Four groups of fifty rows, and the share of each class in each."""
    shares = LABELS.reshape(4, 50).mean(axis=1)
    for quantifier in (ACC, PACC):
        with contextlib.suppress(TypeError, ValueError, IndexError):
            groups = list(ROWS.reshape(4, 50, 2))
            quantifier(LogisticRegression()).fit(groups, np.stack([1 - shares, shares], axis=1))
            return "yes"
    return "no"


def interval_for_each_ratio() -> str:
    estimator = AggregativeBootstrap(PACC(LogisticRegression()), n_test_samples=50, random_state=0)
    estimator.fit(ROWS, LABELS)
    ratio, region = estimator.predict_conf(ROWS)
    inside = (region.I_low <= ratio) & (ratio <= region.I_high)
    return "yes" if np.shape(inside) == (2,) and inside.all() else "no"


PROBES = (proportions_of_groups_alone, interval_for_each_ratio)

if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):
        found = {probe.__name__: probe() for probe in PROBES}
    json.dump(found, sys.stdout)
