"""Print as JSON every table that crowd-kit's classes hold; its own interpreter runs this script on a folder.

The folder holds labels.csv, gold.csv, initial.csv and cases.json, which lists
[name, class, constructor arguments, gold step (0: none), whether initial errors are given]. Ids are
text, labels whole numbers.
"""

import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from crowdkit import aggregation

warnings.simplefilter("ignore")
HELD = (
    "labels_", "probas_", "skills_", "priors_", "errors_", "alphas_", "betas_", "loss_history_",
)  # fmt: skip
KINDS = {"worker": str, "task": str, "label": int}


def as_json(table):
    """A frame, series or list as plain lists, in its own order."""
    if isinstance(table, list):
        return {"values": table}
    axes = [table.index, table.columns] if table.ndim == 2 else [table.index]
    return {
        "names": [[list(k) if isinstance(k, tuple) else k for k in a.tolist()] for a in axes],
        "titles": [getattr(table, "name", None), *(list(axis.names) for axis in axes)],
        "values": table.to_numpy().tolist(),
    }


def main(folder: Path) -> None:
    labels = pd.read_csv(folder / "labels.csv", dtype=KINDS)
    gold = pd.read_csv(folder / "gold.csv", dtype=KINDS).set_index("task")["label"]
    initial = pd.read_csv(folder / "initial.csv", dtype=KINDS).set_index(["worker", "label"])
    initial.columns = initial.columns.astype(int)
    found = {}
    for name, kind, arguments, use_gold, use_initial in json.loads(
        (folder / "cases.json").read_text()
    ):
        known = {"true_labels": gold[::use_gold]} if use_gold else {}
        known |= {"initial_error": initial} if use_initial else {}
        start = time.process_time()
        try:
            estimator = getattr(aggregation, kind)(**arguments)
            estimator.fit_predict(labels, **known)
        except (KeyError, ValueError, ZeroDivisionError, np.linalg.LinAlgError) as error:
            found[name] = {"error": type(error).__name__}
            continue
        seconds = time.process_time() - start
        tables = {
            held: as_json(getattr(estimator, held)) for held in HELD if hasattr(estimator, held)
        }
        found[name] = {"seconds": seconds, "tables": tables}
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
