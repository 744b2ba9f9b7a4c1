"""Class ratios from set-level labels: this project's methods and QuaPy's on five data sets.

``python -m benchmarks.learners.class_ratios`` prints the mean L1 error on the protocol of Iyer, Nath and
Sarawagi (2016).
``--share 0.2`` makes a fifth of the repetitions; ``--without-quapy`` leaves QuaPy out.
"""

from __future__ import annotations

import json
import tempfile
from collections import defaultdict
from pathlib import Path

import numpy as np

from benchmarks.learners.ratio_sets import PROTOCOLS, Problem, load, problem
from benchmarks.learners.set_likelihood import set_likelihood
from benchmarks.learners.span_matching import span_matching
from benchmarks.peers.peers import QUAPY
from benchmarks.publish import parser_of, publish
from learners import BoostedTrees, KernelWitness, RatioModel, learn_ratios
from learners.class_ratios.bags import LabelledBags
from learners.class_ratios.kernel_matching import KernelMatching
from learners.class_ratios.score_matching import ScoreMatcher, density_ratios, match_outputs

SIDE = "quapy_side.py"
TARGET = {"Adult": 0.040, "Magic": 0.037, "MNIST": 0.090}
CHOSEN, OF_ALL = "`ClassRatioEstimator`: chosen", "chosen, trees always tried"
EVERY = (KernelMatching(), KernelWitness(), BoostedTrees())
TOO_LARGE = ("MNIST",)  # trees, and QuaPy's six regressions a method, would outlast all the rest


def mmd(
    method: KernelMatching, bags: LabelledBags, unlabelled: list[np.ndarray]
) -> dict[str, np.ndarray]:
    """Kernel mean matching: the paper's solve and the simplex program, at the same bandwidth."""
    matcher = method.fit(bags)
    matched = [matcher.match(bag) for bag in unlabelled]
    linear = [product.mean(axis=0) for _, product in matched]
    return {
        "MMD, the paper's solve": np.array(
            [span_matching(matcher.means.gram, g, bags.mixture) for g in linear]
        ),
        "MMD, simplex program": np.array([means.ratio(product) for means, product in matched]),
    }


def read_outputs(
    name: str, matcher: ScoreMatcher, unlabelled: list[np.ndarray]
) -> dict[str, np.ndarray]:
    """Three ways from predicted group proportions to class ratios."""
    bags, outputs, found = matcher.labelled, matcher.outputs, defaultdict(list)
    for bag in unlabelled:
        new = outputs(bag)
        means, product = match_outputs(bags, outputs.labelled, new)
        found["PACC"].append(means.ratio(product))
        density = density_ratios(new.mean(axis=0), bags)
        found["maximum likelihood"].append(set_likelihood(density).ratio)
        means, product = matcher.match(bag)
        found["score matching"].append(means.ratio(product))
    return {f"{name}, {reading}": np.array(ratios) for reading, ratios in found.items()}


def every_method(model: RatioModel, drawn: Problem) -> dict[str, np.ndarray]:
    """Ratios of the unlabelled bags by each method tried, its choices made by the trials."""
    bags = LabelledBags.of([bag / model.scale for bag in drawn.bags], drawn.proportions)
    unlabelled = [bag / model.scale for bag in drawn.unlabelled]
    found = {}
    for method in (trial.method for trial in model.trials):
        if isinstance(method, KernelMatching):
            found |= mmd(method, bags, unlabelled)
        else:
            name = method.name.split(",")[0]
            found |= read_outputs(name, method.fit(bags), unlabelled)
    return found


def chosen(model: RatioModel, drawn: Problem) -> tuple[np.ndarray, float]:
    """Ratios of the unlabelled bags, and the share of them that the 90 % intervals held."""
    answers = [model.ratio(bag) for bag in drawn.unlabelled]
    held = [
        ((ratio >= one.interval[:, 0]) & (ratio <= one.interval[:, 1])).mean()
        for one, ratio in zip(answers, drawn.ratios, strict=True)
        if one.interval is not None
    ]
    return np.array([one.ratio for one in answers]), float(np.mean(held))


def quapy(drawn: Problem, scale: np.ndarray) -> dict[str, np.ndarray]:
    """QuaPy's methods, with labels of points and with groups' codes in their place."""
    mixture, group = np.unique(drawn.proportions, axis=0, return_inverse=True)
    size = [len(bag) for bag in drawn.bags]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "problem.npz"
        np.savez(
            file,
            x=np.concatenate(drawn.bags) / scale,
            label=np.concatenate(drawn.labels),
            group=np.repeat(group.ravel(), size),
            mixture=mixture,
            unlabelled=np.array(drawn.unlabelled) / scale,
        )
        printed = QUAPY.run(SIDE, str(file))
    if printed is None:
        raise SystemExit("QuaPy's environment cannot be built here: is there a package index?")
    return {f"QuaPy {name}": np.array(ratio) for name, ratio in json.loads(printed).items()}


def measure(
    name: str, n_repetitions: int, *, quapy_too: bool
) -> tuple[dict, float, dict[str, int]]:
    """Mean L1 error of every repetition for each method, coverage, and how often which was chosen."""
    x, y = load(name)
    errors, coverage, taken = defaultdict(list), [], defaultdict(int)
    for seed in range(n_repetitions):
        drawn = problem(name, x, y, np.random.default_rng(seed))
        model = learn_ratios(drawn.bags, drawn.proportions)
        all_tried = model
        if name not in TOO_LARGE:
            all_tried = learn_ratios(drawn.bags, drawn.proportions, methods=EVERY)
        found = every_method(all_tried, drawn)
        found[CHOSEN], held = chosen(model, drawn)
        found[OF_ALL], _ = chosen(all_tried, drawn)
        coverage.append(held)
        taken[model.method.name] += 1
        if quapy_too and name not in TOO_LARGE:
            found |= quapy(drawn, model.scale)
        for method, ratios in found.items():
            errors[method].append(np.abs(ratios - drawn.ratios).sum(axis=1).mean())
    return errors, float(np.mean(coverage)), taken


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--share", type=float, default=1.0, help="of the repetitions, at least one")
    parser.add_argument("--without-quapy", action="store_true")
    parser.add_argument(
        "--only", nargs="*", choices=tuple(PROTOCOLS), help="data sets; prints only"
    )
    given = parser.parse_args()
    columns, notes = {}, []
    for name in given.only or PROTOCOLS:
        n_repetitions = max(1, round(given.share * PROTOCOLS[name].repetitions))
        errors, coverage, taken = measure(name, n_repetitions, quapy_too=not given.without_quapy)
        columns[name] = errors
        often = ", ".join(f"{method} {count}" for method, count in taken.items())
        notes.append(f"{name}: {n_repetitions}, {often}, {coverage:.3f}")
    methods = list(dict.fromkeys(method for errors in columns.values() for method in errors))
    rows = [
        (method, _supervision(method), *(_cell(errors.get(method)) for errors in columns.values()))
        for method in methods
    ]
    rows.append(
        ("to be held", "groups", *(f"{TARGET[n]:.3f}" if n in TARGET else "–" for n in columns))
    )
    header = ("method", "learns from", *columns)
    if given.only:
        print(header, *rows, *notes, sep="\n")
        return
    title = "Class ratios from set-level labels"
    publish("class_ratios", title, header, rows, note=NOTE + "; ".join(notes) + ".")


def _supervision(method: str) -> str:
    return "labels of points" if "QuaPy" in method and "groups" not in method else "groups"


def _cell(errors: list[float] | None) -> str:
    """Mean, and its standard error where there is one."""
    if not errors:
        return "–"
    mean = f"{np.mean(errors):.3f}"
    if len(errors) < 2:
        return mean
    return f"{mean} ± {np.std(errors, ddof=1) / len(errors) ** 0.5:.3f}"


NOTE = (
    "Mean L1 error of the class ratios of unlabelled bags, and its standard error over repetitions; "
    "0 is perfect, 2 is the worst, for two classes it is twice the error of a share. Protocol of Iyer, "
    "Nath and Sarawagi (2016) with disjoint labelled bags: every class has the same small share in a "
    "labelled bag but one (0.05 on MNIST, else 0.1). Bags by points: Adult (one-hot) and Magic 4 x 600, "
    "unlabelled 600 with shares 0.1 to 0.9; satimage (classes 1, 3, 7) 6 x 450, unlabelled 400; Twitter "
    "6 x 600, unlabelled 500; MNIST (20,000 digits) 20 x 700, unlabelled 600; with more than two classes "
    "the small share goes from 0 to equal shares in six steps. Set-level methods see points and the "
    "proportions of their bag, no label of a point. QuaPy 0.2.3 (logistic regression, default settings) "
    "needs labels of points: given them, its rows show what is lost without, and are no rivals. Where "
    'its rows say "groups" it got the group of each point in place of a label and found the mixture of '
    "groups: that is set-level, and comparable as long as the truth is such a mixture. For two classes "
    "it always is, and that its answers cannot leave 0.1 to 0.9 helps at both ends; with more classes "
    "it is not where the small share is less than in the labelled bags. Trees and QuaPy are not run "
    "on MNIST: too many cells. By default trees are tried where a feature takes 2 to 63 values, which "
    "here is so for Adult and satimage. Matching scores instead of outputs, at the same outputs, is "
    "what takes the error below that of PACC; maximum likelihood on them suffers from their calibration. "
    "These sets settled rules of the library, so the page is no test of them on data never seen: which "
    "methods compete and that trees are tried where a feature takes 2 to 63 values; the numbers of trees, "
    "folds, landmarks and rounds of scores; the choice within two standard errors. What the intervals are "
    "for, the population's ratio, is counted by `python -m benchmarks.learners.ratio_coverage`; here "
    "unlabelled bags hold their shares exactly, which intervals hold more often. "
    "Repetitions, how often which method was chosen, and share of the unlabelled bags' own ratios that "
    "the 90 % intervals, which are for the population they are drawn from, held: "
)


if __name__ == "__main__":
    main()
