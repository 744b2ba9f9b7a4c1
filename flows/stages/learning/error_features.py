"""Which features of tasks go with the crowd's errors, as gold shows them: names at a level, no picture.

Inside each true class the gold tasks that the consensus got wrong are compared with those it got right; the
largest difference is judged by permutations, so that naming any feature where none matters has the level's
chance.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Int

from flows.run import Crowd, Run

__all__ = ["LEVEL", "find_error_features"]

LEVEL = 0.05
MIN_WRONG = 2  # and as many right, in one class
SHOWN = 20


def find_error_features(run: Run, crowd: Crowd, label: Int[np.ndarray, " tasks"]) -> dict[str, Any]:
    """Name the features that go with errors of these consensus labels, or say why none can be named."""
    if crowd.tasks is None or not crowd.tasks.feature_names:
        return {"why_not": "the tasks have no features"}
    if run.settings.consensus.use_gold:
        return {"why_not": "the gold was used, so it shows no errors"}
    gold = crowd.gold_code()
    known = np.flatnonzero(gold >= 0)
    wrong = label[known] != gold[known]
    kinds = [(wrong[gold[known] == one], one) for one in np.unique(gold[known])]
    if not any(min(part.sum(), (~part).sum()) >= MIN_WRONG for part, _ in kinds):
        return {
            "why_not": f"no class has {MIN_WRONG} gold tasks wrong and {MIN_WRONG} right: "
            f"{known.size:,} gold tasks, {int(wrong.sum()):,} of them wrong"
        }
    from learners import (
        error_image_test,  # SciPy's and NumPy's part of learners, where it is asked for
    )

    (rows,) = crowd.features_of(known)
    rng = np.random.default_rng(run.settings.seed)
    found = error_image_test(rows, gold[known], label[known], rng=rng)
    place, feature = np.nonzero(found.p_value <= LEVEL)
    order = np.lexsort((feature, -np.abs(found.statistic[place, feature])))
    named = [
        {
            "class": str(crowd.labels.classes[found.classes[place[at]]]),
            "feature": crowd.tasks.feature_names[feature[at]],
            "t": float(found.statistic[place[at], feature[at]]),
            "p_value": float(found.p_value[place[at], feature[at]]),
        }
        for at in order[:SHOWN]
    ]
    return {
        "why_not": None,
        "level": LEVEL,
        "n_features": rows.shape[1],
        "n_wrong": int(found.n_wrong.sum()),
        "n_right": int(found.n_right.sum()),
        "n": len(order),
        "named": named,
    }
