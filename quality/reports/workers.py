"""The report on each worker, in numbers and in a sentence. Internal: it is about people.

In a large crowd many workers get the same sentence. Each fact becomes the code of its text, and the sentence
is written once for all workers with the same codes.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Float64, Int, Int32, Int64

from quality.aggregation import decide
from quality.argument_types import check_arguments
from quality.labels import CrowdLabels, NamedPosterior, bring_near, check_gold, freeze_arrays
from quality.matching import conflict_graph, conflict_tasks, load_levels
from quality.parallel import Progress, counter
from quality.reports.agreement import worker_agreement
from quality.reports.tasks import check_posterior
from quality.reports.timing import response_times
from quality.reputation import (
    Filtered,
    FilteredDishonest,
    balanced_penalty,
    chance_words,
    graded_penalty,
    soft_penalty,
)

__all__ = ["WorkerReport", "report_of", "worker_report"]

MOST_CODES = 2**62  # of a combination in one number


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class WorkerReport:
    """Result of :func:`worker_report`; one entry per worker code.

    Parameters
    ----------
    n_labels, n_conflict
        Her labels, and those of them on conflict tasks.
    agreement
        Share of her labels that equal the consensus; NaN without labels.
    soft_penalty, hard_penalty, balanced_penalty
        On all labels, before anybody was removed. The hard penalty is the level: the largest load
        she has in any optimal semi-matching.
    hard_least
        The smallest load she has in any optimal semi-matching: `hard_penalty` or one less.
    reputation
        1 minus the soft penalty, in [0, 1): the lower, the fewer workers gave her labels on conflict
        tasks. NaN without conflict tasks: no evidence, which is not a good reputation.
    constant
        True where she has two labels or more and all name one class.
    gold_n, gold_correct
        Her labels on tasks with gold, and the right ones among them.
    median_seconds
        Median time of her labels; NaN if no time is known.
    hasty
        True if that median is implausibly short in this crowd: see
        :func:`~quality.response_times`.
    flagged
        True for each worker the filter removed.
    reason
        Why she was removed or kept, in words.
    """

    n_labels: Int64[np.ndarray, " workers"]
    n_conflict: Int64[np.ndarray, " workers"]
    agreement: Float64[np.ndarray, " workers"]
    soft_penalty: Float64[np.ndarray, " workers"]
    hard_penalty: Int32[np.ndarray, " workers"]
    hard_least: Int32[np.ndarray, " workers"]
    balanced_penalty: Float64[np.ndarray, " workers"]
    reputation: Float64[np.ndarray, " workers"]
    constant: Bool[np.ndarray, " workers"]
    gold_n: Int64[np.ndarray, " workers"]
    gold_correct: Int64[np.ndarray, " workers"]
    median_seconds: Float64[np.ndarray, " workers"]
    hasty: Bool[np.ndarray, " workers"]
    flagged: Bool[np.ndarray, " workers"]
    reason: tuple[str, ...]

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def __repr__(self) -> str:
        return (
            f"WorkerReport({len(self.reason)} workers, {np.count_nonzero(self.flagged)} flagged, "
            f"{np.count_nonzero(self.n_conflict == 0)} without conflict tasks, "
            f"{np.count_nonzero(self.constant)} with one answer, "
            f"{np.count_nonzero(self.hasty)} hasty)"
        )


@check_arguments
def worker_report(
    labels: CrowdLabels,
    filtered: Filtered | FilteredDishonest,
    posterior: Float[np.ndarray, "tasks classes"] | NamedPosterior,
    *,
    gold: Int[np.ndarray, " tasks"] | None = None,
    seconds: Float[np.ndarray, " labels"] | None = None,
    ordered: bool = False,
    progress: Progress | None = None,
) -> WorkerReport:
    """Report on each worker: her labels, penalties, agreement with the consensus and with gold.

    Parameters
    ----------
    labels
        All labels, those of removed workers included.
    filtered
        Result of :func:`filter_workers` or :func:`filter_dishonest` for these labels.
    posterior
        P(truth | labels) of each task, from any aggregator; its likeliest class is the consensus.
    gold
        The true class code of each task, -1 where it is unknown; see :func:`encode_gold`.
    seconds
        Time of each label, in the order of the rows of `labels`; NaN if unknown.
    ordered
        Whether the classes are grades: soft penalties then weigh by distance
        (:func:`~quality.graded_penalty`).
    progress
        Called before the hard penalties, and for the waves of the balanced loads, which take longest:
        see :func:`~quality.balanced_loads`.

    Returns
    -------
    WorkerReport
        One entry per worker. Penalties are evidence, to be read beside agreement and gold.

    Raises
    ------
    ValueError
        If an argument does not fit the labels in shape, a row of `posterior` is no distribution, or a
        time is below 0.

    Examples
    --------
    >>> from quality import encode, filter_workers, majority_vote
    >>> labels = encode(["ann", "bob", "cy"] * 3, list("111222333"), list("xxyyyxxxy"))
    >>> filtered = filter_workers(labels, n_workers=1)
    >>> report = worker_report(labels, filtered, majority_vote(labels).posterior)
    >>> report
    WorkerReport(3 workers, 1 flagged, 0 without conflict tasks, 0 with one answer, 0 hasty)
    >>> report.reason[2]
    'removed 1st at soft penalty 1, agrees with the consensus on 0% of 3 labels'
    """
    _check_shapes(labels, filtered, posterior)
    if not isinstance(posterior, NamedPosterior):
        posterior = posterior.astype(np.float64, copy=False)
    gold = check_gold(gold, labels.n_tasks, labels.n_classes)
    if seconds is None:
        seconds = np.full(labels.n_labels, np.nan)
    times = response_times(labels, seconds)
    on_conflict = conflict_tasks(labels)[labels.task]
    on_gold = gold[labels.task] >= 0
    right = labels.label == gold[labels.task]  # False if gold is -1
    n_conflict = np.bincount(labels.worker[on_conflict], minlength=labels.n_workers)
    penalty = graded_penalty(labels) if ordered else soft_penalty(labels)
    counter(progress, "hard penalties", 1)(0)
    near = bring_near(labels)  # loads do not depend on names
    loads = load_levels(conflict_graph(near.labels))
    numbers = {
        "n_labels": np.diff(labels.worker_start),
        "n_conflict": n_conflict,
        "agreement": worker_agreement(labels, decide(posterior)[0]),
        "soft_penalty": penalty,
        "hard_penalty": near.by_worker(loads.level),
        "hard_least": near.by_worker(loads.least),
        "balanced_penalty": balanced_penalty(labels, progress=progress),
        "gold_n": np.bincount(labels.worker[on_gold], minlength=labels.n_workers),
        "gold_correct": np.bincount(labels.worker[right], minlength=labels.n_workers),
        "median_seconds": times.median_seconds,
        "hasty": times.hasty,
    }
    return report_of(filtered, numbers, _only_class(labels), labels.classes)


def report_of(
    filtered: Filtered | FilteredDishonest,
    numbers: dict[str, np.ndarray],
    only: Int64[np.ndarray, " workers"],
    classes: np.ndarray,
) -> WorkerReport:
    """Make the report from numbers about the workers; `only` is the one class that a worker gives, or -1."""
    numbers = numbers | {
        "reputation": np.where(numbers["n_conflict"] > 0, 1 - numbers["soft_penalty"], np.nan),
        "constant": only >= 0,
    }
    reason = _reasons(filtered, numbers, only, classes)
    return WorkerReport(**numbers, flagged=~filtered.keep, reason=reason)


def _only_class(labels: CrowdLabels) -> Int64[np.ndarray, " workers"]:
    """Return the class that all of a worker's labels name, if they are two or more; else -1."""
    only = np.full(labels.n_workers, -1)
    several = np.flatnonzero(np.diff(labels.worker_start) > 1)
    if len(several):
        given = labels.label[labels.worker_order]
        # for each label, the number of changes of class before it
        n_changes = np.concatenate([[0], np.cumsum(given[1:] != given[:-1])])
        first, last = labels.worker_start[several], labels.worker_start[several + 1] - 1
        alike = n_changes[first] == n_changes[last]
        only[several[alike]] = given[first[alike]]
    return only


def _check_shapes(
    labels: CrowdLabels,
    filtered: Filtered | FilteredDishonest,
    posterior: np.ndarray | NamedPosterior,
) -> None:
    if filtered.keep.shape != (labels.n_workers,):
        given = len(filtered.keep)
        raise ValueError(f"filtered must be about {labels.n_workers} workers, got {given}")
    check_posterior(labels, posterior)


def _reasons(
    filtered: Filtered | FilteredDishonest,
    numbers: dict[str, np.ndarray],
    only: Int64[np.ndarray, " workers"],
    classes: np.ndarray,
) -> tuple[str, ...]:
    """Return a sentence per worker; `only` is the one class she gives, or -1."""
    first = last = numbers["soft_penalty"]
    p_value = np.full(len(first), np.nan)  # chance that an honest worker gets as much
    if isinstance(filtered, FilteredDishonest):  # its p-values belong to its penalties
        last, p_value = filtered.penalty, filtered.p_value
    verdict = _written(first, _number), _written(last, _number), _written(p_value, _chance)
    evidence = _Evidence.of(numbers, only, classes)
    one, alike = _alike([*(words.code for words in verdict), *evidence.codes()])
    kept = map(_kept, *(words.of(one) for words in verdict))
    sentences = np.array(evidence.behind(kept, one), dtype=object)[alike]
    removed = zip(filtered.removed, filtered.removed_penalty, strict=True)
    verdicts = [
        f"removed {_ordinal(place)} at {filtered.criterion} {penalty:.3g}{_chance(p_value[worker])}"
        for place, (worker, penalty) in enumerate(removed, start=1)
    ]
    sentences[filtered.removed] = evidence.behind(verdicts, filtered.removed)
    refused = zip(filtered.refused_penalty, filtered.refused_reason, strict=True)
    verdicts = [
        f"kept in spite of {filtered.criterion} {penalty:.3g} ({reason})"
        for penalty, reason in refused
    ]
    sentences[filtered.refused] = evidence.behind(verdicts, filtered.refused)
    return tuple(sentences.tolist())


class _Written(NamedTuple):
    """Numbers as texts: each worker's code, and the text of each code."""

    code: Int[np.ndarray, " workers"]
    texts: Sequence[str]

    def of(self, workers: Int[np.ndarray, " chosen"]) -> list[str]:
        """Return the texts of some workers."""
        return [self.texts[code] for code in self.code[workers].tolist()]


def _written(values: Float64[np.ndarray, " workers"], write: Callable[[float], str]) -> _Written:
    """Return numbers as the texts of `write`; numbers between two with one text must have that text too."""
    known, place = np.unique(values, return_inverse=True)
    start, texts = [0], list[str]()
    while start[-1] < len(known):
        text = write(float(known[start[-1]]))

        def differs(at: int, text: str = text) -> bool:
            return write(float(known[at])) != text

        texts.append(text)
        start.append(bisect_left(range(len(known)), True, lo=start[-1] + 1, key=differs))
    return _Written(np.repeat(np.arange(len(texts)), np.diff(start))[place], texts)


class _Evidence(NamedTuple):
    """The evidence beside a verdict, by worker."""

    n_labels: Int[np.ndarray, " workers"]
    n_conflict: Int[np.ndarray, " workers"]
    percent: Int64[np.ndarray, " workers"]  # of agreement
    gold_n: Int[np.ndarray, " workers"]
    gold_correct: Int[np.ndarray, " workers"]
    always: _Written
    haste: _Written

    @classmethod
    def of(
        cls,
        numbers: dict[str, np.ndarray],
        only: Int64[np.ndarray, " workers"],
        classes: np.ndarray,
    ) -> "_Evidence":
        """Return the evidence in the numbers about the workers."""
        n_labels = numbers["n_labels"]
        share = np.where(n_labels > 0, numbers["agreement"], 0.0)
        # 0 and 100 only if exact
        percent = np.clip((100 * share).round(), share > 0, 100 - (share < 1)).astype(np.int64)
        names = [*(f", always {name}" for name in classes.tolist()), ""]
        seconds = np.where(numbers["hasty"], numbers["median_seconds"], np.nan)
        return cls(
            n_labels, numbers["n_conflict"], percent, numbers["gold_n"], numbers["gold_correct"],
            _Written(only, names), _written(seconds, _haste),
        )  # fmt: skip

    def codes(self) -> Iterable[Int[np.ndarray, " workers"]]:
        """Return codes that differ if and only if the evidence of two workers does."""
        return *self[:5], self.always.code, self.haste.code

    def behind(self, verdicts: Iterable[str], workers: Int[np.ndarray, " chosen"]) -> list[str]:
        """Return the sentences of some workers, one for each verdict."""
        counts = (column[workers].tolist() for column in self[:5])  # Python's are written faster
        words = self.always.of(workers), self.haste.of(workers)
        return list(map(_sentence, verdicts, *counts, *words))


def _alike(
    columns: Sequence[Int[np.ndarray, " workers"]],
) -> tuple[Int64[np.ndarray, " kinds"], Int64[np.ndarray, " workers"]]:
    """Return the first worker of each combination of integers, and the combination of each worker."""
    code, n_codes = np.zeros(len(columns[0]), dtype=np.int64), 1
    for column in columns:
        low = int(column.min(initial=0))
        size = int(column.max(initial=0)) - low + 1
        if n_codes * size > MOST_CODES:
            code = np.unique(code, return_inverse=True)[1]
            n_codes = len(code)
        code = code * size + (column.astype(np.int64) - low)
        n_codes *= size
    _, one, alike = np.unique(code, return_index=True, return_inverse=True)
    return one, alike


def _kept(first: str, last: str, chance: str) -> str:
    """Return the verdict on a kept worker: her penalty at first and when last judged, and its chance."""
    again = "" if last == first else f", when last judged {last}"
    return f"kept: soft penalty {first}{again}{chance}"


def _sentence(
    verdict: str, n_labels: int, n_conflict: int, percent: int, gold_n: int, gold_correct: int,
    always: str, haste: str,
) -> str:  # fmt: skip
    """Return a verdict with its evidence, or why there is no verdict."""
    if not n_labels:
        return "no labels: no evidence"
    gold = f", {gold_correct} of {gold_n} right on gold" if gold_n else ""
    evidence = f"{always}{gold}{haste}"
    if not n_conflict:
        return f"no conflict task: no evidence{evidence}"
    plural = "s" if n_labels != 1 else ""
    agrees = f", agrees with the consensus on {percent}% of {n_labels:,} label{plural}"
    return f"{verdict}{agrees}{evidence}"


def _number(value: float) -> str:
    return f"{value:.3g}"


def _chance(p_value: float) -> str:
    """Return a p-value in brackets; nothing for NaN, from a filter without p-values."""
    return "" if math.isnan(p_value) else f" ({chance_words('p-value', p_value)})"


def _haste(seconds: float) -> str:
    """Return the median time of a hasty worker in words; nothing for NaN, for a worker who is not."""
    return "" if math.isnan(seconds) else f", half of them within {seconds:.3g} s"


def _ordinal(place: int) -> str:
    """Return a place in words: 1st, 2nd, 3rd, 4th, 11th, 21st ..."""
    ending = {1: "st", 2: "nd", 3: "rd"}.get(place % 10, "th")
    return f"{place}th" if place % 100 in (11, 12, 13) else f"{place}{ending}"
