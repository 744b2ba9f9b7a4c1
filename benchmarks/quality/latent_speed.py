"""Speed of MACE against crowd-kit's, of EBCC against its authors' updates, and of the pool.

python -m benchmarks.quality.latent_speed
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.special import digamma

from benchmarks.publish import parser_of, publish
from benchmarks.quality.crowdkit_speed import measure_crowdkit
from quality import (
    Consensus,
    CrowdLabels,
    Ebcc,
    auto,
    ebcc,
    encode,
    hierarchical_dawid_skene,
    mace,
    majority_vote,
    regular_assignment,
    simulate_crowd,
)

SIZES = ((10_000, 100, 2), (100_000, 500, 4), (1_000_000, 2_000, 4))  # labels, workers, classes
TEN_CLASSES = (1_000_000, 2_000, 10)
MOVED = 1e-3  # where the authors' program stops
N_ITER, RIVALS_LIMIT = 50, 100_000  # iterations; labels past which a rival takes minutes
HEADER = ("rule", "labels", "workers", "classes", "ours, cpu s", "rival", "rival, cpu s", "ratio")
NOTE = (
    "Process CPU seconds from coded labels, least of three runs, one thread, compiled before; five "
    "labels a task, simulated crowds with a tenth of the workers answering at random. MACE and EBCC: "
    f"{N_ITER} iterations from one start, nothing stops early, setup included. The authors' EBCC is their "
    "update equations on sparse matrices, a product for each pair of label and class, as their program "
    "has them; its last label agrees with ours on the share of tasks in brackets. EBCC to its own stop: "
    f"ours by default with one start, the authors' when no class of any task moves by more than {MOVED:g}; "
    "iterations of both in brackets. The authors' at a million labels: one run. crowd-kit 1.4.2's MACE has "
    "integer ids. `auto`: the whole choice with the default seven candidates, beside one fit of hierarchical "
    "Dawid–Skene."
)


def main() -> None:
    parser_of(__doc__).parse_args()
    warm_up()
    crowds = [crowd(*size) for size in SIZES]
    rows = [
        *(row("MACE", labels, least(all_of_mace, labels)[0], *crowdkit_mace(labels)) for labels in crowds),
        *map(ebcc_row, crowds),
        *map(own_stop_row, crowds[:2]),
    ]  # fmt: skip
    for labels in (*crowds[1:], crowd(*TEN_CLASSES)):
        single, _ = least(hierarchical_dawid_skene, labels)
        rows.append(row("auto", labels, least(auto, labels)[0], "one hierarchical fit", single))
    publish("latent_speed", "Speed of MACE, EBCC and the pool", HEADER, rows, note=NOTE)


def warm_up() -> None:
    """Compile what is timed."""
    for n_classes in sorted({n_classes for _, _, n_classes in (*SIZES, TEN_CLASSES)}):
        labels = crowd(2_000, 40, n_classes)
        one_start(labels)
        auto(labels)


def crowd(n_labels: int, n_workers: int, n_classes: int) -> CrowdLabels:
    """Five labels a task; a tenth of the workers answer at random."""
    rng, n_tasks = np.random.default_rng(0), n_labels // 5
    rows = regular_assignment(n_tasks=n_tasks, n_workers=n_workers, labels_per_task=5, rng=rng)
    truth, adversaries = rng.integers(n_classes, size=n_tasks), {"random": n_workers // 10}
    found = simulate_crowd(rows, truth, n_classes=n_classes, adversaries=adversaries, rng=rng)
    return encode(found.worker, found.task, found.label, classes=range(n_classes))


def all_of_mace(labels: CrowdLabels) -> Consensus:
    """All iterations of MACE."""
    return mace(labels, max_iter=N_ITER, tol=0.0, threads=1)


def one_start(labels: CrowdLabels) -> Consensus:
    """All iterations of EBCC from one start."""
    rng = np.random.default_rng(0)
    return ebcc(labels, max_iter=N_ITER, tol=0.0, n_starts=1, threads=1, rng=rng)


def least(
    work: Callable[[CrowdLabels], Any], labels: CrowdLabels, n_runs: int = 3
) -> tuple[float, Any]:
    """The least process CPU seconds of some runs, and the result."""
    seconds = []
    for _ in range(n_runs):
        start = time.process_time()
        result = work(labels)
        seconds.append(time.process_time() - start)
    return min(seconds), result


def crowdkit_mace(labels: CrowdLabels) -> tuple[str, float | None]:
    """The rival's name and its seconds; None where it takes minutes or fails."""
    work, name = f"MACE:{N_ITER}", "crowd-kit MACE"
    if labels.n_labels > RIVALS_LIMIT:
        return name, None
    found = measure_crowdkit(labels, work).seconds[work]
    return name, found if isinstance(found, float) else None


def ebcc_row(labels: CrowdLabels) -> tuple[str, ...]:
    """EBCC beside its authors' updates."""
    seconds, found = least(one_start, labels)
    rival, posterior = least(authors_ebcc, labels, 1 if labels.n_labels > RIVALS_LIMIT else 3)
    same = np.mean(posterior.argmax(axis=1) == found.label)
    return row("EBCC", labels, seconds, f"authors' updates ({same:.4f})", rival)


def own_stop_row(labels: CrowdLabels) -> tuple[str, ...]:
    """EBCC beside its authors' updates, each until it stops by itself."""
    seconds, found = least(to_own_stop, labels)
    rival, (_, n_iter) = least(partial(authors_fit, max_iter=500, moved=MOVED), labels)
    name = f"authors' updates ({found.n_iter}, {n_iter} iterations)"
    return row("EBCC, own stop", labels, seconds, name, rival)


def to_own_stop(labels: CrowdLabels) -> Ebcc:
    """EBCC from one start, until it settles."""
    return ebcc(labels, n_starts=1, threads=1, rng=np.random.default_rng(0))


def authors_ebcc(labels: CrowdLabels) -> np.ndarray:
    """All iterations of the authors' updates."""
    return authors_fit(labels, max_iter=N_ITER, moved=0.0)[0]


def authors_fit(
    labels: CrowdLabels, *, max_iter: int, moved: float, n_subtypes: int = 10
) -> tuple[np.ndarray, int]:
    """The updates of Li, Rubinstein and Cohn (2019), a sparse product for each label and class.

    Return the posterior and the iterations, which end when no class of any task moves by more than `moved`,
    unless that is 0.
    """
    n_classes, rng = labels.n_classes, np.random.default_rng(0)
    by_task = [
        coo_array(
            (np.ones(rows.sum()), (labels.task[rows], labels.worker[rows])),
            shape=(labels.n_tasks, labels.n_workers),
        ).tocsr()
        for rows in (labels.label == label for label in range(n_classes))
    ]
    by_worker = [table.T.tocsr() for table in by_task]
    share = majority_vote(labels).posterior
    belief = rng.dirichlet(np.ones(n_subtypes), share.shape) * share[:, :, np.newaxis]
    beforehand = np.where(np.eye(n_classes, dtype=bool), 4.0, 1.0)[:, np.newaxis, :]
    pairs = [(label, truth) for label in range(n_classes) for truth in range(n_classes)]
    posterior, n_iter = share, 0
    while n_iter < max_iter:
        subtype, given = 0.1 / n_subtypes + belief.sum(axis=0), 1.0 + belief.sum(axis=(0, 2))
        counts = np.zeros((labels.n_workers, n_classes, n_subtypes, n_classes)) + beforehand
        for label, truth in pairs:
            counts[:, truth, :, label] += by_worker[label] @ belief[:, truth]
        log_class = digamma(given) - digamma(given.sum())
        log_subtype = digamma(subtype) - digamma(subtype.sum(axis=1, keepdims=True))
        log_label = digamma(counts) - digamma(counts.sum(axis=3, keepdims=True))
        belief[:] = log_class[:, np.newaxis] + log_subtype
        for label, truth in pairs:
            belief[:, truth] += by_task[label] @ log_label[:, truth, :, label]
        belief = np.exp(belief)
        belief /= belief.sum(axis=(1, 2), keepdims=True)
        before, posterior, n_iter = posterior, belief.sum(axis=2), n_iter + 1
        if moved and np.allclose(before, posterior, atol=moved):
            break
    return posterior, n_iter


def row(
    rule: str, labels: CrowdLabels, ours: float, rival: str, theirs: float | None
) -> tuple[str, ...]:
    """One line of the table."""
    size = (f"{labels.n_labels:,}", f"{labels.n_workers:,}", str(labels.n_classes))
    if theirs is None:
        return (rule, *size, f"{ours:.3g}", rival, "-", "-")
    ratio = theirs / ours if rule != "auto" else ours / theirs
    shown = f"{ratio:.0f}" if rule != "auto" else f"{ratio:.0f} fits"
    return (rule, *size, f"{ours:.3g}", rival, f"{theirs:.3g}", shown)


if __name__ == "__main__":
    main()
