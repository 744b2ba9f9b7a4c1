"""Print as JSON cleanlab's consensus of crowds and its CPU seconds; its own interpreter runs this script.

    comparison_consensus_side.py 5 rte.npz temp.npz

The first argument is the limit of CPU seconds; a computation that is cut off has no answer. A file holds the
codes `worker`, `task` and `label`, and under `opinions` class probabilities, tables of tasks by classes
that stand for a classifier's, with their `names`.
"""

import contextlib
import json
import signal
import sys
import time
import warnings

import numpy as np
from cleanlab.multiannotator import (
    get_active_learning_scores,
    get_label_quality_multiannotator,
    get_majority_vote_label,
)

warnings.simplefilter("ignore")


class TooLongError(Exception):
    """The CPU seconds that were allowed are spent."""


def stop(signum, frame):
    raise TooLongError


def timed(work, limit: float):
    """What some work answers, None where it was cut off, and its CPU seconds."""
    signal.setitimer(signal.ITIMER_PROF, limit)
    start = time.process_time()
    try:
        answer = work()
    except TooLongError:
        return None, limit
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return answer, time.process_time() - start


def consensus(table, opinion) -> list[int]:
    quality = get_label_quality_multiannotator(table, opinion, verbose=False)
    return quality["label_quality"]["consensus_label"].tolist()


def measured(crowd: str, limit: float) -> dict:
    with np.load(crowd) as held:
        worker, task, label = held["worker"], held["task"], held["label"]
        opinions = dict(zip(held["names"].tolist(), held["opinions"], strict=True))
    table = np.full((task.max() + 1, worker.max() + 1), np.nan)
    table[task, worker] = label
    found = {
        "majority vote": timed(
            lambda: get_majority_vote_label(table, verbose=False).tolist(), limit
        )
    }
    for name, opinion in opinions.items():
        found[name] = timed(lambda opinion=opinion: consensus(table, opinion), limit)
    first = next(iter(opinions.values()))
    found["next"] = timed(lambda: get_active_learning_scores(table, first) and None, limit)
    return {"answers": found, "table": table.nbytes}


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):  # it prints hints
        signal.signal(signal.SIGPROF, stop)
        of_each = [measured(crowd, float(sys.argv[1])) for crowd in sys.argv[2:]]
    json.dump(of_each, sys.stdout)
