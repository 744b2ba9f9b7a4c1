"""Near-duplicate tasks: the same pairs as all pairs looked at in double precision."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest

from learners import near_duplicates
from learners.task_features import duplicates


def all_pairs(features, least):
    """Oracle: every pair's cosine, columns centred and scaled."""
    scaled = (features - features.mean(axis=0)) / features.std(axis=0)
    unit = scaled / np.linalg.norm(scaled, axis=1, keepdims=True)
    one, other = np.nonzero(np.triu(unit @ unit.T >= least, k=1))
    return set(zip(one.tolist(), other.tolist(), strict=True))


@pytest.mark.parametrize(("n", "width", "least"), [(700, 3, 0.999), (700, 40, 0.95), (30, 2, 0.9)])
def test_every_pair_with_such_a_cosine_is_listed(n, width, least):
    rng = np.random.default_rng(n + width)
    features = rng.normal(size=(n, width))
    features[: n // 10] = features[n // 2 : n // 2 + n // 10] + 0.02 * rng.normal(
        size=(n // 10, width)
    )
    found = near_duplicates(features, least=least)
    assert found.complete
    assert set(map(tuple, found.pair.tolist())) == all_pairs(features, least)
    assert (np.diff(found.cosine) <= 0).all()
    assert (found.cosine >= least).all()


def test_pairs_are_found_across_blocks_of_any_size(monkeypatch):
    rng = np.random.default_rng(5)
    features = rng.normal(size=(150, 6))
    features[100:] = features[:50] + 0.02 * rng.normal(size=(50, 6))
    whole = near_duplicates(features)
    assert len(whole.pair) > 40
    for block, others, at_once in ((7, 5, 3), (5, 7, 1), (64, 16, 2), (1, 1, 1)):
        monkeypatch.setattr(duplicates, "BLOCK", block)
        monkeypatch.setattr(duplicates, "OTHERS", others)
        monkeypatch.setattr(duplicates, "AT_ONCE", at_once)
        assert (near_duplicates(features).pair == whole.pair).all()


def test_distances_are_held_of_few_tasks_at_once(monkeypatch):
    """Those of 256 tasks from a million took four gigabytes."""
    features = np.random.default_rng(0).normal(size=(8_000, 20)).astype(np.float32)
    monkeypatch.setattr(duplicates, "AT_ONCE", 1_000)
    tracemalloc.start()
    near_duplicates(features, least=0.85)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12e6


def test_more_pairs_than_can_be_listed_are_said_to_be_more():
    features = np.repeat(np.random.default_rng(0).normal(size=(2, 5)), 300, axis=0)
    found = near_duplicates(features)
    assert len(found.pair) == 1_000
    assert not found.complete


def test_scaling_or_shifting_a_column_changes_nothing():
    rng = np.random.default_rng(3)
    features = rng.normal(size=(200, 10))
    features[5] = features[9] + 0.01
    one = near_duplicates(features)
    other = near_duplicates(features * 10.0 ** np.arange(10) + 7.0)
    assert one.pair.tolist() == other.pair.tolist() == [[5, 9]]


@pytest.mark.parametrize("features", [np.ones((50, 4)), np.zeros((0, 4)), np.zeros((3, 0))])
def test_tasks_whose_features_are_all_average_are_like_none(features):
    assert near_duplicates(features).pair.shape == (0, 2)


@pytest.mark.parametrize(
    ("features", "least", "message"),
    [
        (np.full((3, 2), np.inf), 0.9, "features must be finite"),
        (np.ones((3, 2)), 1.0, r"least must be in \(0, 1\)"),
        pytest.param(np.ones(3), 0.9, r"got shape=\(3,\)", marks=pytest.mark.refusal),
    ],
)
def test_what_is_not_finite_or_out_of_range_is_refused(features, least, message):
    with pytest.raises(ValueError, match=message):
        near_duplicates(features, least=least)


@pytest.mark.parametrize("constant", [0.0, 0.1, 1e6 / 3])
def test_a_feature_that_is_the_same_for_every_task_changes_nothing(constant):
    """Its spread is 0 or the rounding of its mean."""
    features = np.random.default_rng(0).normal(size=(200, 5))
    wide = np.hstack([features, np.full((200, 100), constant)])
    found, expected = (near_duplicates(one, least=0.95) for one in (wide, features))
    assert np.array_equal(found.pair, expected.pair)


@pytest.mark.parametrize("factor", [1e160, 1e-170])
def test_pairs_are_found_where_squares_are_too_large_or_vanish(factor):
    features = np.random.default_rng(0).normal(size=(100, 8))
    features[70] = features[3]
    assert near_duplicates(factor * features).pair.tolist() == [[3, 70]]


@pytest.mark.parametrize("width", [np.float16, np.float32])
def test_short_floats_are_worked_on_as_doubles(width):
    """Squares of such features leave half precision."""
    short = (300 * np.random.default_rng(0).normal(size=(100, 8))).astype(width)
    short[70] = short[3]
    found, expected = (near_duplicates(one) for one in (short, short.astype(np.float64)))
    np.testing.assert_array_equal(found.cosine, expected.cosine)
    assert found.pair.tolist() == [[3, 70]]


def test_constant_features_make_no_tasks_alike():
    """The rounded mean of many of a constant is another number, by more than rounding of one."""
    features = np.random.default_rng(0).normal(size=(1000, 12)).astype(np.float32)
    constant = np.full((1000, 1000), 0.1, dtype=np.float32)
    beside = near_duplicates(np.column_stack([features, constant]))
    assert beside.complete
    assert beside.pair.tolist() == near_duplicates(features).pair.tolist()


@pytest.mark.refusal
def test_data_frames_and_lists_are_looked_through_like_arrays():
    features = np.random.default_rng(0).normal(size=(40, 3))
    features[7] = features[30]
    for given in (pd.DataFrame(features), features.tolist()):
        assert near_duplicates(given).pair.tolist() == near_duplicates(features).pair.tolist()
    for given, said in (
        (features.astype(str), "got dtype"),
        ([[1.0, 2.0], [3.0]], "several lengths"),
    ):
        with pytest.raises(ValueError, match=f"features must be numbers, .*{said}"):
            near_duplicates(given)
