"""Consensus: one label per task from the workers kept, and which tasks to label next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from jaxtyping import Bool

from flows.files import forget_pages
from flows.run import Crowd, Run, begun_from, keep_fit
from flows.settings import ReportSettings, SettingsError
from flows.stages.label_plan import FewAtHand, plan_next
from flows.stages.label_sets import (
    aggregate_sets,
    compared_with_gold,
    gold_tasks,
    if_alike,
    sets_sentence,
    unchecked,
    vote_wins,
)
from flows.stages.labels import Aggregated, CampaignLabels, Groups, open_labels
from flows.stages.learning import (
    find_decision_images,
    find_error_features,
    find_psychometrics,
    find_structure,
    heard_beside,
    join_voices,
    map_concepts,
    models_beside,
    of_models_alone,
    panel_sentence,
    read_panel,
    voices_sentence,
)
from flows.stages.ordered_classes import order_facts, order_sentence
from flows.stages.reading import gold_apart
from flows.stages.stage import counted
from flows.stages.workers import agrees_by_chance, group_codes, heard_workers, kept_workers
from flows.tables import arrow_table, coded_texts
from quality import (
    Auto,
    CalibratedConfidence,
    CrowdLabels,
    Reliability,
    accuracy,
    calibrate_support,
    wilson_interval,
)
from quality.choice import NamedAuto
from quality.labels import NamedPosterior
from quality.reports import posterior_entropy, rank_tasks

if TYPE_CHECKING:
    from flows.aggregators import AnyConsensus

__all__ = ["aggregate", "consensus_verdict"]

ROW_GROUP = 2**20  # rows of a table that are made and written together
N_LOOKS = 8  # at the names of so many tasks that lie anywhere
MODELS_ALONE = (
    "all workers are models, and no label shows their common errors; 50 to 100 gold tasks can"
)
CONFIDENCES = ("labels", "model", "regression", "by_class")  # what confidence is a mixture of
NOT_ANEW = "no fit is begun anew to compare with: on shards that would cost what going on saves"


def aggregate(run: Run) -> str:
    """Turn the labels into one label per task, and rank the tasks to label next."""
    if run.settings.input.several is not None:
        return aggregate_sets(run)
    run.waits_for("the labels as they were read")
    with open_labels(run) as labels:
        crowd = labels.crowd
        groups = group_codes(run, crowd)
        keep = kept_workers(run, crowd)
        heard = heard_workers(run, crowd, keep)
        whole = labels.whole()
        models = models_beside(run, crowd, whole, keep)
        if models.size:  # their answers are a voice beside the people's labels
            keep[models] = heard[crowd.model_codes()] = False
        found = labels.aggregate(keep, heard, groups)
        run.waits_for("what features and models say of each task")
        found, voices = join_voices(run, crowd, whole, found, groups, models)
        found, panel = read_panel(run, crowd, found, groups)
        run.waits_for("the check against gold")
        gold = _gold_check(run, labels, found, keep, heard, groups)
        run.waits_for("how far each label can be believed")
        sure = _calibrated(run, crowd, found)
        refused = _models_alone(run, crowd, found, sure)
        believed = sure.believed(found.consensus.posterior)
        confidence = sure.in_label(found.consensus.posterior, found.consensus.label)
        # the product finds more wrong labels than confidence alone: `quality.next_labels`
        order = rank_tasks(confidence * found.support.model, found.tasks.n_labels)
        known = labels.few_at_hand(keep) if found.kept is None else FewAtHand.of(found.kept)
        run.waits_for("which labels to ask for next")
        plan, planned = plan_next(known, found.consensus, believed, order, run.settings.report)
    run.waits_for("the table of tasks")
    shown = np.where(refused, np.nan, confidence)
    joined = "features" in heard_beside(voices)
    run.write_rows("consensus.parquet", _consensus_rows(crowd, found, shown, joined=joined))
    run.write_rows("next_labels.parquet", _next_rows(found, shown, order))
    run.write_table("label_plan.parquet", plan)
    run.waits_for("a closer look at workers and tasks")
    _look_closer(run, crowd, found, groups, whole, believed, confidence)
    if found.class_counts is not None:
        run.write_table("class_counts.parquet", _count_table(crowd, found.class_counts))
    if found.next_start is not None:
        keep_fit(run, found.next_start)
    map_concepts(run, crowd, found.tasks, found.consensus.label, confidence)
    facts = _facts(run, crowd, found) | {
        "entropy": _entropy(believed),
        "plan": planned,
        "gold": gold,
        "features": voices,
        "panel": panel,
        "order": order_facts(run, crowd, found.kept, found.consensus),
        "models_alone": bool(refused.all()),
        "n_models_alone": int(np.count_nonzero(refused)),
        "by_chance": sure.evidence != "gold" and agrees_by_chance(run.read_json("quality.json")),
        **_confidence_facts(sure, refused),
    }
    run.write_json("consensus.json", facts)
    return _line(facts, crowd.labels.n_tasks)


def _look_closer(
    run: Run,
    crowd: Crowd,
    found: Aggregated,
    groups: Groups,
    whole: CrowdLabels | None,
    believed: np.ndarray | NamedPosterior,
    confidence: np.ndarray,
) -> None:
    """Write what the settings of the report ask for beside the consensus."""
    asked, posterior = run.settings.report, found.consensus.posterior
    if isinstance(posterior, NamedPosterior) or isinstance(believed, NamedPosterior):
        _refuse_many(crowd, asked)
        return
    if asked.archetypes:
        kinds = find_structure(run, crowd, whole, posterior, confidence)
        run.write_json("archetypes.json", kinds)
    if asked.error_features:
        errors = find_error_features(run, crowd, found.consensus.label)
        run.write_json("error_features.json", errors)
    if asked.decision_images:
        images = find_decision_images(run, crowd, found.consensus.label)
        run.write_json("decision_images.json", images)
    if asked.psychometric is not None:
        n_workers = 0 if found.kept is None else found.kept.n_workers
        alone = np.ones(n_workers, dtype=np.bool_) if groups is None else groups < 0
        skill = find_psychometrics(run, crowd, found.kept, believed, posterior, alone)
        run.write_json("psychometrics.json", skill)


def _refuse_many(crowd: Crowd, asked: ReportSettings) -> None:
    """Raise SettingsError if the report needs a table of tasks by classes that is too large."""
    keys = ("archetypes", "error_features", "decision_images", "psychometric")
    wanted = [f"report.{key}" for key in keys if getattr(asked, key)]
    if wanted:
        raise SettingsError(
            f"{', '.join(wanted)} must be left out with {crowd.labels.n_classes:,} classes and "
            f"{crowd.labels.n_workers:,} workers: a table of all tasks by all classes is not made"
        )


def consensus_verdict(found: dict[str, Any]) -> str:
    """Say how sure the consensus is, and how often it is right on gold, from `consensus.json`."""
    if found.get("sets") is not None:
        return sets_sentence(found)
    gold, checked = found["gold"], unchecked(found)
    if gold is not None:
        checked = (
            f"{gold['accuracy']:.1%} right on {gold_tasks(gold['n'])} "
            f"({gold['low']:.1%} to {gold['high']:.1%}; {_of_others(gold)}, "
            f"majority vote of all {gold['majority_vote']:.1%})"
        )
    sure = found["confidence"]
    compared = f"; {sure['compared']}{if_alike(gold)}" if sure and sure["compared"] else ""
    order = order_sentence(found.get("order"))
    heard = voices_sentence(found.get("features")) + panel_sentence(found.get("panel"))
    return f"{_confidence(found)}, {checked}{compared}{heard}{order}"


def _of_others(gold: dict[str, Any]) -> str:
    """Say how often the consensus of other workers is right: without those removed, or of all."""
    joined = gold.get("joined")
    if (without := gold.get("without_removed")) is not None:
        return f"{'labels alone, ' * bool(joined)}without those removed {without:.1%}"
    beside = "labels alone, of all workers," if joined else "with all workers"
    return f"{beside} {gold['unfiltered']:.1%}"


def _confidence(found: dict[str, Any]) -> str:
    """Say how sure the consensus is; a panel of models alone without gold has no confidence."""
    if found["models_alone"]:
        return f"no confidence to be had: {MODELS_ALONE}"
    calibrated = found["confidence"]
    beside = heard_beside(found.get("features"))
    by = f"by labels and {beside}" if beside else "by labels alone"
    if calibrated["n_gold"]:
        by = f"by {calibrated['n_gold']:,} gold tasks"
    if n_used := found.get("gold_used"):
        by = f"by labels, and 1 for {gold_tasks(n_used)}"
    if found.get("by_chance"):
        by += ", yet workers agree no more than by chance"
    elif calibrated.get("hardly_known"):
        by += ", whose votes are hardly more alike than by chance: mostly that of a guess"
    model = f"the model's {found['model_confidence']:.3f}"
    n_refused = found.get("n_models_alone", 0)
    refused = counted(n_refused, "task")
    without = f", none for {refused} that models alone have labelled" * bool(n_refused)
    return f"mean confidence {found['mean_confidence']:.3f} ({by}; {model}){without}"


def _calibrated(run: Run, crowd: Crowd, found: Aggregated) -> CalibratedConfidence:
    """Return each label's confidence; gold that was used is certain, and cannot calibrate."""
    gold = crowd.gold_code()
    if not run.settings.consensus.use_gold:
        return calibrate_support(found.support, gold)
    sure = calibrate_support(found.support)
    return replace(sure, confidence=np.where(gold >= 0, 1.0, sure.confidence))


def _confidence_facts(
    sure: CalibratedConfidence, refused: Bool[np.ndarray, " tasks"]
) -> dict[str, Any]:
    """Return the evidence, mean, histogram and reliability of confidence; None where all is refused."""
    if refused.all():
        nothing = dict.fromkeys(("confidence", "mean_confidence", "confidence_histogram"))
        return nothing | {"model_confidence": float(sure.model.mean())}
    counts, edges = np.histogram(sure.confidence[~refused], bins=20, range=(0.0, 1.0))
    return {
        "mean_confidence": float(sure.confidence[~refused].mean()),
        "model_confidence": float(sure.model[~refused].mean()),
        "confidence_histogram": {"edges": edges.tolist(), "counts": counts.tolist()},
        "confidence": {
            "evidence": sure.evidence,
            "n_gold": sure.n_gold,
            "levels": sure.levels.tolist(),
            "weights": dict(zip(CONFIDENCES, sure.weights, strict=True)),
            "shared_errors": sure.shared,
            "beyond_chance": sure.beyond_chance,
            "hardly_known": sure.hardly_known,
            "before": _reliability(sure.before),
            "after": _reliability(sure.after),
            "compared": compared_with_gold(_reliability(sure.before)),
        },
    }


def _reliability(found: Reliability | None) -> dict[str, Any] | None:
    """Return reliability on gold tasks: as a whole, with an interval of the share right, and by bins."""
    if found is None:
        return None
    n_right = np.concatenate([[found.bin_right.sum()], found.bin_right])
    (low, high), *intervals = wilson_interval(
        n_right, np.concatenate([[found.n], found.bin_n])
    ).tolist()
    bins = zip(
        found.bin_confidence.tolist(), found.bin_right.tolist(), found.bin_n.tolist(), intervals,
        strict=True,
    )  # fmt: skip
    return {
        "n": found.n,
        "confidence": found.confidence,
        "right": found.right,
        "low": low,
        "high": high,
        "error": found.error,
        "error_interval": found.error_interval,
        "floor": found.floor,
        "brier": found.brier,
        "curve": [
            {"confidence": mean, "right": right / n, "n": n, "low": ends[0], "high": ends[1]}
            for mean, right, n, ends in bins
        ],
    }


def _facts(run: Run, crowd: Crowd, found: Aggregated) -> dict[str, Any]:
    """Return facts of the whole consensus; the stage adds its plan, confidence and check against gold."""
    chosen = run.settings.consensus
    return {
        "aggregator": run.settings.aggregator,
        "n_iter": getattr(found.fitted, "n_iter", 1),
        "converged": getattr(found.fitted, "converged", True),
        "log_likelihood": getattr(found.fitted, "log_likelihood", None),
        "n_tied": int(found.tasks.tied.sum()),
        "n_conflict": int(found.tasks.conflict.sum()),
        "n_overruled": int(found.tasks.overruled.sum()),
        "classes": [str(name) for name in crowd.labels.classes],
        "gold_apart": gold_apart(crowd),
        "gold_used": int((crowd.gold_code() >= 0).sum()) if chosen.use_gold else 0,
        "choice": _choice(found.consensus),
        "start": _start(run, found),
        "n_regrouped": _n_regrouped(found),
    }


def _models_alone(
    run: Run, crowd: Crowd, found: Aggregated, sure: CalibratedConfidence
) -> Bool[np.ndarray, " tasks"]:
    """Return tasks without a confidence: models alone voted, which may err alike, and no gold shows it.

    Labels in shards that are not in memory are looked at as a whole.
    """
    models, gold = crowd.model_codes(), crowd.gold_code()
    if not models.size or sure.evidence == "gold":
        return np.zeros(gold.size, dtype=np.bool_)
    if found.kept is None or len(models) == crowd.labels.n_workers:
        return np.full(gold.size, len(models) == crowd.labels.n_workers)
    alone = of_models_alone(found.kept, models)
    return alone & (gold < 0) if run.settings.consensus.use_gold else alone


def _n_regrouped(found: Aggregated) -> int | None:
    """Count tasks whose label would differ if members of groups had one vote each."""
    if found.ungrouped is None:
        return None
    return int(np.count_nonzero(found.ungrouped != found.of_labels))


def _start(run: Run, found: Aggregated) -> dict[str, Any] | None:
    """Return the start of EM if it is an earlier run's fit, and the difference from a fit begun anew."""
    if found.start is None:
        return None
    known = int(found.start.confusion.any(axis=(1, 2)).sum())
    facts = {"run": begun_from(run), "n_known_workers": known}
    if found.anew is None:
        return facts | {"why_not_anew": NOT_ANEW}
    differ = int(np.count_nonzero(found.anew.label != found.of_labels))
    return facts | {"n_iter_anew": getattr(found.anew, "n_iter", 1), "n_differ": differ}


def _line(facts: dict[str, Any], n_tasks: int) -> str:
    """Return the stage's line, from its facts."""
    gold, start = facts["gold"], facts["start"]
    checked = f"; {gold['accuracy']:.1%} right on {gold_tasks(gold['n'])}" if gold else ""
    line = f"{counted(n_tasks, 'consensus label')}, {_confidence(facts)}{checked}"
    if start is None:
        return line
    line = f"{line}; gone on from {start['run']} in {counted(facts['n_iter'], 'iteration')}"
    if "n_differ" not in start:
        return f"{line} ({start['why_not_anew']})"
    anew, differ = start["n_iter_anew"], start["n_differ"]
    return f"{line} ({anew} anew, where {counted(differ, 'task')} would differ)"


def _choice(consensus: AnyConsensus) -> dict[str, Any] | None:
    """Return which aggregators were pooled, with their weights, where the settings name none."""
    if not isinstance(consensus, Auto | NamedAuto):
        return None
    scores = [
        {
            "name": score.name,
            "log_likelihood": score.log_likelihood if consensus.n_held_out else None,
            "weight": score.weight,
        }
        for score in consensus.scores
    ]
    found = {"chosen": consensus.chosen, "scores": scores, "n_held_out": consensus.n_held_out}
    return found | {"left_out": list(consensus.left_out)}


def _gold_check(
    run: Run,
    labels: CampaignLabels,
    found: Aggregated,
    keep: Bool[np.ndarray, " workers"],
    heard: Bool[np.ndarray, " workers"],
    groups: Groups,
) -> dict[str, Any] | None:
    """Return the share of gold tasks that the consensus gets right, beside other workers' and the vote's.

    Those are of labels alone, and so is `of_labels`: the consensus before a voice, or gold's reading,
    joined it. Gold that was used cannot check; the result is then None.
    """
    gold = labels.crowd.gold_code()
    if run.settings.consensus.use_gold or not (gold >= 0).any():
        return None
    right = accuracy(found.consensus.label, gold)
    everybody, vote = np.ones_like(heard), labels.vote_of_all()
    others = {
        "unfiltered": found.of_labels if heard.all() else labels.consensus_of(everybody, groups),
        "without_removed": None if (heard == keep).all() else labels.consensus_of(keep, groups),
        "majority_vote": vote,
        "ungrouped": found.ungrouped,  # the members of groups with one vote each
    }
    return {
        "n": right.n,
        "accuracy": right.value,
        "of_labels": accuracy(found.of_labels, gold).value,
        "joined": found.alone is not None,
        "chosen": run.settings.input.gold_sampling == "chosen",
        "low": right.lower,
        "high": right.upper,
        **{
            name: None if label is None else accuracy(label, gold).value
            for name, label in others.items()
        },
        "vote_wins": vote_wins(found.consensus.label == gold, vote == gold),
    }


def _consensus_rows(
    crowd: Crowd, found: Aggregated, confidence: np.ndarray, *, joined: bool
) -> Iterator[pa.Table]:
    """Yield rows for the labelled tasks, in the order of the labels' task codes.

    Where features joined the label, the one that the crowd's labels alone gave stands beside it.
    """
    tasks, consensus, group = found.tasks, found.consensus, crowd.label_group()
    for rows in _parts_of(len(tasks.tasks)):
        alone = {"by_labels": coded_texts(tasks.classes, found.of_labels[rows])} if joined else {}
        yield arrow_table(
            {
                "task": tasks.tasks[rows].astype(str, copy=False),
                "group": coded_texts(crowd.group_names, group[rows]),
                "label": coded_texts(tasks.classes, consensus.label[rows]),
                **alone,
                "confidence": confidence[rows],
                "model_confidence": found.support.model[rows],
                "entropy": tasks.entropy[rows],
                "margin": tasks.margin[rows],
                "conflict": tasks.conflict[rows],
                "tied": tasks.tied[rows],
                "overruled": tasks.overruled[rows],
                "n_labels": tasks.n_labels[rows],
                **found.posterior_columns(rows),
            }
        )


def _parts_of(n_rows: int) -> Iterator[slice]:
    """Yield the rows of each part in which a table is made and written; one part at least.

    Names read for a part leave memory with it.
    """
    for first in range(0, max(n_rows, 1), ROW_GROUP):
        yield slice(first, min(first + ROW_GROUP, n_rows))
        forget_pages()


def _entropy(believed: np.ndarray | NamedPosterior) -> float:
    """Return how uncertain all tasks are together, in nats."""
    if isinstance(believed, NamedPosterior):
        return float(posterior_entropy(believed).sum())
    parts = (posterior_entropy(believed[rows]) for rows in _parts_of(len(believed)))
    return float(sum(part.sum() for part in parts))


def _names_of(tasks: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Return names of tasks, taken in their order, of which a few are in memory at a time."""
    found, order = np.empty(chosen.size, dtype=tasks.dtype), np.argsort(chosen)
    for some in np.array_split(order, N_LOOKS):
        found[some] = tasks[chosen[some]]
        forget_pages()
    return found.astype(str, copy=False)


def _next_rows(found: Aggregated, confidence: np.ndarray, order: np.ndarray) -> Iterator[pa.Table]:
    """Yield tasks, the least confident first, with how many workers named each class."""
    tasks = found.tasks
    for rows in _parts_of(order.size):
        now = order[rows]
        yield arrow_table(
            {
                "rank": np.arange(rows.start + 1, rows.stop + 1, dtype=np.int32),
                "task": _names_of(tasks.tasks, now),
                "confidence": confidence[now],
                "model_confidence": found.support.model[now],
                "entropy": tasks.entropy[now],
                "n_labels": tasks.n_labels[now],
                **found.count_columns(now),
                "label": coded_texts(tasks.classes, found.consensus.label[now]),
                "margin": tasks.margin[now],
                "tied": tasks.tied[now],
                "overruled": tasks.overruled[now],
            }
        )


def _count_table(crowd: Crowd, counts: np.ndarray) -> pa.Table:
    """Return consensus counts of each labelled group, which publication reads where labels are in shards."""
    names, _ = crowd.labelled_groups()
    group, classes = np.repeat(names, crowd.labels.n_classes), crowd.labels.classes
    cells = {"group": group, "class": np.tile(classes, names.size), "n": counts.ravel()}
    return arrow_table(cells)
