"""How many labels per task a campaign needs, by simulated campaigns whose truth is known.

>>> found = labels_needed(Crowd(goal=0.8, tasks=60, workers=20, most=5), campaigns=2, seed=1)
>>> [row.labels for row in found.rows]
[1, 2, 3, 4, 5]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from flows.aggregators import AGGREGATORS, consensus_of
from flows.settings import ConsensusSettings
from learners.genesis import CrowdRecord, Simulation, decide_many
from quality import encode

__all__ = ["Crowd", "LabelsNeeded", "PowerRow", "labels_needed"]

SCRIPT = """\
create task /tasks -n {tasks}
set /tasks truth {{integers 0 {classes}}} options {classes} clarity {{uniform {easiest} {hardest}}}
create desk /desk
set /desk labels {most}
create neutral /crowd
create honest /crowd/honest -n {honest}
set /crowd/honest drift {{normal {drift} {spread}}}
create recorder /labels
connect /tasks to /desk
"""
SPAMMERS = "create spammer /crowd/spammers -n {spammers}\n"
RUN = "connect /desk to /crowd/#\nconnect /crowd/# to /labels\nrun\n"
SPREAD = 0.25  # of the workers' drifts, in units of their mean
LEVEL = 0.9  # of the intervals
N_DECISIONS = 20_000  # to find the drift of an accuracy
MOST_DRIFT = 8.0
MOST = 10_000_000  # tasks or workers, as a script takes them


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """A campaign to be planned.

    Parameters
    ----------
    goal
        The share of the tasks whose consensus is to be right, in (0, 1).
    tasks, workers, classes
        Whole numbers, at least 1, 2 and 2; of tasks and workers at most ten million.
    spammers
        The share of the workers who answer at random, in [0, 1).
    accuracy
        The mean accuracy of the others on these tasks; above 1 / classes, below 1.
    difficulty
        How much the tasks differ: their evidence is uniform in 1 - difficulty to 1 + difficulty; in [0, 1].
    most
        The most labels per task that are tried; at most `workers`.
    aggregator
        A name of `flows.aggregators.AGGREGATORS`.

    Raises
    ------
    ValueError
        If a number is out of its range, or there is no such aggregator.
    """

    goal: float
    tasks: int = 300
    workers: int = 50
    classes: int = 2
    spammers: float = 0.2
    accuracy: float = 0.8
    difficulty: float = 0.5
    most: int = 15
    aggregator: str = "hierarchical_dawid_skene"

    def __post_init__(self) -> None:
        if self.aggregator not in AGGREGATORS:
            raise ValueError(
                f"aggregator must be one of {', '.join(AGGREGATORS)}, got {self.aggregator!r}"
            )
        for name in ("tasks", "workers", "classes", "most"):
            value = getattr(self, name)
            if not isinstance(value, int | np.integer):
                raise ValueError(f"{name} must be a whole number, got {name}={value}")
        for name, fits, range_ in (
            ("goal", 0 < self.goal < 1, "in (0, 1)"),
            ("tasks", 1 <= self.tasks <= MOST, f"in [1, {MOST}]"),
            ("workers", 2 <= self.workers <= MOST, f"in [2, {MOST}]"),
            ("classes", 2 <= self.classes <= 100, "in [2, 100]"),
            ("spammers", 0 <= self.spammers < 1, "in [0, 1)"),
            (
                "accuracy",
                self.classes * self.accuracy > 1 and self.accuracy < 0.999,
                "above 1 / classes and below .999",
            ),
            ("difficulty", 0 <= self.difficulty <= 1, "in [0, 1]"),
            ("most", 1 <= self.most <= self.workers, f"in [1, workers={self.workers}]"),
        ):
            if not fits:
                raise ValueError(f"{name} must be {range_}, got {name}={getattr(self, name)}")
        if self.n_spammers == self.workers:
            raise ValueError(
                f"spammers must leave an honest worker, got {self.n_spammers} of {self.workers}"
            )

    @property
    def n_spammers(self) -> int:
        """The number of spammers, rounded."""
        return round(self.spammers * self.workers)


@dataclass(frozen=True, slots=True)
class PowerRow:
    """A number of labels per task, the mean accuracy of the consensus, and where 90 % of campaigns lie."""

    labels: int
    accuracy: float
    low: float
    high: float
    reached: float
    """The share of the campaigns that reach the goal."""


@dataclass(frozen=True, slots=True)
class LabelsNeeded:
    """Result of :func:`labels_needed`.

    Parameters
    ----------
    labels
        The least number of labels per task with which the mean accuracy reaches the goal; None if `most` does
        not.
    low, high
        Between these lies what 90 % of the campaigns need by themselves; None stands for more than `most`.
    rows
        Every number of labels that was tried.
    """

    labels: int | None
    low: int | None
    high: int | None
    rows: tuple[PowerRow, ...]


def labels_needed(crowd: Crowd, *, campaigns: int = 40, seed: int = 0) -> LabelsNeeded:
    """Return how many labels per task the goal needs.

    Parameters
    ----------
    crowd
        The campaign.
    campaigns
        How many are simulated, at least 2.
    seed
        Of the simulation.

    Raises
    ------
    ValueError
        If `campaigns` is below 2.

    Notes
    -----
    Each simulated campaign is labelled once, `most` times a task; fewer labels per task are a part of
    these, so that numbers of labels are compared within the same campaigns.
    """
    if not campaigns >= 2:
        raise ValueError(f"campaigns must be >= 2, got campaigns={campaigns}")
    drift = _drift_of(crowd, np.random.default_rng([seed, 0]))
    seeds = np.random.SeedSequence([seed, 1]).spawn(campaigns)
    accuracy = np.array([_accuracies(crowd, drift, np.random.default_rng(one)) for one in seeds])
    low, high = np.quantile(accuracy, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    mean, reached = accuracy.mean(axis=0), (accuracy >= crowd.goal).mean(axis=0)
    columns = zip(mean, low, high, reached, strict=True)
    rows = tuple(PowerRow(n, *map(float, row)) for n, row in enumerate(columns, start=1))
    needed = np.sort([_first(one >= crowd.goal) for one in accuracy])
    ends = np.quantile(needed, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], method="closest_observation")
    answers = [int(n) if n <= crowd.most else None for n in (_first(mean >= crowd.goal), *ends)]
    return LabelsNeeded(answers[0], answers[1], answers[2], rows)


def _first(reached: np.ndarray) -> int:
    """Return the first number of labels that reaches the goal; one more than there are if none does."""
    return int(np.argmax(reached)) + 1 if reached.any() else len(reached) + 1


def _drift_of(crowd: Crowd, rng: np.random.Generator) -> float:
    """Return the drift with which honest workers have their accuracy, by bisection on common draws."""
    sim = Simulation(rng=np.random.default_rng(0))
    sim.create("honest", "/w")
    fields = ("bound", "noise", "leak", "inhibition", "base")
    worker = {name: sim.get("/w", name) for name in fields}
    key = int(rng.integers(2**32))
    clarity = np.linspace(1 - crowd.difficulty, 1 + crowd.difficulty, 19)[1::2]
    scale = 1 + SPREAD * np.array([-1.28, -0.52, 0.0, 0.52, 1.28])  # fifths of a normal
    inputs = np.outer(clarity, scale).ravel()

    def accuracy(drift: float) -> float:
        right = [
            (decide_many(
                N_DECISIONS // len(inputs), options=crowd.classes, drift=drift * one, **worker,
                rng=np.random.default_rng([key, place]),
            ).label == 0).mean()
            for place, one in enumerate(inputs)
        ]  # fmt: skip
        return float(np.mean(right))

    low, high = 0.0, MOST_DRIFT
    if accuracy(high) < crowd.accuracy:
        raise ValueError(
            f"accuracy must be below {accuracy(high):.3f} with difficulty={crowd.difficulty}, got "
            f"accuracy={crowd.accuracy}"
        )
    for _ in range(16):
        middle = (low + high) / 2
        low, high = (middle, high) if accuracy(middle) < crowd.accuracy else (low, middle)
    return (low + high) / 2


def _accuracies(crowd: Crowd, drift: float, rng: np.random.Generator) -> list[float]:
    """Return the accuracy of one campaign's consensus, with 1, 2, ... labels per task."""
    script = SCRIPT.format(
        tasks=crowd.tasks, classes=crowd.classes, most=crowd.most, drift=drift,
        honest=crowd.workers - crowd.n_spammers, spread=SPREAD * drift,
        easiest=1 - crowd.difficulty, hardest=1 + crowd.difficulty,
    )  # fmt: skip
    if crowd.n_spammers:
        script += SPAMMERS.format(spammers=crowd.n_spammers)
    simulation = Simulation(rng=rng)
    simulation.script(script + RUN)
    return list(_by_labels(simulation.result("/labels"), crowd, rng))


def _by_labels(record: CrowdRecord, crowd: Crowd, rng: np.random.Generator) -> Iterator[float]:
    """Yield the accuracy with the first 1, 2, ... labels of each task, in an order of their own."""
    chosen = ConsensusSettings.model_validate({"aggregator": crowd.aggregator})
    order = np.lexsort((rng.random(len(record.task)), record.task))
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order)) % crowd.most  # every task has `most` labels
    for n in range(1, crowd.most + 1):
        rows = place < n
        classes = list(range(crowd.classes))
        labels = encode(record.worker[rows], record.task[rows], record.label[rows], classes=classes)
        consensus = consensus_of(labels, chosen, seed=0)
        tied = consensus.posterior >= consensus.posterior.max(axis=1, keepdims=True) - 1e-12
        right = tied[np.arange(crowd.tasks), record.truth] / tied.sum(axis=1)
        yield float(right.mean())
