"""Workers who do not answer on their own: what their groups cost and what weighing them gives back.

    python -m benchmarks.quality.dependence

Five pages: crowds with planted cliques beside honest ones (`dependence`), crowds whose workers differ in
more than one skill or label everything, honest and joined (`dependence_honest`), the least excess at which
a group is believed, settled on simulated crowds and shown on real ones (`dependence_sets`), the busiest
workers of real crowds (`dependence_busiest`), and panels of language models (`dependence_panels`).
"""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.special import expit

from benchmarks.publish import parser_of, publish
from benchmarks.quality.crowd_sets import DATA, read_set, right
from quality import (
    CrowdLabels,
    dawid_skene,
    dependent_groups,
    encode,
    hierarchical_dawid_skene,
    majority_vote,
    power_law_assignment,
    regular_assignment,
    simulate_crowd,
)
from quality.dependence import candidates

N_TASKS = 500
CROWDS = (  # kind, workers, classes, honest labels per task
    ("sybils", 4, 2, 5), ("sybils", 6, 2, 5), ("sybils", 6, 4, 5), ("rings", 24, 2, 5),
    ("part_time", 8, 2, 5), ("load_aware", 12, 2, 5), ("models", 5, 2, 3),
    ("better_models", 5, 2, 3), ("better_models", 5, 4, 3),
)  # fmt: skip
SIZES = (20, 40, 200)
DESIGNS = {"even": regular_assignment, "skewed": power_law_assignment}
EXCESS = (0.05, 0.1, 0.15, 0.2, 0.25)
FAMILIES = (
    ("rte", "temp"), ("task2", "trec2011_task2"), ("web",), ("bluebird",), ("dog",), ("labelme",),
    ("music",), ("sentence_polarity",), ("fact_eval",), ("weather_amt", "weather_cf"),
    ("product",), ("adult2",), ("leaves",), ("div150_q1", "div150_q2"),
    ("barzan_tweets", "sentiment_tweets"),
)  # fmt: skip
ODD = (  # what the workers are, their number, tasks, labels per task (all if 0), classes
    ("wide", 5, 1000, 0, 2), ("wide", 8, 1000, 0, 5), ("wide", 12, 2000, 0, 2), ("wide", 20, 1000, 5, 5),
    ("confused", 5, 1000, 0, 2), ("confused", 8, 5000, 0, 2), ("confused", 20, 300, 0, 5),
    ("rare", 6, 2000, 0, 2), ("rare", 10, 2000, 0, 2), ("rare", 15, 4000, 0, 2), ("rare", 30, 3000, 5, 2),
    ("one-sided", 12, 2000, 0, 2), ("one-sided", 30, 3000, 8, 2),
    ("graded", 12, 2000, 0, 5), ("graded", 30, 3000, 8, 5),
    ("lenient or strict", 6, 300, 0, 5), ("lenient or strict", 12, 600, 0, 5),
    ("lenient or strict", 20, 1000, 5, 5), ("lenient or strict", 30, 2000, 6, 4),
    ("of hard tasks", 15, 3000, 0, 2), ("of hard tasks", 60, 4000, 8, 2),
    ("tempted", 12, 300, 0, 4), ("tempted", 20, 300, 0, 4), ("tempted", 20, 1000, 0, 8),
)  # fmt: skip
COPIES = 0.8  # of the tasks of those who join an odd crowd
PANELS = ("cebab_stars", "framing", "mtbench", "summeval")


@dataclass(frozen=True)
class Crowd:
    """A simulated crowd: labels, truth, and true for those who are honest."""

    labels: CrowdLabels
    truth: np.ndarray
    honest: np.ndarray


def crowd_of(kind: str, size: int, n_classes: int, overlap: int, n_workers: int, design: str,
             seed: int) -> Crowd:  # fmt: skip
    """Draw a crowd of honest workers, accuracies Beta(12, 3), joined by a clique."""
    rng = np.random.default_rng([seed, n_workers])
    rows = DESIGNS[design](n_tasks=N_TASKS, n_workers=n_workers, labels_per_task=overlap, rng=rng)
    truth = rng.integers(n_classes, size=N_TASKS)
    cliques_of = {kind: size} if size else {}
    crowd = simulate_crowd(rows, truth, n_classes=n_classes, adversaries=cliques_of, rng=rng)
    names = np.arange(len(crowd.kind)), np.arange(N_TASKS), np.arange(n_classes)
    labels = CrowdLabels.from_codes(
        crowd.worker, crowd.task, crowd.label, workers=names[0], tasks=names[1], classes=names[2]
    )
    return Crowd(labels, truth, crowd.kind == "honest")


def measure(crowd: Crowd) -> list[float]:
    """Dawid–Skene and majority vote: as is, weighed, without the clique; and whom the groups hold."""
    labels, honest = crowd.labels, crowd.honest
    groups = dependent_groups(labels).group
    alone = labels.keep_workers(honest)
    values = [
        right(rule(table, groups=weighed).posterior, crowd.truth)
        for rule in (majority_vote, dawid_skene)
        for table, weighed in ((labels, None), (labels, groups), (alone, None))
    ]
    held = groups >= 0
    return [*values, 100 * held[~honest].mean() if (~honest).any() else 0.0, held[honest].sum()]


def clique_rows(n_seeds: int) -> tuple[list[tuple[str, ...]], dict[str, float]]:
    """One row per planted crowd, size and design; what the note quotes."""
    rows, gaps, merged = [], [], 0
    for (kind, size, n_classes, overlap), n_workers, design in product(CROWDS, SIZES, DESIGNS):
        found = np.array(
            [
                measure(crowd_of(kind, size, n_classes, overlap, n_workers, design, seed))
                for seed in range(n_seeds)
            ]
        )
        mean, error = found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(n_seeds)
        gaps.append(mean[4] - mean[5])
        merged += int(found[:, 7].sum())
        rows.append(
            (
                f"{size} {kind.replace('_', ' ')}", str(n_classes), str(n_workers), design,
                *(f"{mean[i]:.1f}" for i in (0, 1, 3)), f"{mean[4]:.1f} ± {error[4]:.1f}",
                f"{mean[5]:.1f}", f"{mean[4] - mean[5]:+.1f}", f"{mean[6]:.0f} %",
            )
        )  # fmt: skip
    return rows, {"n_rows": len(rows), "worst": min(gaps), "n_under": sum(g < -2 for g in gaps),
                  "merged": merged}  # fmt: skip


def clean_facts(n_seeds: int) -> dict[str, float]:
    """Honest crowds in which anybody is merged, and what weighing costs there."""
    n_crowds = n_merged = 0
    lost = []
    for n_classes, overlap, n_workers, design in product((2, 4), (3, 5, 10), SIZES, DESIGNS):
        for seed in range(n_seeds):
            crowd = crowd_of("", 0, n_classes, overlap, n_workers, design, 1000 + seed)
            groups = dependent_groups(crowd.labels).group
            n_crowds += 1
            n_merged += bool((groups >= 0).any())
            if (groups >= 0).any():
                plain, weighed = (
                    right(dawid_skene(crowd.labels, groups=how).posterior, crowd.truth)
                    for how in (None, groups)
                )
                lost.append(plain - weighed)
    return {"n_clean": n_crowds, "n_merged": n_merged, "lost": sum(lost) / n_crowds}


def odd_labels(kind: str, n_workers: int, n_tasks: int, n_classes: int,
               rng: np.random.Generator) -> np.ndarray:  # fmt: skip
    """Draw what each worker of an odd crowd would answer on each task."""
    size = n_workers, n_tasks
    if kind == "graded":  # a latent grade, seen with noise and a bias of her own
        grade = n_classes * rng.beta(1, 4, n_tasks) + rng.normal(0, 0.3, n_workers)[:, None]
        return np.clip(
            grade + rng.uniform(0.3, 1, n_workers)[:, None] * rng.normal(size=size),
            0,
            n_classes - 1,
        ).astype(int)
    if kind == "lenient or strict":  # always one grade too high, or always one too low
        off = np.where(rng.random((n_workers, 1)) < 0.5, 1, -1)
        errs = rng.random(size) < rng.uniform(0.2, 0.6, (n_workers, 1))
        grade = np.clip(rng.integers(n_classes, size=n_tasks) + off * errs, 0, n_classes - 1)
        return np.where(rng.random(size) < 0.05, rng.integers(n_classes, size=size), grade)
    if kind == "of hard tasks":  # everybody errs on the same ones
        seen = 3 * (rng.random(n_tasks) < 0.1) + rng.normal(0, 0.8, n_tasks) + rng.normal(size=size)
        return (seen > 1.6 + rng.normal(0, 0.4, n_workers)[:, None]).astype(int)
    if kind == "tempted":  # on hard tasks nearly all take the same wrong class
        truth, off = rng.integers(n_classes, size=n_tasks), rng.integers(1, n_classes, size=n_tasks)
        known = expit(rng.normal(0.8, 1.2, (n_workers, 1)) - rng.normal(0, 2, n_tasks))
        guess = rng.integers(n_classes, size=size)
        guess = np.where(rng.random(size) < 0.8, (truth + off) % n_classes, guess)
        return np.where(rng.random(size) < known, truth, guess)
    share = {"rare": 0.015, "one-sided": 0.3}.get(kind, 1 / n_classes)
    truth = rng.integers(n_classes, size=n_tasks)
    if n_classes == 2:
        truth = np.asarray(rng.random(n_tasks) < share, dtype=np.int64)
    right = np.repeat(rng.uniform(0.3, 0.98, (n_workers, 1)), n_classes, axis=1)
    if kind == "confused":
        right = rng.uniform(0.3, 0.98, (n_workers, n_classes))
    if kind in ("rare", "one-sided"):
        right = np.column_stack(
            [rng.uniform(0.97, 0.9999, n_workers), rng.uniform(0.3, 0.99, n_workers)]
        )
    wrong = (truth + rng.integers(1, n_classes, size)) % n_classes
    return np.where(rng.random(size) < right[:, truth], truth, wrong)


def odd_crowd(kind: str, n_workers: int, n_tasks: int, overlap: int, n_classes: int, n_joined: int,
              seed: int) -> Crowd:  # fmt: skip
    """Draw an odd crowd in which the first few copy one of their own on `COPIES` of the tasks."""
    rng = np.random.default_rng([seed, n_workers, n_tasks])
    label = odd_labels(kind, n_workers, n_tasks, n_classes, rng)
    label[:n_joined] = np.where(
        rng.random((n_joined, n_tasks)) < COPIES, label[0], label[:n_joined]
    )
    worker, task = np.divmod(np.arange(label.size), n_tasks)
    if overlap:
        rows = regular_assignment(
            n_tasks=n_tasks, n_workers=n_workers, labels_per_task=overlap, rng=rng
        )
        worker, task = rows.worker, rows.task
    labels = encode(worker, task, label[worker, task])
    return Crowd(labels, np.zeros(0), np.asarray(labels.workers >= n_joined))


def odd_rows(n_seeds: int) -> tuple[list[tuple[str, ...]], dict[str, int]]:
    """One row per odd crowd: whether anybody is put into a group, and whether those who copy are."""
    rows: list[tuple[str, ...]] = []
    n_false = n_honest = 0
    for kind, n_workers, n_tasks, overlap, n_classes in ODD:
        n_joined = max(n_workers // 5, 2)
        crowds = [
            [
                odd_crowd(kind, n_workers, n_tasks, overlap, n_classes, joined, s)
                for s in range(n_seeds)
            ]
            for joined in (0, n_joined)
        ]
        alone, among = (
            [(crowd, dependent_groups(crowd.labels).group >= 0) for crowd in some]
            for some in crowds
        )
        false = sum(held.any() for _, held in alone)
        merged = sum(int(held[crowd.honest].sum()) for crowd, held in among)
        found = np.mean([held[~crowd.honest].mean() for crowd, held in among])
        n_false, n_honest = n_false + int(false), n_honest + merged
        rows.append(
            (
                kind, str(n_workers), f"{n_tasks:,}", str(overlap or "all"), str(n_classes),
                f"{false} of {n_seeds}", str(n_joined), f"{100 * found:.0f} %", str(merged),
            )
        )  # fmt: skip
    return rows, {"n_false": n_false, "n_crowds": n_seeds * len(ODD), "n_honest": n_honest}


def set_rows(n_seeds: int) -> list[tuple[str, ...]]:
    """For each least excess: planted workers found, and what weighing changes on the real sets."""
    known = {name for family in FAMILIES for name in family if (DATA / name).exists()}
    sets = {name: read_set(DATA / name) for name in sorted(known)}
    rows: list[tuple[str, ...]] = []
    before = candidates.MIN_EXCESS
    for least in EXCESS:
        candidates.MIN_EXCESS = least
        planted = [
            dependent_groups(crowd.labels).group[~crowd.honest] >= 0
            for row in CROWDS
            for n_workers, design, seed in product((20, 40), DESIGNS, range(n_seeds))
            for crowd in [crowd_of(*row, n_workers, design, 500 + seed)]
        ]
        changes: dict[str, tuple[float, float]] = {}
        for name, (labels, gold) in sets.items():
            groups = dependent_groups(labels).group
            if (groups >= 0).any():
                changes[name] = tuple(
                    right(rule(labels, groups=groups).posterior, gold)
                    - right(rule(labels).posterior, gold)
                    for rule in (majority_vote, hierarchical_dawid_skene)
                )  # type: ignore[assignment]
        said = "; ".join(f"{n} {mv:+.1f} / {ds:+.1f}" for n, (mv, ds) in changes.items())
        rows.append(
            (
                f"{least:.2f}", f"{100 * np.concatenate(planted).mean():.1f} %",
                f"{len(changes)} of {len(sets)}", said or "none",
            )
        )  # fmt: skip
    candidates.MIN_EXCESS = before
    return rows


def busiest_rows(n_seeds: int) -> list[tuple[str, ...]]:
    """One row per real set: four fifths of its busiest workers, drawn by seeds, and what groups change."""
    rows = []
    for name in (name for family in FAMILIES for name in family):
        labels, gold = read_set(DATA / name)
        n_busiest = max(labels.n_workers // 3, 12)
        busiest = np.argsort(-np.bincount(labels.worker), kind="stable")[:n_busiest]
        changes = []
        for seed in range(n_seeds):
            keep = np.isin(np.arange(labels.n_workers), busiest)
            keep &= np.random.default_rng(seed).random(labels.n_workers) < 0.8
            some = labels.keep_workers(keep)
            groups = dependent_groups(some).group
            if (groups >= 0).any():
                changes.append(
                    [
                        right(rule(some, groups=groups).posterior, gold)
                        - right(rule(some).posterior, gold)
                        for rule in (majority_vote, dawid_skene, hierarchical_dawid_skene)
                    ]
                )
        if changes:
            mean = [f"{change:+.1f}" for change in np.mean(changes, axis=0)]
            rows.append((name, f"{len(changes)} of {n_seeds}", *mean))
    return rows


Row = tuple[str, str, str]


@dataclass(frozen=True)
class Panel:
    """Labels of people and of models for the same tasks, and the people's strict majority."""

    people: list[Row]
    models: list[Row]
    classes: list[str]
    gold: dict[str, str]


def panel_of(name: str) -> Panel:
    """Read a panel."""
    people, models = (
        [(row["worker"], row["task"], row["label"]) for row in csv.DictReader(file.open())]
        for file in (DATA / "panels" / name / part for part in ("people.csv", "models.csv"))
    )
    given: dict[str, Counter[str]] = defaultdict(Counter)
    for _, task, label in people:
        given[task][label] += 1
    gold = {}
    for task, counts in given.items():
        label, most = counts.most_common(1)[0]
        if counts.total() >= 2 and 2 * most > counts.total():
            gold[task] = label
    return Panel(people, models, sorted({row[2] for row in people + models}), gold)


def panel_facts(panel: Panel, n_seeds: int) -> list[str]:
    """Accuracy of the models alone, what the panel is worth, and how often its interval holds."""
    labels = encode(*zip(*panel.models, strict=True), classes=panel.classes)
    code = {name: at for at, name in enumerate(panel.classes)}
    gold = np.array([code.get(panel.gold.get(task, ""), -1) for task in labels.tasks.tolist()])
    known, everybody = np.flatnonzero(gold >= 0), np.arange(labels.n_workers)
    single = max(
        np.mean(labels.label[own] == gold[labels.task[own]])
        for own in ((labels.worker == w) & (gold[labels.task] >= 0) for w in everybody)
    )
    full = dependent_groups(labels, models=everybody, gold=gold)
    held = 0
    for seed in range(n_seeds):
        some = np.full(len(gold), -1)
        pick = np.random.default_rng(seed).permutation(known)[: min(100, len(known) // 2)]
        some[pick] = gold[pick]
        low, high = dependent_groups(labels, models=everybody, gold=some).effective_interval[0]
        held += bool(low <= full.effective[0] <= high)
    blind = dependent_groups(labels, models=everybody).effective[0]
    return [
        f"{100 * single:.1f}", f"{right(majority_vote(labels).posterior, gold):.1f}",
        f"{right(dawid_skene(labels).posterior, gold):.1f}", f"{full.effective[0]:.2f}",
        f"{blind:.2f}", f"{held / n_seeds:.0%}" if len(known) >= 100 else "too few gold tasks",
    ]  # fmt: skip


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--seeds", type=int, default=10, help="crowds per row")
    parser.add_argument("--page", choices=PAGES, help="this page alone")
    given = parser.parse_args()
    for page in [given.page] if given.page else PAGES:
        PAGES[page](given.seeds)


def publish_cliques(n_seeds: int) -> None:
    """Crowds with planted cliques, beside honest ones."""
    rows, facts = clique_rows(n_seeds)
    header = (
        "joined by", "classes", "honest", "design", "MV", "MV weighed", "DS", "DS weighed",
        "DS without them", "difference", "found",
    )  # fmt: skip
    title = "Workers who do not answer on their own"
    note = NOTE.format(n_seeds=n_seeds, **facts, **clean_facts(n_seeds))
    publish("dependence", title, header, rows, note=note)


def publish_honest(n_seeds: int) -> None:
    """Crowds of other kinds than those that limits were settled on."""
    rows, facts = odd_rows(2 * n_seeds)
    title = "Honest crowds that look dependent"
    publish("dependence_honest", title, ODD_HEADER, rows, note=ODD_NOTE.format(**facts))


def publish_sets(n_seeds: int) -> None:
    """The least excess, settled on simulated crowds and shown on real ones."""
    publish(
        "dependence_sets",
        "The excess from which a group is believed",
        (
            "least excess",
            "planted found",
            "real sets with groups",
            "change of MV / hierarchical DS",
        ),
        set_rows(max(n_seeds // 5, 2)),
        note=SETS_NOTE.format(before=candidates.MIN_EXCESS),
    )


def publish_busiest(n_seeds: int) -> None:
    """Groups among the busiest workers of real sets."""
    header = "set", "crowds with groups", "change of MV", "of DS", "of hierarchical DS"
    title = "Groups among the busiest workers of real crowds"
    note = BUSIEST_NOTE.format(n_sets=sum(map(len, FAMILIES)))
    publish("dependence_busiest", title, header, busiest_rows(2 * n_seeds), note=note)


def publish_panels(n_seeds: int) -> None:
    """Panels of models alone."""
    rows = [(name, *panel_facts(panel_of(name), 2 * n_seeds)) for name in PANELS]
    publish("dependence_panels", "Panels of models", PANEL_HEADER, rows, note=PANEL_NOTE)


PAGES: dict[str, Callable[[int], None]] = {
    "dependence": publish_cliques,
    "dependence_honest": publish_honest,
    "dependence_sets": publish_sets,
    "dependence_busiest": publish_busiest,
    "dependence_panels": publish_panels,
}

NOTE = (
    "Per cent right of {n_seeds} seeded crowds per row (`simulate_crowd`): 500 tasks, honest "
    "accuracies Beta(12, 3), five honest labels per task, three beside models; with a skewed design "
    "a few honest workers give most labels. Sybils copy one guesser on half of the tasks, rings of "
    "three on a quarter each; part-time colluders lie alike on a tenth of all tasks; load-aware "
    "ones lie in threes on a tenth and tell the truth on three tenths; models have one mind, right "
    "on .65 (better models .75). MV is majority vote, DS Dawid–Skene, weighed with "
    "`groups=dependent_groups(labels).group`; ± is one standard error. **Conclusion.** Of {n_rows} "
    "rows {n_under} lie more than two points under the same crowd without the clique; the worst "
    "difference is {worst:.1f}. Over all these crowds {merged} honest workers were put into a "
    "group. Of {n_clean} honest crowds {n_merged} had a group, and weighing cost {lost:.2f} points "
    "in the mean."
)
ODD_HEADER = (
    "workers are", "workers", "tasks", "labels a task", "classes", "honest crowds with a group",
    "join them", "found", "honest workers in groups",
)  # fmt: skip
ODD_NOTE = (
    "Seeded crowds in which one skill explains agreement less well. Accuracies of *wide* crowds go from .3 to"
    " .98; *confused* ones have an accuracy for each class; a *rare* class has 1.5 % of the tasks, and the "
    "other is hardly ever missed; *one-sided* workers miss one class of 30 % by .01 to .7 and the other "
    "hardly ever; *graded* ones see a latent grade with noise and a bias of their own; *lenient or strict* "
    "ones are off by one grade, always the same way, on .2 to .6 of the tasks; *of hard tasks* they err on "
    "the same ones; *tempted* ones err on hard tasks, mostly by the same wrong class. Beside each the same "
    "crowd in which a fifth of the workers, two at least, give the labels of one of their own on .8 of the "
    "tasks. The form of the fit, and the last steps, were chosen with other seeds of such crowds in view. "
    "**Conclusion.** {n_false} of {n_crowds} honest crowds had a group; beside those who copy {n_honest} "
    "honest workers were put into one."
)
BUSIEST_NOTE = (
    "Four fifths of the busiest third of each set's workers (of twelve at least), drawn anew for each seed: "
    "some such crowds are a few experts among people who hardly know. Changes are in points on gold, means "
    "over the crowds in which somebody is put into a group. Of {n_sets} sets those without such a crowd have "
    "no row. The last step of the search was chosen with these crowds of web, music and sentiment_tweets in "
    "view: there the change is a fit."
)
SETS_NOTE = (
    "A group is believed if its members agree beyond what is expected by at least this share of what "
    "chance leaves. The value in use, {before:.2f}, is the largest at which the simulated crowds' "
    "planted workers (20 and 40 honest workers, both designs) are still found; the real sets took no "
    "part in that rule, so that every family of them is left out. The last column has the sets where "
    "weighing changes anything, in points on gold. `mill` is left out for its time."
)
PANEL_HEADER = (
    "panel", "best model", "MV", "DS", "worth (all gold)", "worth (labels alone)",
    "interval holds",
)  # fmt: skip
PANEL_NOTE = (
    "Six models on each panel of AltTest; gold is the strict majority of two or more people. Worth is "
    "the effective number of the six, m / (1 + (m - 1) c), c being the mean correlation of errors on "
    "gold; from labels alone c is the agreement beyond a common skill, which a panel without people "
    "cannot tell from knowing the truth. The interval of 90 % is made from 100 random gold tasks and "
    "holds if it covers the value of all gold."
)


if __name__ == "__main__":
    main()
