"""crowdassay's own answers to the probes of `benchmarks.peers.comparison`.

Each probe runs the thing that its row is about.
"""

from __future__ import annotations

import inspect
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np
from sklearn.base import is_classifier

import flows.crowdkit
import quality
from flows.cli import app
from learners import (
    ClassRatio,
    ClassRatioEstimator,
    ConvergenceError,
    ObjectivePerturbation,
    PrivateLogisticRegression,
)
from learners.private.logistic_minimum import minimise
from learners.private.objective_perturbation import training_query
from privacy import Json, LatticeLaplace, Ledger, Noise, PureEvent, Query, Unit

N_CROWDS, WORKERS, TASKS, LABELS_PER_TASK, SKILL = 20, 40, 200, 5, 0.8
COUNTS = np.array([400, 350, 250])
ROWS = np.array([[0.1], [0.9]] * 50)


def honest_crowds() -> dict[str, np.ndarray]:
    """Crowds of equally able workers on two classes: the columns of each, one row a crowd."""
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(TASKS), LABELS_PER_TASK)
    worker = [
        np.concatenate([rng.permutation(WORKERS)[:LABELS_PER_TASK] for _ in range(TASKS)])
        for _ in range(N_CROWDS)
    ]
    wrong = rng.random((N_CROWDS, len(task))) > SKILL
    label = rng.integers(2, size=(N_CROWDS, TASKS)).repeat(LABELS_PER_TASK, axis=1) ^ wrong
    return {"worker": np.array(worker), "task": np.tile(task, (N_CROWDS, 1)), "label": label}


def rule_chosen_without_gold() -> str:
    chosen = quality.auto(_small_crowd()).chosen
    return "`quality.auto`" if chosen else "no"


def honest_crowds_thinned() -> str:
    crowds = honest_crowds()
    thinned = 0
    for worker, task, label in zip(*crowds.values(), strict=True):
        labels = quality.encode(worker, task, label)
        found = quality.filter_dishonest(labels, rng=np.random.default_rng(0))
        thinned += len(found.removed) > 0
    return f"{thinned} of {len(crowds['worker'])}"


def texts_comparisons_segmentations() -> str:
    peers = ("ROVER", "TextRASA", "BradleyTerry", "NoisyBradleyTerry", "SegmentationMajorityVote")
    return ", ".join(name for name in peers if hasattr(flows.crowdkit, name)) or "no"


def privacy() -> str:
    with _ledger() as (ledger, _):
        ledger.release(LatticeLaplace(epsilon=0.5), _counts())
        return "a ledger of releases" if ledger.statement("toy").spent.epsilon > 0 else "no"


def same_release_again() -> str:
    with _ledger() as (ledger, _):
        first, again = (ledger.release(LatticeLaplace(epsilon=0.5), _counts()) for _ in range(2))
        once = float(ledger.statement("toy").spent.epsilon) == 0.5
        stored = first.value == again.value and not again.fresh
        return "the stored one, for nothing" if stored and once else "drawn again"


def spending_outlives_the_process() -> str:
    with _ledger() as (ledger, path):
        ledger.release(LatticeLaplace(epsilon=0.5), _counts())
        reopened = Ledger(path, key=bytes(32)).statement("toy")
        return "in a file or PostgreSQL" if float(reopened.spent.epsilon) == 0.5 else "no"


def command_that_tries_to_refute() -> str:
    commands = {command.callback.__name__ for command in app.registered_commands}
    return "`crowdassay audit`" if "audit" in commands else "no"


def proportions_of_groups_alone() -> str:
    return "yes" if abs(_class_ratio().ratio[0] - 0.7) < 0.05 else "no"


def interval_for_each_ratio() -> str:
    found = _class_ratio()
    low, high = found.interval.T
    return "yes" if ((low <= found.ratio) & (found.ratio <= high) & (low < high)).all() else "no"


def bound_not_given() -> str:
    try:
        ObjectivePerturbation(epsilon=1.0, regularization=0.01)  # type: ignore[call-arg]
    except TypeError:
        return "refused"
    return "not refused"


@dataclass(frozen=True)
class Interrupted:
    """A mechanism whose process dies while it draws."""

    epsilon: float

    def event(self, query: Query) -> PureEvent:
        """Its price."""
        return PureEvent("interrupted", self.epsilon)

    def draw(self, query: Query, noise: Noise) -> Json:
        """Never comes to an end."""
        raise KeyboardInterrupt


def charged() -> str:
    with _ledger() as (ledger, _):
        try:
            ledger.release(Interrupted(0.5), _counts())
        except KeyboardInterrupt:
            paid = float(ledger.statement("toy").spent.epsilon) == 0.5
            return "before its noise is drawn" if paid else "after its noise is drawn"
    return "not at all"


def solver_that_stops_early() -> str:
    with _ledger(Unit.ROW, len(ROWS)) as (ledger, _):
        request = _training()
        solver = sys.modules[minimise.__module__]
        try:
            with mock.patch.object(solver, "minimise", partial(minimise, max_iter=1)):
                ledger.release(*request)
        except ConvergenceError:
            once = ledger.statement("toy").spent
            ledger.release(*request)
            again = ledger.statement("toy").spent
            return "gives none; asked again, costs no more" if once == again else "gives none"
    return "gives its model"


def seed_for_the_noise() -> str:
    request, drawn = _training(), []
    for _ in range(2):
        with _ledger(Unit.ROW, len(ROWS)) as (ledger, _):
            drawn.append(ledger.release(*request).value)
    seeds = {"random_state", "seed", "rng"} & set(
        inspect.signature(ObjectivePerturbation).parameters
    )
    return "may be set" if seeds or drawn[0] == drawn[1] else "none to set"


def scikit_learn_of_today() -> str:
    return "yes" if is_classifier(PrivateLogisticRegression()) else "no"


def consensus_without_a_classifier() -> str:
    found = quality.dawid_skene(_small_crowd())
    return "every rule" if np.allclose(found.posterior.sum(axis=1), 1.0) else "no"


def classifier_joins_in() -> str:
    """The task that the crowd is least sure of, decided by what a classifier says of it."""
    labels = _small_crowd()
    consensus = quality.dawid_skene(labels)
    held_out = quality.hold_labels_out(labels, quality.dawid_skene)
    unsure = consensus.posterior.max(axis=1).argmin()
    probabilities = np.where(np.eye(2)[consensus.label] > 0, 0.9, 0.1)
    decided = []
    for sure in ([0.99, 0.01], [0.01, 0.99]):
        probabilities[unsure] = sure
        decided.append(quality.join_voice(consensus, probabilities, held_out).label[unsure])
    return "`quality.join_voice`" if decided == [0, 1] else "no"


def what_to_label_next() -> str:
    labels = _small_crowd()
    fit = quality.dawid_skene(labels)
    plan = quality.plan_labels(labels, fit.posterior, fit.confusion, budget=3, per_worker=2)
    return "a task, whom to ask, and what it would tell" if len(plan.worker) == 3 else "no"


def workers_to_remove() -> str:
    worker, task, label = (column[0] for column in honest_crowds().values())
    labels = quality.encode(worker, task, np.where(worker < 4, 1 - label, label))
    found = quality.filter_dishonest(labels, rng=np.random.default_rng(0))
    removed = set(labels.workers[found.removed].tolist())
    return "who, at a rate of false removal" if removed == {0, 1, 2, 3} else "no"


def wrong_labels_of_single_rows() -> str:
    names = [name for name in quality.__all__ if "issue" in name.lower()]
    return ", ".join(names) or "no"


def _small_crowd() -> quality.CrowdLabels:
    crowds = honest_crowds()
    return quality.encode(*(column[0] for column in crowds.values()))


def _class_ratio() -> ClassRatio:
    """Of seven rows in ten from one class, learned from three groups of known proportions."""
    line = np.linspace(-1, 1, 50)[:, None]
    groups = [np.vstack([line[: 50 - k], 5 + line[:k]]) for k in (10, 25, 40)]
    shares = np.array([[0.8, 0.2], [0.5, 0.5], [0.2, 0.8]])
    return ClassRatioEstimator().fit(groups, shares).predict(np.vstack([line[:35], 5 + line[:15]]))


def _training() -> tuple[ObjectivePerturbation, Query]:
    mechanism = ObjectivePerturbation(epsilon=1.0, regularization=0.01, norm_bound=1.0, n_classes=2)
    return mechanism, training_query(ROWS, np.tile([0, 1], len(ROWS) // 2), dataset="toy")


def _counts() -> Query:
    n = int(COUNTS.sum())
    return Query("toy", "class counts", COUNTS, Unit.CONSENSUS_LABEL, n=n, l1=2.0)


@contextmanager
def _ledger(
    unit: Unit = Unit.CONSENSUS_LABEL, n: int = int(COUNTS.sum())
) -> Iterator[tuple[Ledger, Path]]:
    """A ledger with a budget, and its file, which is gone afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.sqlite"
        ledger = Ledger(path, key=bytes(32))
        ledger.open_budget("toy", unit=unit, epsilon=5.0, delta=0.0, n=n)
        yield ledger, path
