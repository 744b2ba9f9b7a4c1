import numpy as np
import pytest

from learners import learn_ratios, learn_streamed_ratios
from learners.class_ratios.bags import BagPasses, ConstantFeatures, LabelledBags, LocalBlocks

BAGS = [np.zeros((4, 2)), np.ones((3, 2)), np.full((2, 2), 2.0)]
SHARES = np.array([[0.8, 0.2], [0.1, 0.9], [0.5, 0.5]])
refusal = pytest.mark.refusal


def changed(array, index, value):
    copy = array.copy()
    copy[index] = value
    return copy


def test_nothing_is_shared_with_what_it_was_built_from():
    given = [bag.copy() for bag in BAGS]
    bags = LabelledBags.of(given, SHARES)
    given[0][:] = 9.0
    assert (bags.points[0] == 0).all()
    assert not np.shares_memory(bags.mixture, SHARES)


def test_proportions_within_tolerance_are_moved_onto_the_simplex():
    bags = LabelledBags.of(BAGS, changed(SHARES, 1, [-5e-7, 1.0]))
    assert bags.mixture.min() == 0
    np.testing.assert_allclose(bags.mixture.sum(axis=1), 1, rtol=1e-15)


@pytest.mark.parametrize(
    ("bags", "shares", "message"),
    [
        (BAGS[:1], SHARES[:1], "at least as many as classes, got 1 bags of 2 classes"),
        (BAGS, SHARES[:, :1], "2 classes at least"),
        pytest.param(BAGS, SHARES[0], "bags by classes", marks=refusal),
        (BAGS[:2], SHARES, "one per row of proportions, got 2 and 3"),
        (BAGS, changed(SHARES, (1, 0), 0.2), "bag 1 do not"),
        (BAGS, changed(SHARES, 2, [-0.1, 1.1]), "bag 2 do not"),
        (BAGS, changed(SHARES, (0, 0), np.nan), "bag 0 do not"),
        (BAGS, np.full((3, 2), 0.5), "tell the classes apart"),
        (BAGS, np.array([[0.5, 0.5], [0.5 + 1e-7, 0.5 - 1e-7], [0.5, 0.5]]), "condition number"),
        ([*BAGS[:2], np.zeros((1, 2))], SHARES, "bag 2 must hold at least 2 points"),
        pytest.param([*BAGS[:2], np.zeros(2)], SHARES, "bag 2 must hold at least", marks=refusal),
        ([*BAGS[:2], np.zeros((2, 0))], SHARES, "bag 2 must hold at least 2 points by 1 feature"),
        ([BAGS[0], np.zeros((4, 3)), BAGS[2]], SHARES, "2 in bag 0 and 3 in bag 1"),
        ([BAGS[0], np.full((4, 2), np.inf), BAGS[2]], SHARES, "bag 1 must be finite"),
    ],
)  # fmt: skip
def test_bags_that_cannot_be_learned_from_are_refused(bags, shares, message):
    with pytest.raises(ValueError, match=message):
        LabelledBags.of(bags, shares)


@pytest.mark.parametrize(
    ("noise", "message"),
    [
        pytest.param(np.zeros((3, 2)), "one covariance of the classes per bag", marks=refusal),
        (np.full((3, 2, 2), np.nan), "finite"),
        (np.tile([[1.0, 0.5], [0.0, 1.0]], (3, 1, 1)), "symmetric"),
        (np.tile([[1.0, 2.0], [2.0, 1.0]], (3, 1, 1)), "positive semi-definite"),
    ],
)
def test_noise_that_is_no_covariance_is_refused(noise, message):
    with pytest.raises(ValueError, match=message):
        LabelledBags.of(BAGS, SHARES, noise)


def test_evidence_is_the_points_and_falls_with_the_noise():
    """n / (1 + n tr C): 20 / (1 + 20 x 0.2) = 4; without noise the points."""
    points, shares = [np.zeros((20, 1)), np.ones((5, 1))], np.array([[0.9, 0.1], [0.2, 0.8]])
    noise = np.array([[[0.1, -0.1], [-0.1, 0.1]], np.zeros((2, 2))])
    assert LabelledBags.of(points, shares).evidence.tolist() == [20.0, 5.0]
    assert LabelledBags.of(points, shares, noise).evidence == pytest.approx([4.0, 5.0])


ROWS = [np.arange(20.0).reshape(10, 2), 100 + np.arange(6.0).reshape(3, 2)]


def cut(bag, length):
    return [bag[first : first + length] for first in range(0, len(bag), length)]


def total(block, weight):
    return weight * float(block.sum())


@pytest.mark.parametrize("length", [1, 4, 10])
def test_rows_are_the_bags_however_they_are_cut(length):
    passes = LocalBlocks([cut(bag, length) for bag in ROWS])
    assert isinstance(passes, BagPasses)
    assert passes.sizes().tolist() == [10, 3]
    places = [np.array([0, 3, 9]), np.array([], dtype=int)]
    for found, bag, wanted in zip(passes.take(places), ROWS, places, strict=True):
        assert found.tolist() == bag[wanted].tolist()
    by_bag = list(passes.each(total, 2.0))
    assert [sum(parts) for parts in by_bag] == [2 * bag.sum() for bag in ROWS]
    assert [len(parts) for parts in by_bag] == [-(-len(bag) // length) for bag in ROWS]


def test_one_block_at_a_time_is_asked_for():
    asked, done = [], []

    class Told:
        def __iter__(self):
            for number in range(4):
                assert len(done) == len(asked)
                asked.append(number)
                yield np.full((2, 1), float(number))

    def work(block, _):
        done.append(float(block[0, 0]))

    list(LocalBlocks([Told()]).each(work, None))
    assert done == [0.0, 1.0, 2.0, 3.0]


def test_a_bag_that_can_be_read_once_only_is_refused():
    with pytest.raises(ValueError, match="bag 1 must yield its blocks anew each time"):
        LocalBlocks([[ROWS[0]], iter([ROWS[1]])])


@pytest.mark.parametrize("other", [np.zeros((5, 1)), np.zeros(5)], ids=str)
@refusal
def test_blocks_of_other_features_than_those_before_are_refused(other):
    passes = LocalBlocks([[np.zeros((3, 2)), other]])
    with pytest.raises(ValueError, match=r"same features, got shape=\(5,.* after shape=\(3, 2\)"):
        passes.take([np.array([0, 4])])


def test_an_empty_bag_has_no_rows():
    passes = LocalBlocks([[]])
    assert passes.sizes().tolist() == [0]
    assert passes.take([np.array([], dtype=int)])[0].shape == (0, 1)


def shifted_bags(rng, unit):
    """Bags whose second feature is 0, their shares, and an unlabelled one by its values in that unit."""
    second = np.array([40, 100, 160, 120, 80])
    columns = [np.append(rng.normal(size=200 - k), 2 + rng.normal(size=k)) for k in second]
    bags = [np.column_stack([column, np.zeros(200)]) for column in columns]
    shares = np.column_stack([1 - second / 200, second / 200])
    point = np.append(rng.normal(size=120), 2 + rng.normal(size=80))
    return bags, shares, lambda value: np.column_stack([point, np.broadcast_to(value * unit, 200)])


@pytest.mark.parametrize("unit", [1.0, 1000.0])
def test_a_feature_that_is_constant_in_labelled_bags_moves_no_ratio_in_any_unit(unit):
    bags, shares, bag = shifted_bags(np.random.default_rng(0), unit)
    alone = learn_ratios([one[:, :1] for one in bags], shares).ratio(bag(0.0)[:, :1])
    model = learn_ratios(bags, shares)
    streamed = learn_streamed_ratios([[one[:90], one[90:]] for one in bags], shares)
    of_blocks = streamed.ratio([bag(0.0)])
    for value, is_mixture in ((0.0, True), (np.eye(200)[3], True), (0.05, False)):
        found, blocks = model.ratio(bag(value)), streamed.ratio([bag(value)[:80], bag(value)[80:]])
        np.testing.assert_allclose(found.ratio, alone.ratio, rtol=1e-9)
        np.testing.assert_allclose(blocks.ratio, of_blocks.ratio, rtol=1e-9)
        for one in (found, blocks):
            assert (one.interval is not None) == one.diagnostics.is_mixture == is_mixture
            assert any("not a mixture" in doubt for doubt in one.diagnostics.warnings) != is_mixture


def test_a_value_that_no_labelled_point_has_is_rare_by_chance_at_its_level(rng):
    """Flags of one point in 300; the labelled points that show none of some are 200 of each class."""
    alarms = 0
    for _ in range(400):
        labelled, bag = rng.random((400, 30)) < 1 / 300, rng.random((100, 30)) < 1 / 300
        known = ConstantFeatures.of(
            labelled.astype(float), ~labelled.any(axis=0), np.array([200, 200]), np.eye(2)
        )
        alarms += known.p_value(known.others(bag.astype(float)), 100) < 0.05
    assert alarms <= 20


def test_rounding_to_single_precision_is_no_other_value():
    point = np.full((3, 2), 0.1)
    known = ConstantFeatures.of(point, np.array([True, True]), np.array([3]), np.ones((1, 1)))
    assert known.others(point.astype(np.float32).astype(float)).tolist() == [0, 0]
    assert known.others(1.001 * point).tolist() == [3, 3]
