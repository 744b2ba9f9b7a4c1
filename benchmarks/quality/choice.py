"""The choice of an aggregator, settled with families of sets left out, beside crowd-kit's rules.

python -m benchmarks.quality.choice
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from benchmarks.peers.crowdkit_labels import PEERS, Answer, ask_crowdkit
from benchmarks.publish import publish
from benchmarks.quality.crowd_sets import DATA, FAMILIES, read_set, right
from quality import CrowdLabels, auto, ebcc, glad, mmsr
from quality.choice.automatic import CANDIDATES, ENOUGH, Candidate
from quality.choice.held_out_labels import held_of_sizes, meanings, scored_folds

N_FOLDS = 10
SECONDS = 20  # of CPU, of a fit of crowd-kit's on the largest sets
FURTHER: dict[str, Candidate] = {
    "glad": glad,
    "ebcc": lambda labels: ebcc(labels, n_starts=1, rng=np.random.default_rng(0)),
    "mmsr": mmsr,
}
# workers: too many for M-MSR's pairs, and for a table of subtypes of each, in seconds
LARGE = 10_000
READINGS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "crowd's matrix": lambda crowd, even: crowd,
    "right labels alone": lambda crowd, even: even,
    "both": lambda crowd, even: (crowd + even) / 2,
}
WEIGHTS = ("pool", "best", "simplest within two errors")
SHIPPED = ("both", "seven", "pool")
SINGLE = ("majority_vote", "dawid_skene", "hierarchical_dawid_skene", "mace")
LIMIT = 1.0  # points that a rule may lie under the better of majority vote and Dawid–Skene
Rule = tuple[str, str, str]
NOTE = (
    "Per cent of gold tasks right, ties of ours in expectation; of a worker's repeated labels of a task"
    " the first is kept. No gold is used but to score. `auto, family left out`: the rule that was best "
    "on the sets of all other families, of 18: a held-out label predicted by the crowd's confusion "
    "matrix, by its share of right labels alone, or by both; the seven candidates of `auto`, or GLAD, "
    "EBCC and M-MSR besides; their pool by weight, the best, or the simplest within two standard "
    "errors. Best: fewest sets more than a point under the better of majority vote and Dawid–Skene, "
    "then the highest mean. What the 18 differ in was itself thought of with these sets in view: sets "
    "that nothing has seen decide. `auto`: the rule that is shipped. On mill, of 37,332 workers, EBCC "
    "and M-MSR are no candidates. crowd-kit 1.4.2 by integer ids, 100 iterations where it takes a "
    "number, one label a task; an error by its name. A rule's mean, and that of `auto` below it, are "
    "over the sets where the rule has a figure."
)


@dataclass(frozen=True)
class Found:
    """One set: per cent right of each single rule, of each rule of choice, and crowd-kit's."""

    single: dict[str, float]
    chosen: dict[Rule, float]
    peers: dict[str, Answer]
    gold: np.ndarray

    @property
    def better(self) -> float:
        """Of majority vote and Dawid–Skene."""
        return max(self.single["majority_vote"], self.single["dawid_skene"])


def main() -> None:
    sets = {name: look_at(name) for family in FAMILIES for name in family}
    left_out: dict[str, tuple[Rule, float]] = {}
    for family in FAMILIES:
        rule = settled([found for name, found in sets.items() if name not in family])
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
    """The best rule on some sets: few bad failures before a high mean."""

    def worth(rule: Rule) -> tuple[int, float]:
        apart = [found.chosen[rule] - found.better for found in others]
        return -sum(gap < -LIMIT for gap in apart), float(np.mean(apart))

    return max(others[0].chosen, key=worth)


def look_at(name: str) -> Found:
    """Fit every candidate to a set, and to its folds; score every rule."""
    labels, gold = read_set(DATA / name)
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
    return Found(single, chosen, ask_crowdkit(labels, SECONDS), gold)


def predicted(
    labels: CrowdLabels, candidates: dict[str, Candidate]
) -> dict[str, dict[str, np.ndarray]]:
    """By reading and candidate, the log-probability of each task's held-out labels."""
    nothing = np.zeros(labels.n_tasks)
    found = {reading: dict.fromkeys(candidates, nothing) for reading in READINGS}
    fold = scored_folds(labels, N_FOLDS)
    for number in range(held_of_sizes(np.bincount(fold[fold >= 0]), ENOUGH)):
        out = fold == number
        rest, task = labels.keep_labels(~out), labels.task[out]
        for name, fit in candidates.items():
            posterior = fit(rest).posterior
            both = meanings(labels, out, posterior)
            for reading, read in READINGS.items():
                held = np.log((posterior @ read(*both))[task, labels.label[out]])
                found[reading][name] = found[reading][name] + np.bincount(
                    task, held, labels.n_tasks
                )
    return found


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
