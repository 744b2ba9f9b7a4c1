"""The choice of an aggregator, settled with families of sets left out, beside crowd-kit's rules.

python -m benchmarks.quality.choice
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product

import numpy as np

from benchmarks.peers.crowdkit_labels import PEERS, Answer, ask_crowdkit
from benchmarks.publish import parser_of, publish
from benchmarks.quality.crowd_sets import DATA, FAMILIES, read_set, right
from benchmarks.quality.thinned import LARGE as WHOLE_ALONE
from benchmarks.quality.thinned import MIN_GOLD, thinned
from quality import CrowdLabels, auto, ebcc, glad, mmsr
from quality.choice.automatic import CANDIDATES, ENOUGH, Candidate
from quality.choice.held_out_labels import (
    fold_sizes,
    held_folds,
    in_fold,
    likeliest,
    read_held_out,
)

N_FOLDS = 10
SECONDS = 20  # of CPU, of a fit of crowd-kit's on the largest sets
FURTHER: dict[str, Candidate] = {
    "glad": glad,
    "ebcc": lambda labels: ebcc(labels, n_starts=1, rng=np.random.default_rng(0)),
    "mmsr": mmsr,
}
# workers: too many for M-MSR's pairs, and for a table of subtypes of each, in seconds
LARGE = 10_000
READINGS = (
    "worker's habit and knowledge, common errors",
    "worker's habit and knowledge",
    "crowd's matrix",
    "right labels alone",
    "both of the crowd's",
)
WEIGHTS = ("pool", "best", "simplest within two errors")
SHIPPED = (READINGS[0], "seven", "pool")
SINGLE = ("majority_vote", "dawid_skene", "hierarchical_dawid_skene", "mace")
LIMIT = 1.0  # points that a rule may lie under the better of majority vote and Dawid–Skene
Rule = tuple[str, str, str]
NOTE = (
    "Per cent of gold tasks right, ties of ours in expectation; of a worker's repeated labels of a task"
    " the first is kept. No gold is used but to score. `auto, family left out`: the rule that was best "
    "on the sets of all other families and on seven parts of each (those of page `thinned`), of 30: a "
    "held-out label predicted by its worker's habit and how often she knows the truth, with the crowd's"
    " common errors or without, by the crowd's confusion matrix, by its share of right labels alone, or"
    " by both of the crowd's; the seven candidates of `auto`, or GLAD, EBCC and M-MSR besides; their "
    "pool by weight, the best, or the simplest within two standard errors. Best: fewest tables more "
    "than a point under the better of majority vote and Dawid–Skene, then the highest mean. What the 30"
    " differ in was itself thought of with these sets in view: sets that nothing has seen decide. "
    "`auto`: the rule that is shipped; it alone also weighs the vote more where nothing seems to be "
    "learned. On mill, of 37,332 workers, EBCC and M-MSR are no candidates, and no parts are taken. "
    "crowd-kit 1.4.2 by integer ids, 100 iterations where it takes a number, one label a task; an error"
    " by its name. A rule's mean, and that of `auto` below it, are over the sets where the rule has a "
    "figure."
)


@dataclass(frozen=True)
class Found:
    """One table: per cent right of each single rule, of each rule of choice; of a whole set, crowd-kit's."""

    single: dict[str, float]
    chosen: dict[Rule, float]
    gold: np.ndarray
    peers: dict[str, Answer] = field(default_factory=dict)
    parts: tuple[Found, ...] = ()

    @property
    def better(self) -> float:
        """Of majority vote and Dawid–Skene."""
        return max(self.single["majority_vote"], self.single["dawid_skene"])


def main() -> None:
    parser_of(__doc__).parse_args()
    sets = {name: look_at(name) for family in FAMILIES for name in family}
    left_out: dict[str, tuple[Rule, float]] = {}
    for family in FAMILIES:
        others = [found for name, found in sets.items() if name not in family]
        rule = settled([table for found in others for table in (found, *found.parts)])
        left_out |= {name: (rule, sets[name].chosen[rule]) for name in family}
    columns: dict[str, dict[str, float | str]] = {
        "auto, family left out": {name: score for name, (_, score) in left_out.items()},
        "auto": {name: found.chosen[SHIPPED] for name, found in sets.items()},
        **{rule: {name: found.single[rule] for name, found in sets.items()} for rule in SINGLE},
        **{
            f"crowd-kit {peer}": {
                name: found.peers[peer].right(found.gold) if peer in found.peers else "–"
                for name, found in sets.items()
            }
            for peer in PEERS
        },
    }
    rows = []
    for family in FAMILIES:
        for name in family:
            cells = [shown(column[name]) for column in columns.values()]
            rows.append((name, *cells, " / ".join(left_out[name][0])))
    ours = columns["auto, family left out"]
    for title, of in (("mean", None), ("auto, left out, there", ours)):
        rows.append((title, *(mean_where(column, of) for column in columns.values()), ""))
    under = [
        sum(isinstance(cell, float) and cell < sets[name].better - LIMIT for name, cell in column.items())
        for column in columns.values()
    ]  # fmt: skip
    rows.append(("sets more than a point under MV or DS", *map(str, under), ""))
    header = ("set", *columns, "settled on the others")
    publish("choice", "The choice of an aggregator, families left out", header, rows, note=NOTE)


def settled(others: Sequence[Found]) -> Rule:
    """The best rule on some tables: few bad failures before a high mean."""

    def worth(rule: Rule) -> tuple[int, float]:
        apart = [found.chosen[rule] - found.better for found in others]
        return -sum(gap < -LIMIT for gap in apart), float(np.mean(apart))

    return max(others[0].chosen, key=worth)


def look_at(name: str) -> Found:
    """Score every rule on a set, and on its parts."""
    print(name, flush=True)
    labels, gold = read_set(DATA / name)
    parts = () if name in WHOLE_ALONE else thinned(labels, gold, 0)
    known = [part for part in parts if np.count_nonzero(part.gold >= 0) >= MIN_GOLD]
    return replace(
        look_at_table(labels, gold),
        peers=ask_crowdkit(labels, SECONDS),
        parts=tuple(look_at_table(part.labels, part.gold) for part in known),
    )


def look_at_table(labels: CrowdLabels, gold: np.ndarray) -> Found:
    """Fit every candidate to a table, and to its folds; score every rule."""
    candidates = {**CANDIDATES, **FURTHER}
    if labels.n_workers > LARGE:
        candidates = {name: fit for name, fit in candidates.items() if name not in ("ebcc", "mmsr")}
    posteriors = {name: fit(labels).posterior for name, fit in candidates.items()}
    log_p = predicted(labels, candidates)
    chosen = {}
    for reading, which, weigh in product(READINGS, ("seven", "ten"), WEIGHTS):
        names = [name for name in candidates if which == "ten" or name in CANDIDATES]
        weight = weights(np.stack([log_p[reading][name] for name in names]), weigh)
        pool = sum(share * posteriors[one] for share, one in zip(weight, names, strict=True))
        chosen[reading, which, weigh] = right(np.asarray(pool), gold)
    chosen[SHIPPED] = right(auto(labels).posterior, gold)
    single = {one: right(posterior, gold) for one, posterior in posteriors.items()}
    return Found(single, chosen, gold)


def predicted(
    labels: CrowdLabels, candidates: dict[str, Candidate]
) -> dict[str, dict[str, np.ndarray]]:
    """By reading and candidate, the log-probability of each task's held-out labels."""
    nothing = np.zeros(labels.n_tasks)
    found = {reading: dict.fromkeys(candidates, nothing) for reading in READINGS}
    tasks = labels.task_start, 0, N_FOLDS
    for number in held_folds(partial(fold_sizes, *tasks), ENOUGH)[0]:
        out = in_fold(*tasks, number)
        rest, task = labels.keep_labels(~out), labels.task[out]
        for name, fit in candidates.items():
            posterior = fit(rest).posterior
            by_crowd = meanings(rest, posterior)
            held = read_held_out(labels, out, posterior)
            alone = held._replace(most=0.0)  # without common errors
            read = [held.log_p(*likeliest(one.worth())) for one in (held, alone)]
            read += [np.log((posterior @ one)[task, labels.label[out]]) for one in by_crowd]
            for reading, log_p in zip(READINGS, read, strict=True):
                sums = np.bincount(task, log_p, labels.n_tasks)
                found[reading][name] = found[reading][name] + sums
    return found


def meanings(rest: CrowdLabels, posterior: np.ndarray) -> tuple[np.ndarray, ...]:
    """P(label | truth) of a crowd: its confusion matrix, its share of right labels alone, and their mean."""
    n_classes = rest.n_classes
    given = np.eye(n_classes)[rest.label]
    counts = posterior[rest.task].T @ given + 1.0 / n_classes
    share = np.trace(counts) / counts.sum()
    even = np.full((n_classes, n_classes), (1.0 - share) / max(n_classes - 1, 1))
    np.fill_diagonal(even, share)
    matrix = counts / counts.sum(axis=1, keepdims=True)
    return matrix, even, (matrix + even) / 2


def weights(log_p: np.ndarray, weigh: str) -> np.ndarray:
    """The weight of each candidate, in their order from simple to complex."""
    total = log_p.sum(axis=1)
    apart = log_p[total.argmax()] - log_p
    z = apart.sum(axis=1) / np.maximum(np.sqrt((apart**2).sum(axis=1)), 1e-12)
    if weigh == "pool":
        found: np.ndarray = np.exp(-(z**2) / 2)
        return np.asarray(found / found.sum())
    place = int(total.argmax()) if weigh == "best" else int(np.flatnonzero(z <= 2)[0])
    return np.asarray(np.arange(len(total)) == place, dtype=float)


def mean_where(column: dict[str, float | str], of: dict[str, float | str] | None) -> str:
    """Mean of a column, or of another over the sets where the column has a figure."""
    places = [name for name, cell in column.items() if isinstance(cell, float)]
    cells = [(column if of is None else of)[name] for name in places]
    return f"{np.mean(np.array(cells, dtype=float)):.2f}" if places else ""


def shown(cell: float | str) -> str:
    return cell if isinstance(cell, str) else f"{cell:.1f}"


if __name__ == "__main__":
    main()
