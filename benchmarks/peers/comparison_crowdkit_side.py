"""Print as JSON what crowd-kit answers to each probe of `benchmarks.peers.comparison`.

Its own interpreter runs this script.

    comparison_crowdkit_side.py crowds.npz

The file holds honest crowds: the columns `worker`, `task` and `label`, one row a crowd.
"""

import importlib
import inspect
import json
import pkgutil
import re
import sys
import warnings

import crowdkit
import numpy as np
import pandas as pd
from crowdkit.aggregation import ROVER, BradleyTerry, SegmentationMajorityVote
from crowdkit.postprocessing import entropy_threshold

warnings.simplefilter("ignore")


def names_of(package) -> set[str]:
    """Every public class and function of a package, and what each of their parameters is called."""
    found = set()
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        try:
            held = vars(importlib.import_module(module.name))
        except ImportError:  # of an optional part whose libraries are not installed
            continue
        for name, kind in held.items():
            if name.startswith("_") or not str(getattr(kind, "__module__", "")).startswith(
                package.__name__
            ):
                continue
            methods = vars(kind).values() if inspect.isclass(kind) else (kind,)
            found.add(name)
            for method in filter(inspect.isfunction, methods):
                found |= set(inspect.signature(method).parameters)
    return found


def named(pattern: str) -> str:
    matching = (name for name in names_of(crowdkit) if re.search(pattern, name, re.IGNORECASE))
    return ", ".join(sorted(matching)) or "no"


def rule_chosen_without_gold() -> str:
    return named("auto|choose|select")


def honest_crowds_thinned() -> str:
    with np.load(sys.argv[1]) as held:
        crowds = list(zip(held["worker"], held["task"], held["label"], strict=True))
    thinned = 0
    for worker, task, label in crowds:
        table = pd.DataFrame({"worker": worker, "task": task, "label": label})
        thinned += entropy_threshold(table)["worker"].nunique() < table["worker"].nunique()
    return f"{thinned} of {len(crowds)}"


def texts_comparisons_segmentations() -> str:
    texts = pd.DataFrame(
        [("t", worker, text) for worker, text in enumerate(("a b c", "a b c", "a d c"))],
        columns=["task", "worker", "text"],
    )
    fused = ROVER(str.split, " ".join).fit_predict(texts)["t"]
    pairs = pd.DataFrame([("a", "b", "a"), ("b", "c", "b")], columns=["left", "right", "label"])
    best = BradleyTerry(n_iter=100).fit_predict(pairs).idxmax()
    masks = [("t", w, np.array([[w > 0, True], [True, False]])) for w in range(3)]
    mask = SegmentationMajorityVote().fit_predict(
        pd.DataFrame(masks, columns=["task", "worker", "segmentation"])
    )["t"]
    return "yes" if (fused, best, bool(mask[0, 0])) == ("a b c", "a", True) else "no"


def privacy() -> str:
    return named("privacy|private|^epsilon$")


PROBES = (
    rule_chosen_without_gold,
    honest_crowds_thinned,
    texts_comparisons_segmentations,
    privacy,
)

if __name__ == "__main__":
    json.dump({probe.__name__: probe() for probe in PROBES}, sys.stdout)
