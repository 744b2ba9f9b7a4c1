"""EBCC: its iterations and its evidence against whole arrays, and what subtypes are for."""

from pathlib import Path

import numpy as np
import pytest
from scipy.special import digamma, gammaln
from scipy.stats import dirichlet

from benchmarks.quality.crowd_sets import read_set, right
from quality import CrowdLabels, dawid_skene, ebcc, encode, majority_vote, parallel
from quality.aggregation.ebcc_em import _Model

N_SUBTYPES = 3


def whole_arrays(
    labels: CrowdLabels, n_subtypes: int, n_iter: int, rng: np.random.Generator
) -> tuple[np.ndarray, float]:
    """Posterior and lower bound by the paper's updates, a dense array of labels, in logarithms."""
    n_classes = labels.n_classes
    given = np.zeros((labels.n_tasks, labels.n_workers, n_classes))
    given[labels.task, labels.worker, labels.label] = 1
    share = majority_vote(labels).posterior
    belief = rng.dirichlet(np.ones(n_subtypes), share.shape) * share[:, :, None]
    beta = np.where(np.eye(n_classes, dtype=bool), 4.0, 1.0)[None, :, None, :]
    for step in range(n_iter + 1):
        nu = belief.sum(axis=(0, 2)) + 1
        eta = belief.sum(axis=0) + 0.1 / n_subtypes
        mu = np.einsum("ijl,ikm->jkml", given, belief) + beta
        log_tau = digamma(nu) - digamma(nu.sum())
        log_pi = digamma(eta) - digamma(eta.sum(axis=1, keepdims=True))
        log_v = digamma(mu) - digamma(mu.sum(axis=3, keepdims=True))
        score = (log_tau[:, None] + log_pi)[None] + np.einsum("ijl,jkml->ikm", given, log_v)
        highest = score.max(axis=(1, 2), keepdims=True)
        total = np.exp(score - highest).sum(axis=(1, 2), keepdims=True)
        if step == n_iter:
            break
        belief = np.exp(score - highest) / total
    bound = float((np.log(total) + highest).sum())
    groups = [(nu, np.ones(n_classes))]
    groups += [(row, np.full(n_subtypes, 0.1 / n_subtypes)) for row in eta]
    groups += [(row, np.where(np.arange(n_classes) == k, 4.0, 1.0))
               for worker in mu for k, rows in enumerate(worker) for row in rows]  # fmt: skip
    for after, before in groups:  # Kullback–Leibler by entropy and cross entropy
        logs = digamma(after) - digamma(after.sum())
        log_norm = gammaln(before).sum() - gammaln(before.sum())
        bound -= -dirichlet(after).entropy() - (logs @ (before - 1) - log_norm)
    belief = np.exp(score - highest) / total
    return belief.sum(axis=2), bound


def hard_and_easy(rng: np.random.Generator) -> tuple[CrowdLabels, np.ndarray]:
    """Class 1 is seen by everybody, or in a third of its tasks by nobody in particular."""
    truth = rng.integers(2, size=1000)
    hard = (truth == 1) & (rng.random(1000) < 0.33)
    seen = np.where(rng.random((15, 1000)) < np.where(hard, 0.45, 0.1), 1 - truth, truth)
    worker, task = np.divmod(np.arange(seen.size), 1000)
    return encode(worker, task, seen.ravel()), truth


def test_the_papers_updates_and_lower_bound(rng: np.random.Generator) -> None:
    label = rng.integers(3, size=300)
    worker, task = np.divmod(np.arange(300), 50)
    labels = encode(worker, task, np.where(rng.random(300) < 0.6, task % 3, label))
    found = ebcc(
        labels,
        n_subtypes=N_SUBTYPES,
        n_starts=1,
        max_iter=12,
        tol=0.0,
        rng=np.random.default_rng(5),
    )
    posterior, bound = whole_arrays(labels, N_SUBTYPES, 12, np.random.default_rng(5))
    assert found.posterior == pytest.approx(posterior, abs=1e-9)
    assert found.evidence == pytest.approx(bound, rel=1e-9)


def test_the_start_of_highest_evidence_is_kept(rng: np.random.Generator) -> None:
    labels, _ = hard_and_easy(rng)
    alone = [ebcc(labels, n_starts=1, rng=g).evidence for g in 4 * [np.random.default_rng(3)]]
    assert len(set(alone)) > 1
    assert ebcc(labels, n_starts=4, rng=np.random.default_rng(3)).evidence == max(alone)


def test_subtypes_are_for_tasks_on_which_workers_err_together(rng: np.random.Generator) -> None:
    """Dawid–Skene takes a split vote for strong evidence: the hard kind is none of its classes."""
    labels, truth = hard_and_easy(rng)
    rules = ebcc(labels, rng=rng), dawid_skene(labels)
    wrong = [np.mean(rule.label != truth) for rule in rules]
    log_loss = [-np.mean(np.log(rule.posterior[np.arange(1000), truth] + 1e-12)) for rule in rules]
    assert wrong[0] <= wrong[1]
    assert log_loss[0] < 0.7 * log_loss[1]


def test_one_subtype_is_dawid_skene_with_dirichlet_priors(rng: np.random.Generator) -> None:
    truth = rng.integers(3, size=400)
    label = np.where(rng.random((8, 400)) < 0.7, truth, rng.integers(3, size=(8, 400)))
    worker, task = np.divmod(np.arange(label.size), 400)
    labels = encode(worker, task, label.ravel())
    one, plain = ebcc(labels, n_subtypes=1, n_starts=1, rng=rng), dawid_skene(labels)
    assert one.posterior == pytest.approx(plain.posterior, abs=0.05)
    assert one.subtype[:, 0] == pytest.approx(plain.prior, abs=0.01)


def test_same_generator_same_bytes(rng: np.random.Generator) -> None:
    labels, _ = hard_and_easy(rng)
    runs = [ebcc(labels, rng=np.random.default_rng(1), threads=n) for n in (1, 2)]
    assert runs[0].posterior.tobytes() == runs[1].posterior.tobytes()


def test_the_number_of_threads_does_not_matter_where_there_are_several_chunks(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    """Nor do chunks, but for the last digits."""
    labels, _ = hard_and_easy(rng)
    whole = ebcc(labels, rng=np.random.default_rng(1))
    monkeypatch.setattr(parallel, "MIN_ROWS", 100)
    assert len(_Model.of(labels, 10, 4.0, 1.0).chunk_start) > 3
    runs = [ebcc(labels, rng=np.random.default_rng(1), threads=n) for n in (1, 2, 3)]
    assert len({run.posterior.tobytes() for run in runs}) == 1
    assert len({run.evidence for run in runs}) == 1
    assert runs[0].posterior == pytest.approx(whole.posterior, abs=1e-9)
    assert runs[0].evidence == pytest.approx(whole.evidence, rel=1e-12)
    assert runs[0].subtype == pytest.approx(whole.subtype, abs=1e-9)


@pytest.mark.parametrize(
    ("name", "value"),
    [("n_subtypes", 0), ("n_starts", 0), ("right_prior", 0.0), ("wrong_prior", np.nan)],
)
def test_a_parameter_out_of_its_range_is_refused(name: str, value: float) -> None:
    labels = encode(["a", "b"], [1, 1], ["x", "y"])
    with pytest.raises(ValueError, match=f"{name} must be .*got {name}="):
        ebcc(labels, rng=np.random.default_rng(0), **{name: value})


@pytest.mark.parametrize(
    "name", ["rte", "temp", "music", "weather_cf", "leaves", "sentiment_tweets"]
)
def test_as_right_as_dawid_skene(shared_data: Path, name: str) -> None:
    labels, gold = read_set(shared_data / name)
    found, plain = ebcc(labels, rng=np.random.default_rng(0)), dawid_skene(labels)
    assert right(found.posterior, gold) >= right(plain.posterior, gold) - 0.5


def test_workers_who_never_give_some_labels_and_tasks_without_labels(
    rng: np.random.Generator,
) -> None:
    """The table has rows for what occurs alone; the result is that of all rows."""
    worker, task = np.divmod(np.arange(240), 30)
    right = np.where(rng.random(240) < 0.7, task % 3, 0)
    label = np.where(worker < 4, np.minimum(right, 1), right)
    full = encode(worker, task, label, classes=[0, 1, 2, 3])
    settings = {"n_subtypes": N_SUBTYPES, "n_starts": 1, "max_iter": 25, "tol": 0.0}
    found = ebcc(full, rng=np.random.default_rng(2), **settings)
    posterior, bound = whole_arrays(full, N_SUBTYPES, 25, np.random.default_rng(2))
    assert found.posterior == pytest.approx(posterior, abs=1e-9)
    assert found.evidence == pytest.approx(bound, rel=1e-9)
