"""The filter that knows when to stop, on a table in shards: its sums add up, or workers are taken in parts.

Use :func:`filter_dishonest_by_shards`; :func:`quality.filter_dishonest` is the filter of one table.

The likelihood of a worker's reliability is a product over her labels, so that logarithms add up over
shards, for a bounded number of workers at once; the population is fitted to at most 20,000 workers. The
exact distribution of a penalty of few labels needs all labels of a worker at once. So the rows of some
workers are gathered from all shards, a bounded number of labels at once; the reliability of many workers
with few labels is computed in the same way. A worker with many labels has a normal tail, whose moments add
up over shards.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import log
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int32, Int64, Shaped

from quality.argument_types import check_arguments
from quality.labels import Engine, LabelShard, Sums, freeze_arrays, sort_codes
from quality.parallel import Progress, counter, kernel
from quality.reputation.false_removal import (
    FilteredDishonest,
    Rounds,
    check_rates,
    remove_in_rounds,
)
from quality.reputation.honest_null import (
    MAX_DRAWN,
    MAX_LABELS,
    N_MORE_STEPS,
    N_STEPS,
    expected_reliability,
    level_of_drawn,
)
from quality.reputation.honest_population import (
    N_GRID,
    RELIABILITY,
    Candidates,
    HonestPopulation,
    fit_population,
    looked_at,
)
from quality.reputation.other_answers import (
    Asked,
    OtherAnswers,
    TaskAnswers,
    ask_others,
    ask_right,
    spread_over,
)
from quality.reputation.penalty_tails import (
    EXACT,
    exact_p_values,
    moments_of_owners,
    normal_p_values,
)
from quality.reputation.sharded_filtering import ShardedCrowd

__all__ = ["filter_dishonest_by_shards"]

AT_ONCE = 16_000_000  # labels gathered from all shards at once, each in some 30 bytes
MANY_AT_ONCE = 250_000  # workers whose likelihoods or moments are added up together
# log2 of the workers in a block, whose likelihoods are multiplied together: 400 KB, in a core's own cache
BLOCK_BITS = 10


@check_arguments
def filter_dishonest_by_shards(
    engine: Engine,
    tasks: Shaped[np.ndarray, " tasks"],
    *,
    false_removal_rate: float = 0.1,
    min_labels_per_task: int = 1,
    rng: np.random.Generator,
    progress: Progress | None = None,
) -> FilteredDishonest:
    """Do what :func:`~quality.filter_dishonest` does, on a table in shards.

    Parameters
    ----------
    engine
        It works on the shards of the table.
    tasks
        Names of the tasks, for the reasons why workers could not be removed.
    false_removal_rate, min_labels_per_task, rng, progress
        As for :func:`~quality.filter_dishonest`, errors included.

    Notes
    -----
    **Guarantees.** Penalties are :func:`~quality.filter_dishonest`'s to the bit. The population is equal up
    to the rounding of sums in another order, and p-values and levels are within a millionth, since exact
    distributions of 24 labels lose digits. So the same workers go in the same order, unless a p-value
    lies so near its limit. The same bytes on any engine.

    **Cost.** One pass over the shards for each of eight turns in the first round, and of three in a later
    one. A crowd of more than 250,000 workers takes one more for every 250,000 of them with more than 24
    labels, and for every 16 million labels of the others. P-values take as many passes. Memory holds
    the rows of such a part, or 48 numbers for each of its workers, and a few numbers for every worker.

    Examples
    --------
    >>> from quality import LocalEngine, cut_labels, encode
    >>> rng = np.random.default_rng(0)
    >>> truth, wrong = rng.integers(2, size=60), rng.random((20, 60)) < 0.2
    >>> wrong[7] = True
    >>> worker, task = np.divmod(np.arange(1200), 60)
    >>> labels = encode(worker, task, (truth ^ wrong).ravel())
    >>> engine = LocalEngine(cut_labels(labels, [0, 25, 60]))
    >>> filter_dishonest_by_shards(engine, labels.tasks, rng=rng).removed
    array([7], dtype=int32)
    """
    check_rates(false_removal_rate, min_labels_per_task)
    crowd = ShardedCrowd(engine, tasks)
    rounds = Rounds(crowd, min_labels_per_task)
    n_classes = int(engine.map(_n_classes, None)[0])
    left: _Left | None = None

    def null_of() -> _Null:
        nonlocal left
        before = None if left is None else left.fit
        keep = crowd.keep.copy()  # it changes while an engine on it is in use
        kept = engine if keep.all() else engine.keep_workers(keep)
        n_labels = np.where(keep, crowd.n_labels, 0)
        fit = _fit_honest(kept, n_labels, n_classes, before, progress)
        left = _Left(kept, n_labels, fit)
        counter(progress, "p-values", 1)(0)
        penalty, judged = crowd.soft_penalty(), rounds.removals.judged
        p_value = _p_values(left, penalty) if (judged & (penalty > 0)).any() else np.ones(len(keep))
        return _Null(penalty, p_value, judged & (penalty > 0), left)

    def level_of(null: _Null) -> float:
        if not null.judged.any():
            return false_removal_rate
        others, asked, workers = _sampled(null.left, null.judged)
        judged, population = null.judged[workers], null.population
        return level_of_drawn(others, asked, judged, population, false_removal_rate, rng, progress)

    rounds.before_removal = crowd.expect
    return remove_in_rounds(rounds, null_of, level_of, false_removal_rate)


class _Believed(NamedTuple):
    """The weights of the others' labels: each worker's log odds, and the share of each class."""

    log_odds: Float64[np.ndarray, " workers"]
    prior: Float64[np.ndarray, " classes"]


class _Fit(NamedTuple):
    """The honest population, the beliefs of the last turn, and the initial values of the next."""

    population: HonestPopulation
    believed: _Believed
    reliability: Float64[np.ndarray, " workers"]
    prior: Float64[np.ndarray, " classes"]


class _Left(NamedTuple):
    """The shards of the workers left, how many labels each of them has, and the fit to these."""

    engine: Engine
    n_labels: Int64[np.ndarray, " workers"]
    fit: _Fit


@dataclass(frozen=True, slots=True, eq=False)
class _Null:
    """The judgement of the workers left in a round."""

    penalty: Float64[np.ndarray, " workers"]
    p_value: Float64[np.ndarray, " workers"]
    judged: Bool[np.ndarray, " workers"]
    left: _Left

    def __post_init__(self) -> None:
        freeze_arrays(self)

    @property
    def population(self) -> HonestPopulation:
        """The honest population fitted."""
        return self.left.fit.population


def _fit_honest(
    engine: Engine,
    n_labels: Int64[np.ndarray, " workers"],
    n_classes: int,
    before: _Fit | None,
    progress: Progress | None,
) -> _Fit:
    """Fit the honest population, as :func:`~quality.reputation.honest_null.fit_honest` does."""
    candidates, n_workers = Candidates.of(max(n_classes, 2)), len(n_labels)
    asked = np.flatnonzero(n_labels > 0)
    reliability, prior = np.full(n_workers, 0.75), np.full(n_classes, 1 / max(n_classes, 1))
    if n_classes < 2:
        population, _ = fit_population(np.empty((0, N_GRID)), asked[:0], candidates)
        return _Fit(population, _Believed(np.zeros(n_workers), prior), reliability, prior)
    if before is not None:
        reliability, prior = before.reliability.copy(), before.prior
    looked = looked_at(asked)
    seated, many, few = _seated(looked, np.setdiff1d(asked, looked), n_labels)
    n_turns = N_STEPS if before is None else N_MORE_STEPS
    tell = counter(progress, "honest population", n_turns)
    for turn in range(n_turns):
        believed = _Believed(np.log(reliability * (n_classes - 1) / (1 - reliability)), prior)
        mass, evidence = _on_grid(engine, believed, seated)
        prior = (mass + 1) / (mass.sum() + n_classes)
        population, crowd = fit_population(evidence, np.arange(len(looked)), candidates)
        reliability[n_labels == 0] = _expected(np.ones((1, N_GRID)), crowd)
        reliability[seated.worker] = _expected(evidence, crowd)
        for some in _parts(many, MANY_AT_ONCE):
            reliability[some.worker] = _expected(_on_grid(engine, believed, some)[1], crowd)
        for some in _parts(few, AT_ONCE):
            rows = _brought(engine.map(_right_of, (believed, some)))
            by_worker, start = sort_codes(rows[0], len(some.worker))
            reliability[some.worker] = expected_reliability(
                by_worker, start, _read_only(rows[1]), n_classes, crowd
            )
        tell(turn + 1)
    return _Fit(population, believed, reliability, prior)


def _seated(
    looked: Int64[np.ndarray, " looked"],
    others: Int64[np.ndarray, " others"],
    n_labels: Int64[np.ndarray, " workers"],
) -> tuple["_Some", Int64[np.ndarray, " workers"], Int64[np.ndarray, " workers"]]:
    """Return the workers of the first pass: those of the fit, then others, with many labels first.

    Return also the sizes of the workers left: 1 for each with many labels, and the labels of each with few.
    """
    others = others[np.argsort(n_labels[others] <= EXACT, kind="stable")]
    n_more = max(MANY_AT_ONCE - len(looked), 0)
    seated = _Some.of(np.append(looked, others[:n_more]), len(n_labels))
    left = np.zeros_like(n_labels)
    left[others[n_more:]] = n_labels[others[n_more:]]
    return seated, (left > EXACT).astype(np.int64), np.where(left <= EXACT, left, 0)


def _on_grid(
    engine: Engine, believed: _Believed, some: "_Some"
) -> tuple[Float64[np.ndarray, " classes"], Float64[np.ndarray, "some grid"]]:
    """Return the mass of the classes, and some workers' likelihood on the grid, scaled to a largest of 1."""
    mass, log_evidence = engine.add_up(_about_reliability, (believed, some))
    return mass, np.exp(log_evidence - log_evidence.max(axis=1, keepdims=True, initial=-np.inf))


def _expected(
    evidence: Float64[np.ndarray, "some grid"], crowd: Float64[np.ndarray, " grid"]
) -> Float64[np.ndarray, " some"]:
    """Return the expected reliability of workers, from their likelihoods and the crowd's distribution."""
    expected: np.ndarray = (evidence @ (crowd * RELIABILITY)) / (evidence @ crowd)
    return expected


class _Some(NamedTuple):
    """Some workers, and the place of each worker of the crowd among them; -1 for the others."""

    worker: Int64[np.ndarray, " some"]
    place: Int32[np.ndarray, " workers"]

    @classmethod
    def of(cls, worker: Int64[np.ndarray, " some"], n_workers: int) -> "_Some":
        place = np.full(n_workers, -1, dtype=np.int32)
        place[worker] = np.arange(len(worker))
        return cls(worker, place)


def _parts(size: Int64[np.ndarray, " workers"], most: int) -> Iterator[_Some]:
    """Yield the workers with a size above 0, in parts of at most `most` in sum or of one worker."""
    workers = np.flatnonzero(size)
    part = (np.cumsum(size[workers]) - size[workers]) // most
    for number in np.unique(part):
        yield _Some.of(workers[part == number], len(size))


def _p_values(
    left: _Left, penalty: Float64[np.ndarray, " workers"]
) -> Float64[np.ndarray, " workers"]:
    """Return the p-value of every penalty above 0, and 1 for the others."""
    engine, n_labels, fit = left
    believed, probability = fit.believed, fit.population.probability
    p_value = np.ones(len(penalty))
    is_few = (penalty > 0) & (n_labels <= EXACT)
    n_few = int(is_few.sum())
    for some in _parts(np.where(is_few, n_labels, 0), AT_ONCE):
        others, asked = _gathered(engine, believed, some, None)
        found, few = np.ones(len(some.worker)), np.arange(len(some.worker))
        given = penalty[some.worker]
        exact_p_values(others, asked, few, n_few, RELIABILITY, given, probability, found)
        p_value[some.worker] = found
    is_many = (penalty > 0) & (n_labels > EXACT)
    for some in _parts(is_many.astype(np.int64), MANY_AT_ONCE):
        (moments,) = engine.add_up(_moments, (believed, some))
        p_value[some.worker] = normal_p_values(
            penalty[some.worker], moments, RELIABILITY, probability
        )
    return p_value


def _sampled(
    left: _Left, judged: Bool[np.ndarray, " workers"]
) -> tuple[OtherAnswers, Asked, Int64[np.ndarray, " drawn"]]:
    """Return some rows of the workers of which simulated crowds consist, and these workers."""
    engine, n_labels, fit = left
    workers = spread_over(n_labels, judged, MAX_DRAWN)
    some = _Some.of(workers, len(n_labels))
    here = engine.map(_labels_of, some)
    before = np.cumsum([counts for _, counts in here], axis=0) - [counts for _, counts in here]
    rank = {first: ranks for (first, _), ranks in zip(here, before, strict=True)}
    others, asked = _gathered(engine, fit.believed, some, (rank, n_labels[workers]))
    return others, asked, workers


Sampled = tuple[dict[int, np.ndarray], np.ndarray]
"""By a shard's first task, the labels of each worker in the shards before; and her labels in all."""


def _gathered(
    engine: Engine, believed: _Believed, some: _Some, sampled: Sampled | None
) -> tuple[OtherAnswers, Asked]:
    """Bring the rows of some workers together, each as a task of its own with the others' answers."""
    worker, place, n_answers, count, chance, right, n_classes = _brought(
        engine.map(_answers_at, (believed, some, sampled))
    )
    start = np.concatenate([[0], np.cumsum(n_answers)]).astype(np.int64)
    unnamed = np.zeros(len(count), dtype=np.int16)  # the class of an answer is not needed
    answers = TaskAnswers(start, unnamed, count, place, start)
    task = np.arange(len(worker), dtype=np.int32)
    others = OtherAnswers(task, answers, right, chance, int(n_classes[0]))
    by_worker, of_worker = sort_codes(worker, len(some.worker))
    return others, Asked(by_worker, of_worker)


def _brought(parts: Any) -> list[np.ndarray]:
    """Return the columns of all shards, one shard after the other."""
    return [np.concatenate(column) for column in zip(*parts, strict=True)]


def _read_only(array: np.ndarray) -> np.ndarray:
    array.setflags(write=False)  # the kernels are compiled for one kind of array
    return array


def _n_classes(shard: LabelShard, _: object) -> int:
    return shard.n_classes


def _about_reliability(shard: LabelShard, asked: tuple[_Believed, _Some]) -> Sums:
    """Return what a shard adds to the mass of the classes, and to log-likelihoods on the grid."""
    believed, some = asked
    right = np.empty(shard.n_labels)
    mass = ask_right(shard, TaskAnswers.of(shard), believed.log_odds, believed.prior, right)
    total = np.zeros((len(some.worker), N_GRID))
    rows = _by_block(some.place[shard.worker], right, len(total))
    block = 1 << BLOCK_BITS
    product, held = np.empty((block, N_GRID)), np.empty(block, dtype=np.int64)
    _add_log_evidence(*rows, shard.n_classes, RELIABILITY, product, held, total)
    return mass, total


def _by_block(
    seat: Int32[np.ndarray, " labels"], right: Float64[np.ndarray, " labels"], n_seats: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return where blocks of workers start, and their labels: the worker of each, and P(it is right)."""
    start = np.zeros(-(-n_seats >> BLOCK_BITS) + 1, dtype=np.int64)
    of_block, right_of_block = np.empty_like(seat), np.empty_like(right)
    _to_blocks(seat, right, BLOCK_BITS, start, start.copy(), of_block, right_of_block)
    return start, of_block, right_of_block


def _right_of(shard: LabelShard, asked: tuple[_Believed, _Some]) -> tuple[np.ndarray, ...]:
    """Return the labels of some workers: the worker of each, and the chance that it is right."""
    believed, some = asked
    right = np.empty(shard.n_labels)
    ask_right(shard, TaskAnswers.of(shard), believed.log_odds, believed.prior, right)
    place = some.place[shard.worker]
    return place[place >= 0], right[place >= 0]


def _others_in(shard: LabelShard, believed: _Believed) -> OtherAnswers:
    """Return the chance of each answer at each label of a shard."""
    return ask_others(shard, TaskAnswers.of(shard), believed.log_odds, believed.prior)[0]


def _moments(shard: LabelShard, asked: tuple[_Believed, _Some]) -> Sums:
    """Return what a shard adds to the moments of some workers' penalties."""
    believed, some = asked
    owner = some.place[shard.worker]
    return (moments_of_owners(_others_in(shard, believed), owner, len(some.worker)),)


def _labels_of(shard: LabelShard, some: _Some) -> tuple[int, np.ndarray]:
    """Return the shard's first task, and its number of labels of each of some workers."""
    place = some.place[shard.worker]
    return shard.first_task, np.bincount(place[place >= 0], minlength=len(some.worker))


def _answers_at(
    shard: LabelShard, asked: tuple[_Believed, _Some, Sampled | None]
) -> tuple[np.ndarray, ...]:
    """Return some workers' labels, or a sample: the worker of each, and the chances by the others' labels."""
    believed, some, sampled = asked
    place = some.place[shard.worker]
    rows = np.flatnonzero(place >= 0)
    if sampled is not None:
        rows = rows[_is_taken(place[rows], sampled[0][shard.first_task], sampled[1])]
    others = _others_in(shard, believed)
    answers, task = others.answers, others.task[rows]
    n_answers = np.diff(answers.start)[task]
    each = np.arange(n_answers.sum()) - np.repeat(np.cumsum(n_answers) - n_answers, n_answers)
    count = answers.count[np.repeat(answers.start[task], n_answers) + each]
    chance = others.chance[np.repeat(answers.row_start[rows], n_answers) + each]
    n_classes = np.array([shard.n_classes])
    return place[rows], answers.place[rows], n_answers, count, chance, others.right[rows], n_classes


def _is_taken(
    place: Int32[np.ndarray, " rows"],
    before: Int64[np.ndarray, " some"],
    n_labels: Int64[np.ndarray, " some"],
) -> Bool[np.ndarray, " rows"]:
    """Return whether :meth:`~quality.reputation.other_answers.Asked.sample` takes each row."""
    by_worker, start = sort_codes(place, len(before))
    rank = np.empty(len(place), dtype=np.int64)
    rank[by_worker] = np.arange(len(place)) - np.repeat(start[:-1] - before, np.diff(start))
    size = n_labels[place]
    taken = np.minimum(size, MAX_LABELS)
    nearest = -(-rank * taken // size)  # the first row taken that is not before this row
    found: np.ndarray = (nearest < taken) & (nearest * size // taken == rank)
    return found


@kernel
def _to_blocks(seat, right, block_bits, start, place, of_block, right_of_block) -> None:
    """Bring together the labels of each block of seats; labels of workers without a seat are left out."""
    for row in range(len(seat)):
        if seat[row] >= 0:
            start[(seat[row] >> block_bits) + 1] += 1
    for block in range(len(start) - 1):
        start[block + 1] += start[block]
        place[block + 1] = start[block + 1]
    for row in range(len(seat)):
        if seat[row] >= 0:
            put = place[seat[row] >> block_bits]
            place[seat[row] >> block_bits] = put + 1
            of_block[put] = seat[row]
            right_of_block[put] = right[row]


@kernel
def _add_log_evidence(
    start, seat, right, n_classes, reliability, product, held, log_evidence
) -> None:
    """Add the log-likelihood of each label at every reliability, one block of workers after the other.

    A logarithm is taken for 32 labels at once; `product` and `held` belong to the present block.
    """
    each_wrong = 1 / (n_classes - 1)
    for block in range(len(start) - 1):
        first = block * len(held)
        n_held = min(len(held), len(log_evidence) - first)
        product[:n_held] = 1.0
        held[:n_held] = 0
        for row in range(start[block], start[block + 1]):
            at = seat[row] - first
            flat = (1 - right[row]) * each_wrong
            slope = right[row] - flat
            for place in range(len(reliability)):
                product[at, place] *= flat + slope * reliability[place]
            held[at] += 1
            if held[at] == 32:
                held[at] = 0
                for place in range(len(reliability)):
                    log_evidence[first + at, place] += log(product[at, place])
                    product[at, place] = 1.0
        for at in range(n_held):
            if held[at] > 0:
                for place in range(len(reliability)):
                    log_evidence[first + at, place] += log(product[at, place])
