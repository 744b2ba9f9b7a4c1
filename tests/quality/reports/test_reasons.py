"""Sentences written once for all workers who get them: the same as one after the other."""

from dataclasses import replace

import numpy as np
import pytest

from quality import encode, filter_dishonest
from quality.reports import workers
from quality.reports.workers import _alike, _chance, _haste, _number, _reasons, _written

N_WORKERS = 60
CLASSES = np.array(["x", "y"])


def _labels(n_workers: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    worker, task = np.divmod(np.arange(3 * n_workers), 3)
    return worker, task, (worker + task) % 2


def _numbers(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Few values of each, so that workers are alike."""
    n_labels = rng.integers(3, size=N_WORKERS) * 1000
    return {
        "n_labels": n_labels,
        "n_conflict": np.minimum(n_labels, rng.integers(2, size=N_WORKERS)),
        "agreement": np.where(n_labels > 0, rng.choice([0.0, 0.5, 0.996], N_WORKERS), np.nan),
        "soft_penalty": rng.choice([0.0, 0.25, 0.2501, 0.9996, 1000.0], N_WORKERS),
        "gold_n": rng.integers(2, size=N_WORKERS),
        "gold_correct": np.zeros(N_WORKERS, dtype=np.int64),
        "hasty": rng.random(N_WORKERS) < 0.3,
        "median_seconds": rng.choice([2.0, 2.001, np.nan], N_WORKERS),
    }


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("most_codes", [1, workers.MOST_CODES])
def test_a_sentence_is_that_of_the_worker_alone(
    seed: int, most_codes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "MOST_CODES", most_codes)
    rng = np.random.default_rng(seed)
    numbers, only = _numbers(rng), rng.integers(-1, 2, size=N_WORKERS)
    every = filter_dishonest(encode(*_labels(N_WORKERS)), rng=rng)
    one = filter_dishonest(encode(*_labels(1)), rng=rng)
    penalty = rng.choice([0.25, 0.2502, 0.26], N_WORKERS)
    p_value = rng.choice([0.0, 1e-301, 0.051, 0.0511, 1.0, np.nan], N_WORKERS)
    judged = replace(every, penalty=penalty, p_value=p_value)
    found = _reasons(judged, numbers, only, CLASSES)
    for worker in range(N_WORKERS):
        her = slice(worker, worker + 1)
        alone = replace(one, penalty=penalty[her], p_value=p_value[her])
        hers = {name: column[her] for name, column in numbers.items()}
        assert _reasons(alone, hers, only[her], CLASSES) == found[her]


def test_many_numbers_have_the_texts_that_each_has() -> None:
    rng = np.random.default_rng(0)
    values = np.concatenate(
        [rng.random(300), 10.0 ** rng.uniform(-310, 5, 300), [0.0, np.nan, np.nan, 9.995, 999.5]]
    )
    for write in (_number, _chance, _haste):
        mixed = rng.permuted(values)
        code, texts = _written(mixed, write)
        assert [texts[one] for one in code.tolist()] == [write(value) for value in mixed.tolist()]
        assert len(set(texts)) == len(texts)


def test_nobody_gets_no_sentence() -> None:
    column = np.zeros(0, dtype=np.int64)
    one, alike = _alike([column, column])
    assert len(one) == len(alike) == 0
    assert len(_written(np.zeros(0), _number).code) == 0
