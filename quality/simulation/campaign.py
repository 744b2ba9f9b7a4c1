"""A simulated labelling campaign of known truth, from which the sample data is made.

>>> simulate_campaign(n_tasks=100, n_gold=10, rng=np.random.default_rng(0))
Campaign(500 labels by 120 workers, 100 tasks with labels and 1500 without, in 18 groups)
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64, Shaped

from quality.argument_types import check_arguments
from quality.labels import freeze_arrays
from quality.simulation.crowds import SimulatedCrowd, power_law_assignment, simulate_crowd

__all__ = ["Campaign", "simulate_campaign"]

ADVERSARIES = ("random", "malicious", "uniform", "colluding")
CLASSES = ("benign", "suspicious", "toxic")
MIX = np.array([0.55, 0.27, 0.18])  # mean class shares in labelled groups
SHIFTED_MIX = np.array([0.30, 0.32, 0.38])  # and in unlabelled groups
N_FEATURES = 16
SEPARATION = 1.9  # distance of the class means: a linear model gets about 85 % right
NUISANCE = 1.0  # length of a factor that all features share, independent of the class
DAY = 24 * 3600


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Campaign:
    """Result of :func:`simulate_campaign`: the data that a campaign collects, and the truth.

    Parameters
    ----------
    label_worker, label_task, label, label_time
        One row per label in the order they came in: names, class code, and whole seconds since
        the campaign began.
    tasks, group, features
        Names, group names and features of all tasks.
    labelled
        True for the tasks of the groups that were given to the crowd.
    truth
        The true class code of each task.
    gold
        True for the tasks whose truth the campaign's owner knows.
    workers, worker_kind, worker_accuracy
        Names, ``"honest"`` or a strategy, and each honest worker's probability of a right label (NaN
        for the others).
    classes
        The names of the class codes.
    """

    label_worker: Shaped[np.ndarray, " labels"]
    label_task: Shaped[np.ndarray, " labels"]
    label: Int64[np.ndarray, " labels"]
    label_time: Int64[np.ndarray, " labels"]
    tasks: Shaped[np.ndarray, " tasks"]
    group: Shaped[np.ndarray, " tasks"]
    features: Float64[np.ndarray, "tasks features"]
    labelled: Bool[np.ndarray, " tasks"]
    truth: Int64[np.ndarray, " tasks"]
    gold: Bool[np.ndarray, " tasks"]
    workers: Shaped[np.ndarray, " workers"]
    worker_kind: Shaped[np.ndarray, " workers"]
    worker_accuracy: Float64[np.ndarray, " workers"]
    classes: Shaped[np.ndarray, " classes"]

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def __repr__(self) -> str:
        return (
            f"Campaign({len(self.label)} labels by {len(self.workers)} workers, "
            f"{np.count_nonzero(self.labelled)} tasks with labels and "
            f"{np.count_nonzero(~self.labelled)} without, in {len(np.unique(self.group))} groups)"
        )


@check_arguments
def simulate_campaign(
    *,
    n_tasks: int = 4000,
    n_groups: int = 12,
    n_unlabelled_groups: int = 6,
    unlabelled_group_size: int = 250,
    n_workers: int = 120,
    adversaries_per_kind: int = 6,
    labels_per_task: int = 5,
    n_gold: int = 300,
    rng: np.random.Generator,
) -> Campaign:
    """Simulate a content-moderation campaign: three classes, groups of different mix, adversaries.

    Parameters
    ----------
    n_tasks, n_groups
        Tasks given to the crowd, and the groups they fall into, in turn.
    n_unlabelled_groups, unlabelled_group_size
        Groups that get no labels, and the tasks of each; their mix of classes is another, and their
        features given the class have the same law.
    n_workers, adversaries_per_kind
        Size of the crowd, and number of workers of each kind: random, malicious, uniform, colluding.
    labels_per_task
        Number of different workers asked for each task.
    n_gold
        Labelled tasks whose truth is known, at most `n_tasks`.
    rng
        Source of randomness.

    Raises
    ------
    ValueError
        If a size is out of its range.

    Notes
    -----
    **Guarantees.** Features given the class have the same law in every group. Every feature has
    mean 0 and standard deviation 1 over all tasks. The same generator gives the same campaign.

    Examples
    --------
    >>> simulate_campaign(rng=np.random.default_rng(0))
    Campaign(20000 labels by 120 workers, 4000 tasks with labels and 1500 without, in 18 groups)
    """
    _check_sizes(n_tasks, n_groups, n_unlabelled_groups, unlabelled_group_size, n_gold)
    unlabelled = n_groups + np.repeat(np.arange(n_unlabelled_groups), unlabelled_group_size)
    group = np.concatenate([np.sort(np.arange(n_tasks) % n_groups), unlabelled])
    truth = _truth(group, n_groups, n_groups + n_unlabelled_groups, rng)
    assignment = power_law_assignment(
        n_tasks=n_tasks, n_workers=n_workers, labels_per_task=labels_per_task, rng=rng
    )
    adversaries = dict.fromkeys(ADVERSARIES, adversaries_per_kind)
    crowd = simulate_crowd(
        assignment, truth[:n_tasks], n_classes=len(CLASSES), adversaries=adversaries, rng=rng
    )
    time = _times(crowd, rng)
    order = np.argsort(time, kind="stable")
    # names are assigned at random, so that they reveal neither place nor group
    tasks = _names("t", 5, len(group))[rng.permutation(len(group))]
    workers = _names("w", 3, n_workers)
    by_name = np.argsort(tasks)
    gold = np.zeros(len(group), dtype=np.bool_)
    gold[rng.choice(n_tasks, size=n_gold, replace=False)] = True
    return Campaign(
        label_worker=workers[crowd.worker[order]],
        label_task=tasks[crowd.task[order]],
        label=crowd.label[order],
        label_time=time[order],
        tasks=tasks[by_name],
        group=_group_names(n_groups + n_unlabelled_groups)[group[by_name]],
        features=_features(truth, rng)[by_name],
        labelled=group[by_name] < n_groups,
        truth=truth[by_name],
        gold=gold[by_name],
        workers=workers,
        worker_kind=crowd.kind.copy(),
        worker_accuracy=crowd.accuracy.copy(),
        classes=np.array(CLASSES),
    )


def _check_sizes(
    n_tasks: int, n_groups: int, n_unlabelled_groups: int, unlabelled_group_size: int, n_gold: int
) -> None:
    if not 1 <= n_groups <= n_tasks:
        raise ValueError(f"n_groups must be in [1, n_tasks={n_tasks}], got n_groups={n_groups}")
    if not (n_unlabelled_groups >= 0 and unlabelled_group_size >= 0):
        sizes = (n_unlabelled_groups, unlabelled_group_size)
        raise ValueError(f"the unlabelled groups must have sizes >= 0, got {sizes}")
    if not n_tasks + n_unlabelled_groups * unlabelled_group_size >= 2:
        raise ValueError(
            f"tasks must be 2 or more, so that features have a spread, got n_tasks={n_tasks}"
        )
    if not 0 <= n_gold <= n_tasks:
        raise ValueError(f"n_gold must be in [0, n_tasks={n_tasks}], got n_gold={n_gold}")


def _truth(
    group: Int64[np.ndarray, " tasks"], n_labelled: int, n_groups: int, rng: np.random.Generator
) -> Int64[np.ndarray, " tasks"]:
    """Draw classes; each group has its own mix, and groups without labels have another mean mix."""
    mix = np.concatenate(
        [
            rng.dirichlet(6 * MIX, size=n_labelled),
            rng.dirichlet(12 * SHIFTED_MIX, size=n_groups - n_labelled),
        ]
    )
    above = rng.random(len(group))[:, np.newaxis] > np.cumsum(mix, axis=1)[group, :-1]
    truth: np.ndarray = above.sum(axis=1)
    return truth


def _features(
    truth: Int64[np.ndarray, " tasks"], rng: np.random.Generator
) -> Float64[np.ndarray, "tasks features"]:
    """Draw features: class means at equal distances, one factor that all share, and noise."""
    axes = np.linalg.qr(rng.standard_normal((N_FEATURES, len(CLASSES) + 1)))[0].T
    mean = SEPARATION * axes[: len(CLASSES)]
    loading = NUISANCE * axes[-1] + rng.normal(scale=0.3, size=N_FEATURES)
    factor = rng.standard_normal((len(truth), 1))
    features = mean[truth] + factor * loading + rng.standard_normal((len(truth), N_FEATURES))
    scaled: np.ndarray = (features - features.mean(axis=0)) / features.std(axis=0)
    return scaled


def _times(crowd: SimulatedCrowd, rng: np.random.Generator) -> Int64[np.ndarray, " labels"]:
    """Draw times: each worker begins in the first days and works with breaks; adversaries are faster."""
    honest = crowd.kind[crowd.worker] == "honest"
    gap = rng.lognormal(np.where(honest, np.log(22.0), np.log(6.0)), 0.6)
    gap += (rng.random(len(gap)) < 1 / 40) * rng.exponential(DAY / 6, size=len(gap))
    begin = rng.uniform(0, 3 * DAY, size=len(crowd.kind))
    order = np.lexsort((rng.random(len(gap)), crowd.worker))  # her tasks in any order
    elapsed = np.cumsum(gap[order])
    first = np.searchsorted(crowd.worker[order], np.arange(len(crowd.kind)))
    before = np.append(0.0, elapsed)[first]
    time = np.empty(len(gap), dtype=np.int64)
    time[order] = (begin - before)[crowd.worker[order]] + elapsed
    return time


def _names(letter: str, width: int, count: int) -> Shaped[np.ndarray, " names"]:
    """Return w000, w001, ...; wider if the count needs it."""
    width = max(width, len(str(count - 1)))
    return np.array([f"{letter}{number:0{width}d}" for number in range(count)])


def _group_names(count: int) -> Shaped[np.ndarray, " groups"]:
    """Return site-a, site-b, ..., site-z, site-aa, ..., site-zz, site-aaa, ..."""
    return np.array([f"site-{_letters(place)}" for place in range(count)])


def _letters(place: int) -> str:
    """Return a, b, ..., z, aa, ab, ... for the places from 0."""
    name = ""
    while place >= 0:
        place, letter = divmod(place, 26)
        name, place = chr(ord("a") + letter) + name, place - 1
    return name
