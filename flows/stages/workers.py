"""Judging: reputations, the filter, and how many tasks adversaries could turn against the workers kept."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Int

from flows.choices import Metric
from flows.run import Crowd, Run
from flows.settings import FilterSettings, Settings, SettingsError
from flows.stages.labels import Groups, WorkerLabels, open_answers, rate_of, set_agreement
from flows.stages.learning import potential_table
from flows.stages.stage import counted
from flows.tables import arrow_array, arrow_table, coded_texts, numpy_array
from quality import (
    Alpha,
    ChanceCorrected,
    CrowdLabels,
    DependentGroups,
    Filtered,
    FilteredDishonest,
    WorkerReport,
    alpha_by_class,
    alpha_interval,
    fleiss_kappa,
    gwet_ac1,
    pasted_answers,
    robustness_bounds,
    wilson_interval,
)

__all__ = [
    "agreement_facts", "agrees_by_chance", "crowd_verdict", "group_codes", "group_facts", "heard_workers",
    "judge_workers", "kept_workers", "pasted_facts", "refuse_more_workers", "robustness_curves",
    "worker_table",
]  # fmt: skip

MAX_ADVERSARIES = 10  # how far the robustness curve goes
NO_CURVE = "several classes may hold, and the bounds are for one label a task"
SHOWN_MEMBERS = 12
SHOWN_PASTERS = 40
SHOWN_CLASSES = 100  # one pass over the labels for each
ALL_LABELS, WITHOUT_REMOVED = "all labels", "without the removed workers"  # of an agreement
MODELS_ALIKE = "models err alike: none is removed for disagreeing with others"
MAX_CELLS = 20_000_000  # labels times squared classes in which pasters are looked for: a gigabyte
NUMBERS = (
    "n_labels", "n_conflict", "agreement", "soft_penalty", "hard_least", "hard_penalty",
    "balanced_penalty", "reputation", "constant", "median_seconds", "hasty", "gold_n", "gold_correct",
)  # fmt: skip


def judge_workers(run: Run) -> str:
    """Judge the workers, and remove those whom the filter finds."""
    chosen = run.settings.consensus.groups
    run.waits_for("the labels as they were read")
    with open_answers(run) as labels:
        refuse_more_workers(run.settings.filter, labels.crowd.labels.n_workers)
        run.waits_for("whom to remove")
        chosen_filter, spared = filter_of(run.settings.filter, labels.crowd)
        filtered, stop = labels.filter_workers(chosen_filter)
        stop = spared or stop
        run.waits_for("who does not answer on their own")
        found = None if chosen == "ignore" else labels.dependence()
        grouped = Members()
        if found is not None and chosen == "remove":
            fewest = run.settings.filter.min_labels_per_task
            filtered, grouped = without_groups(labels, filtered, found.group >= 0, fewest)
        weighed = found is not None and chosen == "weigh" and len(found.sizes)
        run.waits_for("who pastes a model's answers")
        pasted = pasted_facts(labels.crowd, labels.whole())
        members = found.group if found is not None and chosen == "remove" else None
        heard = _heard(run.settings, filtered.keep, members)
        groups = found.group if found is not None and weighed else None
        judged = labels.judge(filtered, heard, groups)
        report = grouped.in_words(judged.report)
        run.waits_for("the table of workers")
        names, whole, answers = labels.crowd.labels.workers, labels.whole(), labels.crowd.answers
    if (least := run.settings.filter.potentials) is not None:
        run.write_table("potentials.parquet", potential_table(whole, names, report, least))
    group = np.full(len(names), -1) if found is None else found.group
    run.write_table("workers.parquet", worker_table(names, report, group, judged.left_out))
    penalty = f"{run.settings.filter.penalty} penalty"
    if answers is None:
        run.waits_for("how many tasks adversaries could turn")
        robustness = robustness_curves(judged.kept)
        run.waits_for("agreement and its intervals")
        agreement = agreement_facts(
            whole, judged.kept, judged.by_shards, ordered=run.settings.input.order
        )
    else:
        robustness, penalty = {"skipped": NO_CURVE}, filtered.criterion
        agreement = set_agreement(answers, filtered.keep)
    run.write_json("robustness.json", robustness)
    facts = {
        "alpha": _number_or_none(judged.alpha),
        "alpha_kept": _number_or_none(judged.alpha_kept),
        "agreement": agreement,
        "penalty": penalty,
        "by_distance": run.settings.input.order and run.settings.filter.penalty == "soft",
        "stop": stop,
        **_removed(filtered, grouped, names),
        "labels_removed": judged.n_labels_removed,
        "labels_weighed": int(report.n_labels[heard & ~filtered.keep].sum()),
        "of_sets": answers is not None,
        "groups": None if found is None else group_facts(found, names, chosen),
        "pasted": pasted,
    }
    run.write_json("quality.json", facts)
    return _line(facts, len(names), len(grouped.removed))


def _line(facts: dict[str, Any], n_workers: int, n_grouped: int) -> str:
    """Return the stage's line, from its facts."""
    n_labels, n_weighed = facts["labels_removed"], facts["labels_weighed"]
    labels = counted(n_labels, "answer" if facts["of_sets"] else "label")
    with_them = f", with {labels}"
    if n_weighed:
        some = "" if n_weighed == n_labels else f"{n_weighed:,} of "
        with_them = f"; the consensus weighs {some}their {labels}"
    groups = facts["groups"]
    worth = "" if groups is None else f"; {n_workers:,} workers, worth {groups['worth']:,.0f}"
    also = f" and {n_grouped:,} in groups" * bool(n_grouped)
    return (
        f"{facts['n_removed'] - n_grouped:,} of {n_workers:,} workers removed by {facts['penalty']} "
        f"({facts['stop']}){also}{with_them}{worth}"
    )


@dataclass(frozen=True, slots=True, eq=False)
class Members:
    """Members of groups to be removed: the codes of those removed, and why the others stay."""

    removed: tuple[int, ...] = ()
    refused: tuple[tuple[int, str], ...] = ()

    def in_words(self, report: WorkerReport) -> WorkerReport:
        """Return the report with the outcome for these workers in their reasons."""
        if not (self.removed or self.refused):
            return report
        reason = list(report.reason)
        for code in self.removed:
            reason[code] = f"removed for not answering on her own; by penalty {reason[code]}"
        for code, why in self.refused:
            reason[code] = f"{reason[code]}; does not answer on her own, and stays: {why}"
        return replace(report, reason=tuple(reason))


def without_groups(
    labels: WorkerLabels,
    filtered: Filtered | FilteredDishonest,
    members: Bool[np.ndarray, " workers"],
    least: int,
) -> tuple[Filtered | FilteredDishonest, Members]:
    """Remove the members of groups, and return the outcome for each.

    Notes
    -----
    **Guarantees.** No task falls below `least` labels by a removal: a member without whom it would stays.
    Those go first who have fewest labels of tasks that only members can keep at `least`.
    """
    keep, tasks = filtered.keep.copy(), labels.crowd.labels.tasks
    worker, task, n_left = labels.scarce_labels(keep, members, least)
    left, place = (
        dict(zip(task.tolist(), n_left.tolist(), strict=True)),
        np.argsort(worker, kind="stable"),
    )
    codes, start = np.unique(worker[place], return_index=True)
    hers = dict(zip(codes.tolist(), np.split(task[place], start)[1:], strict=True))
    refused = []
    for code in sorted(hers, key=lambda code: (len(hers[code]), code)):
        own = hers[code].tolist()
        short = [one for one in own if left[one] <= least]
        if short:
            few = f"task {tasks[short[0]]} would be left with fewer than {least} label"
            refused.append((code, few + "s" * (least != 1)))
            continue
        left.update((one, left[one] - 1) for one in own)
    gone = members & keep
    gone[[code for code, _ in refused]] = False
    keep[gone] = False
    removed = tuple(np.flatnonzero(gone).tolist())
    return replace(filtered, keep=keep), Members(removed, tuple(sorted(refused)))


def filter_of(chosen: FilterSettings, crowd: Crowd) -> tuple[FilterSettings, str | None]:
    """Return the filter for this crowd, and the reason if it must remove no worker.

    A false removal rate assumes independent errors. Of models alone it would remove the one that errs least
    like the others, which may be the best.
    """
    if rate_of(chosen) is None or len(crowd.model_codes()) < crowd.labels.n_workers:
        return chosen, None
    nobody = {"false_removal_rate": None, "n_workers": 0}
    return chosen.model_copy(update=nobody), MODELS_ALIKE


def agreement_facts(
    labels: CrowdLabels | None,
    kept: CrowdLabels | None,
    by_shards: tuple[Alpha, ...] = (),
    *,
    ordered: bool = False,
) -> list[dict[str, Any]] | None:
    """Return coefficients of agreement with their intervals: the whole, the workers kept, and each class.

    Where there are more labels than `engine.whole_labels`, alpha alone, as the shards have it.
    """
    metric: Metric = "ordinal" if ordered else "nominal"
    alpha = "Krippendorff’s alpha, ordinal" if ordered else "Krippendorff’s alpha"
    if labels is None or kept is None:
        rows = zip((ALL_LABELS, WITHOUT_REMOVED), by_shards, strict=False)
        return _rows_of([(alpha, of, one) for of, one in rows]) or None
    found: list[tuple[str, str, Alpha | ChanceCorrected]] = [
        (alpha, ALL_LABELS, alpha_interval(labels, metric)),
        ("Fleiss’ kappa", ALL_LABELS, fleiss_kappa(labels)),
        ("Gwet’s AC1", ALL_LABELS, gwet_ac1(labels)),
    ]
    if kept.n_labels < labels.n_labels:
        found.append((alpha, WITHOUT_REMOVED, alpha_interval(kept, metric)))
    if labels.n_classes > 2:  # with two, both are the alpha of the whole
        shown = _most_given(labels)
        found += [
            ("Krippendorff’s alpha", f"{name} against the others", one)
            for name, one in zip(labels.classes[shown], alpha_by_class(labels, shown), strict=True)
        ]
    return _rows_of(found)


def _rows_of(found: list[tuple[str, str, Alpha | ChanceCorrected]]) -> list[dict[str, Any]]:
    """Return coefficients as `quality.json` and the report have them."""
    return [
        {
            "measure": measure,
            "of": of,
            "value": _number_or_none(one.value),
            "low": _number_or_none(one.lower),
            "high": _number_or_none(one.upper),
            "n_tasks": one.n_tasks,
        }
        for measure, of, one in found
    ]


def agrees_by_chance(found: dict[str, Any]) -> bool:
    """Return whether chance may explain the agreement of the workers kept, from `quality.json`.

    Confidence by labels alone assumes a crowd like the public ones, whose workers know something. Where
    alpha's 95 % interval holds 0, nothing shows that these workers do.
    """
    alphas = [one for one in found["agreement"] or () if one["of"] in (ALL_LABELS, WITHOUT_REMOVED)]
    lowest = [one["low"] for one in alphas if one["measure"].startswith("Krippendorff")][-1:]
    return any(low is not None and low <= 0 for low in lowest)


def _most_given(labels: CrowdLabels) -> Int[np.ndarray, " shown"]:
    """Return the classes that have an agreement of their own: all, or of very many those given most."""
    n_given = np.bincount(labels.label, minlength=labels.n_classes)
    return np.sort(np.argsort(-n_given, kind="stable")[:SHOWN_CLASSES])


def refuse_more_workers(chosen: FilterSettings, n_workers: int) -> None:
    """Raise SettingsError if more workers are to be removed than a crowd can spare."""
    if chosen.n_workers is not None and not chosen.n_workers < n_workers:
        raise SettingsError(
            f"the number of workers to remove must be below {n_workers:,}, which are all there are, got "
            f"n_workers={chosen.n_workers}; name fewer, or a fraction"
        )


def crowd_verdict(found: dict[str, Any]) -> str:
    """Say how well the workers agree, from `quality.json`."""
    alpha, kept = (
        "undefined" if found[name] is None else f"{found[name]:z.2f}"
        for name in ("alpha", "alpha_kept")
    )
    removed = f"{kept} without the {found['n_removed']:,} removed"
    without = removed if found["n_removed"] else "nobody was removed"
    groups, worth = found.get("groups"), ""
    if groups is not None:
        worth = f"; {groups['n_workers']:,} workers, worth {groups['worth']:,.0f}"
    alike = f"agreement alpha {alpha} (1: all agree, 0: as by chance), {without}{worth}"
    return alike + _pasted_sentence(found.get("pasted"))


def kept_workers(run: Run, crowd: Crowd) -> Bool[np.ndarray, " workers"]:
    """Return True for each worker whom `judge_workers` has kept."""
    table = run.read_table("workers.parquet", ["worker", "flagged"])
    flagged = numpy_array(table.column("flagged"))
    removed = np.array(
        table.column("worker").take(arrow_array(np.flatnonzero(flagged))).to_pylist()
    )
    kept: np.ndarray = ~np.isin(crowd.labels.workers, removed.astype(np.str_))
    return kept


def heard_workers(
    run: Run, crowd: Crowd, keep: Bool[np.ndarray, " workers"]
) -> Bool[np.ndarray, " workers"]:
    """Return True for each worker whose labels the consensus is made of: those kept, or more.

    Where the settings say so it also weighs the labels of those whom the filter removed, but for members of
    groups that are to be removed.
    """
    members = None if run.settings.consensus.groups != "remove" else _groups(run, crowd)
    return _heard(run.settings, keep, members)


def _heard(
    settings: Settings, keep: Bool[np.ndarray, " workers"], members: Groups
) -> Bool[np.ndarray, " workers"]:
    if not settings.weighs_removed:
        return keep.copy()
    return np.ones_like(keep) if members is None else keep | (members < 0)


def group_codes(run: Run, crowd: Crowd) -> Groups:
    """Return the group of each worker whose group is to vote once, as `judge_workers` wrote it."""
    return _groups(run, crowd) if run.settings.consensus.groups == "weigh" else None


def _groups(run: Run, crowd: Crowd) -> Groups:
    """Return the group of each worker, -1 for those on their own; None if there are no groups."""
    table = run.read_table("workers.parquet", ["worker", "group"])
    table = table.filter(table.column("group").is_valid())  # of a million workers, mostly few
    names, codes = (table.column(name).to_pylist() for name in ("worker", "group"))
    found = dict(zip(names, codes, strict=True))
    if not found:
        return None
    workers = crowd.labels.workers.astype(np.str_).tolist()
    return np.array([found.get(name, -1) for name in workers])


def group_facts(found: DependentGroups, names: np.ndarray, chosen: str) -> dict[str, Any]:
    """Return the facts of the groups: members, evidence, and the effective number of workers."""
    inside = found.group[found.pair[:, 0]]
    shown = []
    for code, size in enumerate(found.sizes.tolist()):
        pairs, members = inside == code, found.members(code)
        shown.append(
            {
                "n": size,
                "workers": [str(name) for name in names[members[:SHOWN_MEMBERS]]],
                "copied": float(found.copied[code]),
                "copied_interval": found.copied_interval[code].tolist(),
                "effective": float(found.effective[code]),
                "effective_interval": found.effective_interval[code].tolist(),
                "p_value": float(found.p_value[code]),
                "n_common": int(found.n_common[pairs].sum()),
                "n_agreed": int(found.n_agreed[pairs].sum()),
                "expected": float(found.expected[pairs].sum()),
                "n_wrong": float(found.n_wrong[code]),
                "expected_wrong": float(found.expected_wrong[code]),
            }
        )
    facts = {"n_workers": len(found.group), "worth": found.worth, "done": chosen, "shown": shown}
    return facts | {"n": len(shown), "n_grouped": int(found.sizes.sum())}


def pasted_facts(crowd: Crowd, labels: CrowdLabels | None) -> dict[str, Any] | None:
    """Return the workers who seem to paste a known model's answers; None if no model's are known.

    Nobody is removed for it. A worker is listed with the model for which the evidence is strongest.
    """
    codes = crowd.reference_codes()
    if not codes:
        return None
    if labels is None:
        return {"why_not": "there are more labels than engine.whole_labels"}
    if labels.n_labels * labels.n_classes**2 > MAX_CELLS:
        return {"why_not": "there are too many labels for so many classes"}
    alone = pasted_answers(labels)
    found = {model: pasted_answers(labels, code, alone=alone) for model, code in codes.items()}
    known = {model: (code >= 0)[labels.task] for model, code in codes.items()}
    same = {model: labels.label == code[labels.task] for model, code in codes.items()}
    suspected: list[dict[str, Any]] = []
    for worker in np.flatnonzero(np.any([one.flagged for one in found.values()], axis=0)).tolist():
        flagged = {model: one for model, one in found.items() if one.flagged[worker]}
        model = max(flagged, key=lambda name: float(flagged[name].evidence[worker]))
        own = (labels.worker == worker) & known[model]
        suspected.append(
            {
                "worker": str(labels.workers[worker]),
                "model": model,
                "share": float(found[model].share[worker]),
                "evidence": float(found[model].evidence[worker]),
                "n": int(own.sum()),
                "n_same": int((own & same[model]).sum()),
            }
        )
    suspected.sort(key=lambda one: (-one["evidence"], one["worker"]))
    return {
        "why_not": None,
        "models": list(codes),
        "n_workers": labels.n_workers,
        "n_tasks": {model: int((code >= 0).sum()) for model, code in codes.items()},
        "like": {model: one.like_reference for model, one in found.items()},
        "n": len(suspected),
        "suspected": suspected[:SHOWN_PASTERS],
    }


def _pasted_sentence(pasted: dict[str, Any] | None) -> str:
    """Say how many workers seem to paste, as the end of a sentence."""
    if pasted is None or pasted["why_not"] is not None:
        return ""
    return f"; {counted(pasted['n'], 'worker')} may paste a model's answers"


def robustness_curves(kept: CrowdLabels | None) -> dict[str, Any]:
    """Return how many tasks adversaries could turn who join the kept workers, as plain numbers."""
    if kept is None:
        return {"skipped": "there are more labels than engine.whole_labels"}
    bounds = robustness_bounds(kept, max_adversaries=MAX_ADVERSARIES, max_steps=0)
    curves = ("n_adversaries", "lower", "upper_one_right", "upper", "name_blind")
    return {curve: getattr(bounds, curve).tolist() for curve in curves} | {
        "n_tasks": bounds.n_tasks
    }


def worker_table(
    workers: np.ndarray,
    report: WorkerReport,
    group: Int[np.ndarray, " workers"],
    left_out: tuple[str, ...] = (),
) -> pa.Table:
    """Rank workers: removed first, then by reputation, lowest first; null for what was left out."""
    n_workers = workers.size
    order = np.lexsort((np.arange(n_workers), report.reputation, ~report.flagged))
    right = wilson_interval(report.gold_correct, report.gold_n)
    right = np.where(report.gold_n[:, None] > 0, right, np.nan)
    # in a large crowd many have the same reason
    reasons = {reason: code for code, reason in enumerate(dict.fromkeys(report.reason))}
    reason = np.fromiter(map(reasons.__getitem__, report.reason), np.int32, n_workers)
    table = arrow_table(
        {"rank": np.arange(1, n_workers + 1, dtype=np.int32), "worker": coded_texts(workers, order)}
        | {name: getattr(report, name)[order] for name in NUMBERS}
        | {
            "gold_low": right[order, 0],
            "gold_high": right[order, 1],
            "flagged": report.flagged[order],
            "reason": coded_texts(arrow_array(list(reasons)), reason[order]),
            "group": arrow_array(group[order].astype(np.int32), known=group[order] >= 0),
        }
    )
    for name in left_out:
        place = table.schema.get_field_index(name)
        table = table.set_column(place, name, pa.nulls(n_workers, table.schema.field(name).type))
    return table


def _removed(
    filtered: Filtered | FilteredDishonest, grouped: Members, names: np.ndarray
) -> dict[str, Any]:
    """Return the workers removed, by the filter and with their groups, and those who could not be."""
    by_filter = zip(filtered.refused.tolist(), filtered.refused_reason, strict=True)
    refused = dict(one for one in by_filter if filtered.keep[one[0]]) | dict(grouped.refused)
    removed = [*filtered.removed.tolist(), *grouped.removed]
    return {
        "n_removed": len(removed),
        "removed": [str(names[code]) for code in removed],
        "refused": [{"worker": str(names[code]), "reason": why} for code, why in refused.items()],
        "worst_kept": _worst_kept(filtered, names),
    }


def _worst_kept(filtered: Filtered | FilteredDishonest, names: np.ndarray) -> dict[str, str] | None:
    """Return the worker nearest to removal, and why she was kept; None where the filter does not judge."""
    if not isinstance(filtered, FilteredDishonest) or filtered.worst_kept < 0:
        return None
    if not filtered.keep[filtered.worst_kept]:  # she went with her group
        return None
    return {"worker": str(names[filtered.worst_kept]), "reason": filtered.worst_kept_reason}


def _number_or_none(value: float) -> float | None:
    """Return a number as JSON has it: null where it is not defined, since there is no NaN."""
    return value if np.isfinite(value) else None
