import numpy as np
import pytest
from scipy.stats import ttest_ind

from learners.images.error_images import error_image_test


def test_the_statistic_is_students_t_within_each_class(rng):
    x, gold = rng.normal(size=(120, 3)), rng.integers(2, size=120)
    crowd = np.where(rng.random(120) < 0.3, 1 - gold, gold)
    found = error_image_test(x, gold, crowd, n_permutations=19, rng=rng)
    for row, one in enumerate(found.classes):
        of, wrong = gold == one, crowd != gold
        peer = ttest_ind(x[of & wrong], x[of & ~wrong]).statistic
        assert found.statistic[row] == pytest.approx(peer)
        assert (found.n_wrong[row], found.n_right[row]) == ((of & wrong).sum(), (of & ~wrong).sum())


def test_errors_at_random_are_reported_at_most_as_often_as_the_level():
    """200 crowds at level .1; 40 or more have probability below 1e-5 of a binomial of .1."""
    rng, reported = np.random.default_rng(0), 0
    for _ in range(200):
        x, gold = rng.normal(size=(80, 20)), rng.integers(2, size=80)
        x[:, 1] = x[:, 0]  # features that go together
        crowd = np.where(rng.random(80) < 0.25, 1 - gold, gold)
        found = error_image_test(x, gold, crowd, n_permutations=99, rng=rng)
        reported += len(found.significant(0.1)) > 0
    assert 2 <= reported < 40


def test_the_feature_that_misleads_is_found_and_no_other(rng):
    x, gold = rng.normal(size=(400, 30)), rng.integers(3, size=400)
    crowd = np.where((x[:, 7] > 0.8) & (gold == 1), 2, gold)
    crowd[rng.choice(400, 20, replace=False)] = 0
    found = error_image_test(x, gold, crowd, rng=rng)
    assert 7 in found.significant()
    assert len(found.significant()) <= 3
    assert found.p_value.min() == pytest.approx(1 / 1000)


def test_a_constant_feature_says_nothing(rng):
    x = rng.normal(size=(60, 3))
    x[:, 1] = 4.0
    found = error_image_test(
        x, np.zeros(60), (np.arange(60) % 5 == 0).astype(float), n_permutations=50, rng=rng
    )
    assert found.statistic[0, 1] == 0
    assert found.p_value[0, 1] == 1


def test_a_feature_beside_one_of_large_scale_is_compared_all_the_same(rng):
    """Milliseconds since 1970 beside a feature of unit variance."""
    x, gold = rng.normal(size=(100, 2)), np.zeros(100, int)
    wrong = (rng.random(100) < 0.4).astype(int)
    alone = error_image_test(x, gold, wrong, n_permutations=9, rng=rng)
    x[:, 1] = 1.7e12 + 1e9 * x[:, 1]
    beside = error_image_test(x, gold, wrong, n_permutations=9, rng=rng)
    assert beside.statistic == pytest.approx(alone.statistic, abs=1e-6)


@pytest.mark.parametrize("power", [-600, 600])
def test_the_unit_of_a_feature_changes_nothing(rng, power):
    """To the bit, also where its square would be no number."""
    x, gold = rng.normal(size=(60, 2)), np.zeros(60, int)
    wrong = (x[:, 0] > 0.5).astype(int)
    one, other = (
        error_image_test(
            x * [scale, 1.0], gold, wrong, n_permutations=19, rng=np.random.default_rng(0)
        )
        for scale in (1.0, 2.0**power)
    )
    assert one.statistic.tolist() == other.statistic.tolist()
    assert one.p_value.tolist() == other.p_value.tolist()


@pytest.mark.refusal
def test_what_does_not_fit_is_refused(rng):
    x, gold = rng.normal(size=(10, 2)), np.zeros(10, int)
    wrong = (np.arange(10) < 3).astype(int)
    for given in ((gold[:9], wrong[:9]), (gold, wrong[:9]), (gold, 1)):
        with pytest.raises(ValueError, match="equal length, got shapes"):
            error_image_test(x, *given, rng=rng)
    with pytest.raises(ValueError, match="a class must have 2 tasks wrong"):
        error_image_test(x, gold, gold, rng=rng)
    for n in (0, 2.5):
        with pytest.raises(ValueError, match=f"n_permutations must be >= 1 and whole, got .*={n}"):
            error_image_test(x, gold, wrong, n_permutations=n, rng=rng)
    bad = x.copy()
    bad[3, 1] = np.nan
    with pytest.raises(ValueError, match="at row 3, column 1"):
        error_image_test(bad, gold, wrong, rng=rng)
    known = np.array(["a", None] * 5, dtype=object)
    with pytest.raises(ValueError, match="a class of one kind for each task, got NoneType, str"):
        error_image_test(x, known, known, rng=rng)


def test_permutations_of_many_tasks_are_drawn_some_at_a_time(monkeypatch, rng):
    """Of a million tasks 256 permutations at once took six gigabytes."""
    x, gold, crowd = rng.normal(size=(50, 2)), np.zeros(50, int), (rng.random(50) < 0.3).astype(int)
    drawn = []

    class Counting(np.random.Generator):
        def random(self, size=None, *given, **known):
            drawn.append(size)
            return super().random(size, *given, **known)

    monkeypatch.setattr("learners.images.error_images._MAX_DRAWN", 500)
    found = error_image_test(x, gold, crowd, n_permutations=25, rng=Counting(np.random.PCG64(0)))
    assert drawn == [(50, 10), (50, 10), (50, 5)]
    assert (found.p_value >= 1 / 26).all()
