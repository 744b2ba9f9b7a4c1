"""Calibrated confidence with families of sets left out, and the tasks that it puts first.

    python -m benchmarks.quality.calibration
    python -m benchmarks.quality.calibration --first

Two pages: expected calibration error and Brier score on the shared sets, on parts of them and on panels
of models, with 100 gold tasks and without (`calibration`), and the wrong tasks among the first 5 %
(`first_tasks`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logit

from benchmarks.publish import parser_of, publish
from benchmarks.quality.crowd_sets import DATA, FAMILIES, read_set
from benchmarks.quality.dependence import PANELS, panel_of
from benchmarks.quality.thinned import LARGE, thinned
from quality import (
    CrowdLabels,
    RightnessPrior,
    Support,
    auto,
    calibrate_support,
    dawid_skene,
    dependent_groups,
    encode,
    hierarchical_dawid_skene,
    majority_vote,
)
from quality.agreement import beyond_chance
from quality.confidence import calibration_error, task_support
from quality.confidence.calibration import MIN_GOLD, PRIOR, design, most_likely

RULES: dict[str, Callable[[CrowdLabels], np.ndarray]] = {
    "DS": lambda labels: dawid_skene(labels).posterior,
    "hierarchical DS": lambda labels: hierarchical_dawid_skene(labels).posterior,
    "auto": lambda labels: auto(labels).posterior,
    "MV": lambda labels: majority_vote(labels).posterior,
}
MODELS = ("DS", "hierarchical DS", "auto")  # whose confidence is calibrated; MV stands beside
SHOWN = "hierarchical DS"  # of which rivals are shown, and on which spreads are settled
FIRST_RULES = ("auto", SHOWN)  # a run's default, and a model alone
NOT_IN_LEVELS = f"{SHOWN}, gold, not in levels"
N_GOLD = 100
RIDGE = 0.03  # on standardised columns, every set having the weight of one task
SPREADS = tuple(product(((0.7, 0.35, 0.35), (1.0, 0.5, 0.5), (2.0, 1.0, 1.0)), (0.5, 1.0, 2.0)))
POWERS = np.array([0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.3, 1.7, 2.0])
FIRST = 0.05
FEW_DRAWS = 3  # of gold tasks, where many sets or spreads are gone through
N_EQUAL = 10  # bins of equal numbers of tasks
ALL_LABELS = 60_000  # more are not held out one by one


@dataclass(frozen=True)
class Crowd:
    """A set: labels, gold, and by rule the posterior and what speaks for its labels."""

    labels: CrowdLabels
    gold: np.ndarray
    posterior: dict[str, np.ndarray]
    support: dict[str, Support]

    def right(self, rule: str) -> np.ndarray:
        """Whether each gold task's label is right."""
        known = self.gold >= 0
        return self.support[rule].label[known] == self.gold[known]


class Score(NamedTuple):
    """Expected calibration error, Brier score, and the error in bins of equal numbers of tasks."""

    error: float
    brier: float
    equal: float


def look_at(
    labels: CrowdLabels, gold: np.ndarray, *, models: bool = False, rules: Iterable[str] = RULES
) -> Crowd:
    """Fit rules to a set; where all workers are models, they have one vote together."""
    groups = None
    if models:
        groups = dependent_groups(labels, models=np.arange(labels.n_workers)).group
    posterior = {rule: RULES[rule](labels) for rule in rules}
    support = {
        rule: task_support(labels, found, groups=groups) for rule, found in posterior.items()
    }
    return Crowd(labels, gold, posterior, support)


def thinned_crowds() -> dict[str, list[tuple[tuple[str, ...], Crowd]]]:
    """What one draw leaves of the sets, with their families, by what is left; none with little gold."""
    found: dict[str, list[tuple[tuple[str, ...], Crowd]]] = {}
    for family in FAMILIES:
        for name in (name for name in family if name not in LARGE):
            for part in thinned(*read_set(DATA / name), 0):
                if np.count_nonzero(part.gold >= 0) >= N_GOLD:
                    crowd = look_at(part.labels, part.gold)
                    found.setdefault(part.kind, []).append((family, crowd))
    return found


def panel_crowd(name: str) -> Crowd:
    """A panel of models, and the majority of people as its gold."""
    panel = panel_of(name)
    labels = encode(*zip(*panel.models, strict=True), classes=panel.classes)
    code = {known: at for at, known in enumerate(panel.classes)}
    truth = [code.get(panel.gold.get(task, ""), -1) for task in labels.tasks.tolist()]
    return look_at(labels, np.array(truth), models=True)


def score(confidence: np.ndarray, right: np.ndarray) -> Score:
    brier = float(np.mean((confidence - right) ** 2))
    return Score(calibration_error(confidence, right), brier, equal_bins_error(confidence, right))


def equal_bins_error(confidence: np.ndarray, right: np.ndarray) -> float:
    """Calibration error in bins of equal numbers of tasks, however few values confidence has."""
    bins = np.array_split(np.argsort(confidence, kind="stable"), N_EQUAL)
    return float(sum(abs((confidence[each] - right[each]).sum()) for each in bins) / len(right))


def mean_of(scores: Iterable[Sequence[float]]) -> Score:
    return Score(*np.mean(list(scores), axis=0).tolist())


def settled(crowds: Iterable[Crowd]) -> RightnessPrior:
    """The coefficients of some sets, all rules together, every set and rule weighing alike.

    They are the likeliest where a label is right as `calibrate_support` says it without gold: by the
    regression with the weight that votes beyond chance give it, or else as a guess is.
    """
    columns, right, share, guess, weight = [], [], [], [], []
    for crowd in crowds:
        for rule, support in crowd.support.items():
            found, knows = crowd.right(rule), beyond_chance(support.reliability)
            columns.append(design(support)[crowd.gold >= 0])
            right.append(found.astype(float))
            share.append(np.full(len(found), 1 / len(found)))
            guess.append((1 - knows) * support.guess[crowd.gold >= 0])
            weight.append(np.full(len(found), knows))
    table, truth, each = np.concatenate(columns), np.concatenate(right), np.concatenate(share)
    chance, known = np.concatenate(guess), np.concatenate(weight)
    centre, scale = table.mean(axis=0), table.std(axis=0)
    centre[0], scale[0] = 0.0, 1.0
    table, ridge = (table - centre) / scale, np.array([0.0, RIDGE, RIDGE, RIDGE])

    def loss(at: np.ndarray) -> tuple[float, np.ndarray]:
        q = expit(table @ at)
        p = known * q + chance
        fit = each @ (truth * np.log(p) + (1 - truth) * np.log1p(-p))
        slope = table.T @ (each * (truth / p - (1 - truth) / (1 - p)) * known * q * (1 - q))
        return 0.5 * ridge @ at**2 - fit, ridge * at - slope

    knobs = minimize(loss, np.zeros(4), jac=True, method="BFGS").x / scale
    knobs[0] -= knobs @ centre
    return replace(PRIOR, **dict(zip(("intercept", "odds", "votes", "shared"), knobs, strict=True)))


def by_gold(
    crowd: Crowd,
    rule: str,
    prior: RightnessPrior,
    n_draws: int,
    *,
    in_levels: bool = True,
    n_gold: int = N_GOLD,
) -> Score:
    """With gold: random tasks (half of them, if there are fewer than twice as many), the others to judge."""

    def judged(some: np.ndarray, others: np.ndarray) -> Score:
        found = calibrate_support(crowd.support[rule], some, prior=prior, in_levels=in_levels)
        return score(found.confidence[others], found.label[others] == crowd.gold[others])

    return mean_of(judged(*drawn(crowd.gold, seed, n_gold)) for seed in range(n_draws))


def drawn(gold: np.ndarray, seed: int, n_gold: int = N_GOLD) -> tuple[np.ndarray, np.ndarray]:
    """The gold that is given, and the tasks that judge."""
    known = np.random.default_rng(seed).permutation(np.flatnonzero(gold >= 0))
    n_given = min(n_gold, len(known) // 2)
    some = np.full(len(gold), -1)
    some[known[:n_given]] = gold[known[:n_given]]
    return some, known[n_given:]


def without_gold(crowd: Crowd, rule: str, prior: RightnessPrior) -> Score:
    found = calibrate_support(crowd.support[rule], prior=prior)
    return score(found.confidence[crowd.gold >= 0], crowd.right(rule))


def before(crowd: Crowd, rule: str) -> Score:
    return score(crowd.support[rule].model[crowd.gold >= 0], crowd.right(rule))


def floor_of(crowd: Crowd, rule: str, prior: RightnessPrior, n_draws: int) -> float:
    """The error of a perfectly calibrated confidence on as many judging tasks."""
    errors = []
    for seed in range(n_draws):
        some, others = drawn(crowd.gold, seed)
        confidence = calibrate_support(crowd.support[rule], some, prior=prior).confidence[others]
        truth = np.random.default_rng(seed).random(len(others)) < confidence
        errors.append(calibration_error(confidence, truth))
    return float(np.mean(errors))


def two_unknown(crowd: Crowd, rule: str, prior: RightnessPrior, n_draws: int) -> float:
    """What the same gold leaves of the error where all of the curve but its level and slope is known.

    The truth is drawn from the confidence that all gold gives; the regression of it on that confidence's
    log-odds, from the gold of a draw, judges the others.
    """
    support, known = crowd.support[rule], crowd.gold >= 0
    curve = calibrate_support(support, crowd.gold, prior=prior, in_levels=False).confidence
    columns = np.stack([np.ones(len(curve)), logit(np.clip(curve, 1e-6, 1 - 1e-6))], axis=1)
    errors = []
    for seed in range(n_draws):
        right = np.random.default_rng(100 + seed).random(len(curve)) < curve
        some, others = drawn(np.where(known, right, -1).astype(np.int64), seed)
        given = np.flatnonzero(some >= 0)
        fitted = most_likely(
            columns[given], right[given].astype(float), np.array([0.0, 1.0]), np.array([2.0, 0.5])
        )
        errors.append(calibration_error(expit(columns[others] @ fitted), right[others]))
    return float(np.mean(errors))


def one_temperature(crowd: Crowd, rule: str, n_draws: int) -> Score:
    """Rival: the posterior to the power that makes the gold tasks' truths likeliest."""
    log_p = np.log(np.maximum(crowd.posterior[rule], 1e-12))
    powered = [tempered(log_p, power) for power in POWERS]
    label, scores = crowd.support[rule].label, []
    for seed in range(n_draws):
        some, others = drawn(crowd.gold, seed)
        given = np.flatnonzero(some >= 0)
        fits = [np.log(p[given, some[given]] + 1e-300).sum() for p in powered]
        confidence = powered[int(np.argmax(fits))].max(axis=1)
        scores.append(score(confidence[others], label[others] == crowd.gold[others]))
    return mean_of(scores)


def held_out(crowd: Crowd, rule: str) -> Score:
    """Rival without gold: the power of the posterior that best predicts each label from the others.

    A label is taken out of its task's posterior by her one-coin likelihood, her other labels given.
    """
    labels, posterior = crowd.labels, crowd.posterior[rule]
    n_classes, rows = labels.n_classes, slice(0, ALL_LABELS)
    task, worker, label = labels.task[rows], labels.worker[rows], labels.label[rows]
    believed = posterior[task, label]
    n_given = np.bincount(worker, minlength=labels.n_workers)[worker] - 1
    n_right = np.bincount(worker, believed, labels.n_workers)[worker] - believed
    accuracy = np.clip((n_right + 4 * believed.mean()) / (n_given + 4), 1.02 / n_classes, 0.995)
    likelihood = np.repeat(((1 - accuracy) / (n_classes - 1))[:, None], n_classes, axis=1)
    likelihood[np.arange(len(label)), label] = accuracy
    others = np.log(np.maximum(posterior[task], 1e-12)) - np.log(likelihood)
    fits = [np.log((tempered(others, power) * likelihood).sum(axis=1)).sum() for power in POWERS]
    power = POWERS[int(np.argmax(fits))]
    confidence = tempered(np.log(np.maximum(posterior, 1e-12)), power).max(axis=1)
    return score(confidence[crowd.gold >= 0], crowd.right(rule))


def tempered(log_p: np.ndarray, power: float) -> np.ndarray:
    p = np.exp(power * (log_p - log_p.max(axis=1, keepdims=True)))
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def settled_without(crowds: dict[str, Crowd], family: tuple[str, ...], spread: dict[str, np.ndarray]
                    ) -> RightnessPrior:  # fmt: skip
    """Coefficients and spreads from the sets of all other families."""
    others = [name for name in crowds if name not in family]
    best = int(np.argmin(np.mean([spread[name] for name in others], axis=0)))
    knobs, classes = SPREADS[best]
    return replace(settled(crowds[name] for name in others), spread=knobs, class_spread=classes)


def wrong_first(value: np.ndarray, wrong: np.ndarray) -> float:
    """Wrong tasks among the 5 % of the lowest value, ties in expectation."""
    n_first = max(1, round(FIRST * len(wrong)))
    value = value.round(9)
    last = np.sort(value)[n_first - 1]
    sure, level = value < last, value == last
    return float(wrong[sure].sum() + wrong[level].mean() * (n_first - np.count_nonzero(sure)))


def first_cells(crowd: Crowd, rule: str, prior: RightnessPrior) -> list[float]:
    """Wrong tasks, and those first by votes, the model, calibrated confidence, and the last two's product."""
    known, found = crowd.gold >= 0, calibrate_support(crowd.support[rule], prior=prior)
    wrong = ~crowd.right(rule)
    share = majority_vote(crowd.labels).posterior.max(axis=1)
    ranked = (share, found.model, found.confidence, found.confidence * found.model)
    return [wrong.sum(), *(wrong_first(value[known], wrong) for value in ranked)]


def first_row(crowd: Crowd, prior: RightnessPrior) -> list[float]:
    """The gold tasks, and the cells of the default rule and of one model."""
    cells = (first_cells(crowd, rule, prior) for rule in FIRST_RULES)
    return [float((crowd.gold >= 0).sum()), *chain.from_iterable(cells)]


def measured(crowd: Crowd, prior: RightnessPrior, n_draws: int) -> dict[str, Score]:
    """Every column of the page on calibration for one set."""
    return {
        **{f"{rule}, before": before(crowd, rule) for rule in RULES},
        **{f"{rule}, gold": by_gold(crowd, rule, prior, n_draws) for rule in MODELS},
        **{
            f"{rule}, {MIN_GOLD} gold": by_gold(crowd, rule, prior, n_draws, n_gold=MIN_GOLD)
            for rule in MODELS
        },
        NOT_IN_LEVELS: by_gold(crowd, SHOWN, prior, n_draws, in_levels=False),
        **{f"{rule}, no gold": without_gold(crowd, rule, prior) for rule in MODELS},
        "one temperature, gold": one_temperature(crowd, SHOWN, n_draws),
        "held-out labels": held_out(crowd, SHOWN),
    }


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--draws", type=int, default=10, help="draws of gold tasks per set")
    parser.add_argument(
        "--first", action="store_true", help="the page on the tasks put first alone"
    )
    asked = parser.parse_args()
    n_draws = asked.draws
    crowds = {name: look_at(*read_set(DATA / name)) for family in FAMILIES for name in family}
    plain = {family: settled(crowds[n] for n in crowds if n not in family) for family in FAMILIES}
    parts = thinned_crowds()
    # without gold: the spreads, which are settled next, play no part
    publish_first(crowds, parts, plain)
    if asked.first:
        return
    panels = {name: panel_crowd(name) for name in PANELS}
    spread = {
        name: np.array([
            by_gold(crowds[name], SHOWN, replace(plain[family], spread=knobs, class_spread=classes),
                    FEW_DRAWS).error
            for knobs, classes in SPREADS
        ])
        for family in FAMILIES for name in family
    }  # fmt: skip
    priors = {family: settled_without(crowds, family, spread) for family in FAMILIES}
    shipped = settled(crowds.values())
    best = SPREADS[int(np.argmin(np.mean(list(spread.values()), axis=0)))]
    prior_of = {name: priors[family] for family in FAMILIES for name in family}
    found = {name: measured(crowd, prior_of[name], n_draws) for name, crowd in crowds.items()}
    of_panels = {name: measured(crowd, PRIOR, n_draws) for name, crowd in panels.items()}
    floors = {
        name: floor_of(crowd, SHOWN, prior_of.get(name, PRIOR), n_draws)
        for name, crowd in {**crowds, **panels}.items()
    }
    twos = {
        name: two_unknown(crowd, SHOWN, prior_of.get(name, PRIOR), n_draws)
        for name, crowd in {**crowds, **panels}.items()
    }
    rows = [
        (name, str(int((crowd.gold >= 0).sum())), *map(shown, scores[name].values()),
         *bounds(scores[name][f"{SHOWN}, gold"].error, floors[name], twos[name]))
        for part, scores in ((crowds, found), (panels, of_panels)) for name, crowd in part.items()
    ]  # fmt: skip
    for title, part in (("mean of the sets", found), ("mean of the panels", of_panels)):
        means = {name: mean_of(one[name] for one in part.values()) for name in found["rte"]}
        floor, two = (float(np.mean([bound[name] for name in part])) for bound in (floors, twos))
        judged = bounds(means[f"{SHOWN}, gold"].error, floor, two)
        rows.append((title, "", *map(shown, means.values()), *judged))
        rows.append((f"{title}, {N_EQUAL} bins of equal numbers", "",
                     *(f"{one.equal:.3f}" for one in means.values()), "", "", ""))  # fmt: skip
    for kind, part in parts.items():
        scores = [measured(crowd, priors[family], FEW_DRAWS) for family, crowd in part]
        means = {name: mean_of(one[name] for one in scores) for name in scores[0]}
        title = f"mean of {len(part)} sets with {kind} left"
        rows.append((title, "", *map(shown, means.values()), "", "", ""))
    for title, at in (("sets worse than before: error", 0), ("sets worse than before: Brier", 1)):
        counts = [
            "" if " before" in column or column.split(", ")[0] not in RULES
            else str(sum(s[column][at] > s[f"{column.split(', ')[0]}, before"][at] for s in found.values()))
            for column in found["rte"]
        ]  # fmt: skip
        rows.append((title, "", *counts, "", "", ""))
    note = NOTE.format(
        n_draws=n_draws, few=FEW_DRAWS, n_gold=N_GOLD, least=MIN_GOLD, best=best, shown=SHOWN,
        knobs=", ".join(f"{value:.2f}" for value in shipped.mean),
    )  # fmt: skip
    last = (f"floor, {SHOWN}", "above the floor, gold", "two numbers unknown")
    header = ("set", "gold", *found["rte"], *last)
    publish("calibration", "Calibrated confidence, families left out", header, rows, note=note)


def publish_first(
    crowds: dict[str, Crowd],
    parts: dict[str, list[tuple[tuple[str, ...], Crowd]]],
    prior_of: dict[tuple[str, ...], RightnessPrior],
) -> None:
    """Wrong tasks among those that would be labelled next: of the sets, and of what is left of them."""
    found = {
        name: first_row(crowds[name], prior_of[family]) for family in FAMILIES for name in family
    }
    rows = [
        (name, f"{n:,.0f}", *(f"{value:.1f}" for value in values))
        for name, (n, *values) in found.items()
    ]
    rows += against_votes("all", list(found.values()))
    for kind, part in parts.items():
        lines = [first_row(crowd, prior_of[family]) for family, crowd in part]
        rows += against_votes(f"{len(lines)} sets with {kind} left", lines)
    orders = ("wrong", "lowest share of votes", "the model", "confidence", "confidence × the model")
    header = (
        "set",
        "gold tasks",
        *(f"{rule}, {order}" for rule in FIRST_RULES for order in orders),
    )
    publish("first_tasks", "Wrong tasks among the first 5 %", header, rows, note=FIRST_NOTE)


def against_votes(which: str, lines: list[list[float]]) -> Iterator[tuple[str, ...]]:
    """How many times the wrong tasks by votes there are, and on how many sets there are fewer."""
    table = np.array(lines)[:, 1:].reshape(len(lines), len(FIRST_RULES), -1)
    votes, ranked = table[:, :, 1:2], table[:, :, 1:]
    for title, figure in (
        (f"{which}, against the lowest share of votes", ranked.sum(axis=0) / votes.sum(axis=0)),
        (f"{which}, sets with fewer than it", (ranked < votes - 1e-9).sum(axis=0)),
    ):
        cells = (["", *(f"{value:.3g}" for value in of_rule)] for of_rule in figure)
        yield title, "", *chain.from_iterable(cells)


def bounds(error: float, floor: float, two: float) -> tuple[str, str, str]:
    """The error of a calibrated confidence, what is above it, and what two unknown numbers leave."""
    return f"{floor:.3f}", f"{error - floor:+.3f}", f"{two:.3f}"


def shown(found: Score) -> str:
    return f"{found.error:.3f} / {found.brier:.3f}"


NOTE = (
    "Expected calibration error (15 bins of equal width) / Brier score of the probability that the "
    "consensus label is right. Before: the aggregator's posterior. Gold: `calibrate` with {n_gold} "
    "random gold tasks, or half where there are fewer than 200, judged on the others, mean of {n_draws}"
    " draws; {least} gold: with so many, and under that nothing is fitted to them. No gold: `calibrate` "
    "from labels alone, judged on all gold tasks. Every constant that is settled (coefficients, spreads)"
    " is settled on the sets of the other families; the form of the regression, its caps (.97 on the "
    "model's own confidence, .4 on shared errors), the power of the mixture, that of chance in the "
    "votes, the number of levels and the least number of gold tasks were chosen with all of them in "
    "view. Panels: six models without people, one vote"
    " together, the majority of people as gold; the coefficients took no part of them. Floor: what a "
    "perfectly calibrated confidence has on as many judging tasks. Two numbers unknown: what the same "
    "gold tasks leave where the truth is drawn from the confidence that all gold gives, and that curve "
    "is known but for its level and its slope. Not in levels: each task its own confidence from the "
    "same fit. A confidence of few levels errs less in bins that it leaves empty; ten bins of equal "
    "numbers of tasks are all filled, and so show what levels change beyond that. Sets of which a part "
    "is left: what one draw leaves of the sets but mill, with {n_gold} gold tasks at least; {few} draws"
    " of gold, constants settled on the other families, and no form chosen on them. Rivals ({shown}): "
    "one temperature, fitted to the same gold; and the temperature at which the posterior best predicts"
    " each label from the others of its task, which common errors mislead. Settled on all sets: "
    "coefficients {knobs} (intercept, odds, votes, shared), spreads {best}."
)
FIRST_NOTE = (
    "Gold tasks whose label by `auto`, or by hierarchical DS, is wrong, among the first 5 % of them in the "
    "order of: the largest share of votes, smallest first; the model's own posterior; calibrated confidence "
    "without gold, its constants settled on the other families; the product of the last two, which "
    "`next_labels` goes by. Ties in expectation. The last rows are of the parts of the sets that page "
    "`thinned` has too, with 100 gold tasks at least. No constant of the confidence was chosen on them."
)


if __name__ == "__main__":
    main()
