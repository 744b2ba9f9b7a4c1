"""People who paste a model's answers: how surely they are found, and who else is taken for one.

    python -m benchmarks.quality.pasting

Crowds are dealt from the people of the panels of AltTest, left as they are (every person, or some sets
of people, paste every model), and simulated with one paster among three to ten workers.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np

from benchmarks.publish import parser_of, publish
from benchmarks.quality.dependence import PANELS, Panel, panel_of
from benchmarks.quality.signals import auc
from quality import CrowdLabels, encode, pasted_answers, regular_assignment, simulate_crowd
from quality.dependence import tetrads

PASTERS, PASTED = 0.3, 0.9  # share of the workers, and of their labels
DEALT = 60  # workers, about
MOST = 60  # crowds of a panel's people as they are
SPREADS = (0.1, 0.15, 0.2, 0.25, 0.3, 0.4)
SUSPECTED, ALLOWED = 1.645**2, 0.06  # evidence of p = .05, and how many honest people may reach it
SIMULATED = ((3, 60), (3, 300), (4, 300), (10, 300))  # workers and tasks, three labels each
HEADER = (
    "people of", "workers", "labels each", "crowds", "AUC, pasted model's labels",
    "AUC, another model's", "pairs of models told", "AUC, no reference",
    "flagged: pasted / another / none", "falsely",
)  # fmt: skip


@dataclass(frozen=True)
class Pasting:
    """A crowd, who of it pastes, and the answers of models: first of the pasted one, then of others."""

    labels: CrowdLabels
    pastes: np.ndarray
    answers: list[np.ndarray]
    models: list[str]


def deal(panel: Panel, share: float, seed: int) -> Pasting:
    """Deal people's labels to about sixty workers; 30 % of them paste a share of theirs."""
    rng = np.random.default_rng(seed)
    models = rng.permutation(sorted({row[0] for row in panel.models}))[:2].tolist()
    parts = max(DEALT // len({row[0] for row in panel.people}), 1)
    workers = [f"{row[0]} {rng.integers(parts)}" for row in panel.people]
    crowd = sorted(set(workers))
    pasters = rng.permutation(crowd)[: max(1, round(PASTERS * len(crowd)))].tolist()
    return paste(panel, workers, pasters, models, share, rng)


def paste(
    panel: Panel, workers: list[str], pasters: list[str], models: list[str], share: float,
    rng: np.random.Generator,
) -> Pasting:  # fmt: skip
    """Give the pasters the first model's answers on a share of their labels."""
    answer = {(model, task): label for model, task, label in panel.models}
    code = {name: at for at, name in enumerate(panel.classes)}
    given = [
        answer[models[0], task] if name in pasters and rng.random() < share else label
        for name, (_, task, label) in zip(workers, panel.people, strict=True)
    ]
    labels = encode(workers, [row[1] for row in panel.people], given, classes=panel.classes)
    answers = [
        np.array([code[answer[model, task]] for task in labels.tasks.tolist()]) for model in models
    ]
    return Pasting(labels, np.isin(labels.workers, pasters), answers, models)


def as_they_are(panel: Panel, size: int) -> Iterator[Pasting]:
    """Let every set of so many people paste every model, or sixty such crowds at random."""
    people = sorted({row[0] for row in panel.people})
    models = sorted({row[0] for row in panel.models})
    every = list(product(combinations(people, size), models))
    rng = np.random.default_rng(0)
    for at in rng.permutation(len(every))[:MOST].tolist():
        pasters, model = every[at]
        others = [name for name in models if name != model]
        workers = [row[0] for row in panel.people]
        yield paste(panel, workers, list(pasters), [model, *others], PASTED, rng)


def simulated(n_workers: int, n_tasks: int, share: float, seed: int) -> Pasting:
    """Simulate honest workers, one of whom pastes; half of what two models answer is of one mind."""
    rng = np.random.default_rng([seed, n_workers, n_tasks])
    rows = regular_assignment(n_tasks=n_tasks, n_workers=n_workers, labels_per_task=3, rng=rng)
    n_classes = (2, 3, 5)[seed % 3]
    truth = rng.integers(n_classes, size=n_tasks)
    crowd = simulate_crowd(rows, truth, n_classes=n_classes, adversaries={}, rng=rng)

    def mind() -> np.ndarray:
        return np.where(rng.random(n_tasks) < 0.7, truth, rng.integers(n_classes, size=n_tasks))

    common = mind()
    models = [np.where(rng.random(n_tasks) < 0.7, common, mind()) for _ in range(2)]
    pasted = (crowd.worker == 0) & (rng.random(len(crowd.task)) < share)
    label = np.where(pasted, models[0][crowd.task], crowd.label)
    labels = encode(crowd.worker, crowd.task, label, classes=range(n_classes))
    return Pasting(labels, np.arange(n_workers) == 0, models, ["pasted", "other"])


@dataclass(frozen=True)
class Found:
    """Of each reference (the pasted model's, others', none): AUC, pasters flagged, honest flagged."""

    model: str
    pasted: np.ndarray
    others: dict[str, np.ndarray]
    none: np.ndarray

    def means(self) -> np.ndarray:
        """Return [reference, figure], other models' in the mean."""
        return np.stack([self.pasted, np.mean(list(self.others.values()), axis=0), self.none])


def find(crowd: Pasting, *, honest: bool = False) -> Found:
    """Look for those who paste, by every reference; with `honest` nobody does."""
    pastes = crowd.pastes & (not honest)
    alone = pasted_answers(crowd.labels)
    fits = [pasted_answers(crowd.labels, answer, alone=alone) for answer in crowd.answers]
    pasted, *others, none = (
        np.array(
            [
                np.nan if honest else auc(fit.evidence, pastes),
                np.nan if honest else fit.flagged[pastes].mean(),
                fit.flagged[~pastes].mean(),
            ]
        )
        for fit in (*fits, alone)
    )
    return Found(crowd.models[0], pasted, dict(zip(crowd.models[1:], others, strict=True)), none)


def cells(found: list[Found], honest: list[Found]) -> list[str]:
    """Return the cells of a row, from crowds with pasters and without."""
    figures = np.array([one.means() for one in found])
    mean = figures.mean(axis=0)
    error = figures.std(axis=0, ddof=1) / np.sqrt(len(found))
    falsely = max(mean[:, 2].max(), np.mean([one.means()[:, 2] for one in honest], axis=0).max())
    by_pair: dict[tuple[str, str], list[float]] = {}
    for one in found:
        for other, figure in one.others.items():
            by_pair.setdefault((one.model, other), []).append(float(figure[0]))
    told = sum(np.mean(values) >= 0.95 for values in by_pair.values())
    pasted, other, none = (f"{mean[at, 0]:.2f} ± {error[at, 0]:.2f}" for at in range(3))
    flagged = " / ".join(f"{share:.0%}" for share in mean[:, 1])
    return [
        str(len(found)), pasted, other, f"{told} of {len(by_pair)}", none, flagged, f"{falsely:.1%}",
    ]  # fmt: skip


def panel_rows(name: str, n_seeds: int, spread: float) -> list[tuple[str, ...]]:
    """Return the rows of a panel: its people dealt to many, and as they are."""
    panel = panel_of(name)
    n_people = len({row[0] for row in panel.people})
    dealt, nobody = (
        [find(deal(panel, share, seed), honest=not share) for seed in range(n_seeds)]
        for share in (PASTED, 0.0)
    )
    each = len(panel.people)
    rows = [(name, str(DEALT), f"{each / DEALT:.0f}", *cells(dealt, nobody))]
    before, tetrads.SPREAD = tetrads.SPREAD, spread
    models = sorted({row[0] for row in panel.models})
    workers = [row[0] for row in panel.people]
    people = paste(panel, workers, [], models, 0.0, np.random.default_rng(0))
    honest = find(people, honest=True)
    for size in sorted({1, max(1, round(PASTERS * n_people))}):
        found = [find(crowd) for crowd in as_they_are(panel, size)]
        who = f"{n_people} as they are, {size} past{'es' if size == 1 else 'e'}"
        rows.append((name, who, f"{each / n_people:.0f}", *cells(found, [honest])))
        print(rows, flush=True)
    tetrads.SPREAD = before
    return rows


def simulated_rows(n_seeds: int) -> Iterator[tuple[str, ...]]:
    """Yield rows of simulated crowds with one paster."""
    for n_workers, n_tasks in SIMULATED:
        found, honest = (
            [
                find(simulated(n_workers, n_tasks, share, seed), honest=not share)
                for seed in range(3 * n_seeds)
            ]
            for share in (PASTED, 0.0)
        )
        each = f"{3 * n_tasks / n_workers:.0f}"
        yield "(simulated)", f"{n_workers}, 1 pastes", each, *cells(found, honest)


def spreads() -> tuple[dict[str, float], str]:
    """Settle the spread of honest likeness without each panel; say how its honest people fare then."""
    reached: dict[str, dict[float, np.ndarray]] = {}
    before = tetrads.SPREAD
    for name in PANELS:
        panel = panel_of(name)
        workers = [row[0] for row in panel.people]
        models = sorted({row[0] for row in panel.models})
        crowd = paste(panel, workers, [], models, 0.0, np.random.default_rng(0))
        labels = crowd.labels
        table = np.full((labels.n_workers, labels.n_tasks), -1)
        table[labels.worker, labels.task] = labels.label
        reached[name] = {}
        for spread in SPREADS:
            tetrads.SPREAD = spread
            reached[name][spread] = np.concatenate(
                [
                    tetrads.likeness(table, answer, n_classes=labels.n_classes).evidence
                    for answer in crowd.answers
                ]
            )
    tetrads.SPREAD = before
    settled = {
        left_out: next(
            spread
            for spread in SPREADS
            if all(
                np.mean(reached[name][spread] >= SUSPECTED) <= ALLOWED
                for name in PANELS
                if name != left_out
            )
        )
        for left_out in PANELS
    }
    said = "; ".join(
        f"{name} {spread:g} ({np.mean(reached[name][spread] >= SUSPECTED):.1%}, "
        f"{np.mean(reached[name][spread] >= 6.0):.1%})"
        for name, spread in settled.items()
    )
    return settled, said


NOTE = (
    "People's labels of the panels of AltTest, dealt at random to about {dealt} workers, of whom "
    "{pasters:.0%} have {pasted:.0%} of their labels from one model, or left to the few who gave them: "
    "every one, and every set of {pasters:.0%}, of the people pastes every model, and every other model "
    "is a reference ({most} crowds at random where there are more). Simulated crowds: three labels a "
    "task, two, three and five classes; two models know .7 of the tasks and are of one mind on half. AUC "
    "of the evidence of `pasted_answers`, in the mean over crowds, ± one standard error, with the pasted "
    "model's labels as reference, with another model's, and with none. Told: pairs (pasted model, "
    "reference) of which the mean AUC is .95 or more. Flagged: share of those who paste. Falsely: largest "
    "share of honest workers flagged by any of the three, among pasters or if nobody pastes. Honest "
    "people differ in how like models they are; the least spread at which at most {allowed:.0%} of the "
    "honest people (by every model) of the three other panels reach p = .05, and what share of the "
    "panel's own then reaches p = .05 and is flagged: {spreads}. The rows of people as they are use that "
    "spread; {in_use:g} is in use. **Conclusion.** Many workers: pasters are found by common answers, "
    "where each has some thirty labels on tasks where others paste too. Four people or fewer: the one who "
    "pastes has no answers in common with anybody, and without a reference her labels have the likelihood "
    "of those of an honest person who errs as the model does (evidence 0, AUC .5); by another model's "
    "labels she is told as far as models are more like each other than like people, which fails where the "
    "reference is no liker the pasted model than people are. One paster among five workers or more, where "
    "common answers are looked for, is told by the pasted model's labels; by another's she can be missed."
)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--seeds", type=int, default=4, help="crowds dealt per row")
    n_seeds = parser.parse_args().seeds
    settled, said = spreads()
    with ProcessPoolExecutor(max_workers=3) as pool:
        parts = [pool.submit(panel_rows, name, n_seeds, settled[name]) for name in PANELS[::-1]]
        simulations = simulated_rows(n_seeds)
        rows = [*simulations, *(row for part in parts[::-1] for row in part.result())]
    note = NOTE.format(
        dealt=DEALT, pasters=PASTERS, pasted=PASTED, most=MOST, allowed=ALLOWED, spreads=said,
        in_use=tetrads.SPREAD,
    )  # fmt: skip
    publish("pasted_answers", "Workers who paste a model's answers", HEADER, rows, note=note)


if __name__ == "__main__":
    main()
