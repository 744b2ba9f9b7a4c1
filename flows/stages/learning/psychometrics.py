"""Skill against carelessness: how often each worker is right on tasks of each ease.

The truth of a task is its gold; elsewhere it is the belief from the other workers, with its uncertainty. The
worker's own label is left out first, or her function would describe herself. The ease of a task is a named
feature, or the distance of its features from the classes' boundary. The certainty of the others is no measure
of ease: too few of them label a task, and carelessness would look like a lack of skill.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import logit

from flows.run import Crowd, Run
from flows.tables import arrow_table
from quality import CrowdLabels
from quality.aggregation import confusion_under

__all__ = ["BOUNDARY", "find_psychometrics", "others_belief"]

BOUNDARY = "boundary"
MIN_LABELS = 40  # of a worker: of fewer, the function is all interval
MAX_WORKERS = 2000  # those with most labels
LEVELS, SURE_LEVELS = 8, 3  # cells of ease, and of certainty, that a worker's labels are counted in
LEVEL = 0.9
CARELESS = 0.05  # a worker is careless if the lower end of her lapse rate is above this
SHOWN = 20
LEAST_SURE, MOST_SURE = 0.01, 1 - 1e-6
BELIEVED = 20.0  # labels of gold tasks that weigh as much as the others' own belief


def find_psychometrics(
    run: Run,
    crowd: Crowd,
    kept: CrowdLabels | None,
    believed: Float[np.ndarray, "tasks classes"],
    posterior: Float[np.ndarray, "tasks classes"],
    alone: Bool[np.ndarray, " workers"],
) -> dict[str, Any]:
    """Fit a psychometric function to each worker with labels enough, and write them; or say why not.

    `believed` is the consensus `posterior` with calibrated confidence; `alone` marks independent workers: in
    the belief about a task, members of a group count in another way.
    """
    axis = run.settings.report.psychometric
    if kept is None or not kept.n_labels:
        return {"why_not": "the labels are in shards"}
    n_given = np.diff(kept.worker_start)
    judged = np.flatnonzero((n_given >= MIN_LABELS) & alone)
    if not len(judged):
        return {"why_not": f"no worker who answers on her own gave {MIN_LABELS} labels or more"}
    ease = _ease(crowd, str(axis), believed, run.settings.seed)
    if isinstance(ease, str):
        return {"why_not": ease}
    gold = crowd.gold_code()[kept.task]
    known = (gold >= 0) & (not run.settings.consensus.use_gold)
    others = others_belief(kept, believed, posterior)
    guess = others.argmax(axis=1)
    sure = np.clip(others.max(axis=1), 1 / kept.n_classes, MOST_SURE)
    agrees = kept.label == np.where(known, gold, guess)
    of_label = ease[kept.task]
    # the feature says how hard tasks are
    if axis != BOUNDARY and np.cov(of_label, agrees)[0, 1] < 0:
        of_label = -of_label
    certainty = _certainty(of_label, sure, known, guess == gold)
    most = np.sort(judged[np.argsort(-n_given[judged], kind="stable")[:MAX_WORKERS]])
    return _fitted(run, kept, most, of_label, agrees, certainty, axis == BOUNDARY)


def others_belief(
    labels: CrowdLabels,
    believed: Float[np.ndarray, "tasks classes"],
    posterior: Float[np.ndarray, "tasks classes"],
) -> Float[np.ndarray, "labels classes"]:
    """Return the belief about each label's task without that label.

    A label multiplies the posterior by its worker's P(label | class). The belief is the posterior flattened,
    on the whole by one exponent, so the label is divided out to that power.
    """
    confusion = confusion_under(labels, posterior)
    whole, flat = (_margins(one) for one in (posterior, believed))
    power = float(np.clip(whole @ flat / max(whole @ whole, 1e-12), 0.0, 1.0))
    chance = confusion[labels.worker, :, labels.label]
    log = np.log(np.maximum(believed[labels.task], 1e-12)) - power * np.log(chance)
    odds = np.exp(log - log.max(axis=1, keepdims=True))
    return np.asarray(odds / odds.sum(axis=1, keepdims=True))


def _margins(belief: Float[np.ndarray, "tasks classes"]) -> Float[np.ndarray, " tasks"]:
    """Return log odds of the likeliest class."""
    return np.asarray(logit(np.clip(belief.max(axis=1), 0.5, 1 - 1e-9)))


def _certainty(
    ease: Float[np.ndarray, " labels"],
    sure: Float[np.ndarray, " labels"],
    known: Bool[np.ndarray, " labels"],
    right: Bool[np.ndarray, " labels"],
) -> Float[np.ndarray, " labels"]:
    """Return the certainty of each label's truth: 1 by gold, elsewhere as similar gold tasks show it.

    A confident belief errs more often on hard tasks. In a cell without gold it stays as it is.
    """
    cell = _cells(ease, sure)
    n, hits, expected = (
        np.bincount(cell, one, minlength=int(cell.max()) + 1)
        for one in (known.astype(float), (known & right).astype(float), np.where(known, sure, 0.0))
    )
    shift = (hits - expected) / (n + BELIEVED)
    return np.where(known, 1.0, np.clip(sure + shift[cell], LEAST_SURE, MOST_SURE))


def _ease(
    crowd: Crowd, axis: str, believed: Float[np.ndarray, "tasks classes"], seed: int
) -> Float[np.ndarray, " tasks"] | str:
    """Return the ease of each task, or the reason for none."""
    names = () if crowd.tasks is None else crowd.tasks.feature_names
    if not names:
        return "the tasks have no features"
    if axis != BOUNDARY and axis not in names:
        return f'no feature is called "{axis}"; name one, or "{BOUNDARY}"'
    rows = crowd.label_features()
    if axis != BOUNDARY:
        return np.asarray(rows[:, names.index(axis)], dtype=np.float64)
    from learners import cross_fitted_probabilities  # scikit-learn, where functions are asked for

    probability = cross_fitted_probabilities(
        rows, believed, rng=np.random.default_rng(seed)
    ).probabilities
    second, first = np.sort(probability, axis=1)[:, -2:].T
    return np.asarray(np.log(first / second))


def _fitted(
    run: Run,
    kept: CrowdLabels,
    workers: Int[np.ndarray, " judged"],
    ease: Float[np.ndarray, " labels"],
    agrees: Bool[np.ndarray, " labels"],
    certainty: Float[np.ndarray, " labels"],
    has_zero: bool,
) -> dict[str, Any]:
    """Fit the functions, write the table, and return what the report shows."""
    from learners import psychometric_posterior  # SciPy and scikit-learn, where it is asked for

    code = _cells(ease, certainty)
    n_cells = int(code.max()) + 1
    mean_ease, mean_sure = (np.bincount(code, one) / np.bincount(code) for one in (ease, certainty))
    if len(np.unique(mean_ease)) < 2:
        return {"why_not": "all tasks are as easy as each other"}
    at = np.flatnonzero(np.isin(kept.worker, workers))
    cell = np.searchsorted(workers, kept.worker[at]) * n_cells + code[at]
    n, right = (
        np.bincount(cell, one, len(workers) * n_cells).reshape(-1, n_cells)
        for one in (None, agrees[at])
    )
    whole = [np.bincount(code, one) for one in (agrees, None)]  # of all workers together
    chance = 1 / kept.n_classes
    found = psychometric_posterior(
        mean_ease, np.vstack([right, whole[0]]), np.vstack([n, whole[1]]).astype(np.float64),
        np.minimum(mean_sure, 1.0), chance=chance, lapse_max=0.8 * (1 - chance),
        link="weibull" if has_zero else "logistic", level=LEVEL,
    )  # fmt: skip
    columns = {name: getattr(found, name)[:-1] for name in COLUMNS}
    careless = columns["lapse_low"] > CARELESS
    named = {"worker": kept.workers[workers].astype(str), **columns, "careless": careless,
             "n_labels": n.sum(axis=1).astype(np.int64)}  # fmt: skip
    order = np.lexsort((-columns["threshold"], -columns["lapse"], ~careless))
    table = {name: column[order] for name, column in named.items()}
    run.write_table("psychometrics.parquet", arrow_table(table))
    up = np.argsort(mean_ease)
    return {
        "why_not": None,
        "axis": run.settings.report.psychometric,
        "n": len(workers),
        "n_careless": int(careless.sum()),
        "n_certain": int((certainty == 1).sum()),
        "n_labels": int(kept.n_labels),
        "chance": chance,
        "ease": mean_ease[up].tolist(),
        "curves": [(found.curve[one, up].tolist(), bool(careless[one])) for one in order[:SHOWN]],
        "crowd": found.curve[-1, up].tolist(),
        "shown": arrow_table({name: column[:SHOWN] for name, column in table.items()}).to_pylist(),
    }


COLUMNS = ("threshold", "threshold_low", "threshold_high", "lapse", "lapse_low", "lapse_high")


def _cells(
    ease: Float[np.ndarray, " labels"], certainty: Float[np.ndarray, " labels"]
) -> Int[np.ndarray, " labels"]:
    """Return the cell of each label, by ease and by certainty."""
    cell = np.searchsorted(np.quantile(ease, np.arange(1, LEVELS) / LEVELS), ease, side="right")
    guessed = certainty < 1
    if guessed.any():
        cuts = np.quantile(certainty[guessed], np.arange(1, SURE_LEVELS) / SURE_LEVELS)
        by_sure = 1 + np.searchsorted(cuts, certainty, side="right")
        cell = cell * (SURE_LEVELS + 1) + np.where(guessed, by_sure, 0)
    return np.asarray(np.unique(cell, return_inverse=True)[1], dtype=np.int64)
