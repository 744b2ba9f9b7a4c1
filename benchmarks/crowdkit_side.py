"""Run by crowd-kit's own interpreter: labels as CSV in a folder, its consensus as JSON on the terminal."""

import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from crowdkit.aggregation import (
    KOS,
    MACE,
    MMSR,
    DawidSkene,
    MajorityVote,
    OneCoinDawidSkene,
    Wawa,
    ZeroBasedSkill,
)

warnings.simplefilter("ignore")

CLASSES = {
    "MajorityVote": lambda: MajorityVote(),
    "Wawa": lambda: Wawa(),
    "ZeroBasedSkill": lambda: ZeroBasedSkill(n_iter=100),
    "DawidSkene": lambda: DawidSkene(n_iter=100),
    "OneCoinDawidSkene": lambda: OneCoinDawidSkene(n_iter=100),
    "MACE": lambda: MACE(n_restarts=1, random_state=0),  # with more, each is the first again
    "KOS": lambda: KOS(n_iter=100, random_state=0),
    "MMSR": lambda: MMSR(n_iter=100, random_state=0),
}


def main(path: str) -> None:
    labels = pd.read_csv(Path(path), dtype=int)
    binary = labels["label"].nunique() == 2
    found = {}
    for name, make in CLASSES.items():
        if (name == "KOS" and not binary) or (name == "MMSR" and labels["worker"].nunique() > 300):
            continue  # KOS is binary; MMSR's memory grows with the square of the workers
        start = time.process_time()
        try:
            agreed = make().fit_predict(labels)
        except (KeyError, ValueError, ZeroDivisionError, OverflowError, np.linalg.LinAlgError) as e:
            found[name] = {"error": type(e).__name__}
            continue
        seconds = time.process_time() - start
        found[name] = {
            "label": {int(task): int(label) for task, label in agreed.dropna().items()},
            "seconds": seconds,
        }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
