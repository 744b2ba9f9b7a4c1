"""Print as JSON the process CPU seconds of crowd-kit on a table in .npz; its own interpreter runs this.

    crowdkit_speed_side.py table.npz answer.npz DawidSkene:100 GLAD:1:10000

Each work names a class, its number of iterations and, where not all rows are taken, how many of the first.
All iterations are made: nothing stops early. Every posterior goes to `answer.npz`.
"""

import json
import sys
import time
import warnings

import numpy as np
import pandas as pd
from crowdkit.aggregation import GLAD, KOS, MACE, DawidSkene, MajorityVote, OneCoinDawidSkene

warnings.simplefilter("ignore")

NEVER = -1e300  # no change of the likelihood is as small as that
CLASSES = {
    "MajorityVote": lambda n_iter: MajorityVote(),
    "DawidSkene": lambda n_iter: DawidSkene(n_iter=n_iter, tol=NEVER),
    "OneCoinDawidSkene": lambda n_iter: OneCoinDawidSkene(n_iter=n_iter, tol=NEVER),
    "GLAD": lambda n_iter: GLAD(n_iter=n_iter, tol=NEVER, silent=True),
    "MACE": lambda n_iter: MACE(n_restarts=1, n_iter=n_iter, random_state=0),
    "KOS": lambda n_iter: KOS(n_iter=n_iter, random_state=0),
}


def main(table: str, answer: str, *works: str) -> None:
    with np.load(table) as held:
        labels = pd.DataFrame({name: held[name] for name in ("worker", "task", "label")})
    seconds, posteriors = {}, {}
    for work in works:
        name, n_iter, *head = work.split(":")
        rows, rule = labels.head(int(head[0])) if head else labels, CLASSES[name](int(n_iter))
        start = time.process_time()
        try:
            rule.fit(rows)
        except (KeyError, ValueError, OverflowError) as error:
            seconds[work] = type(error).__name__
            continue
        seconds[work] = time.process_time() - start
        if name != "KOS":
            posteriors[work] = rule.probas_.sort_index().sort_index(axis=1).to_numpy()
    np.savez(answer, **posteriors)
    json.dump(seconds, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
