"""GLAD and M-MSR over the classes that each task was given.

Both models spread errors evenly over the wrong classes, so all classes that a task was not given are
equally likely. The parameters of workers and tasks are found as with few classes, and Bayes' rule needs
only the given classes.

>>> from quality import encode
>>> labels = encode(["ann", "bob", "cy"] * 4, np.repeat(range(4), 3), list("aabbbbaaabbb"))
>>> labels.classes[mmsr_of_named(labels).label], labels.classes[glad_of_named(labels).label]
(array(['a', 'b', 'a', 'b'], dtype='<U1'), array(['a', 'b', 'a', 'b'], dtype='<U1'))
"""

import numpy as np
from jaxtyping import Float64, Int

from quality.aggregation import check_em, fit_glad, fit_skills, skill_log_odds
from quality.labels import CrowdLabels, NamedClasses, NamedPosterior, name_classes, of_voters
from quality.many_classes.named_votes import NamedConsensus, as_consensus, majority_of_named
from quality.parallel import Progress, counter

__all__ = ["glad_of_named", "mmsr_of_named"]


def glad_of_named(
    labels: CrowdLabels,
    *,
    max_iter: int = 100,
    tol: float = 1e-5,
    groups: Int[np.ndarray, " workers"] | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> NamedConsensus:
    """Estimate the truth, every worker's ability and every task's easiness: :func:`~quality.glad`.

    Parameters
    ----------
    labels, max_iter, tol, groups, threads, progress
        As for that function, errors included.

    Returns
    -------
    NamedConsensus
        Its `skill` is the ability, and its log-likelihood the log-posterior.

    Notes
    -----
    **Guarantees.** The posterior, the ability and the log-posterior are those of
    :func:`~quality.glad`, up to rounding.

    **Cost.** That of :func:`~quality.glad`, in O(labels) memory.
    """
    check_em(max_iter, tol, threads)
    tell = counter(progress, "GLAD", max_iter)
    labels = labels.merge_workers(groups)
    n_classes = max(labels.n_classes, 1)
    log_others, begun = np.log(max(n_classes - 1, 1)), majority_of_named(labels).posterior
    named, found = begun.named, [begun]

    def e_step(ability: np.ndarray, easiness: np.ndarray) -> tuple[float, np.ndarray]:
        logit = ability[labels.worker] * easiness[labels.task]
        # log of one wrong label's probability, and the log odds of a right one over it
        wrong = -np.log(n_classes) * len(easiness) - np.sum(np.logaddexp(0.0, logit) + log_others)
        belief, log_total = _even_bayes(named, logit + log_others)
        found[0] = belief
        return float(wrong + log_total.sum()), belief.p[named.entry]

    right = begun.p[named.entry]
    ability, _, stop = fit_glad(labels, right, e_step, max_iter, tol, threads, tell)
    return as_consensus(
        found[0], skill=of_voters(ability, groups), log_likelihood=stop.objective,
        n_iter=stop.n_iter, converged=stop.converged,
    )  # fmt: skip


def mmsr_of_named(
    labels: CrowdLabels,
    *,
    max_iter: int = 100,
    tol: float = 1e-6,
    trim: float = 0.25,
    groups: Int[np.ndarray, " workers"] | None = None,
    progress: Progress | None = None,
) -> NamedConsensus:
    """Estimate every worker's skill from pairwise agreement: :func:`~quality.mmsr`.

    Parameters
    ----------
    labels, max_iter, tol, trim, groups, progress
        As for that function, errors included.

    Returns
    -------
    NamedConsensus
        Its `skill` is that of :func:`~quality.mmsr`.

    Notes
    -----
    **Guarantees.** The posterior and the skill are those of :func:`~quality.mmsr`, up to rounding.

    **Cost.** That of :func:`~quality.mmsr`.
    """
    check_em(max_iter, tol, None)
    labels = labels.merge_workers(groups)
    tell = counter(progress, "M-MSR", max_iter)
    skill, n_iter, converged = fit_skills(labels, max_iter=max_iter, tol=tol, trim=trim, tell=tell)
    posterior, _ = _even_bayes(name_classes(labels), skill_log_odds(labels, skill)[labels.worker])
    return as_consensus(
        posterior, skill=of_voters(skill, groups), n_iter=n_iter, converged=converged
    )


def _even_bayes(
    named: NamedClasses, log_odds: Float64[np.ndarray, " labels"]
) -> tuple[NamedPosterior, Float64[np.ndarray, " tasks"]]:
    """Apply Bayes' rule with a uniform prior over classes; return the posterior and the log total.

    `log_odds` is each label's contribution to the class that it names.
    """
    log_p = np.bincount(named.entry, log_odds, len(named.code))
    n_others = named.n_classes - np.diff(named.start)
    largest = np.full(len(n_others), -np.inf)
    np.maximum.at(largest, named.task, log_p)
    largest = np.where(n_others > 0, np.maximum(largest, 0.0), largest)
    p, left = np.exp(log_p - largest[named.task]), n_others * np.exp(-largest)
    total = named.sums(p) + left
    posterior = NamedPosterior(named, p / total[named.task], left / total)
    return posterior, largest + np.log(total)
