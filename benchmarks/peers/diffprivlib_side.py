"""Print as JSON diffprivlib's models of one training set and their seconds; its own interpreter runs this.

    diffprivlib_side.py problem.npz

The models have no intercept, because diffprivlib's objective leaves it out of the regularizer. Rows have norm
one at most, because the constant of its Jacobian is right for those alone.
"""

import json
import sys
import time
import warnings

import numpy as np
from diffprivlib.models import LogisticRegression

warnings.simplefilter("ignore")


def main(problem: str) -> None:
    with np.load(problem) as held:
        x, y, epsilons = held["x"], held["y"], held["epsilons"]
        strength, repetitions = float(held["regularization"]), int(held["repetitions"])
    found = []
    for epsilon in epsilons:
        for repetition in range(repetitions):
            model = LogisticRegression(
                epsilon=float(epsilon),
                data_norm=1.0,
                C=1 / (len(x) * strength),
                fit_intercept=False,
                max_iter=1000,
                random_state=repetition,
            )
            start = time.process_time()
            model.fit(x, y)
            found.append({"coef": model.coef_[0].tolist(), "cpu": time.process_time() - start})
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
