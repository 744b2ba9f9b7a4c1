"""Penalties for labels that meet disagreement: soft, hard and balanced.

>>> from quality import encode
>>> soft_penalty(encode(["ann", "bob", "cy", "ann"], [1, 1, 1, 2], list("xyxx")))
array([0.5, 1. , 0.5])

A task is a *conflict task* if its labels name two or more classes. Only such tasks are evidence about
workers. On each of them every class given is a *label node*, and its penalty is shared among the workers
who gave it. The soft penalty shares it evenly. The hard penalty puts it whole on one of them, so that the
loads are as even as possible (an optimal semi-matching). The balanced penalty shares it in fractions that
even out the loads, so that names cannot matter.

A penalty is evidence, not a verdict. No penalty detects a majority of colluders, and the hard and the
balanced one grow with the number of labels: see the notes of each.

**Balanced loads.** Every job may be split among its machines. The sum of squared loads is strictly convex in
the loads, so that its minimum gives every machine a unique load, which depends on the graph alone. At the
optimum a job gives only to its least loaded machines, and conversely. :mod:`quality.matching.levels` moves
shares until all loads are level up to rounding. The loads are then made exact: machines that share a job
form *pools*, and if a pool of ``m`` machines holds ``n`` jobs, its machines carry ``n / m`` each. These loads
are the optimum if three conditions hold, which are checked: shares stay inside the pools (by construction);
no job has a machine in a lower pool; and the loads of a pool exceed ``n / m`` by less than ``1 / m`` in sum.
For if equal loads were impossible, Hall's condition would fail for some machines of the pool: their own jobs
would exceed ``n / m`` per machine by ``1 / m`` or more in sum, and so would their present loads.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int, Int32, Int64, Num
from scipy.sparse import csr_array

from quality.argument_types import check_arguments
from quality.labels import (
    CrowdLabels,
    Engine,
    LabelShard,
    Sums,
    bring_near,
    freeze_arrays,
    sort_codes,
)
from quality.matching import (
    ascending_rows,
    conflict_graph,
    connected,
    first_givers,
    jobs_of,
    level_out,
    machine_loads,
    matching_and_level,
    semi_matching,
)
from quality.parallel import Progress, counter, kernel

__all__ = [
    "BalancedLoads", "balanced_loads", "balanced_penalty", "hard_level", "hard_penalty", "mean_share",
    "reputation_weight", "share_sums", "shares_of", "soft_penalty", "soft_penalty_by_shards", "tally_shares",
    "unit_shares", "worker_share",
]  # fmt: skip

LEAST_WEIGHT = 1e-9  # of a worker whose reputation is gone
HALF = 31  # bits of each half of a share; a share of 1 is 2 ** 62 units
LOWER_HALF, UPPER_UNIT, LOWER_UNIT = (1 << HALF) - 1, 2.0**-HALF, 2.0 ** (-2 * HALF)


@check_arguments
def soft_penalty(labels: CrowdLabels) -> Float64[np.ndarray, " workers"]:
    """Penalise each label by one over the number of workers who gave it, and take each worker's mean.

    On a conflict task j each of the n_jk workers who gave class k gets 1 / n_jk. The penalty of a
    worker is the mean over her conflict tasks.

    Parameters
    ----------
    labels
        The crowd's labels.

    Returns
    -------
    float64 array, one per worker
        In [1 / workers, 1]; 0 for a worker without conflict tasks, about whom nothing is known.

    Notes
    -----
    **Guarantees.** Penalties are in the range above. Tasks without conflict change nothing. Renaming
    workers, tasks or classes changes nobody's penalty, to the last bit: shares are added up as integers,
    in units of 2 ** -62.

    **Limits.** Agreement is rewarded whoever agrees: workers who copy one script and outnumber the
    honest workers on their tasks get lower penalties than they do.

    References
    ----------
    .. [1] Jagabathula, Subramanian, Venkataraman, "Reputation-based worker filtering in
       crowdsourcing", NIPS 2014, algorithm 1.

    Examples
    --------
    >>> from quality import encode
    >>> soft_penalty(encode(["ann", "bob", "cy", "ann"], [1, 1, 1, 2], list("xyxx")))
    array([0.5, 1. , 0.5])
    """
    near = bring_near(labels)
    return near.by_worker(mean_share(*share_sums(near.labels, None)))


@check_arguments
def reputation_weight(
    penalty: Float64[np.ndarray, " workers"],
) -> Float64[np.ndarray, " workers"]:
    """Return the weight of each worker's vote: 1 less her soft penalty, and a billionth at least.

    Parameters
    ----------
    penalty
        Of each worker, from 0 to 1: see :func:`soft_penalty`.

    Notes
    -----
    **Guarantees.** A task on which no worker has more weight than that has its majority vote. So do all
    tasks of a table with two labels of each, where whoever disagrees once has the penalty 1.

    Examples
    --------
    >>> reputation_weight(np.array([0.25, 1.0]))
    array([7.5e-01, 1.0e-09])
    """
    return np.maximum(1.0 - penalty, LEAST_WEIGHT)


def unit_shares(labels: CrowdLabels | LabelShard) -> Int64[np.ndarray, "numbers 2"]:
    """Return 1 / n in units of 2 ** -62, upper and lower half, for every possible n."""
    most = int(np.diff(labels.task_start).max(initial=0))
    n_same = np.maximum(np.arange(most + 1), 1)
    share = ((1 << 2 * HALF) + n_same // 2) // n_same
    return np.column_stack([share >> HALF, share & LOWER_HALF])


def tally_shares(
    total: Int64[np.ndarray, "workers 3"],
    tasks: Int32[np.ndarray, " chosen"],
    sign: int,
    labels: CrowdLabels | LabelShard,
    keep: Bool[np.ndarray, " workers"],
    unit: Int64[np.ndarray, "numbers 2"],
) -> None:
    """Add each kept worker's shares on the given tasks to `total`: two halves, and the count.

    A sign of -1 subtracts them. Sums of integers do not depend on their order, so that a tally after
    additions and subtractions equals, to the bit, one begun anew.
    """
    rows = (labels.task_start, labels.worker, labels.label)
    n_same = np.zeros(labels.n_classes, dtype=np.int64)
    _tally(total, tasks, sign, *rows, keep, unit, n_same)


def mean_share(total: Int64[np.ndarray, "workers 3"]) -> Float64[np.ndarray, " workers"]:
    """Return the soft penalties of a tally."""
    upper = total[:, 0] + (total[:, 1] >> HALF)
    lower = total[:, 1] & LOWER_HALF
    share = upper * UPPER_UNIT + lower * LOWER_UNIT
    penalty: np.ndarray = share / np.maximum(total[:, 2], 1)
    return penalty


@kernel
def worker_share(total, worker) -> float:
    """Return one worker's soft penalty, as :func:`mean_share` has it, to the bit."""
    upper = total[worker, 0] + (total[worker, 1] >> HALF)
    lower = total[worker, 1] & LOWER_HALF
    share = upper * UPPER_UNIT + lower * LOWER_UNIT
    penalty: float = share / max(total[worker, 2], 1)
    return penalty


def shares_of(
    part: Num[np.ndarray, " workers"], whole: Num[np.ndarray, " workers"]
) -> Float64[np.ndarray, " workers"]:
    """Return the ratio for each worker, NaN where the whole is 0."""
    share = np.full(len(whole), np.nan)
    np.divide(part, whole, out=share, where=whole > 0)
    return share


@check_arguments
def hard_penalty(labels: CrowdLabels) -> Int32[np.ndarray, " workers"]:
    """Assign every label node to one of its workers, as evenly as possible, and count.

    The penalty is the worker's load in an optimal semi-matching of the conflict graph.

    Parameters
    ----------
    labels
        The crowd's labels.

    Returns
    -------
    int32 array, one per worker
        Number of label nodes assigned to her; 0 without conflict tasks.

    Notes
    -----
    **Guarantees.** The penalties add up to the number of label nodes, and nobody has more nodes than she
    labelled conflict tasks. The sorted penalties do not depend on names. Which of two equally placed
    workers has the higher penalty depends on the order of their codes.

    **Limits.** It is a count and grows with the number of labels; if everybody labels equally much, it is
    nearly equal for all. It is meant for adversaries who label a great deal.

    References
    ----------
    .. [1] Jagabathula, Subramanian, Venkataraman, "Reputation-based worker filtering in
       crowdsourcing", NIPS 2014, algorithm 2.

    Examples
    --------
    >>> from quality import encode
    >>> hard_penalty(encode(["ann", "bob", "cy", "ann"], [1, 1, 1, 2], list("xyxx")))
    array([1, 1, 0], dtype=int32)
    """
    return semi_matching(conflict_graph(labels)).load


@kernel
def _tally(total, tasks, sign, task_start, worker, label, keep, unit, n_same) -> None:
    """Count equal labels of each task, then share its penalties among them, in one pass."""
    for at in range(len(tasks)):
        task = tasks[at]
        n_given = 0
        for row in range(task_start[task], task_start[task + 1]):
            if keep[worker[row]]:
                n_given += n_same[label[row]] == 0
                n_same[label[row]] += 1
        if n_given > 1:
            for row in range(task_start[task], task_start[task + 1]):
                if keep[worker[row]]:
                    total[worker[row], 0] += sign * unit[n_same[label[row]], 0]
                    total[worker[row], 1] += sign * unit[n_same[label[row]], 1]
                    total[worker[row], 2] += sign
        for row in range(task_start[task], task_start[task + 1]):
            n_same[label[row]] = 0


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BalancedLoads:
    """Result of :func:`balanced_loads`.

    Parameters
    ----------
    load
        The balanced load of each machine.
    share
        What each job gives to each of its machines, jobs by machines; adds up to 1 for each job.
    residual
        Largest difference between a load and the sum of the shares given to that machine.
    n_iter, converged
        Waves made, and whether the loads were proved exact by then.
    """

    load: Float64[np.ndarray, " machines"]
    share: csr_array
    residual: float
    n_iter: int
    converged: bool

    def __post_init__(self) -> None:
        freeze_arrays(self)
        for array in (self.share.data, self.share.indices, self.share.indptr):
            array.setflags(write=False)

    def __repr__(self) -> str:
        state = "exact" if self.converged else "not converged"
        return (
            f"BalancedLoads({len(self.load)} machines, largest load "
            f"{self.load.max(initial=0.0):.6g}, {state} after {self.n_iter} waves)"
        )


def balanced_loads(
    graph: csr_array, *, max_iter: int = 10_000, progress: Progress | None = None
) -> BalancedLoads:
    """Split every job among its machines so that the loads are as even as fractions allow.

    Minimises the sum over machines of load ** 2.

    Parameters
    ----------
    graph
        As for :func:`~quality.semi_matching`.
    max_iter
        At most so many waves, at least 1.
    progress
        Called after each wave, or after several where they are short; see
        :data:`quality.parallel.Progress`.

    Returns
    -------
    BalancedLoads
        Exact loads where ``converged``; else those of the last wave.

    Raises
    ------
    TypeError
        If `graph` is not a SciPy sparse array.
    ValueError
        If a job has no machine, or `max_iter` is out of its range.

    Notes
    -----
    **Guarantees.** Where converged: the loads are the unique optimum, up to the rounding of one
    division, and independent of the order of jobs and machines. A job gives only to its least
    loaded machines. The largest load of an optimal semi-matching is the largest balanced load
    rounded up. Always: the shares of a job are not negative and add up to 1, and the result is
    the same on every run.

    **Cost.** One optimal semi-matching, then O(entries) per wave. The number of waves grows with
    the number of different loads inside a level, and not with the distance: a long chain takes one.

    References
    ----------
    .. [1] Harvey, Ladner, Lovász, Tamir, "Semi-matchings for bipartite graphs and load
       balancing", J. Algorithms 59 (2006).
    .. [2] Fujishige, "Lexicographically optimal base of a polymatroid with respect to a weight
       vector", Mathematics of Operations Research 5 (1980): the optimum is unique.

    Examples
    --------
    Three jobs for either of two machines: one and a half each.

    >>> result = balanced_loads(csr_array([[1, 1, 0], [1, 1, 0], [1, 1, 1], [1, 1, 0]]))
    >>> result
    BalancedLoads(3 machines, largest load 1.5, exact after 1 waves)
    >>> result.load
    array([1.5, 1.5, 1. ])
    """
    if not max_iter >= 1:
        raise ValueError(f"max_iter must be >= 1, got max_iter={max_iter}")
    matching, level = matching_and_level(graph)
    start, machine = ascending_rows(graph)
    job = np.repeat(np.arange(len(start) - 1, dtype=np.int32), np.diff(start))
    share = np.empty(len(machine))
    _give_whole(start, machine, matching.assigned, share)
    by_machine, of_machine = sort_codes(machine, graph.shape[1], kind=start.dtype)
    edges = start, machine, of_machine, by_machine, job
    tell = counter(progress, "balanced loads", max_iter)
    n_iter = level_out(edges, level, share, max_iter, tell)
    del edges, by_machine, job  # twice the bytes of the rows, which are not needed any more
    flow = machine_loads(machine, share, graph.shape[1])
    load, converged = _pools(start, machine, share, flow)
    load = load if converged else flow
    residual = float(np.abs(flow - load).max(initial=0.0))
    shares = csr_array((share, machine.copy(), start.copy()), shape=graph.shape)
    return BalancedLoads(load, shares, residual, n_iter, bool(converged))


@check_arguments
def balanced_penalty(
    labels: CrowdLabels, *, progress: Progress | None = None
) -> Float64[np.ndarray, " workers"]:
    """Share every label node among its workers so that loads are as even as fractions allow.

    The penalty is the worker's balanced load in the conflict graph.

    Parameters
    ----------
    labels
        The crowd's labels.
    progress
        As in :func:`balanced_loads`.

    Returns
    -------
    float64 array, one per worker
        At least 0; 0 without conflict tasks.

    Notes
    -----
    **Guarantees.** The penalties add up to the number of label nodes, up to rounding. Renaming
    workers, tasks or classes does not change anybody's penalty by more than rounding. Rounded up
    it is the level (:func:`quality.hard_level`).

    **Limits.** Those of :func:`quality.hard_penalty`.

    References
    ----------
    .. [1] Jagabathula, Subramanian, Venkataraman, "Reputation-based worker filtering in
       crowdsourcing", NIPS 2014: the hard penalty, of which this is the fractional form.

    Examples
    --------
    >>> from quality import encode
    >>> balanced_penalty(encode(["ann", "bob", "cy", "ann"], [1, 1, 1, 2], list("xyxx")))
    array([0.5, 1. , 0.5])
    """
    near = bring_near(labels)
    return near.by_worker(balanced_loads(conflict_graph(near.labels), progress=progress).load)


def _pools(
    start: Int[np.ndarray, " bounds"],
    machine: Int[np.ndarray, " entries"],
    share: Float64[np.ndarray, " entries"],
    flow: Float64[np.ndarray, " machines"],
) -> tuple[Float64[np.ndarray, " machines"], bool]:
    """Return jobs per machine in the pool of each machine, and whether these are the exact loads."""
    n_machines = len(flow)
    pool = connected(start, machine, share > 0, n_machines)
    home = first_givers(start, machine, share)
    n_near = np.bincount(pool, minlength=n_machines)
    load = jobs_of(pool, home)[pool] / n_near[pool]
    excess = np.bincount(pool, np.maximum(0.0, flow - load), n_machines)
    # half of the proof's bound: the other half is for rounding
    exact = (excess * n_near < 0.5).all() and _gives_to_least(start, machine, load, home)
    return load, bool(exact)


@kernel
def _give_whole(start, machine, assigned, share) -> None:
    """Write 1 where a job is assigned, and 0 elsewhere."""
    for job in range(len(assigned)):
        for entry in range(start[job], start[job + 1]):
            share[entry] = machine[entry] == assigned[job]


@kernel
def _gives_to_least(start, machine, load, home) -> bool:
    """Return whether no machine of a job has a smaller load than its home."""
    for job in range(len(home)):
        for entry in range(start[job], start[job + 1]):
            if not load[machine[entry]] >= load[home[job]]:
                return False
    return True


@check_arguments
def hard_level(labels: CrowdLabels) -> Int32[np.ndarray, " workers"]:
    """Return the hard penalty that does not depend on names: the level of each worker.

    Parameters
    ----------
    labels
        The crowd's labels.

    Returns
    -------
    int32 array, one per worker
        The largest number of label nodes assigned to her in any optimal semi-matching of the conflict
        graph; 0 without conflict tasks.

    Notes
    -----
    **Guarantees.** Renaming workers, tasks or classes changes nobody's level. It is
    :func:`quality.hard_penalty` or one more.

    **Limits.** Those of :func:`quality.hard_penalty`.

    Examples
    --------
    Ann and cy gave the same label, so either may answer for it.

    >>> from quality import encode
    >>> hard_level(encode(["ann", "bob", "cy", "ann"], [1, 1, 1, 2], list("xyxx")))
    array([1, 1, 1], dtype=int32)
    """
    _, level = matching_and_level(conflict_graph(labels))
    return level


@check_arguments
def soft_penalty_by_shards(engine: Engine) -> Float64[np.ndarray, " workers"]:
    """Return :func:`~quality.soft_penalty`, to the bit, of a table in shards.

    Examples
    --------
    >>> from quality import LocalEngine, cut_labels, encode
    >>> labels = encode(["ann", "bob", "cy", "ann"], [1, 1, 1, 2], list("xyxx"))
    >>> soft_penalty_by_shards(LocalEngine(cut_labels(labels, [0, 1, 2])))
    array([0.5, 1. , 0.5])
    """
    return mean_share(engine.add_up(share_sums, None)[0])


def share_sums(shard: CrowdLabels | LabelShard, keep: Bool[np.ndarray, " workers"] | None) -> Sums:
    """Return what a shard adds to the soft penalties' tally of the workers kept, or of all."""
    total = np.zeros((shard.n_workers, 3), dtype=np.int64)
    everybody = np.ones(shard.n_workers, dtype=np.bool_) if keep is None else keep
    tasks = np.arange(shard.n_tasks, dtype=np.int32)
    tally_shares(total, tasks, 1, shard, everybody, unit_shares(shard))
    return (total,)
