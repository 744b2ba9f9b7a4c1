"""Cumulative counts are sums of released ones; their noise is exact, and less than that of their own."""

from itertools import permutations, product
from math import comb

import numpy as np
import pytest

from privacy import (
    DiscreteGaussian,
    DiscreteLaplace,
    DiscreteLaplaceLaw,
    LatticeLaplace,
    LatticeLaplaceLaw,
    cumulative_noise,
)
from privacy.mechanisms import partial_sums
from privacy.mechanisms.partial_sums import (
    CountLaw,
    _one_release,
    _partial,
    partial_sum_variance,
)


def partial_law(laws: list[CountLaw], n_first: int, total: int) -> tuple[np.ndarray, np.ndarray]:
    return _partial([_one_release(law, total) for law in laws], n_first)


def brute(scale: float, n_classes: int, n_first: int, power: int, reach: int) -> dict[int, float]:
    """The law of a partial sum by all integer vectors that add up to 0."""
    found: dict[int, float] = {}
    for head in product(range(-reach, reach + 1), repeat=n_classes - 1):
        z = np.array([*head, -sum(head)], dtype=np.float64)
        weight = float(np.exp(-(np.abs(z) ** power).sum() / scale))
        found[sum(head[:n_first])] = found.get(sum(head[:n_first]), 0.0) + weight
    total = sum(found.values())
    return {value: weight / total for value, weight in found.items()}


@pytest.mark.parametrize("n_first", [1, 2])
def test_the_law_is_that_of_all_vectors_that_add_up_to_zero(n_first: int) -> None:
    value, probability = partial_law([LatticeLaplace(1.2).law(3)], n_first, 0)
    expected = brute(2 / 1.2, 3, n_first, 1, reach=60)
    assert probability == pytest.approx([expected[int(one)] for one in value], abs=1e-14)


def test_of_one_class_it_is_the_marginal_law() -> None:
    law = LatticeLaplace(0.7).law(6)
    value, probability = partial_law([law], 1, 0)
    shared = np.isin(law.support, value)
    assert probability[np.isin(value, law.support)] == pytest.approx(
        law.probability[shared], abs=1e-14
    )


def test_gaussian_noise_is_judged_by_its_public_sum() -> None:
    law = DiscreteGaussian(epsilon=1.0, delta=1e-3).law(3)
    value, probability = partial_law([law], 1, 4)
    one = dict(zip(law.support.tolist(), law.probability.tolist(), strict=True))
    weight = np.array([
        one.get(int(z), 0.0) * sum(one[x] * one.get(4 - int(z) - x, 0.0) for x in one) for z in value
    ])  # fmt: skip
    assert probability == pytest.approx(weight / weight.sum(), abs=1e-13)
    assert float(value @ probability) == pytest.approx(4 / 3)


def test_several_releases_add_up() -> None:
    laws = [LatticeLaplace(epsilon).law(4) for epsilon in (0.5, 1.0, 1.0)]
    value, probability = partial_law(laws, 2, 0)
    expected = sum(partial_sum_variance(law, 2) for law in laws)
    assert float(value.astype(float) ** 2 @ probability) == pytest.approx(expected)


@pytest.mark.parametrize("law", [LatticeLaplace(1.0).law(5), DiscreteGaussian(1.0, 1e-4).law(5)])
@pytest.mark.parametrize("level", [0.5, 0.95])
def test_ranges_hold_together_with_the_level(
    law: CountLaw, level: float, rng: np.random.Generator
) -> None:
    """By 20,000 draws: discrete Laplace ones that add up to 0, or discrete Gaussian ones of any sum.

    The frequency is at least the level less five standard errors: a false alarm in 3e-7 at most.
    """
    n_drawn, hits = 20_000, 0
    if isinstance(law, LatticeLaplaceLaw):
        q = np.exp(-1 / law.scale)
        drawn = rng.geometric(1 - q, (600_000, 5)) - rng.geometric(1 - q, (600_000, 5))
        drawn = drawn[drawn.sum(axis=1) == 0][:n_drawn]
        n_drawn = len(drawn)
        assert n_drawn > 9_000
    else:
        drawn = rng.choice(law.support, p=law.probability, size=(n_drawn, 5))
    ranges = {
        int(total): cumulative_noise([law], int(total), level) for total in set(drawn.sum(axis=1))
    }
    for z in drawn:
        low, high = ranges[int(z.sum())]
        at = np.cumsum(z)[:-1]
        hits += bool(((low <= at) & (at <= high)).all())
    assert hits / n_drawn >= level - 5 * np.sqrt(level * (1 - level) / n_drawn)


@pytest.mark.parametrize("level", [0.5, 0.95, 1 - 1e-6])
@pytest.mark.parametrize(
    ("law", "total"),
    [
        (LatticeLaplace(1.0).law(2), 0),
        (LatticeLaplace(0.3).law(41), 0),
        (DiscreteLaplaceLaw(3.0, 30), -25),
        (DiscreteGaussian(1.0, 1e-4).law(30), 40),
    ],
)
def test_the_grid_leaves_out_nothing_that_counts(
    law: CountLaw, total: int, level: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside a grid that holds all that a sum can be; of k classes and of the others by themselves."""
    found = cumulative_noise([law], total, level)
    monkeypatch.setattr(partial_sums, "_furthest", lambda one, n: n * (one.size // 2))
    beyond = (1 - level) / (law.n_classes - 1) / 2
    for n_first in range(1, law.n_classes):
        value, probability = partial_law([law], n_first, total)
        below, above = np.cumsum(probability), np.cumsum(probability[::-1])
        ends = found[0][n_first - 1], found[1][n_first - 1]
        assert ends[0] == value[np.flatnonzero(below > beyond)[0]]
        assert ends[1] == value[::-1][np.flatnonzero(above > beyond)[0]]


@pytest.mark.parametrize("n_classes", [3, 100, 1000])
def test_the_grid_grows_as_the_root_of_the_number_of_classes(n_classes: int) -> None:
    """By what two transforms for each number of classes take: a thousand are a second's work."""
    law = LatticeLaplace(1.0).law(n_classes)
    release = _one_release(law, 0)
    own = DiscreteLaplaceLaw(law.scale, n_classes).variance
    assert release.reach < 12 * np.sqrt(own * n_classes) + 42 * law.scale
    assert release.wave.size < 4 * release.reach


@pytest.mark.parametrize("n_classes", [2, 3, 5, 8])
def test_a_moved_task_changes_two_counts_and_up_to_all_cumulative_ones(n_classes: int) -> None:
    """By all moves of a task: l1 norm 2 of the counts, and the distance of its grades of their sums."""
    norms = []
    for old, new in permutations(range(n_classes), 2):
        moved = np.eye(n_classes, dtype=int)[new] - np.eye(n_classes, dtype=int)[old]
        assert np.abs(moved).sum() == 2
        norms.append(int(np.abs(np.cumsum(moved)[:-1]).sum()))
        assert norms[-1] == abs(new - old)
    assert max(norms) == n_classes - 1
    assert len(norms) == 2 * comb(n_classes, 2)


@pytest.mark.parametrize("epsilon", [0.02, 0.3, 1.0, 4.0])
@pytest.mark.parametrize("n_classes", [3, 4, 5, 10, 20])
def test_sums_of_counts_err_less_than_a_release_of_their_own(
    n_classes: int, epsilon: float
) -> None:
    law = LatticeLaplace(epsilon).law(n_classes)
    own = DiscreteLaplaceLaw((n_classes - 1) / epsilon, n_classes).variance
    middle = partial_sum_variance(law, n_classes // 2)
    assert middle <= min(own, 8 * (n_classes // 2) * -(-n_classes // 2) / n_classes / epsilon**2)
    ends = [partial_sum_variance(law, k) for k in (1, n_classes - 1)]
    assert max(ends) <= middle * (1 + 1e-9)  # equal for three classes, but for rounding


def test_of_two_classes_both_are_the_same_noise() -> None:
    law = LatticeLaplace(0.9).law(2)
    assert partial_sum_variance(law, 1) == pytest.approx(DiscreteLaplaceLaw(1 / 0.9, 2).variance)


@pytest.mark.parametrize(
    ("laws", "total", "level", "message"),
    [
        ([LatticeLaplace(1.0).law(3)], 0, 1.0, r"level must be in \(0, 1\)"),
        ([LatticeLaplace(1.0).law(3)], 0, 0.0, r"level must be in \(0, 1\)"),
        (
            [DiscreteLaplaceLaw(4e6, 100)],
            0,
            0.9,
            "the noise must be small enough for its exact law, got scale 4000000",
        ),
        ([LatticeLaplace(1.0).law(3)], 1, 0.9, "total must be 0 for lattice Laplace noise"),
        (
            [DiscreteGaussian(1.0, 1e-3).law(3)] * 2,
            0,
            0.9,
            "laws must be lattice Laplace where several",
        ),
        (
            [DiscreteGaussian(1.0, 1e-3).law(3)],
            9999,
            0.9,
            "total must be a sum that the noise can have",
        ),
        (
            [DiscreteGaussian(1.0, 1e-3).law(3)],
            10**12,
            0.9,
            "total must be a sum that the noise can have, got 1000000000000",
        ),
        (
            [DiscreteLaplaceLaw(2.0**40, 3)],  # nothing of its size is built
            0,
            0.9,
            "the noise must be small enough for its exact law",
        ),
    ],
)
def test_what_cannot_be_is_refused(
    laws: list[CountLaw], total: int, level: float, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        cumulative_noise(laws, total, level)


@pytest.mark.parametrize(
    ("laws", "sentence"),
    [
        ([], "laws must be one or more, got none"),
        ([LatticeLaplace(1.0).law(3), LatticeLaplace(1.0).law(4)], "laws must be of equally many"),
        (
            [LatticeLaplace(1.0).law(3), DiscreteLaplace(1.0).law(3)],
            "laws must be lattice Laplace where several",
        ),
    ],
)
def test_laws_that_do_not_add_up_are_refused(laws: list[CountLaw], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        cumulative_noise(laws, 0, 0.9)


@pytest.mark.refusal
@pytest.mark.parametrize("total", [0.0, 2.5, float("nan"), float("inf")])
def test_a_total_is_an_integer(total: int) -> None:
    for law in (DiscreteGaussian(1.0, 1e-3).law(3), LatticeLaplace(1.0).law(3)):
        with pytest.raises(ValueError, match=f"total must be an integer, got total={total}"):
            cumulative_noise([law], total, 0.9)


@pytest.mark.parametrize("level", [-0.1, 1.5, float("nan"), float("inf")])
def test_a_level_is_between_none_and_all(level: float) -> None:
    with pytest.raises(ValueError, match=r"level must be in \(0, 1\), got level="):
        cumulative_noise([LatticeLaplace(1.0).law(3)], 0, level)
