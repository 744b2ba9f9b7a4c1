"""Confidence in labels that a voice joined, counted by the workers' votes and with the voice's.

    python -m benchmarks.quality.voice_confidence  # -> docs/results/voice_confidence.md

The voice is that of a run (`benchmarks.quality.voices`): features of public sets, answers of models beside
people, and features of simulated campaigns. Nothing was fitted to these figures: the voice has the votes
that `quality.join_voice` measures, and the regression is that of confidence without a voice.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from benchmarks.publish import parser_of, publish
from benchmarks.quality.crowd_sets import DATA, read_set
from benchmarks.quality.dependence import PANELS, panel_of
from benchmarks.quality.voices import CROWDS, SEEDS, SETS, campaign, features_of, joined, split
from flows.stages.learning.task_voices import answers_as_features
from quality import CrowdLabels, calibrate, encode, hierarchical_dawid_skene, reliability

N_GOLD = 100  # at most, and a half of what there is
OVERLAPS = (0.02, 0.05, 0.2)  # of the tasks have three labels, the others one
HEADER = (
    "labels", "labels alone, % right", "with the voice", "worth, labels a task",
    "confident, %: workers' votes", "and the voice's", "error: workers' votes", "and the voice's",
    "Brier: workers' votes", "and the voice's", "error with gold: workers' votes", "and the voice's",
)  # fmt: skip
NOTE = (
    "Hierarchical Dawid–Skene, joined as by a run; rows in which the voice is heard, mean over their draws "
    f"({SEEDS} deals of the tasks to folds; of panels, splits of the people; of campaigns, draws). "
    "Confidence by `quality.calibrate`: with the workers' votes alone, and with `voice_votes` as in a run. "
    "Error: expected calibration error without gold, then on the other tasks with "
    f"{N_GOLD} random gold tasks, or half of all if fewer. Two labels a task: drawn from each task's; "
    "hardly two: seven of ten of these tasks keep one. Campaigns have 800 tasks and 20 features (page "
    "`voices_simulated`). Those with one label a task have 25 workers, right on 40 to 95 %, and 2,000 tasks "
    "of 4 classes with 10 features; some tasks have two labels more."
)


class Case(NamedTuple):
    """Labels, the class code of each task with gold (-1 elsewhere), and what the voice learns from."""

    labels: CrowdLabels
    gold: np.ndarray
    features: np.ndarray


def main() -> None:
    parser_of(__doc__).parse_args()
    rows = []
    for title, cases in (
        *public_cases().items(),
        *panel_cases().items(),
        *campaign_cases().items(),
    ):
        found = [figures for seed, case in enumerate(cases) if (figures := measured(case, seed))]
        if found:
            rows.append([title, *cells(np.mean(found, axis=0))])
            print(rows[-1], flush=True)
    title = "Confidence where features or models' answers are heard"
    publish("voice_confidence", title, HEADER, rows, note=NOTE)


def public_cases() -> dict[str, list[Case]]:
    """The public sets with features: as they are, and with fewer labels."""
    found = {}
    for name in SETS:
        labels, gold = read_set(DATA / name)
        own, fewer = features_of(DATA / name, labels), {"": [labels] * SEEDS}
        fewer[", two labels a task"] = [at_most(labels, 2.0, seed) for seed in range(SEEDS)]
        fewer[", hardly two"] = [at_most(labels, 1.3, seed) for seed in range(SEEDS)]
        for how, tables in fewer.items():
            found[name + how] = [Case(table, gold, own) for table in tables]
    return found


def at_most(labels: CrowdLabels, mean: float, seed: int) -> CrowdLabels:
    """One or two labels of each task, drawn; two of so many tasks that a task has `mean` of them."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(labels.n_labels)
    order = order[np.argsort(labels.task[order], kind="stable")]
    place = np.empty(labels.n_labels, dtype=np.int64)
    place[order] = np.arange(labels.n_labels) - labels.task_start[labels.task[order]]
    most = np.where(rng.random(labels.n_tasks) < mean - 1.0, 2, 1)
    return labels.keep_labels(place < most[labels.task])


def panel_cases() -> dict[str, list[Case]]:
    """People with models beside them, as on the page `voices_panels`."""
    found = {}
    for name in PANELS:
        panel = panel_of(name)
        code = {one: at for at, one in enumerate(panel.classes)}
        cases = found.setdefault(f"{name}, models beside people", [])
        for seed in range(SEEDS):
            given, truth = split(panel, seed)
            tasks = {row[1] for row in given}
            beside = [row for row in panel.models if row[1] in tasks]
            labels = encode(*zip(*given, strict=True), classes=panel.classes)
            every = encode(*zip(*given, *beside, strict=True), classes=panel.classes)
            models = np.flatnonzero(np.isin(every.workers, [row[0] for row in beside]))
            gold = [code.get(truth.get(task, ""), -1) for task in labels.tasks.tolist()]
            cases.append(Case(labels, np.array(gold), answers_as_features(every, models)))
    return found


def campaign_cases() -> dict[str, list[Case]]:
    """Simulated campaigns: those of the page `voices_simulated`, and some with hardly an overlap."""
    found = {
        f"campaign, 4 classes, 3 labels, {apart:g} apart: {about}": [
            Case(*campaign(kind, 4, 3, apart, seed)) for seed in range(SEEDS)
        ]
        for apart in (0.3, 1.2)
        for kind, about in CROWDS.items()
    }
    for apart in (0.4, 1.2):
        for share in OVERLAPS:
            title = f"campaign, one label a task, three on {share:.0%}, {apart:g} apart"
            found[title] = [single_labels(share, apart, seed) for seed in range(SEEDS)]
    return found


def single_labels(share: float, apart: float, seed: int) -> Case:
    """A campaign of one label a task, and of three on a share of the tasks."""
    rng = np.random.default_rng(seed)
    n_tasks, n_workers, n_classes = 2_000, 25, 4
    truth = rng.integers(n_classes, size=n_tasks)
    features = apart * rng.normal(size=(n_classes, 10))[truth] + rng.normal(size=(n_tasks, 10))
    skill = rng.uniform(0.4, 0.95, size=n_workers)
    several = set(rng.choice(n_tasks, round(share * n_tasks), replace=False).tolist())
    rows = [
        (worker, task)
        for task in range(n_tasks)
        for worker in rng.choice(n_workers, 3 if task in several else 1, replace=False)
    ]
    worker, task = np.array(rows).T
    wrong = rng.random(len(rows)) > skill[worker]
    label = (truth[task] + wrong * rng.integers(1, n_classes, size=len(rows))) % n_classes
    return Case(encode(worker, task, label, classes=range(n_classes)), truth, features)


def measured(case: Case, seed: int) -> list[float] | None:
    """The figures of a row for one draw; None where the voice is not heard."""
    labels, gold, features = case
    found = joined(labels, hierarchical_dawid_skene, features, seed)
    if not found.heard:
        return None
    known = np.flatnonzero(gold >= 0)
    right = found.label == gold
    alone = hierarchical_dawid_skene(labels).label == gold
    rng = np.random.default_rng(seed)
    shown = rng.permutation(known)[: min(N_GOLD, len(known) // 2)]
    others, some = np.setdiff1d(known, shown), np.full(len(gold), -1)
    some[shown] = gold[shown]
    by_whom = []
    for votes in (None, found.votes):
        sure = calibrate(labels, found.posterior, voice_votes=votes).confidence
        taught = calibrate(labels, found.posterior, voice_votes=votes, gold=some).confidence
        plain = reliability(sure[known], right[known], rng=rng)
        by_gold = reliability(taught[others], right[others], rng=rng)
        by_whom.append((100 * plain.confidence, plain.error, plain.brier, by_gold.error))
    shares = 100 * alone[known].mean(), 100 * right[known].mean()
    return [*shares, found.worth, *np.array(by_whom).T.ravel()]


def cells(figures: np.ndarray) -> list[str]:
    """The figures as they are printed."""
    return [*(f"{one:.1f}" for one in figures[:5]), *(f"{one:.3f}" for one in figures[5:])]


if __name__ == "__main__":
    main()
