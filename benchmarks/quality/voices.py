"""What features of tasks add to a consensus, on public sets and on simulated campaigns.

    python -m benchmarks.quality.voices            # public sets -> docs/results/voices.md
    python -m benchmarks.quality.voices simulated  # campaigns -> docs/results/voices_simulated.md
    python -m benchmarks.quality.voices panels     # people with models -> docs/results/voices_panels.md
    python -m benchmarks.quality.voices alone      # half of the tasks by models alone -> voices_alone.md

The steps are those of a run (`flows/stages/learning/task_voices.py`). Its constants were settled on the
simulated campaigns; no gold of a public set was looked at for them.
"""

from __future__ import annotations

import csv
import gzip
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.publish import parser_of, publish
from benchmarks.quality.crowd_sets import DATA, read_set, right
from benchmarks.quality.dependence import PANELS, Panel, panel_of
from flows.aggregators import consensus_of
from flows.settings import ConsensusSettings
from flows.stages import beside_people, hear_models
from flows.stages.learning.task_voices import answers_as_features
from learners import cross_fitted_probabilities
from quality import (
    Consensus,
    CrowdLabels,
    JoinedVoice,
    auto,
    calibrate,
    dawid_skene,
    dependent_groups,
    encode,
    hierarchical_dawid_skene,
    hold_labels_out,
    join_voice,
    majority_vote,
    reliability,
)

SETS = ("labelme", "music", "sentence_polarity")
RULES = (majority_vote, dawid_skene, hierarchical_dawid_skene)
PANEL_RULES = (*RULES, auto)  # the default of a run; on sets with features it takes long
SEEDS, CAMPAIGNS, ROUNDS = 3, 2, 3
CROWDS = {
    "even": "workers err on their own and evenly",
    "weak": "the same, right on half of the tasks",
    "confused": "everybody takes one class for another more often than not",
    "hard": "everybody errs alike on a fifth of the tasks, which features tell",
    "blocks": "half of the workers are bad, and features tell their tasks",
}
Rule = Callable[[CrowdLabels], Consensus]
Row = tuple[str, str, str]


def joined(labels: CrowdLabels, fit: Rule, features: np.ndarray, seed: int) -> JoinedVoice:
    """The consensus joined with the features, by the steps of a run."""
    consensus, held_out = fit(labels), hold_labels_out(labels, fit)
    rng, believed, last, tried = np.random.default_rng(seed), consensus.posterior, None, None
    for _ in range(ROUNDS):
        learned = cross_fitted_probabilities(features, believed, rng=rng, inverse_penalties=tried)
        tried = np.unique(learned.inverse_penalty).tolist()
        found = join_voice(consensus, learned.probabilities, held_out)
        last = found if last is None or found.heard else last
        if not found.heard:
            break
        believed = found.posterior
    assert last is not None
    return last


def features_of(folder: Path, labels: CrowdLabels) -> np.ndarray:
    """The features of the labelled tasks."""
    text = gzip.decompress((folder / "features.csv.gz").read_bytes()).decode()
    rows = csv.reader(text.splitlines()[1:])
    found = {row[0]: np.array(row[1:], dtype=np.float64) for row in rows}
    return np.stack([found[name] for name in labels.tasks.astype(str)])


def main() -> None:
    pages = {"simulated": on_campaigns, "panels": on_panels, "alone": without_people}
    parser = parser_of(__doc__)
    parser.add_argument("page", nargs="?", choices=pages)
    pages.get(parser.parse_args().page, on_sets)()


def on_sets() -> None:
    rows = []
    for name in SETS:
        labels, gold = read_set(DATA / name)
        features = features_of(DATA / name, labels)
        for fit in RULES:
            alone = right(fit(labels).posterior, gold)
            kinds = {"its own": lambda _, own=features: own}
            if fit is RULES[-1]:
                kinds["shuffled"] = lambda rng, own=features: rng.permutation(own)
                kinds["noise"] = lambda rng, own=features: rng.normal(size=own.shape)
            for kind, draw in kinds.items():
                rows.append(_row(name, labels, gold, fit, kind, draw, alone))
                print(rows[-1], flush=True)
    publish(
        "voices",
        "What features add to a consensus on public sets",
        ["set", "features", "consensus", "labels alone, % right", "with features", "least", "most",
         "heard", "worth, labels a task", "tasks turned, %"],
        rows,
        note=f"Per cent of gold tasks right, ties in expectation; mean, least and most over {SEEDS} seeds, "
        "which deal the tasks to folds (and draw or shuffle the features). No gold was used to learn, to "
        "weigh or to choose.",
    )  # fmt: skip


def _row(
    name: str, labels: CrowdLabels, gold: np.ndarray, fit: Rule, kind: str,
    draw: Callable[[np.random.Generator], np.ndarray], alone: float,
) -> list[str]:  # fmt: skip
    drawn = [draw(np.random.default_rng(100 + seed)) for seed in range(SEEDS)]
    found = [joined(labels, fit, features, seed) for seed, features in enumerate(drawn)]
    accuracy = np.array([right(one.posterior, gold) for one in found])
    before = fit(labels).label
    turned = np.mean([np.mean(one.label != before) for one in found])
    return [
        name, kind, fit.__name__, f"{alone:.1f}", f"{accuracy.mean():.1f}", f"{accuracy.min():.1f}",
        f"{accuracy.max():.1f}", f"{sum(one.heard for one in found)} of {SEEDS}",
        f"{np.mean([one.worth for one in found]):.1f}", f"{100 * turned:.1f}",
    ]  # fmt: skip


def campaign(
    kind: str, n_classes: int, per_task: int, apart: float, seed: int
) -> tuple[CrowdLabels, np.ndarray, np.ndarray]:
    """800 tasks, 40 workers and 20 features: labels, truth, features."""
    rng = np.random.default_rng(seed)
    truth, n_workers = rng.integers(n_classes, size=800), 40
    features = apart * rng.normal(size=(n_classes, 20))[truth] + rng.normal(size=(800, 20))
    skill = rng.beta(3 if kind == "weak" else 6, 3, size=n_workers)
    hard, half = features[:, 0] > np.quantile(features[:, 0], 0.8), n_workers // 2
    rows = []
    for task, true in enumerate(truth):
        pool = np.arange(n_workers)
        if kind == "blocks":
            pool = pool[:half] if features[task, 1] < 0 else pool[half:]
        for worker in rng.choice(pool, per_task, replace=False):
            able, wrong = skill[worker], (true + 1 + rng.integers(n_classes - 1)) % n_classes
            if kind == "confused" and true == 0:
                able, wrong = 0.45, 1
            if kind == "hard" and hard[task]:
                able, wrong = 0.35, (true + 1) % n_classes
            if kind == "blocks" and worker >= half:
                able, wrong = 0.5, 0 if true else 1
            rows.append((worker, task, true if rng.random() < able else wrong))
    worker, task, label = np.array(rows).T
    return encode(worker, task, label, classes=list(range(n_classes))), truth, features


def on_campaigns() -> None:
    rows = []
    for kind, about in CROWDS.items():
        for n_classes, per_task in ((2, 3), (4, 3), (8, 5)):
            for apart in (0.0, 0.3, 1.2):
                changes, alone, heard = [], [], 0
                for seed in range(CAMPAIGNS):
                    labels, truth, features = campaign(kind, n_classes, per_task, apart, seed)
                    alone.append(right(hierarchical_dawid_skene(labels).posterior, truth))
                    found = joined(labels, hierarchical_dawid_skene, features, seed)
                    changes.append(right(found.posterior, truth) - alone[-1])
                    heard += found.heard
                cells = [
                    f"{np.mean(alone):.1f}",
                    f"{np.mean(changes):+.1f}",
                    f"{min(changes):+.1f}",
                ]
                known = f"{n_classes} classes, {per_task} labels"
                rows.append([about, known, f"{apart:g}", *cells, f"{heard} of {CAMPAIGNS}"])
                print(rows[-1], flush=True)
    publish(
        "voices_simulated",
        "What features add to a consensus of simulated campaigns",
        ["crowd", "campaign", "classes apart", "labels alone, % right", "change", "worst", "heard"],
        rows,
        note="800 tasks, 40 workers, 20 features: classes are normal clouds whose centres lie so many "
        "standard deviations apart along each feature (0: noise). Hierarchical Dawid–Skene; change of the "
        f"per cent right over {CAMPAIGNS} campaigns, its mean and its worst. The constants of the voice (3 "
        "standard errors, 3 rounds, the grids of weights) were settled on such campaigns alone.",
    )  # fmt: skip


def split(panel: Panel, seed: int) -> tuple[list[Row], dict[str, str]]:
    """Labels of two thirds of the people, and the strict majority of the others."""
    rng = np.random.default_rng(seed)
    persons = sorted({row[0] for row in panel.people})
    inside = set(rng.permutation(persons)[: max(1, 2 * len(persons) // 3)].tolist())
    given = [row for row in panel.people if row[0] in inside]
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for worker, task, label in panel.people:
        if worker not in inside:
            counts[task][label] += 1
    best = {task: count.most_common(1)[0] for task, count in counts.items()}
    return given, {task: label for task, (label, n) in best.items() if 2 * n > counts[task].total()}


def on_panels() -> None:
    rows = []
    for name in PANELS:
        panel = panel_of(name)
        for fit in PANEL_RULES:
            found = [_panel_accuracies(panel, fit, seed) for seed in range(SEEDS)]
            people, grouped, voice, heard = np.array(found).T
            cells = [f"{part.mean():.1f}" for part in (people, grouped, voice)]
            worst = [f"{(part - people).min():+.1f}" for part in (grouped, voice)]
            rows.append([name, fit.__name__, *cells, *worst, f"{int(heard.sum())} of {SEEDS}"])
            print(rows[-1], flush=True)
    publish(
        "voices_panels",
        "People with models beside them",
        ["panel", "consensus", "people alone, % right", "models as one vote", "models as a voice",
         "one vote, worst change", "voice, worst change", "heard"],
        rows,
        note="Panels of AltTest: two thirds of the people answer, gold is the strict majority of the others "
        f"(of one person where there are three). Mean over {SEEDS} splits. As one vote: the models are a "
        "group in the table. As a voice: a classifier learns the people's consensus from the models' "
        "answers, as a run does where it knows them for models.",
    )  # fmt: skip


def _panel_accuracies(panel: Panel, fit: Rule, seed: int) -> tuple[float, float, float, bool]:
    given, truth = split(panel, seed)
    tasks = {row[1] for row in given}
    beside = [row for row in panel.models if row[1] in tasks]
    labels = encode(*zip(*given, strict=True), classes=panel.classes)
    every = encode(*zip(*given, *beside, strict=True), classes=panel.classes)
    code = {name: at for at, name in enumerate(panel.classes)}
    gold = np.array([code.get(truth.get(task, ""), -1) for task in labels.tasks.tolist()])
    models = np.flatnonzero(np.isin(every.workers, [row[0] for row in beside]))
    groups = dependent_groups(every, models=models).group
    found = joined(labels, fit, answers_as_features(every, models), seed)
    grouped = fit(every.merge_workers(groups)).posterior
    accuracies = (right(one, gold) for one in (fit(labels).posterior, grouped, found.posterior))
    return (*accuracies, found.heard)  # type: ignore[return-value]


def without_people() -> None:
    """Panels of which people label one half of the tasks, and models all."""
    rows = []
    for name in PANELS:
        panel = panel_of(name)
        for rule in ("majority_vote", "hierarchical_dawid_skene"):
            found = np.array([_half(panel, rule, seed) for seed in range(SEEDS)])
            mean, worst = found.mean(axis=0), 100 * (found[:, 1] - found[:, 0]).min()
            people = [f"{100 * mean[0]:.1f}", f"{100 * mean[1]:.1f}", f"{worst:+.1f}"]
            parts = [mean[2:6], mean[6:10]]
            alone = [
                cell
                for right, sure, error, floor in parts
                for cell in (
                    f"{100 * right:.1f}",
                    f"{100 * sure:.1f}",
                    f"{error:.3f} ({floor:.3f})",
                )
            ]
            rows.append([name, rule, *people, *alone])
            print(rows[-1], flush=True)
    publish(
        "voices_alone",
        "Tasks that models alone have labelled",
        ["panel", "consensus", "people's tasks: people alone, % right", "with models", "worst change",
         "models' tasks: voice, % right", "confident, %", "error (floor)",
         "models' tasks: one vote, % right", "confident, %", "error (floor)"],
        rows,
        note="Panels of AltTest as on the page of people with models, but people's labels of a random half "
        f"of the tasks are taken away. Mean over {SEEDS} splits. Voice: `hear_models`, as a run and "
        "`crowdassay aggregate` do: it learns from the people's half and answers the other. One vote: the "
        "models are a group among the workers, with the confidence that `calibrate` gives by labels alone. "
        "Error: expected calibration error; floor: what a calibrated confidence has on as many tasks. On "
        "mtbench some 50 tasks teach too little to hear the models (they are right more often than the "
        "voice where it is alone), and confidence says so.",
    )  # fmt: skip


def _half(panel: Panel, rule: str, seed: int) -> list[float]:
    """Right on people's tasks without models and with; right, confident, error and floor on the others."""
    given, truth = split(panel, seed)
    tasks = sorted({row[1] for row in given})
    asked = set(np.random.default_rng(seed).permutation(tasks)[: len(tasks) // 2].tolist())
    beside = [row for row in panel.models if row[1] in set(tasks)]
    given = [row for row in given if row[1] in asked]
    every = encode(*zip(*given, *beside, strict=True), classes=panel.classes)
    models = np.flatnonzero(np.isin(every.workers, [row[0] for row in beside]))
    assert beside_people(every, models, np.ones(every.n_workers, dtype=np.bool_))
    code = {name: at for at, name in enumerate(panel.classes)}
    gold = np.array([code.get(truth.get(task, ""), -1) for task in every.tasks.tolist()])
    people = every.keep_workers(~np.isin(np.arange(every.n_workers), models))
    chosen = ConsensusSettings(aggregator=rule)
    alone = consensus_of(people, chosen, seed=0)
    joined, _ = hear_models(alone, every, models, chosen, groups=None, seed=seed)
    groups = dependent_groups(every, models=models).group
    voting = consensus_of(every, chosen, seed=0, groups=groups)
    sure = (
        calibrate(people, joined.posterior).confidence,
        calibrate(every, voting.posterior, groups=groups).confidence,
    )
    answered = np.diff(people.task_start) > 0
    theirs, others = (np.flatnonzero(part & (gold >= 0)) for part in (answered, ~answered))
    cells = [float(np.mean(one.label[theirs] == gold[theirs])) for one in (alone, joined)]
    for one, confidence in zip((joined, voting), sure, strict=True):
        right_here, rng = one.label[others] == gold[others], np.random.default_rng(seed)
        checked = reliability(confidence[others], right_here, rng=rng)
        cells += [checked.right, checked.confidence, checked.error, checked.floor]
    return cells


if __name__ == "__main__":
    main()
