"""Print as JSON the subspaces of diffprivlib's PCA and their seconds; its own interpreter runs this.

    diffprivlib_pca_side.py problem.npz

Rows are not centred: the mean is given as zero, which costs diffprivlib nothing.
"""

import json
import sys
import time
import warnings

import numpy as np
from diffprivlib.models import PCA

warnings.simplefilter("ignore")
PATIENCE = 60.0  # seconds for one epsilon


def main(problem: str) -> None:
    with np.load(problem) as held:
        x, epsilons, k = held["x"], held["epsilons"], int(held["k"])
        repetitions = int(held["repetitions"])
    found = []
    for epsilon in epsilons:
        start = time.process_time()
        for repetition in range(repetitions):
            if time.process_time() - start > PATIENCE:
                break
            model = PCA(
                k, epsilon=float(epsilon), data_norm=1.0, centered=True, random_state=repetition
            )
            began = time.process_time()
            model.fit(x)
            found.append(
                {
                    "epsilon": float(epsilon),
                    "components": model.components_.tolist(),
                    "cpu": time.process_time() - began,
                }
            )
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
