"""The default beside single rules and crowd-kit's, on crowds whose every trait is drawn at random.

python -m benchmarks.quality.random_crowds
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from benchmarks.peers.crowdkit_labels import PEERS, ask_crowdkit
from benchmarks.publish import parser_of, publish
from benchmarks.quality.calibration import drawn, wrong_first
from benchmarks.quality.crowd_sets import right
from benchmarks.quality.thinned import RULES as ALL_RULES
from quality import (
    CrowdLabels,
    auto,
    calibrate,
    dependent_groups,
    encode,
    majority_vote,
)
from quality.choice.automatic import ENOUGH
from quality.confidence import calibration_error

RULES = {name: rule for name, rule in ALL_RULES.items() if name != "auto"}  # here with its groups
N_CROWDS = 120
SECONDS = 2  # of CPU, that a fit of crowd-kit's may take
KNOWS = 10.0  # points by which the votes of a crowd that knows something beat its commonest class
LIMIT = 1.0  # point: less is no difference
GOLD_FROM = 300  # tasks, from which 100 of them can be gold
HEADER = ("rule", "crowds", "mean", "auto there", "auto ahead", "auto behind")


class Kind(NamedTuple):
    """The traits of a crowd.

    A task has `n_labels` labels, or a Poisson number with that mean if labels are `uneven`. Workers' numbers
    of labels follow a Pareto law of index `busy`, or are alike if it is 0; if they are `choosy`, they take
    tasks of classes that they like. `skill` are the parameters of a beta law. Of `difficulty` is the
    spread of the logarithms of the powers that tasks raise skill to. A share `misled` of the tasks
    leads seven tenths of all answers to one wrong class. `others` answer otherwise, and are a share
    `n_others` of the workers. Workers who tire lose half of their skill by their last task.
    """

    n_classes: int
    n_tasks: int
    n_workers: int
    n_labels: int
    uneven: bool
    busy: float
    choosy: bool
    skill: tuple[float, float]
    difficulty: float
    misled: float
    shares: str
    errors: str
    others: str
    n_others: float
    tire: bool


@dataclass(frozen=True)
class Answers:
    """The labels that are asked for, while they are given: a worker, a task, its truth and a label each."""

    worker: np.ndarray
    task: np.ndarray
    true: np.ndarray
    given: np.ndarray
    n_classes: int
    rng: np.random.Generator

    @property
    def another(self) -> np.ndarray:
        """A wrong class for each label, all alike."""
        moved = self.rng.integers(1, self.n_classes, size=len(self.true))
        wrong: np.ndarray = (self.true + moved) % self.n_classes
        return wrong

    def often(self, chance: float) -> np.ndarray:
        """Whether something of this chance happens, at each label."""
        often: np.ndarray = self.rng.random(len(self.true)) < chance
        return often


def spam(asked: Answers) -> np.ndarray:
    return asked.rng.integers(asked.n_classes, size=len(asked.true))


def constant(asked: Answers) -> np.ndarray:
    favourite: np.ndarray = asked.rng.integers(asked.n_classes, size=asked.worker.max() + 1)
    return favourite[asked.worker]


def malicious(asked: Answers) -> np.ndarray:
    return np.where(asked.often(0.9), asked.another, asked.given)


def alike(asked: Answers) -> np.ndarray:
    return np.where(asked.often(0.6), (asked.true + 1) % asked.n_classes, asked.given)


OTHERS: dict[str, Callable[[Answers], np.ndarray]] = {
    "spam": spam,
    "constant": constant,
    "malicious": malicious,
    "wrong alike": alike,
}


def kind_of(rng: np.random.Generator) -> Kind:
    """Draw a crowd's traits."""
    skills = ((8.0, 2.0), (4.0, 2.0), (2.0, 2.0), (12.0, 1.5), (3.0, 3.0), (1.0, 1.0))
    return Kind(
        n_classes=int(rng.choice([2, 2, 2, 3, 4, 5, 8, 15])),
        n_tasks=int(rng.choice([100, 300, 800, 2000])),
        n_workers=int(rng.choice([6, 15, 40, 100, 300])),
        n_labels=int(rng.choice([2, 3, 3, 5, 5, 8, 15])),
        uneven=bool(rng.random() < 0.4),
        busy=float(rng.choice([0.0, 0.0, 1.0, 1.5])),
        choosy=bool(rng.random() < 0.2),
        skill=skills[rng.integers(len(skills))],
        difficulty=float(rng.choice([0.0, 0.0, 0.5, 1.0])),
        misled=float(rng.choice([0.0, 0.0, 0.05, 0.15])),
        shares=str(rng.choice(["even", "even", "drawn", "rare"])),
        errors=str(rng.choice(["even", "near", "pairs", "own"])),
        others=str(rng.choice(["none", "none", *OTHERS])),
        n_others=float(rng.choice([0.1, 0.2, 0.35])),
        tire=bool(rng.random() < 0.15),
    )


def crowd(kind: Kind, rng: np.random.Generator) -> tuple[CrowdLabels, np.ndarray]:
    """A crowd's labels, and the truth of its tasks."""
    truth = rng.choice(kind.n_classes, kind.n_tasks, p=class_shares(kind, rng))
    worker, task = assigned(kind, truth, rng)
    true = truth[task]
    wrong = wrong_classes(kind, rng)[worker, true].cumsum(axis=1)
    error = (rng.random(len(true))[:, np.newaxis] > wrong).sum(axis=1).clip(max=kind.n_classes - 1)
    knows = rng.random(len(true)) < chances(kind, worker, task, true, rng)
    given = np.where(knows, true, error)
    misled, to = (
        rng.random(kind.n_tasks) < kind.misled,
        rng.integers(1, kind.n_classes, kind.n_tasks),
    )
    asked = Answers(worker, task, true, given, kind.n_classes, rng)
    given = np.where(misled[task] & asked.often(0.7), (true + to[task]) % kind.n_classes, given)
    if kind.others != "none":
        other = rng.permutation(kind.n_workers) < round(kind.n_others * kind.n_workers)
        given = np.where(other[worker], OTHERS[kind.others](asked), given)
    labels = encode(worker, task, given, classes=list(range(kind.n_classes)))
    return labels, truth[labels.tasks]


def class_shares(kind: Kind, rng: np.random.Generator) -> np.ndarray:
    """The shares of the classes: even, drawn at random, or a tenth at most for all but the first."""
    n = kind.n_classes
    if kind.shares == "drawn":
        return rng.dirichlet(np.full(n, 1.5))
    if kind.shares == "rare":
        return np.array([0.9] + [0.1 / (n - 1)] * (n - 1))
    return np.full(n, 1 / n)


def assigned(
    kind: Kind, truth: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The worker and the task of each label, in the order of arrival."""
    n_labels = np.full(kind.n_tasks, kind.n_labels)
    if kind.uneven:
        n_labels = np.maximum(rng.poisson(kind.n_labels, kind.n_tasks), 1)
    n_labels = np.minimum(n_labels, kind.n_workers)
    active = rng.pareto(kind.busy, kind.n_workers) + 0.1 if kind.busy else np.ones(kind.n_workers)
    likes = np.ones((kind.n_workers, kind.n_classes))
    if kind.choosy:
        likes = (rng.random(likes.shape) + 0.02) ** 2
    weight = active[:, np.newaxis] * likes
    weight /= weight.sum(axis=0)
    chosen = [
        rng.choice(kind.n_workers, n, replace=False, p=weight[:, true])
        for n, true in zip(n_labels, truth, strict=True)
    ]
    order = rng.permutation(int(n_labels.sum()))
    return np.concatenate(chosen)[order], np.repeat(np.arange(kind.n_tasks), n_labels)[order]


def wrong_classes(kind: Kind, rng: np.random.Generator) -> np.ndarray:
    """The shares of the wrong classes in each worker's errors, as ``[worker, truth, label]``.

    They are even; larger for near classes; large for one other class; or each worker's own.
    """
    n = kind.n_classes
    classes = np.arange(n)
    shares = np.ones((kind.n_workers, n, n))
    if kind.errors == "near":
        shares[:] = np.exp(-1.5 * np.abs(classes[:, np.newaxis] - classes))
    elif kind.errors == "pairs":
        shares[:, classes, np.where(classes ^ 1 < n, classes ^ 1, 0)] = 6.0
    elif kind.errors == "own":
        shares = rng.gamma(0.4, 1.0, shares.shape) + 0.02
    shares[:, classes, classes] = 0.0
    return shares / shares.sum(axis=2, keepdims=True)


def chances(
    kind: Kind, worker: np.ndarray, task: np.ndarray, true: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """How likely each label is right by its worker's skill, its task's difficulty and its class."""
    power = np.exp(rng.normal(0.0, kind.difficulty, kind.n_tasks))
    chance = rng.beta(*kind.skill, kind.n_workers)[worker] ** power[task]
    if kind.tire:
        order = np.lexsort((np.arange(len(worker)), worker))
        n_labels = np.bincount(worker, minlength=kind.n_workers)
        place = np.empty(len(worker))
        place[order] = np.arange(len(worker)) - np.repeat(np.cumsum(n_labels) - n_labels, n_labels)
        chance *= 1 - 0.5 * place / n_labels[worker]
    if kind.errors == "own":
        easier = rng.normal(0.0, 0.8, (kind.n_workers, kind.n_classes))[worker, true]
        odds = chance / np.maximum(1 - chance, 1e-9) * np.exp(easier)
        chance = odds / (1 + odds)
    return np.asarray(chance)


@dataclass(frozen=True)
class Found:
    """What was found of a crowd: per cent right by rule, and how far the default's confidence is off.

    `knows` says whether its votes beat the commonest class. Calibration errors are the model's own, without
    gold, and with 100 gold tasks (NaN if there are too few tasks); `first` are the wrong ones among
    the first 5 % of the tasks, by confidence and by the share of votes. Tasks in another order turn a share
    `turned` of the labels, where labels are dealt to folds once and as often as they are by default.
    """

    shares: dict[str, float]
    knows: bool
    has_group: bool
    wrong_alike: bool
    errors: tuple[float, float, float]
    first: tuple[float, float]
    turned: tuple[float, float]


def measure(seed: int) -> Found:
    """Look at the crowd of a seed."""
    rng = np.random.default_rng([2, seed])
    kind = kind_of(rng)
    labels, truth = crowd(kind, rng)
    groups = dependent_groups(labels)
    found = auto(labels, groups=groups.group)
    shares = {"auto": right(found.posterior, truth)}
    shares |= {name: right(rule(labels).posterior, truth) for name, rule in RULES.items()}
    for name, answer in ask_crowdkit(labels, SECONDS).items():
        share = answer.right(truth)
        if isinstance(share, float):
            shares[f"crowd-kit {name}"] = share
    free = calibrate(labels, found.posterior, groups=groups.group)
    correct, by_gold = free.label == truth, np.nan
    if kind.n_tasks >= GOLD_FROM:
        gold, others = drawn(truth, seed)
        told = calibrate(labels, found.posterior, gold=gold, groups=groups.group)
        by_gold = calibration_error(told.confidence[others], correct[others])
    errors = (
        *(calibration_error(values, correct) for values in (free.model, free.confidence)),
        by_gold,
    )
    votes = majority_vote(labels).posterior.max(axis=1)
    of_first = (wrong_first(free.confidence * free.model, ~correct), wrong_first(votes, ~correct))
    commonest = 100 * np.bincount(truth).max() / len(truth)
    knows = shares["majority_vote"] >= commonest + KNOWS
    alike_too = kind.others == "wrong alike"
    turned = tuple(
        turned_by_order(labels, groups.group, enough) for enough in (labels.n_labels, ENOUGH)
    )
    has_group = len(groups.sizes) > 0
    return Found(shares, bool(knows), has_group, alike_too, errors, of_first, turned)


def turned_by_order(labels: CrowdLabels, groups: np.ndarray, enough: int) -> float:
    """Return the share of labels that the default turns where the tasks come in another order.

    Labels are dealt to folds once, or as often as they fit into `enough`.
    """
    order = np.random.default_rng(labels.n_labels).permutation(labels.n_tasks)
    other = encode(labels.worker, order[labels.task], labels.label, classes=range(labels.n_classes))
    one, two = (auto(table, groups=groups, enough=enough).label for table in (labels, other))
    return float(np.mean(one != two[order]))


def rows_of(which: str, found: list[Found]) -> Iterator[tuple[str, ...]]:
    """A row for each rule: its mean over the crowds where it has an answer, and `auto`'s on these."""
    for rule in ("auto", *RULES, *(f"crowd-kit {name}" for name in PEERS)):
        those = [one.shares for one in found if rule in one.shares]
        if those:
            ahead = np.array([one["auto"] - one[rule] for one in those])
            mean, there = (np.mean([one[name] for one in those]) for name in (rule, "auto"))
            counts = np.count_nonzero(ahead > LIMIT), np.count_nonzero(ahead < -LIMIT)
            yield (
                f"{which}, {rule}",
                str(len(those)),
                f"{mean:.2f}",
                f"{there:.2f}",
                *map(str, counts),
            )
    best = np.array(
        [
            one.shares["auto"] - max(one.shares["majority_vote"], one.shares["dawid_skene"])
            for one in found
        ]
    )
    counts = np.count_nonzero(best > LIMIT), np.count_nonzero(best < -LIMIT)
    yield f"{which}, the better of MV and DS", str(len(found)), "–", "–", *map(str, counts)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--crowds", type=int, default=N_CROWDS, help="crowds that are drawn")
    found = []
    for seed in range(parser.parse_args().crowds):
        found.append(measure(seed))
        print(f"crowd {seed + 1}", flush=True)
    knowing = [one for one in found if one.knows]
    rows = [*rows_of("all", found), *rows_of("that know", knowing)]
    errors = np.nanmean([one.errors for one in knowing], axis=0)
    first, by_votes = np.sum([one.first for one in knowing], axis=0)
    turned = 100 * np.mean([one.turned for one in found], axis=0)
    note = NOTE.format(
        model=errors[0], alone=errors[1], gold=errors[2], first=first / by_votes,
        once=turned[0], often=turned[1],
        n_crowds=len(found), grouped=sum(one.has_group for one in found),
        grouped_alike=sum(one.has_group and one.wrong_alike for one in found),
    )  # fmt: skip
    publish("random_crowds", "Crowds drawn at random", HEADER, rows, note=note)


NOTE = (
    "Per cent of all tasks right, ties of ours in expectation, mean over crowds. Nothing was chosen with "
    "them in view. Every trait of a crowd is drawn by `kind_of`: classes (2 to 15), tasks (100 to 2,000), "
    "workers (6 to 300), labels a task (2 to 15, even or not), how busy and how skilled workers are, "
    "which tasks they take, difficulty, tasks that mislead everybody, the classes' shares, which errors "
    "are made, who else answers (at random, with one class, wrongly, wrongly and alike), and whether "
    "workers tire. `auto` is what a run takes by default: the pool, in which workers who do not answer on "
    "their own have one vote. Auto there: `auto`'s mean over the same crowds. Ahead, behind: crowds in "
    f"which `auto` is more than {LIMIT:g} point better or worse. That know: crowds whose majority vote is "
    f"right {KNOWS:g} points more often than the commonest class is true. crowd-kit 1.4.2 by integer ids, "
    f"100 iterations where it takes a number, no answer after {SECONDS} CPU seconds. Nobody copies in "
    "these crowds; of {n_crowds}, {grouped} have a group, and {grouped_alike} of those have workers "
    "who are wrong alike. In crowds that know, the calibration error of `auto`'s confidence is "
    "{model:.3f} by the model itself, {alone:.3f} without gold, and {gold:.3f} with 100 gold tasks "
    f"drawn at random (crowds of {GOLD_FROM} tasks or more). The first 5 % of the tasks in the order of "
    "the label plan hold {first:.2f} times as many wrong ones as those of the lowest share of votes. "
    "Tasks in another order turn {often:.2f} % of the labels of all crowds; {once:.2f} % where the labels "
    "are dealt to folds but once."
)


if __name__ == "__main__":
    main()
