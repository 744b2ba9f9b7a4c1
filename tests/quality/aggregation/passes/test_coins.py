"""The pass of models with coins: that of the confusion matrices which they stand for."""

import numpy as np
import pytest

from quality import CrowdLabels, encode, mace, one_coin_dawid_skene
from quality.aggregation import (
    MAX_CELLS,
    mace_by_shards,
    one_coin_by_shards,
    posterior_of_shard,
)
from quality.aggregation.em import passes_over
from quality.aggregation.passes import coins as coins_file
from quality.aggregation.passes import coins_pay
from quality.labels import LocalEngine, cut_labels

N_CLASSES, N_WORKERS = 12, 30


def crowd(rng: np.random.Generator, per_task: int, n_tasks: int = 200) -> CrowdLabels:
    """Of twelve classes, in no order; the last has no label."""
    worker = np.array([rng.permutation(N_WORKERS)[:per_task] for _ in range(n_tasks)]).ravel()
    task = np.repeat(np.arange(n_tasks), per_task)
    right = rng.random(len(task)) < 0.5
    label = np.where(right, task % 5, rng.integers(N_CLASSES - 1, size=len(task)))
    return encode(worker, task, label, classes=list(range(N_CLASSES)))


def matrices(coins: np.ndarray, n_classes: int) -> np.ndarray:
    """Tables as `table[worker, label, truth]` of coins."""
    right, wrong = coins[:, ::2], coins[:, 1::2]
    return np.where(np.eye(n_classes, dtype=np.bool_), right, wrong) + np.zeros((1, n_classes, 1))


@pytest.mark.parametrize("with_gold", [False, True])
@pytest.mark.parametrize("per_task", [1, 5, 29])
@pytest.mark.parametrize("coins", [1, N_CLASSES])
def test_it_is_the_pass_of_the_matrices(
    coins: int, per_task: int, with_gold: bool, rng: np.random.Generator
) -> None:
    labels = crowd(rng, per_task)
    gold = rng.integers(-1, N_CLASSES, size=labels.n_tasks) if with_gold else None
    table = rng.uniform(1e-12, 1.0, size=(N_WORKERS, 2 * coins, 1)) ** 3
    prior = rng.dirichlet(np.ones(N_CLASSES))
    with passes_over(labels, gold, 1, coins=coins) as short, passes_over(labels, gold, 1) as full:
        votes, whole_votes = short.vote(), full.vote()
        counts, mass, found = short.e_step(prior, table)
        whole, whole_mass, expected = full.e_step(prior, matrices(table, N_CLASSES))
        posterior = short.posterior(prior, table)
        np.testing.assert_allclose(
            posterior, full.posterior(prior, matrices(table, N_CLASSES)), rtol=1e-9, atol=1e-300
        )
    assert found == pytest.approx(expected, rel=1e-12)
    for one, other in ((mass, whole_mass), (votes[1], whole_votes[1])):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-12)
    for one, other in ((counts, whole), (votes[0], whole_votes[0])):
        right = np.diagonal(other, axis1=1, axis2=2)
        wrong = np.where(np.eye(N_CLASSES, dtype=np.bool_), 0.0, other).sum(axis=2)
        if coins == 1:
            right, wrong = (part.sum(axis=1, keepdims=True) for part in (right, wrong))
        np.testing.assert_allclose(one[:, ::2, 0], right, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(one[:, 1::2, 0], wrong, rtol=1e-9, atol=1e-12)


def test_evidence_lost_in_products_is_kept() -> None:
    """400 labels for one class, and as many as good for another: neither is certain."""
    label = np.repeat([3, 7], 400)
    labels = encode(np.arange(800), np.zeros(800, dtype=int), label, classes=list(range(12)))
    table = np.tile([0.9, 0.1 / 11], (800, 1))[:, :, None]
    with passes_over(labels, None, 1, coins=1) as passes:
        posterior = passes.posterior(np.full(12, 1 / 12), table)
        _, _, found = passes.e_step(np.full(12, 1 / 12), table)
    assert posterior[0, [3, 7]] == pytest.approx([0.5, 0.5], abs=1e-9)
    log_likelihood = np.log(2 / 12) + 400 * (np.log(0.9) + np.log(0.1 / 11))
    assert found[0] == pytest.approx(log_likelihood, rel=1e-12)


@pytest.mark.parametrize("fit", [one_coin_dawid_skene, mace], ids=["one coin", "MACE"])
def test_a_model_is_the_same_with_coins_and_with_matrices(
    fit: object, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = crowd(rng, 5)
    assert coins_pay(N_CLASSES)
    short = fit(labels)
    monkeypatch.setattr(coins_file, "UNROLLED", N_CLASSES)
    full = fit(labels)
    assert not coins_pay(N_CLASSES)
    assert short.n_iter == full.n_iter
    assert short.log_likelihood == pytest.approx(full.log_likelihood, rel=1e-12)
    np.testing.assert_allclose(short.posterior, full.posterior, rtol=1e-7, atol=1e-12)
    skill = "reliability" if fit is one_coin_dawid_skene else "strategy"
    np.testing.assert_allclose(getattr(short, skill), getattr(full, skill), rtol=1e-9)


@pytest.mark.parametrize("fit", [one_coin_by_shards, mace_by_shards], ids=["one coin", "MACE"])
def test_shards_have_coins_too(fit: object, rng: np.random.Generator) -> None:
    labels = crowd(rng, 5)
    engine = LocalEngine(cut_labels(labels, [0, 70, 200]))
    found = fit(engine)
    assert found.table.shape[2] == 1
    assert found.table.size < MAX_CELLS
    own = one_coin_dawid_skene if fit is one_coin_by_shards else mace
    posterior = np.concatenate(engine.map(posterior_of_shard, (found.prior, found.table, False)))
    assert posterior == pytest.approx(own(labels).posterior, abs=1e-9)
