"""Print as JSON the subspaces of diffprivlib's PCA that it draws in time; its own interpreter runs this.

    diffprivlib_pca_side.py problem.npz

Rows are not centred: the mean is given as zero, which costs diffprivlib nothing.
"""

import json
import signal
import sys
import warnings

import numpy as np
from diffprivlib.models import PCA

warnings.simplefilter("ignore")
PATIENCE = 60  # seconds for one epsilon


def stop(*_: object) -> None:
    raise TimeoutError


def main(problem: str) -> None:
    signal.signal(signal.SIGALRM, stop)
    with np.load(problem) as held:
        x, epsilons, k = held["x"], held["epsilons"], int(held["k"])
        repetitions = int(held["repetitions"])
    found = []
    for epsilon in epsilons:
        try:
            signal.alarm(PATIENCE)
            for seed in range(repetitions):
                model = PCA(
                    k, epsilon=float(epsilon), data_norm=1.0, centered=True, random_state=seed
                )
                drawn = model.fit(x).components_
                found.append({"epsilon": float(epsilon), "components": drawn.tolist()})
        except TimeoutError:
            continue
    signal.alarm(0)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
