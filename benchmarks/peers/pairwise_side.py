"""Print as JSON the scores of evalica, choix and crowd-kit; an interpreter of their own runs this script.

``python pairwise_side.py ROWS.npz``: arrays worker, left, right, outcome (0 left, 1 right, 2 tie), n_items.
Each peer gives log scores of the items and the CPU seconds of its fit; None where it fails.
"""

import json
import sys
import time
import warnings

import choix
import evalica
import numpy as np
import pandas as pd
from crowdkit.aggregation import BradleyTerry, NoisyBradleyTerry

warnings.simplefilter("ignore")
with np.load(sys.argv[1]) as data:
    worker, left, right, outcome, n_items = (
        data[name] for name in ("worker", "left", "right", "outcome", "n_items")
    )
n_items = int(n_items)
decided = outcome < 2
won = np.where(outcome == 0, left, right)
frame = pd.DataFrame({"worker": worker, "left": left, "right": right, "label": won})[decided]


def by_evalica():
    winners = [(evalica.Winner.X, evalica.Winner.Y, evalica.Winner.Draw)[one] for one in outcome]
    found = evalica.bradley_terry(
        left.tolist(), right.tolist(), winners, tolerance=1e-12, limit=10_000
    )
    return np.log(found.scores.reindex(range(n_items)).to_numpy())


def by_evalica_decided():
    winners = [(evalica.Winner.X, evalica.Winner.Y)[one] for one in outcome[decided]]
    sides = left[decided].tolist(), right[decided].tolist()
    found = evalica.bradley_terry(*sides, winners, tolerance=1e-12, limit=10_000)
    return np.log(found.scores.reindex(range(n_items)).to_numpy())


def by_choix():
    lost = np.where(outcome == 0, right, left)
    pairs = list(zip(won[decided].tolist(), lost[decided].tolist(), strict=True))
    return choix.opt_pairwise(n_items, pairs, tol=1e-12)


def by_crowdkit():
    found = BradleyTerry(n_iter=10_000, tol=0.0).fit_predict(frame)
    return np.log(found.reindex(range(n_items)).to_numpy())


def by_noisy():
    found = NoisyBradleyTerry().fit_predict(frame).reindex(range(n_items)).to_numpy()
    return np.log(found / (1 - found))


PEERS = {
    "evalica (ties half)": by_evalica,
    "evalica": by_evalica_decided,
    "choix": by_choix,
    "crowd-kit BradleyTerry": by_crowdkit,
    "crowd-kit NoisyBradleyTerry": by_noisy,
}
found = {}
for name, fit in PEERS.items():
    began = time.process_time()
    try:
        score = np.asarray(fit(), dtype=float)
        score = score - np.nanmean(score)
        found[name] = {"score": np.nan_to_num(score).tolist(), "cpu": time.process_time() - began}
    except Exception as error:  # a peer that fails says so in the table
        found[name] = {"score": None, "cpu": 0.0, "why": type(error).__name__}
print(json.dumps(found))
