"""Print as JSON QuaPy's class ratios of one problem in .npz; its own interpreter runs this script.

    quapy_side.py problem.npz

QuaPy learns from labelled points. In one series it gets the points' labels. In the other, set-level, it
gets the code of each point's group in place of a label (groups of equal proportions count as one) and
estimates the mixture of groups; these shares times the groups' proportions are class ratios.
"""

import contextlib
import json
import sys
import warnings

import numpy as np
from quapy.method.aggregative import CC, EMQ, PACC, KDEyML
from sklearn.linear_model import LogisticRegression

warnings.simplefilter("ignore")

METHODS = {"CC": CC, "PACC": PACC, "EMQ": EMQ, "KDEyML": KDEyML}
SET_LEVEL = ("PACC", "EMQ", "KDEyML")


def answer(name: str, x: np.ndarray, code: np.ndarray, unlabelled: list[np.ndarray]) -> np.ndarray:
    """Shares of the codes in every unlabelled bag."""
    quantifier = METHODS[name](LogisticRegression(max_iter=200))
    quantifier.fit(x, code)
    return np.array([quantifier.predict(bag) for bag in unlabelled])


def main(problem: str) -> None:
    with np.load(problem) as held:
        x, label, group = held["x"], held["label"], held["group"]
        mixture, unlabelled = held["mixture"], list(held["unlabelled"])
    tasks = [(name, label, np.eye(mixture.shape[1])) for name in METHODS]
    tasks += [(f"{name}, groups", group, mixture) for name in SET_LEVEL]
    found = {}
    with contextlib.redirect_stdout(sys.stderr):
        for name, code, shares in tasks:
            found[name] = (answer(name.split(",")[0], x, code, unlabelled) @ shares).tolist()
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
