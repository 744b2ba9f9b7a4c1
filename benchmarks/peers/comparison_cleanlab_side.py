"""Print as JSON what cleanlab answers to each probe of `benchmarks.peers.comparison`.

Its own interpreter runs this script.
"""

import inspect
import json
import sys
import warnings

import numpy as np
from cleanlab.filter import find_label_issues
from cleanlab.multiannotator import (
    get_active_learning_scores,
    get_label_quality_multiannotator,
    get_majority_vote_label,
)

warnings.simplefilter("ignore")

# four tasks, three workers: dense, a missing label is not a number
TABLE = np.array([[0, 0, 1], [1, 1, np.nan], [0, np.nan, 0], [1, 1, 1]], dtype=float)
SURE = np.array([[0.9, 0.1], [0.2, 0.8], [0.7, 0.3], [0.1, 0.9]])


def consensus_without_a_classifier() -> str:
    if get_majority_vote_label(TABLE, verbose=False).tolist() != [0, 1, 0, 1]:
        return "no"
    asked = inspect.signature(get_label_quality_multiannotator).parameters["pred_probs"]
    return "majority vote alone" if asked.default is inspect.Parameter.empty else "yes"


def classifier_joins_in() -> str:
    """A tie, decided by what the classifier says of it."""
    tie = np.vstack([TABLE, [0, 1, np.nan]])
    decided = [
        get_label_quality_multiannotator(tie, np.vstack([SURE, sure]), verbose=False)[
            "label_quality"
        ]["consensus_label"].iloc[-1]
        for sure in ([0.99, 0.01], [0.01, 0.99])
    ]
    return "yes" if decided == [0, 1] else "no"


def what_to_label_next() -> str:
    scores, _ = get_active_learning_scores(TABLE, SURE)
    return "a score for each task" if np.shape(scores) == (4,) else "no"


def workers_to_remove() -> str:
    stats = get_label_quality_multiannotator(TABLE, SURE, verbose=False)["annotator_stats"]
    return f"a number for each: {', '.join(stats.columns)}"


def wrong_labels_of_single_rows() -> str:
    labels = np.repeat([0, 1], 20)
    sure = np.where(labels[:, None] == [0, 1], 0.9, 0.1)
    sure[3] = [0.01, 0.99]
    return "yes" if find_label_issues(labels, sure)[3] else "no"


PROBES = (
    consensus_without_a_classifier,
    classifier_joins_in,
    what_to_label_next,
    workers_to_remove,
    wrong_labels_of_single_rows,
)

if __name__ == "__main__":
    json.dump({probe.__name__: probe() for probe in PROBES}, sys.stdout)
