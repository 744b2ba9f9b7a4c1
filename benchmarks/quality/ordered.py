"""The ordinal model beside Dawid–Skene, on ordered sets with families left out and on simulated crowds.

python -m benchmarks.quality.ordered
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.publish import parser_of, publish
from benchmarks.quality.crowd_sets import DATA, read_set
from benchmarks.quality.dependence import panel_of
from quality import (
    CrowdLabels,
    dawid_skene,
    encode,
    hierarchical_dawid_skene,
    majority_vote,
    regular_assignment,
)
from quality.choice import auto
from quality.ordered import least_loss, order_fit, ordinal_crowd
from quality.ordered.style_em import ANCHOR

FAMILIES = (("web",), ("adult2",), ("weather_amt", "weather_cf"), ("cebab_stars", "summeval"))
PANELS = ("cebab_stars", "summeval")
NOMINAL = ("dog", "mill", "fact_eval", "leaves", "labelme", "music")
ANCHORS = (0.1, 0.2, 0.4, 0.7, 1.0)
RIVALS: dict[str, Callable[[CrowdLabels], np.ndarray]] = {
    "MV": lambda labels: majority_vote(labels).posterior,
    "DS": lambda labels: dawid_skene(labels).posterior,
    "hierarchical DS": lambda labels: hierarchical_dawid_skene(labels).posterior,
    "auto": lambda labels: auto(labels).posterior,
}
NOTE = """
A cell holds three figures on the gold tasks: the per cent right and the mean absolute error of the likeliest
class, and the mean absolute error of the median class. Ties go to the lowest class, for every model alike. No
gold is used but to score.

- **families left out**: the anchor of the shape (a share of the labels, one of {anchors}) is chosen on the
  sets of all other families, and stands in the last column. The best anchor fails on the fewest sets to have
  less absolute error than DS and hierarchical DS, by either decision of theirs, with as many tasks right;
  then it has the smallest mean of absolute error over that of hierarchical DS.
- **shipped**: the anchor is {anchor}. The other constants, the model itself and the grid were thought of with
  these sets in view.
- **order**: what `order_fit` says of the declared order, and the smallest z of the boundaries.

The sets:

- web, adult2 and weather: the first of a worker's labels of a task.
- The panels, cebab_stars and summeval: six language models; gold is the strict majority of people. On
  cebab_stars one task of 608 is .16 points, so two tasks or fewer stand between the models there.
- weather's classes are negative, neutral, positive, not related, cannot tell. The last two are no grades, and
  the test says so.
- dog's classes are two pairs of breeds that look alike.

Simulated crowds are the mean of {n_seeds} seeds of 500 tasks, 40 workers and 5 labels each:

- `thresholds`: a normal truth is cut into five grades; workers have noise, bias, stretch and thresholds of
  their own, all drawn.
- `spammers`: three in ten guess one class or any; the rest miss by one or two with their own rates.
- `nominal`: there is no order, and wrong labels are even.
""".strip()


@dataclass(frozen=True)
class Scored:
    """Per cent right, absolute error of the likeliest class, and of the median."""

    right: float
    error: float
    median_error: float

    def __str__(self) -> str:
        return f"{self.right:.2f} / {self.error:.4f} / {self.median_error:.4f}"


def scored(posterior: np.ndarray, gold: np.ndarray) -> Scored:
    known = gold >= 0
    off = [
        np.abs(least_loss(posterior, loss).label[known] - gold[known])
        for loss in ("zero_one", "absolute")
    ]
    return Scored(100 * float(np.mean(off[0] == 0)), float(off[0].mean()), float(off[1].mean()))


def read(name: str) -> tuple[CrowdLabels, np.ndarray]:
    """A set, or a panel of models whose gold is the majority of people."""
    if name not in PANELS:
        return read_set(DATA / name)
    panel = panel_of(name)
    labels = encode(*zip(*panel.models, strict=True), classes=panel.classes)
    code = {known: at for at, known in enumerate(panel.classes)}
    return labels, np.array(
        [code.get(panel.gold.get(task, ""), -1) for task in labels.tasks.tolist()]
    )


@dataclass(frozen=True)
class Found:
    """What the rivals and the model at each anchor make of one set."""

    rivals: dict[str, Scored]
    ours: dict[float, Scored]
    order: str

    def ratio(self, anchor: float) -> float:
        """Absolute error over hierarchical Dawid–Skene's."""
        return self.ours[anchor].median_error / self.rivals["hierarchical DS"].median_error

    def holds(self, anchor: float) -> bool:
        """Whether absolute error is below both forms of Dawid–Skene, and as many tasks are right."""
        ours = self.ours[anchor]
        both = [self.rivals[name] for name in ("DS", "hierarchical DS")]
        below = all(ours.median_error < min(one.error, one.median_error) for one in both)
        return below and all(ours.right >= one.right for one in both)


def look_at(labels: CrowdLabels, gold: np.ndarray, anchors: Sequence[float] = ANCHORS) -> Found:
    rivals = {name: scored(fit(labels), gold) for name, fit in RIVALS.items()}
    ours = {
        anchor: scored(ordinal_crowd(labels, anchor=anchor).posterior, gold) for anchor in anchors
    }
    return Found(rivals, ours, order_of(labels))


def order_of(labels: CrowdLabels) -> str:
    fit = order_fit(labels)
    return f"{fit.verdict} ({fit.z.min():.1f})"


def best_on(others: Sequence[Found]) -> float:
    """The anchor that fails on the fewest sets; among equals the one of the smallest mean error."""

    def worth(anchor: float) -> tuple[int, float]:
        fails = sum(not found.holds(anchor) for found in others)
        return fails, float(np.mean([found.ratio(anchor) for found in others]))

    return min(ANCHORS, key=worth)


def thresholds(rng: np.random.Generator) -> tuple[CrowdLabels, np.ndarray]:
    """Continuous truth, and workers who cut it where they like."""
    crowd = regular_assignment(n_tasks=500, n_workers=40, labels_per_task=5, rng=rng)
    latent = rng.normal(size=500)
    cuts = np.array([-1.2, -0.4, 0.4, 1.2])
    noise, bias = rng.gamma(4, 0.12, size=40), rng.normal(0, 0.4, size=40)
    stretch, own = rng.lognormal(0, 0.3, size=40), rng.normal(0, 0.15, size=(40, 4))
    seen = latent[crowd.task] * stretch[crowd.worker] + bias[crowd.worker]
    seen += noise[crowd.worker] * rng.normal(size=len(seen))
    answer = (seen[:, None] > np.sort(cuts + own[crowd.worker], axis=1)).sum(axis=1)
    labels = encode(crowd.worker, crowd.task, answer, classes=range(5))
    return labels, (latent[:, None] > cuts).sum(axis=1)[labels.tasks]


def spammers(rng: np.random.Generator) -> tuple[CrowdLabels, np.ndarray]:
    """Honest workers who miss by a little, and some who do not look."""
    crowd = regular_assignment(n_tasks=500, n_workers=40, labels_per_task=5, rng=rng)
    truth = rng.choice(5, size=500, p=[0.1, 0.2, 0.3, 0.25, 0.15])
    miss = rng.beta(2, 4, size=40)[crowd.worker]
    by = 1 + (rng.random(len(miss)) < 0.2)
    step = np.where(rng.random(len(miss)) < miss, by * rng.choice([-1, 1], size=len(miss)), 0)
    answer = (truth[crowd.task] + step).clip(0, 4)
    guessed, constant = rng.integers(5, size=len(miss)), rng.integers(5, size=40)[crowd.worker]
    answer = np.where(crowd.worker < 8, guessed, answer)
    answer = np.where((crowd.worker >= 8) & (crowd.worker < 12), constant, answer)
    labels = encode(crowd.worker, crowd.task, answer, classes=range(5))
    return labels, truth[labels.tasks]


def nominal(rng: np.random.Generator) -> tuple[CrowdLabels, np.ndarray]:
    """Classes without an order."""
    crowd = regular_assignment(n_tasks=500, n_workers=40, labels_per_task=5, rng=rng)
    truth = rng.integers(5, size=500)
    right = rng.random(len(crowd.task)) < rng.beta(7, 3, size=40)[crowd.worker]
    wrong = (truth[crowd.task] + rng.integers(1, 5, size=len(right))) % 5
    answer = np.where(right, truth[crowd.task], wrong)
    labels = encode(crowd.worker, crowd.task, answer, classes=range(5))
    return labels, truth[labels.tasks]


def mean_of(cells: Sequence[Scored]) -> Scored:
    table = np.array([(cell.right, cell.error, cell.median_error) for cell in cells])
    return Scored(*table.mean(axis=0).tolist())


Crowd = Callable[[np.random.Generator], tuple[CrowdLabels, np.ndarray]]


def simulated(crowd: Crowd, n_seeds: int) -> list[str]:
    """The row of one kind of simulated crowd."""
    found = [look_at(*crowd(np.random.default_rng(seed)), (ANCHOR,)) for seed in range(n_seeds)]
    shown = sum(one.order.startswith("shown") for one in found)
    ours = str(mean_of([one.ours[ANCHOR] for one in found]))
    rivals = [str(mean_of([one.rivals[name] for one in found])) for name in RIVALS]
    return [
        f"simulated: {crowd.__name__}",
        ours,
        ours,
        *rivals,
        f"shown in {shown} of {n_seeds}",
        "–",
    ]


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="of each kind of simulated crowd")
    n_seeds = parser.parse_args().seeds
    sets = {name: look_at(*read(name)) for family in FAMILIES for name in family}
    rows = []
    for family in FAMILIES:
        anchor = best_on([found for name, found in sets.items() if name not in family])
        for name in family:
            found = sets[name]
            rivals = map(str, found.rivals.values())
            ours = str(found.ours[anchor]), str(found.ours[ANCHOR])
            rows.append([name, *ours, *rivals, found.order, f"{anchor:g}"])
    rows += [simulated(crowd, n_seeds) for crowd in (thresholds, spammers, nominal)]
    for name in NOMINAL:
        labels, _ = read_set(DATA / name)
        rows.append([f"{name} (nominal)", *["–"] * 6, order_of(labels), "–"])
    header = ("set", "families left out", "shipped", *RIVALS, "order", "anchor left out")
    note = NOTE.format(anchors=", ".join(map(str, ANCHORS)), anchor=ANCHOR, n_seeds=n_seeds)
    publish("ordered", "Ordered classes", header, rows, note=note)


if __name__ == "__main__":
    main()
