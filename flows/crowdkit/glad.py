"""GLAD as crowd-kit defines it: worker ability times task easiness, by conjugate gradients."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import no_type_check

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from jaxtyping import Bool, Float64, Int
from scipy.optimize import minimize
from scipy.special import expit, logsumexp
from sklearn.base import BaseEstimator

from flows.crowdkit.frames import Answers, by_task, check_iterations, read_answers, shares
from quality.aggregation import decide
from quality.parallel import kernel

__all__ = ["GLAD"]


class GLAD(BaseEstimator):  # type: ignore[misc]
    """Estimate the truth, every worker's ability and every task's easiness together.

    A worker is right with probability 1 / (1 + exp(-alpha * exp(beta))), alpha her own and beta the
    task's; wrong labels are equally likely. Both are normal beforehand, with variance 1.

    Parameters
    ----------
    n_iter
        At most so many iterations of EM, at least 1.
    tol
        Stop when an iteration adds less than this to ``loss_history_``.
    silent
        Taken for crowd-kit's sake; nothing is ever printed.
    labels_priors
        P(truth) of each label, all above 0; equal by default.
    alphas_priors_mean, betas_priors_mean
        Means of alpha for each worker and beta for each task; 1 by default.
    m_step_max_iter, m_step_tol
        Steps of conjugate gradients in an iteration, and the slope at which they stop.

    Attributes
    ----------
    labels_ : Series
        Likeliest label of each task, tasks sorted; the label that sorts first among equals.
    probas_ : DataFrame
        P(truth | labels) of each task, from the alpha and beta before the last step. Its columns
        are named ``variable``, as crowd-kit has it.
    alphas_, betas_ : Series
        Of workers and tasks, in order of appearance.
    priors_ : Series
        P(truth), in order of appearance; as given, with `labels_priors`.
    loss_history_ : list
        Expected log-posterior over labels times classes, after each iteration.

    Notes
    -----
    **Guarantees.** crowd-kit's numbers however many iterations: every sum runs over the same terms
    in the same order, for conjugate gradients carry a last bit on. So the order of the rows tells
    in what has not converged. A single label wins everywhere. Labels of `labels_priors` that nobody
    gave are columns too.

    **Limits.** The line search ends where it cannot tell losses apart, short of the maximum:
    :func:`quality.glad` goes on to it.

    References
    ----------
    .. [1] Whitehill, Ruvolo, Wu, Bergsma, Movellan, "Whose vote should count more: optimal
       integration of labels from labelers of unknown expertise", NIPS 22 (2009).

    Examples
    --------
    >>> answers = pd.DataFrame(
    ...     {"task": list("aaabbbcccddd"), "worker": [1, 2, 3] * 4, "label": list("xxyyyxxxxyyx")}
    ... )
    >>> GLAD().fit_predict(answers).to_dict()
    {'a': 'x', 'b': 'y', 'c': 'x', 'd': 'y'}
    """

    def __init__(
        self,
        n_iter: int = 100,
        tol: float = 1e-5,
        silent: bool = True,
        labels_priors: pd.Series | None = None,
        alphas_priors_mean: pd.Series | None = None,
        betas_priors_mean: pd.Series | None = None,
        m_step_max_iter: int = 25,
        m_step_tol: float = 1e-2,
    ) -> None:
        self.n_iter = n_iter
        self.tol = tol
        self.silent = silent
        self.labels_priors = labels_priors
        self.alphas_priors_mean = alphas_priors_mean
        self.betas_priors_mean = betas_priors_mean
        self.m_step_max_iter = m_step_max_iter
        self.m_step_tol = m_step_tol

    def fit(self, data: pd.DataFrame) -> GLAD:
        """Run EM on the answers in `data`."""
        check_iterations(self.n_iter, self.tol)
        answers = read_answers(data)
        prior = _read_prior(self.labels_priors, answers)
        classes = prior.index.sort_values()
        (worker, workers), (task, tasks) = map(pd.factorize, (answers.worker, answers.task))
        model = _Model(
            worker,
            task,
            prior.index.get_indexer(answers.classes)[answers.label]
            == np.arange(len(prior))[:, None],
            classes.get_indexer(prior.index),
            np.log(prior[classes].to_numpy()),
            _read_mean(self.alphas_priors_mean, answers.workers, "alphas_priors_mean")[workers],
            _read_mean(self.betas_priors_mean, answers.tasks, "betas_priors_mean")[tasks],
        )
        posterior, point, self.loss_history_ = _fit(
            model, self.n_iter, self.tol, self.m_step_max_iter, self.m_step_tol
        )
        told, posterior = replace(answers, classes=classes), posterior[np.argsort(tasks)]
        self.labels_ = by_task(told, decide(posterior)[0])
        self.probas_ = shares(told, posterior).rename_axis(columns="variable")
        alpha, beta = np.split(point, [len(workers)])
        self.alphas_ = pd.Series(alpha, index=answers.workers[workers], name="alpha")
        self.betas_ = pd.Series(beta, index=answers.tasks[tasks], name="beta")
        self.priors_ = prior.rename_axis(None)
        return self

    def fit_predict(self, data: pd.DataFrame) -> pd.Series:
        """Run EM, and return ``labels_``."""
        return self.fit(data).labels_

    def fit_predict_proba(self, data: pd.DataFrame) -> pd.DataFrame:
        """Run EM, and return ``probas_``."""
        return self.fit(data).probas_


@dataclass(frozen=True, slots=True, eq=False)
class _Model:
    """The answers in the caller's order, units in order of appearance; a point is alpha, then beta.

    A cell is an answer beside a truth, all answers for the first truth first.
    """

    worker: Int[np.ndarray, " rows"]
    task: Int[np.ndarray, " rows"]
    said: Bool[np.ndarray, "truths rows"]  # whether the answer is this truth
    rank: Int[np.ndarray, " truths"]  # each truth's place among the sorted
    log_prior: Float64[np.ndarray, " classes"]  # sorted
    alpha_mean: Float64[np.ndarray, " workers"]
    beta_mean: Float64[np.ndarray, " tasks"]

    def log_chances(
        self, point: Float64[np.ndarray, " units"]
    ) -> Float64[np.ndarray, "truths rows"]:
        """Log chance of every answer, given every truth."""
        alpha, beta = np.split(point, [len(self.alpha_mean)])
        logit = alpha[self.worker] * np.exp(beta)[self.task]
        log_others = np.log(max(len(self.said) - 1, 1))
        found: np.ndarray = np.where(self.said, -_softplus(-logit), -_softplus(logit) - log_others)
        return found

    def posterior(
        self, point: Float64[np.ndarray, " units"]
    ) -> Float64[np.ndarray, "tasks classes"]:
        """E-step: Bayes' rule in every task."""
        log_chances, n_tasks = self.log_chances(point), len(self.beta_mean)
        log_belief = np.empty((n_tasks, len(self.said)))
        for truth, place in enumerate(self.rank):
            log_belief[:, place] = _sums(self.task, log_chances[truth : truth + 1], n_tasks)
        log_belief += self.log_prior
        posterior: np.ndarray = np.exp(log_belief - logsumexp(log_belief, axis=1, keepdims=True))
        return posterior

    def loss(
        self, point: Float64[np.ndarray, " units"], belief: Float64[np.ndarray, "truths rows"]
    ) -> float:
        """Minus the expected log-posterior, given what is believed of the truth."""
        total = (belief * self.log_chances(point)).ravel().sum()
        alpha, beta = np.split(point, [len(self.alpha_mean)])
        for away in (alpha - self.alpha_mean, beta - self.beta_mean):
            total += _log_normal(away).sum()
        return -float(total)

    def slope(
        self, point: Float64[np.ndarray, " units"], belief: Float64[np.ndarray, "truths rows"]
    ) -> Float64[np.ndarray, " units"]:
        """Gradient of the loss."""
        alpha, beta = np.split(point, [len(self.alpha_mean)])
        ability, easiness = alpha[self.worker], np.exp(beta)[self.task]
        pull = belief * (self.said - expit(ability * easiness))
        by_worker = _sums(self.worker, pull * easiness, len(alpha))
        by_task = _sums(self.task, pull * ability * easiness, len(beta))
        by_worker -= alpha - self.alpha_mean
        by_task -= beta - self.beta_mean
        return -np.concatenate([by_worker, by_task])


def _softplus(x: Float64[np.ndarray, " rows"]) -> Float64[np.ndarray, " rows"]:
    """log(1 + exp(x)), beyond 30 either way its limit."""
    inner = np.abs(x) <= 30.0
    found: np.ndarray = np.where(inner, np.log1p(np.exp(x * inner)), np.maximum(x, 0.0))
    return found


def _log_normal(x: Float64[np.ndarray, " units"]) -> Float64[np.ndarray, " units"]:
    """Log of the normal density, by way of the density unless that is 0 in floating point."""
    exponent, root = -(x**2) / 2.0, np.sqrt(2.0 * np.pi)
    density = np.exp(np.maximum(exponent, -700.0)) / root
    found: np.ndarray = np.where(exponent > -700.0, np.log(density), exponent - np.log(root))
    return found


@no_type_check  # numba compiles it
@kernel
def _sums(
    unit: Int[np.ndarray, " rows"], value: Float64[np.ndarray, "truths rows"], n_units: int
) -> Float64[np.ndarray, " units"]:
    """Sum over the cells of each unit, compensated as pandas compensates a group's sum."""
    total, lost = np.zeros(n_units), np.zeros(n_units)
    for truth in range(len(value)):
        for row in range(len(unit)):
            of = unit[row]
            term = value[truth, row] - lost[of]
            grown = total[of] + term
            lost[of] = grown - total[of] - term
            total[of] = grown
    return total


def _fit(
    model: _Model, n_iter: int, tol: float, m_step_max_iter: int, m_step_tol: float
) -> tuple[Float64[np.ndarray, "tasks classes"], Float64[np.ndarray, " units"], list[float]]:
    """Last posterior, the point one step beyond it, and the gains towards it."""
    point = np.ones(len(model.alpha_mean) + len(model.beta_mean))
    losses, gain = [-np.inf], np.inf
    while len(losses) <= n_iter and gain >= tol:
        posterior = model.posterior(point)
        belief = posterior[model.task][:, model.rank].T.copy()
        found = minimize(
            model.loss, point, (belief,), "CG", model.slope,
            tol=m_step_tol, options={"maxiter": m_step_max_iter},
        )  # fmt: skip
        point = found.x
        losses.append(-model.loss(point, belief) / belief.size)
        gain = losses[-1] - losses[-2]
    return posterior, point, losses[1:]


def _read_prior(given: pd.Series | None, answers: Answers) -> pd.Series:
    """P(truth): as given, for more labels than occur if need be, or alike, in order of appearance."""
    classes = answers.classes
    if given is None:
        return pd.Series(1.0 / len(classes), index=classes[pd.unique(answers.label)])
    if not (isinstance(given, pd.Series) and given.index.is_unique):
        raise ValueError("labels_priors must be a pandas Series with one row per label")
    if not classes.isin(given.index).all():
        raise ValueError("labels_priors must have every label that occurs in data")
    prior = given.astype(np.float64).rename_axis("label")
    if not ((prior > 0) & (prior < np.inf)).all():
        raise ValueError("labels_priors must be finite and > 0 for every label")
    return prior


def _read_mean(
    given: pd.Series | None, names: pd.Index, name: str
) -> Float64[np.ndarray, " names"]:
    """One mean for each name, all 1 if none are given."""
    if given is None:
        return np.ones(len(names))
    if not (isinstance(given, pd.Series) and given.index.is_unique):
        raise ValueError(f"{name} must be a pandas Series with one row per {names.name}")
    mean: np.ndarray = given.reindex(names).to_numpy(dtype=np.float64, na_value=np.nan)
    if not np.isfinite(mean).all():
        raise ValueError(f"{name} must be a finite number for every {names.name} of data")
    return mean
