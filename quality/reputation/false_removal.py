"""A filter that knows when to stop: it bounds the honest workers removed, without gold.

>>> from quality import encode
>>> rng = np.random.default_rng(0)
>>> truth, wrong = rng.integers(2, size=60), rng.random((20, 60)) < 0.2
>>> wrong[7] = True
>>> worker, task = np.divmod(np.arange(1200), 60)
>>> filter_dishonest(encode(worker, task, (truth ^ wrong).ravel()), rng=rng).removed
array([7], dtype=int32)
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float64, Int, Int32, Int64

from quality.argument_types import check_arguments
from quality.labels import CrowdLabels, freeze_arrays
from quality.parallel import Progress, counter
from quality.reputation.filtering import LosingWorkers, Removals, ShrinkingCrowd
from quality.reputation.honest_null import HonestFit, HonestNull, honest_level, honest_null
from quality.reputation.honest_population import HonestPopulation, step_up_ratio
from quality.reputation.penalty_tails import chance_words

__all__ = ["FilteredDishonest", "Rounds", "check_rates", "filter_dishonest", "remove_in_rounds"]

# share of the labels left: removing so few changes the others' evidence too little for a new round
FEW_LABELS = 0.01
MAX_ADVERSARIES = 0.45  # with more, the honest may be the part that looks dishonest


@runtime_checkable
class Null(Protocol):
    """The judgement of the workers left in a round, as :func:`honest_null` returns it."""

    @property
    def penalty(self) -> Float64[np.ndarray, " workers"]:
        """The soft penalty of each worker."""

    @property
    def p_value(self) -> Float64[np.ndarray, " workers"]:
        """Chance that an honest worker with the same tasks gets as much penalty or more."""

    @property
    def population(self) -> HonestPopulation:
        """The honest population fitted."""


Judged = TypeVar("Judged", bound=Null)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FilteredDishonest:
    """Result of :func:`filter_dishonest`.

    Parameters
    ----------
    keep
        False for each worker who was removed.
    removed, removed_penalty, removed_p_value
        Worker codes in the order of removal; the soft penalty of each in that round, and the
        chance that an honest worker with her tasks gets as much.
    refused, refused_penalty, refused_p_value, refused_reason
        Workers who were flagged but kept, and why.
    penalty, p_value
        Of each worker in the round in which she was last judged: the round that removed or refused her, or
        else the last in which she had conflict tasks. 0 and 1 for a worker who never had any.
    worst_kept, worst_kept_reason
        The code of the kept worker with the lowest p-value in the last round, and why she was kept;
        -1 and an empty reason if nobody was judged.
    level
        The level of each round, 0 where none was drawn; the last round removes nobody.
    population
        The honest population as fitted in the last round.
    stopped
        Why the filter stopped, in words.
    """

    keep: Bool[np.ndarray, " workers"]
    removed: Int32[np.ndarray, " removed"]
    removed_penalty: Float64[np.ndarray, " removed"]
    removed_p_value: Float64[np.ndarray, " removed"]
    refused: Int32[np.ndarray, " refused"]
    refused_penalty: Float64[np.ndarray, " refused"]
    refused_p_value: Float64[np.ndarray, " refused"]
    refused_reason: tuple[str, ...]
    penalty: Float64[np.ndarray, " workers"]
    p_value: Float64[np.ndarray, " workers"]
    worst_kept: int
    worst_kept_reason: str
    level: Float64[np.ndarray, " rounds"]
    population: HonestPopulation
    stopped: str

    def __post_init__(self) -> None:
        freeze_arrays(self)

    @property
    def criterion(self) -> str:
        """The name of the penalty, in words."""
        return "soft penalty"

    def __repr__(self) -> str:
        return (
            f"FilteredDishonest({len(self.removed)} of {len(self.keep)} workers removed, "
            f"{len(self.refused)} refused; {self.stopped})"
        )


@check_arguments
def filter_dishonest(
    labels: CrowdLabels,
    *,
    false_removal_rate: float = 0.1,
    min_labels_per_task: int = 1,
    ordered: bool = False,
    rng: np.random.Generator,
    progress: Progress | None = None,
) -> FilteredDishonest:
    """Remove workers whose soft penalty is more than an honest worker with their tasks would get.

    The filter works in rounds. Each fits the honest population to the workers left, computes every worker's
    p-value, and flags workers by Benjamini and Hochberg's rule. The level of the rule is the rate asked for
    or the level at which simulated honest crowds are left alone, whichever is stricter. The second is drawn
    in the first round, and drawn anew for the workers left when it flags nobody. The more extreme half of
    the flagged is removed, at least one, and more as long as those removed gave at most a hundredth of the
    labels left. The rest are judged anew: an adversary's penalty shows more clearly with others gone. A
    worker who was flagged and not removed stays flagged while her p-value is no higher than the highest
    that was flagged with her. The round that flags nobody is the last.

    Parameters
    ----------
    labels
        The crowd's labels.
    false_removal_rate
        In [0.001, 1): the chance to remove anybody from a crowd without adversaries, and about the
        expected share of honest workers among those flagged in a crowd with adversaries.
    min_labels_per_task
        As for :func:`~quality.filter_workers`.
    ordered
        Whether the classes are grades: penalties then weigh by distance
        (:func:`~quality.graded_penalty`), and honest workers' wrong grades fall off with distance.
    rng
        Source of randomness, for the simulated crowds.
    progress
        Called as a round begins, and after each simulated crowd; see :data:`~quality.parallel.Progress`.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Notes
    -----
    **Model.** An honest worker is right with a probability of her own, drawn from a Beta
    distribution, and gives every wrong answer equally often; at most half of the crowd are
    adversaries, and these guess or are mostly wrong. A worker's p-value takes the labels of the
    others as given. It is multiplied by the fitted share of honest workers, as Storey does. If nearly half
    of the crowd is fitted as adversaries, the honest part cannot be distinguished from the other, and the
    filter stops. This happens where adversaries in a minority give most labels.

    **Guarantees.** Workers without conflict tasks are not flagged. No task falls below
    `min_labels_per_task` by a removal. P-values of workers with up to 24 labels are exact under the null,
    or too large if there are too many outcomes to keep; with more labels they are normal approximations.
    A crowd in which the first round flags nobody loses nobody, so that further rounds do not add to the
    chance that an honest crowd loses anybody. The order of the rows does not matter; the order of names
    only deals out the random numbers, and breaks ties. The result is the same on every run with the same
    `rng`.

    **Limits.** The rate holds as far as the model does: if tasks are of very unequal
    difficulty, or wrong answers are shared, honest workers look worse than their null. The chance
    to remove anybody from an honest crowd is calibrated by simulation; the share of honest workers
    among the removed is estimated, not bounded. Honest workers who do no better than guessing may
    be removed; in a crowd that has such workers, only some of the guessing adversaries are found.
    Colluders who agree with each other on many tasks have low penalties and are not found:
    :func:`~quality.dependent_groups` finds them. An adversary who answers as an honest worker would is not
    found by any rule. How often each kind is found: ``python -m benchmarks.quality.false_removal``. Do
    not filter malicious workers before Dawid–Skene, which can turn their inverted labels round
    and use them.

    **Cost.** A round fits the population in three passes over the labels, the first round in eight. A level
    is usually drawn twice: some 200 honest crowds, or 10 / `false_removal_rate` if that is more, of
    at most 500 workers with 128 labels each, however large the crowd is. There are about
    log2(removals) rounds. Tables grow with the labels, not with the number of classes.

    References
    ----------
    .. [1] Jagabathula, Subramanian, Venkataraman, "Reputation-based worker filtering in
       crowdsourcing", NIPS 2014: the soft penalty.
    .. [2] Benjamini, Hochberg, "Controlling the false discovery rate", Journal of the Royal
       Statistical Society B 57 (1995); Storey, "A direct approach to false discovery rates",
       the same B 64 (2002).
    .. [3] Efron, "Large-scale simultaneous hypothesis testing: the choice of a null hypothesis",
       Journal of the American Statistical Association 99 (2004): a null fitted to the data.

    Examples
    --------
    >>> from quality import encode
    >>> rng = np.random.default_rng(0)
    >>> truth, wrong = rng.integers(2, size=60), rng.random((20, 60)) < 0.2
    >>> wrong[7] = True
    >>> worker, task = np.divmod(np.arange(1200), 60)
    >>> filtered = filter_dishonest(encode(worker, task, (truth ^ wrong).ravel()), rng=rng)
    >>> filtered
    FilteredDishonest(1 of 20 workers removed, 0 refused; nobody flagged in round 2)
    >>> filtered.removed
    array([7], dtype=int32)
    """
    check_rates(false_removal_rate, min_labels_per_task)
    crowd = ShrinkingCrowd(labels)
    rounds = Rounds(crowd, min_labels_per_task)
    kept: CrowdLabels = labels
    before: HonestFit | None = None

    def null_of() -> HonestNull:
        nonlocal kept, before
        counter(progress, "honest population", 1)(0)
        kept = crowd.table()
        null = honest_null(kept, rounds.removals.judged, before=before, ordered=ordered)
        before = null.fit
        return null

    def level_of(null: HonestNull) -> float:
        return honest_level(
            kept, null, false_removal_rate=false_removal_rate, rng=rng, progress=progress
        )

    return remove_in_rounds(rounds, null_of, level_of, false_removal_rate)


def check_rates(false_removal_rate: float, min_labels_per_task: int) -> None:
    """Raise ValueError unless both are in their ranges."""
    if not 0.001 <= false_removal_rate < 1:
        message = f"must be in [0.001, 1), got false_removal_rate={false_removal_rate}"
        raise ValueError(f"false_removal_rate {message}")
    if not min_labels_per_task >= 0:
        message = f"must be >= 0, got min_labels_per_task={min_labels_per_task}"
        raise ValueError(f"min_labels_per_task {message}")


def remove_in_rounds(
    rounds: "Rounds",
    null_of: Callable[[], Judged],
    level_of: Callable[[Judged], float],
    false_removal_rate: float,
) -> FilteredDishonest:
    """Remove flagged workers, round by round, from labels in memory or in shards.

    `null_of` judges the workers left; `level_of` draws a level under the null that it returned last.
    """
    level = 0.0
    while True:
        null = null_of()
        if null.population.adversaries > MAX_ADVERSARIES:
            rounds.level.append(level)
            return rounds.result(null, "as many dishonest as honest workers fitted")
        flagged = rounds.flag(null, level)  # the first level is 0, which flags nobody
        if not len(flagged):  # under an earlier level: draw one for the workers left
            level = min(level_of(null), false_removal_rate)
            flagged = rounds.flag(null, level)
        rounds.level.append(level)
        if not len(flagged):
            return rounds.result(null, "nobody flagged")
        rounds.remove(flagged, null)


class Rounds:
    """The removals so far, the workers flagged, each round's level, and everybody's last p-value."""

    def __init__(self, crowd: LosingWorkers, min_labels_per_task: int) -> None:
        self.removals = Removals(crowd, min_labels_per_task, lambda _: None)
        self.before_removal: Callable[[Int32[np.ndarray, " flagged"]], object] = lambda _: None
        self.level: list[float] = []
        n_workers = len(crowd.keep)
        # of each worker when she was last judged
        self.penalty, self.p_value = np.zeros(n_workers), np.ones(n_workers)
        self.pending, self.highest = np.zeros(n_workers, dtype=np.bool_), 0.0

    def flag(self, null: Null, level: float) -> Int32[np.ndarray, " flagged"]:
        """Return the flagged workers, the most extreme first; equals by penalty, then by code."""
        workers = self._note(null)
        order = _most_extreme_first(null, workers)
        workers = workers[order]
        p_value = null.p_value[workers]
        below = np.flatnonzero(step_up_ratio(p_value, null.population) <= level)
        flagged = np.arange(len(workers)) <= below.max(initial=-1)
        # removing some must not raise the bar for those who were flagged with them
        flagged |= self.pending[workers] & (p_value <= self.highest)
        self.pending[:] = False
        self.pending[workers[flagged]] = True
        self.highest = float(p_value[flagged].max(initial=0.0))
        chosen: Int32[np.ndarray, " flagged"] = workers[flagged]
        return chosen

    def remove(self, flagged: Int32[np.ndarray, " flagged"], null: Null) -> None:
        """Remove half of the flagged, and more who gave few labels, passing over those who cannot go."""
        self.before_removal(flagged)
        n_labels, keep = self.removals.crowd.n_labels, self.removals.crowd.keep
        few = np.cumsum(n_labels[flagged]) <= FEW_LABELS * n_labels[keep].sum()
        enough = len(self.removals.removed) + max((len(flagged) + 1) // 2, int(few.sum()))
        for worker in flagged.tolist():
            if len(self.removals.removed) == enough:
                break
            self.removals.remove(worker, float(null.penalty[worker]))

    def _judged(self, null: Null) -> Int32[np.ndarray, " judged"]:
        """Return the workers who are left to judge and have a penalty."""
        return np.flatnonzero(self.removals.judged & (null.penalty > 0)).astype(np.int32)

    def _note(self, null: Null) -> Int32[np.ndarray, " judged"]:
        """Store the penalties and p-values of the workers left to judge, and return these workers."""
        workers = self._judged(null)
        self.penalty[workers] = null.penalty[workers]
        self.p_value[workers] = null.p_value[workers]
        return workers

    def _worst_kept(self, null: Null, why: str) -> tuple[int, str]:
        """Return the kept worker with the lowest p-value, and why she was kept."""
        workers = self._judged(null)
        if not len(workers):
            return -1, ""
        worst = int(workers[_most_extreme_first(null, workers)[0]])
        p_value, population = null.p_value[worst], null.population
        expected = float(step_up_ratio(np.full(len(workers), p_value), population)[0])
        bound = f"a removal needs fewer than {self.level[-1]:.2g}"
        if not self.level[-1] > 0:
            bound = f"nobody is removed: {why}"
        chance = chance_words("with probability", p_value)
        return worst, (
            f"her soft penalty among the workers left is {null.penalty[worst]:.2g}; an honest worker with "
            f"these tasks reaches that {chance}. Of the {len(workers)} workers left to "
            f"judge, {expected:.2g} honest ones are expected to reach it, and {bound}"
        )

    def result(self, null: Null, why: str) -> FilteredDishonest:
        """Return the result of the filter; `null` is the last round's."""
        self._note(null)
        worst_kept, worst_kept_reason = self._worst_kept(null, why)
        done = self.removals.filtered("soft penalty", len(self.p_value))
        return FilteredDishonest(
            keep=done.keep,
            removed=done.removed,
            removed_penalty=done.removed_penalty,
            removed_p_value=self.p_value[done.removed],
            refused=done.refused,
            refused_penalty=done.refused_penalty,
            refused_p_value=self.p_value[done.refused],
            refused_reason=done.refused_reason,
            penalty=self.penalty,
            p_value=self.p_value,
            worst_kept=worst_kept,
            worst_kept_reason=worst_kept_reason,
            level=np.array(self.level),
            population=null.population,
            stopped=f"{why} in round {len(self.level)}",
        )


def _most_extreme_first(
    null: Null, workers: Int[np.ndarray, " chosen"]
) -> Int64[np.ndarray, " chosen"]:
    """Return the places of workers by p-value and penalty; equals keep their order.

    Last digits are not compared: they depend on the order of sums and on the processor.
    """
    p_value, penalty = (_without_last_digits(one[workers]) for one in (null.p_value, null.penalty))
    order: np.ndarray = np.lexsort((-penalty, p_value))
    return order


def _without_last_digits(
    number: Float64[np.ndarray, " numbers"],
) -> Float64[np.ndarray, " numbers"]:
    """Round numbers of any size to some twelve significant digits."""
    mantissa, exponent = np.frexp(number)
    rounded: np.ndarray = np.ldexp(np.round(mantissa * 2.0**40) / 2.0**40, exponent)
    return rounded
