"""GLAD as crowd-kit defines it: worker ability times task easiness, by conjugate gradients."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from jaxtyping import Bool, Float64, Int
from scipy.optimize import minimize
from scipy.special import expit, logsumexp

from flows.crowdkit.frames import (
    CodedFrame,
    SharesEstimator,
    by_task,
    check_iterations,
    check_number,
    read_frame,
    shares,
)
from quality.aggregation import decide
from quality.parallel import kernel

__all__ = ["GLAD"]


class GLAD(SharesEstimator):
    """Estimate the truth, every worker's ability and every task's easiness together.

    A worker is right with probability 1 / (1 + exp(-alpha * exp(beta))), where alpha is her ability and
    beta the task's easiness. Wrong labels are equally likely. The prior of alpha and of beta is normal,
    with variance 1.

    Parameters
    ----------
    n_iter
        Maximal number of iterations of EM; with 0 the result is what the first abilities make of the labels.
    tol
        Stop when an iteration adds less than this to ``loss_history_``.
    silent
        Accepted because crowd-kit accepts it; nothing is ever printed.
    labels_priors
        P(truth) of each label, above 0; equal by default.
    alphas_priors_mean, betas_priors_mean
        Means of alpha for each worker and beta for each task; 1 by default.
    m_step_max_iter, m_step_tol
        Maximal number of conjugate-gradient steps in an iteration, and the slope at which they stop.

    Attributes
    ----------
    labels_ : Series
        Likeliest label of each task, tasks sorted; among equals, the label that sorts first.
    probas_ : DataFrame
        P(truth | labels) of each task, from the alpha and beta before the last step. Its columns
        are named ``variable``, as crowd-kit's are.
    alphas_, betas_ : Series
        Ability of each worker and easiness of each task, in order of appearance.
    priors_ : Series
        P(truth), in order of appearance; as given, with `labels_priors`.
    loss_history_ : list
        Expected log-posterior over labels times classes, after each iteration.

    Notes
    -----
    **Guarantees.** The numbers are crowd-kit's after any number of iterations: every sum
    adds the same terms in the same order, because conjugate gradients amplify a difference in the last
    bit. So the order of the rows changes the numbers of a fit that has not converged. A single label
    wins everywhere. Labels of `labels_priors` that nobody gave are columns too.

    **Limits.** The line search ends where two losses are equal in floating point, short of the maximum;
    :func:`quality.glad` reaches it.

    References
    ----------
    .. [1] Whitehill, Ruvolo, Wu, Bergsma, Movellan, "Whose vote should count more: optimal
       integration of labels from labelers of unknown expertise", NIPS 22 (2009).

    Examples
    --------
    >>> frame = pd.DataFrame(
    ...     {"task": list("aaabbbcccddd"), "worker": [1, 2, 3] * 4, "label": list("xxyyyxxxxyyx")}
    ... )
    >>> GLAD().fit_predict(frame).to_dict()
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
        """Run EM on the labels in `data`."""
        check_iterations(self.n_iter, self.tol, least=0)
        check_number("m_step_max_iter", self.m_step_max_iter, whole=True)
        check_number("m_step_tol", self.m_step_tol)
        frame = read_frame(data)
        prior = _read_prior(self.labels_priors, frame)
        classes = prior.index.sort_values()
        (worker, workers), (task, tasks) = map(pd.factorize, (frame.worker, frame.task))
        model = _Model(
            worker,
            task,
            prior.index.get_indexer(frame.classes)[frame.label] == np.arange(len(prior))[:, None],
            classes.get_indexer(prior.index),
            np.log(prior[classes].to_numpy()),
            _read_mean(self.alphas_priors_mean, frame.workers, "alphas_priors_mean")[workers],
            _read_mean(self.betas_priors_mean, frame.tasks, "betas_priors_mean")[tasks],
        )
        posterior, point, self.loss_history_ = _fit(
            model, self.n_iter, self.tol, self.m_step_max_iter, self.m_step_tol
        )
        named, posterior = replace(frame, classes=classes), posterior[np.argsort(tasks)]
        self.labels_ = by_task(named, decide(posterior)[0])
        self.probas_ = shares(named, posterior).rename_axis(columns="variable")
        alpha, beta = np.split(point, [len(workers)])
        self.alphas_ = pd.Series(alpha, index=frame.workers[workers], name="alpha")
        self.betas_ = pd.Series(beta, index=frame.tasks[tasks], name="beta")
        self.priors_ = prior.rename_axis(None)
        return self


@dataclass(frozen=True, slots=True, eq=False)
class _Model:
    """Labels in the caller's order, units in order of appearance; a point is alpha, then beta.

    A cell is a label beside a truth, with all labels for the first truth first.
    """

    worker: Int[np.ndarray, " rows"]
    task: Int[np.ndarray, " rows"]
    right: Bool[np.ndarray, "truths rows"]  # whether the label is this truth
    rank: Int[np.ndarray, " truths"]  # each truth's place among the sorted
    log_prior: Float64[np.ndarray, " classes"]  # sorted
    alpha_mean: Float64[np.ndarray, " workers"]
    beta_mean: Float64[np.ndarray, " tasks"]

    def log_chances(
        self, point: Float64[np.ndarray, " units"]
    ) -> Float64[np.ndarray, "truths rows"]:
        """Return the log probability of every label, given every truth."""
        alpha, beta = np.split(point, [len(self.alpha_mean)])
        logit = alpha[self.worker] * np.exp(beta)[self.task]
        log_others = np.log(max(len(self.right) - 1, 1))
        found: np.ndarray = np.where(self.right, -_softplus(-logit), -_softplus(logit) - log_others)
        return found

    def posterior(
        self, point: Float64[np.ndarray, " units"]
    ) -> Float64[np.ndarray, "tasks classes"]:
        """Return the posterior by Bayes' rule in every task (E-step)."""
        log_chances, n_tasks = self.log_chances(point), len(self.beta_mean)
        log_belief = np.empty((n_tasks, len(self.right)))
        for truth, place in enumerate(self.rank):
            log_belief[:, place] = _sums(self.task, log_chances[truth : truth + 1], n_tasks)
        log_belief += self.log_prior
        posterior: np.ndarray = np.exp(log_belief - logsumexp(log_belief, axis=1, keepdims=True))
        return posterior

    def loss(
        self, point: Float64[np.ndarray, " units"], belief: Float64[np.ndarray, "truths rows"]
    ) -> float:
        """Return minus the expected log-posterior, given the belief about the truth."""
        total = (belief * self.log_chances(point)).ravel().sum()
        alpha, beta = np.split(point, [len(self.alpha_mean)])
        for away in (alpha - self.alpha_mean, beta - self.beta_mean):
            total += _log_normal(away).sum()
        return -float(total)

    def slope(
        self, point: Float64[np.ndarray, " units"], belief: Float64[np.ndarray, "truths rows"]
    ) -> Float64[np.ndarray, " units"]:
        """Return the gradient of the loss."""
        alpha, beta = np.split(point, [len(self.alpha_mean)])
        ability, easiness = alpha[self.worker], np.exp(beta)[self.task]
        pull = belief * (self.right - expit(ability * easiness))
        by_worker = _sums(self.worker, pull * easiness, len(alpha))
        by_task = _sums(self.task, pull * ability * easiness, len(beta))
        by_worker -= alpha - self.alpha_mean
        by_task -= beta - self.beta_mean
        return -np.concatenate([by_worker, by_task])


def _softplus(x: Float64[np.ndarray, " rows"]) -> Float64[np.ndarray, " rows"]:
    """Return log(1 + exp(x)); below -30 and above 30 its limit."""
    inner = np.abs(x) <= 30.0
    found: np.ndarray = np.where(inner, np.log1p(np.exp(x * inner)), np.maximum(x, 0.0))
    return found


def _log_normal(x: Float64[np.ndarray, " units"]) -> Float64[np.ndarray, " units"]:
    """Return the log of the normal density, computed from the density unless that is 0 in floating point."""
    exponent, root = -(x**2) / 2.0, np.sqrt(2.0 * np.pi)
    density = np.exp(np.maximum(exponent, -700.0)) / root
    found: np.ndarray = np.where(exponent > -700.0, np.log(density), exponent - np.log(root))
    return found


@kernel
def _sums(
    unit: Int[np.ndarray, " rows"], value: Float64[np.ndarray, "truths rows"], n_units: int
) -> Float64[np.ndarray, " units"]:
    """Return the sum over the cells of each unit, compensated as pandas compensates a group's sum."""
    total, lost = np.zeros(n_units), np.zeros(n_units)
    for truth in range(len(value)):
        for row in range(len(unit)):
            of = unit[row]
            term = value[truth, row] - lost[of]
            larger = total[of] + term
            lost[of] = larger - total[of] - term
            total[of] = larger
    return total


def _fit(
    model: _Model, n_iter: int, tol: float, m_step_max_iter: int, m_step_tol: float
) -> tuple[Float64[np.ndarray, "tasks classes"], Float64[np.ndarray, " units"], list[float]]:
    """Return the last posterior, the point one step after it, and the loss of each iteration."""
    point = np.ones(len(model.alpha_mean) + len(model.beta_mean))
    posterior = model.posterior(point)
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


def _read_prior(given: pd.Series | None, frame: CodedFrame) -> pd.Series:
    """Return P(truth) as given, also of labels that do not occur, or equal shares in order of appearance."""
    classes = frame.classes
    if given is None:
        return pd.Series(1.0 / len(classes), index=classes[pd.unique(frame.label)])
    if not (isinstance(given, pd.Series) and given.index.is_unique):
        raise ValueError("labels_priors must be a pandas Series with one row per label")
    if not classes.isin(given.index).all():
        raise ValueError("labels_priors must have every label that occurs in data")
    _check_numbers(given, "labels_priors")
    prior = given.astype(np.float64).rename_axis("label")
    if not ((prior > 0) & (prior < np.inf)).all():
        raise ValueError("labels_priors must be finite and > 0 for every label")
    return prior


def _read_mean(
    given: pd.Series | None, names: pd.Index, name: str
) -> Float64[np.ndarray, " names"]:
    """Return one mean for each name; all are 1 where none are given."""
    if given is None:
        return np.ones(len(names))
    if not (isinstance(given, pd.Series) and given.index.is_unique):
        raise ValueError(f"{name} must be a pandas Series with one row per {names.name}")
    _check_numbers(given, name)
    mean: np.ndarray = given.reindex(names).to_numpy(dtype=np.float64, na_value=np.nan)
    if not np.isfinite(mean).all():
        raise ValueError(f"{name} must be a finite number for every {names.name} of data")
    return mean


def _check_numbers(given: pd.Series, name: str) -> None:
    if not pd.api.types.is_numeric_dtype(given.dtype):
        raise ValueError(f"{name} must be numbers, got {given.dtype}")
