"""Decision images of an observer who sees half of each digit: errors, patterns, tests, thresholds.

``python -m benchmarks.learners.decision_images [seeds]``
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import fmean

import numpy as np
from matplotlib.figure import Figure
from scipy.special import expit
from scipy.stats import spearmanr
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from benchmarks.publish import RESULTS, parser_of, publish
from learners import DecisionImage, PsychometricFunction, error_image_test

DATA = RESULTS.parents[2] / "shared" / "data" / "ml" / "mnist20k.npz"
PAIRS = ((3, 8), (4, 9))
KINDS = ("svm", "logistic", "rvm", "lda", "centroid")
TRAIN, COMPONENTS, ERRORS = 400, 200, 0.16
MACKAY = 300  # updates of all precisions, at most
RUNS, PAIRED = 20, 30  # of errors at random, and of two psychometric functions
Row = tuple[str, str, str, str, str]


def digits(pair: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Pixels in [0, 1] of two digits, and which is the second."""
    with np.load(DATA) as data:
        of = np.isin(data["y"], pair)
        return data["X"][of] / 255.0, data["y"][of] == pair[1]


def observer(x: np.ndarray, gold: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Internal variable and answers of one who sees the top half, with noise that makes 16 % errors."""
    top = x.copy()
    top[:, 392:] = 0
    template = LogisticRegression(C=0.01, max_iter=500).fit(top, gold).coef_[0]
    inner = top @ template
    inner -= (inner[gold].mean() + inner[~gold].mean()) / 2
    noise = rng.normal(size=len(x)) * inner.std()
    low, high = 0.0, 4.0
    for _ in range(30):
        middle = (low + high) / 2
        few = np.mean((inner + middle * noise > 0) != gold) < ERRORS
        low, high = (middle, high) if few else (low, middle)
    return inner, inner + low * noise > 0, template


def textbook(train: np.ndarray, sign: np.ndarray, test: np.ndarray) -> np.ndarray:
    """Decisions of a relevance vector machine as in Tipping's first paper: all precisions at once, by MacKay.

    Newton's steps to the mode, gamma = 1 - alpha Sigma, alpha = gamma / w^2, precisions above 1e6 pruned.
    """
    kernel = train @ train.T
    scale = np.abs(kernel).mean()
    basis = np.column_stack([np.ones(len(train)), kernel / scale])
    column, alpha, w = np.arange(len(train) + 1), np.ones(len(train) + 1), np.zeros(len(train) + 1)
    for _ in range(MACKAY):
        used = basis[:, column]
        for _ in range(25):
            p = expit(used @ w)
            covariance = np.linalg.inv(used.T @ (used * (p * (1 - p))[:, None]) + np.diag(alpha))
            step = covariance @ (used.T @ (p - (sign > 0)) + alpha * w)
            w = w - step / max(1.0, np.abs(used @ step).max() / 2)
            if np.abs(used @ step).max() < 1e-3:
                break
        before = alpha
        alpha = np.maximum(1 - alpha * covariance.diagonal(), 1e-12) / np.maximum(w**2, 1e-300)
        kept = alpha < 1e6
        if kept.all() and np.abs(np.log(alpha / before)).max() < 1e-2:
            break
        column, alpha, w = column[kept], alpha[kept], w[kept]
    of_test = np.column_stack([np.ones(len(test)), test @ train.T / scale])
    return np.asarray(of_test[:, column] @ w)


def classifiers(pair: tuple[int, int], seeds: int) -> Iterator[Row]:
    x, gold = digits(pair)
    found: dict[str, list[tuple[float, ...]]] = {}
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        inner, crowd, template = observer(x, gold, rng)
        order = rng.permutation(len(x))
        train, test = order[:TRAIN], order[TRAIN:]
        images = {}
        for kind in KINDS:
            images[kind] = DecisionImage(kind, n_components=COMPONENTS).fit(x[train], crowd[train])
        images["svm, C = 1000"] = DecisionImage("svm", n_components=COMPONENTS, C=1e3).fit(
            x[train], crowd[train]
        )
        for kind, image in images.items():
            decision = image.decision_function(x[test])
            truth = DecisionImage(
                kind.split(",")[0], n_components=COMPONENTS, C=image.C_ if image.C_ > 0 else 1.0
            )
            right = truth.fit(x[train], gold[train]).predict(x[test]) == gold[test]
            found.setdefault(kind, []).append((
                np.mean((decision > 0) != gold[test]), np.mean((decision > 0) != crowd[test]),
                spearmanr(decision, inner[test]).statistic,
                images["svm"].predicted_threshold_ratio(image, template), 1 - np.mean(right),
            ))  # fmt: skip
        peer = make_pipeline(PCA(COMPONENTS), LogisticRegression(max_iter=1000))
        peers = {
            "peer: PCA + LogisticRegression, C = 1": peer.fit(
                x[train], crowd[train]
            ).decision_function(x[test])
        }
        scores, of_test = peer[0].transform(x[train]), peer[0].transform(x[test])
        peers["peer: textbook RVM, MacKay's updates"] = textbook(
            scores, np.where(crowd[train], 1.0, -1.0), of_test
        )
        of_gold = textbook(scores, np.where(gold[train], 1.0, -1.0), of_test) > 0
        for kind, decision in peers.items():
            found.setdefault(kind, []).append((
                np.mean((decision > 0) != gold[test]), np.mean((decision > 0) != crowd[test]),
                spearmanr(decision, inner[test]).statistic, np.nan,
                np.mean(of_gold != gold[test]) if "RVM" in kind else np.nan,
            ))  # fmt: skip
    name = f"{pair[0]} against {pair[1]}"
    for kind, rows in found.items():
        mean = np.mean(rows, axis=0)
        yield (
            f"{name}, {kind}", f"{100 * mean[0]:.1f} / {100 * mean[1]:.1f}", f"{mean[2]:.2f}",
            "-" if np.isnan(mean[3]) else f"{mean[3]:.2f}",
            "-" if np.isnan(mean[4]) else f"{100 * mean[4]:.1f}",
        )  # fmt: skip


def errors(seeds: int) -> Iterator[Row]:
    """Share of runs in which errors at random have a feature; pixels of a half-blind observer's errors."""
    x, gold = digits((3, 8))
    x, gold = x[:2000], gold[:2000]
    false, shares, counts = [], [], []
    for seed in range(RUNS):
        rng = np.random.default_rng(seed)
        crowd = gold ^ (rng.random(len(gold)) < ERRORS)
        false.append(
            len(error_image_test(x, gold, crowd, n_permutations=99, rng=rng).significant()) > 0
        )
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        crowd = observer(x, gold, rng)[1]
        found = error_image_test(x, gold, crowd, n_permutations=99, rng=rng).significant()
        shares.append(float(np.mean(found < 392)) if len(found) else np.nan)
        counts.append(len(found))
    yield (
        "error image, errors at random",
        f"{sum(false)} of {len(false)} runs report a pixel",
        "-",
        "-",
        "-",
    )
    yield (
        "error image, observer of the top half", f"{fmean(counts):.0f} pixels",
        f"{100 * np.nanmean(shares):.0f} % in the half seen", "-", "-",
    )  # fmt: skip


def thresholds() -> Row:
    """Two directions whose thresholds differ by 1.70, eight levels of 200 trials."""
    rng, levels, ratios = np.random.default_rng(0), np.geomspace(0.15, 4, 8), []
    start = time.process_time()
    for _ in range(PAIRED):
        both = []
        for scale in (1.7, 1.0):
            share = 0.5 + 0.48 * (1 - np.exp(-((levels / scale) ** 1.5)))
            counts = rng.binomial(200, share)
            model = PsychometricFunction().fit(levels, counts, np.full(8, 200))
            both.append(model.threshold())
        ratios.append(both[0] / both[1])
    seconds = (time.process_time() - start) / len(ratios) / 2
    return (
        "psychometric functions, ratio of thresholds 1.70", f"{fmean(ratios):.2f} ± {np.std(ratios):.2f}",
        f"{len(ratios)} pairs", "-", f"{1000 * seconds:.0f} ms a fit",
    )  # fmt: skip


def picture() -> Figure:
    """What the observer goes by and what gold would go by."""
    x, gold = digits((3, 8))
    rng = np.random.default_rng(0)
    x, gold = x[:1500], gold[:1500]
    crowd = observer(x, gold, rng)[1]
    figure = Figure(figsize=(9, 4.4), layout="constrained")
    axes = figure.subplots(2, 5)
    test = error_image_test(x, gold, crowd, n_permutations=99, rng=rng)
    for row, (name, y) in enumerate((("crowd", crowd), ("gold", gold))):
        image = DecisionImage("logistic", n_components=COMPONENTS, C=0.1).fit(x, y)
        shown = (
            ("decision image", image.decision_image_, "RdBu_r"), ("pattern", image.pattern_, "RdBu_r"),
            ("portrait of 8", image.portrait_positive_, "gray"),
            ("portrait of 3", image.portrait_negative_, "gray"),
        )  # fmt: skip
        for axis, (title, pixels, colours) in zip(axes[row], shown, strict=False):
            most = np.abs(pixels).max()
            ends = (-most, most) if colours == "RdBu_r" else (0, most)
            axis.imshow(pixels.reshape(28, 28), cmap=colours, vmin=ends[0], vmax=ends[1])
            axis.set_title(f"{name}: {title}", fontsize=9)
            axis.axis("off")
        axis = axes[row][4]
        if row < len(test.classes):
            p = test.p_value[row].reshape(28, 28)
            axis.imshow(
                np.where(p <= 0.05, np.sign(test.statistic[row]).reshape(28, 28), 0), cmap="RdBu_r"
            )
            axis.set_title(f"errors on {(3, 8)[int(test.classes[row])]}, p ≤ .05", fontsize=9)
        axis.axis("off")
    return figure


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("seeds", nargs="?", type=int, default=5)
    seeds = parser.parse_args().seeds
    rows = [row for pair in PAIRS for row in classifiers(pair, seeds)]
    publish(
        "decision_images",
        "Decision images of a half-blind observer",
        ["what", "error against gold / crowd, %", "rank correlation with the observer",
         "threshold re svm", "error if trained on gold, %"],
        [*rows, *errors(seeds), thresholds()],
        note=(
            "MNIST digits; the observer sees the top half only, with noise that makes 16 % errors; "
            f"{TRAIN} images train on the observer's answers, {COMPONENTS} components, {seeds} seeds; C "
            "of svm and logistic by five folds. Thresholds are predicted from cosines with "
            "the observer's template. "
            "C = 1000 is all but a hard margin: it fits the observer's errors, no crowd should be "
            "modelled so. The peer has no C for noisy labels, no pattern, portraits or tests; "
            "the textbook RVM updates all precisions at once, and errs as ours does. "
            f"Error images: 2000 digits, 99 permutations, {RUNS} and {seeds} runs."
        ),
        picture=picture(),
    )  # fmt: skip


if __name__ == "__main__":
    main()
