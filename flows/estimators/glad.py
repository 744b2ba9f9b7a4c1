"""GLAD as crowd-kit defines it: worker ability times task easiness, by conjugate gradients."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from jaxtyping import Float64, Int
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.base import BaseEstimator

from flows.estimators.answers import by_task, check_iterations, read_answers, shares
from quality.majority import decide

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
        P(truth), in order of appearance; as given, sorted, with `labels_priors`.
    loss_history_ : list
        Expected log-posterior over labels times classes, after each iteration.

    Notes
    -----
    **Guarantees.** The order of the rows does not matter. A single label wins everywhere. Labels of
    `labels_priors` that nobody gave are columns too.

    **Limits.** A line search compares losses, so conjugate gradients carry a sum's last bit on: the
    first iterations are crowd-kit's to many digits, later ones are not; nor are crowd-kit's own
    when its rows are reordered. :func:`quality.glad` goes on to the maximum.

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
        prior = _read_prior(self.labels_priors, answers.classes)
        model = _Model(
            answers.table.worker,
            answers.table.task,
            prior.index.get_indexer(answers.classes)[answers.table.label],
            np.log(prior.to_numpy() / prior.sum()),
            _read_mean(self.alphas_priors_mean, answers.workers, "alphas_priors_mean"),
            _read_mean(self.betas_priors_mean, answers.tasks, "betas_priors_mean"),
        )
        posterior, point, self.loss_history_ = _fit(
            model, self.n_iter, self.tol, self.m_step_max_iter, self.m_step_tol
        )
        told = replace(answers, classes=prior.index)
        self.labels_ = by_task(told, decide(posterior)[0])
        self.probas_ = shares(told, posterior).rename_axis(columns="variable")
        alpha, beta = np.split(point, [len(answers.workers)])
        worker, task, label = map(pd.unique, (answers.worker, answers.task, answers.label))
        self.alphas_ = pd.Series(alpha[worker], index=answers.workers[worker], name="alpha")
        self.betas_ = pd.Series(beta[task], index=answers.tasks[task], name="beta")
        self.priors_ = prior[answers.classes[label]] if self.labels_priors is None else prior
        self.priors_ = self.priors_.rename_axis(None)
        return self

    def fit_predict(self, data: pd.DataFrame) -> pd.Series:
        """Run EM, and return ``labels_``."""
        return self.fit(data).labels_

    def fit_predict_proba(self, data: pd.DataFrame) -> pd.DataFrame:
        """Run EM, and return ``probas_``."""
        return self.fit(data).probas_


@dataclass(frozen=True, slots=True, eq=False)
class _Model:
    """The answers, sorted by task and worker, and the priors; a point is alpha, then beta."""

    worker: Int[np.ndarray, " rows"]
    task: Int[np.ndarray, " rows"]
    label: Int[np.ndarray, " rows"]
    log_prior: Float64[np.ndarray, " classes"]
    alpha_mean: Float64[np.ndarray, " workers"]
    beta_mean: Float64[np.ndarray, " tasks"]

    def logit(self, point: Float64[np.ndarray, " units"]) -> Float64[np.ndarray, " rows"]:
        """Log odds that each label is right."""
        alpha, beta = np.split(point, [len(self.alpha_mean)])
        odds: np.ndarray = alpha[self.worker] * np.exp(beta)[self.task]
        return odds

    def log_chances(
        self, point: Float64[np.ndarray, " units"]
    ) -> tuple[Float64[np.ndarray, " rows"], Float64[np.ndarray, " rows"]]:
        """Log chance that each label is right, and that it is this one of the wrong ones."""
        logit = self.logit(point)
        log_others = np.log(max(len(self.log_prior) - 1, 1))
        return -np.logaddexp(0.0, -logit), -np.logaddexp(0.0, logit) - log_others

    def posterior(
        self, point: Float64[np.ndarray, " units"]
    ) -> Float64[np.ndarray, "tasks classes"]:
        """E-step: Bayes' rule in every task."""
        log_right, log_wrong = self.log_chances(point)
        n_tasks, n_classes = len(self.beta_mean), len(self.log_prior)
        cell = self.task * n_classes + self.label
        gain = np.bincount(cell, log_right - log_wrong, minlength=n_tasks * n_classes)
        log_belief = gain.reshape(n_tasks, n_classes) + self.log_prior
        belief = np.exp(log_belief - log_belief.max(axis=1, keepdims=True))
        posterior: np.ndarray = belief / belief.sum(axis=1, keepdims=True)
        return posterior

    def loss(
        self, point: Float64[np.ndarray, " units"], right: Float64[np.ndarray, " rows"]
    ) -> float:
        """Minus the expected log-posterior, given each label's chance to be right."""
        log_right, log_wrong = self.log_chances(point)
        away = point - np.concatenate([self.alpha_mean, self.beta_mean])
        log_density = -np.sum(away * away) / 2 - len(away) * np.log(2 * np.pi) / 2
        return -float(np.sum(right * log_right + (1 - right) * log_wrong) + log_density)

    def slope(
        self, point: Float64[np.ndarray, " units"], right: Float64[np.ndarray, " rows"]
    ) -> Float64[np.ndarray, " units"]:
        """Gradient of the loss."""
        alpha, beta = np.split(point, [len(self.alpha_mean)])
        easiness = np.exp(beta)[self.task]
        pull = (right - expit(alpha[self.worker] * easiness)) * easiness
        by_worker = np.bincount(self.worker, pull, minlength=len(alpha))
        by_task = np.bincount(self.task, pull * alpha[self.worker], minlength=len(beta))
        return np.concatenate(
            [alpha - self.alpha_mean - by_worker, beta - self.beta_mean - by_task]
        )


def _fit(
    model: _Model, n_iter: int, tol: float, m_step_max_iter: int, m_step_tol: float
) -> tuple[Float64[np.ndarray, "tasks classes"], Float64[np.ndarray, " units"], list[float]]:
    """Last posterior, the point one step beyond it, and the gains towards it."""
    point = np.ones(len(model.alpha_mean) + len(model.beta_mean))
    losses, gain = [-np.inf], np.inf
    while len(losses) <= n_iter and gain >= tol:
        posterior = model.posterior(point)
        right = posterior[model.task, model.label]
        found = minimize(
            model.loss, point, (right,), "CG", model.slope,
            tol=m_step_tol, options={"maxiter": m_step_max_iter},
        )  # fmt: skip
        point = found.x
        losses.append(-model.loss(point, right) / (posterior.shape[1] * len(right)))
        gain = losses[-1] - losses[-2]
    return posterior, point, losses[1:]


def _read_prior(given: pd.Series | None, classes: pd.Index) -> pd.Series:
    """P(truth), labels sorted: as given, for more labels than occur if need be, or all alike."""
    if given is None:
        return pd.Series(1.0 / len(classes), index=classes)
    if not (isinstance(given, pd.Series) and given.index.is_unique):
        raise ValueError("labels_priors must be a pandas Series with one row per label")
    if not classes.isin(given.index).all():
        raise ValueError("labels_priors must have every label that occurs in data")
    prior = given.astype(np.float64).sort_index().rename_axis("label")
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
