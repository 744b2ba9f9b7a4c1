import pickle

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import compute, parquet

from learners.class_ratios.bags import LabelledBags, LocalBlocks
from learners.class_ratios.kernel_matching import NystroemMatcher
from learners.class_ratios.matched_means import MatchedMeans, covariances_of
from learners.class_ratios.mean_matching import parts_left_out
from learners.class_ratios.streamed import learn_streamed_ratios

SHARES = np.array([[0.8, 0.2], [0.5, 0.5], [0.3, 0.7], [0.1, 0.9]])


def drawn(seed=0, size=80):
    """Four bags of two Gaussian classes, and an unlabelled one of shares 0.4 and 0.6."""
    rng = np.random.default_rng(seed)

    def bag(share):
        label = np.arange(size) >= round(share * size)
        return rng.normal(size=(size, 2)) + 3.0 * label[:, None]

    return [bag(share[0]) for share in SHARES], bag(0.4)


def cut(bag, length):
    return [bag[first : first + length] for first in range(0, len(bag), length)]


@pytest.mark.parametrize(
    "noise", [None, np.tile(1e-3 * np.array([[1.0, -1.0], [-1.0, 1.0]]), (4, 1, 1))]
)
def test_how_rows_are_cut_into_blocks_does_not_matter(noise):
    bags, unlabelled = drawn()
    found = []
    for length in (80, 7, 1):
        model = learn_streamed_ratios([cut(bag, length) for bag in bags], SHARES, noise=noise)
        found.append(model.ratio(cut(unlabelled, length)))
    for one in found[1:]:
        np.testing.assert_allclose(one.ratio, found[0].ratio, rtol=0, atol=1e-12)
        np.testing.assert_allclose(one.interval, found[0].interval, rtol=0, atol=1e-10)


def matched_at_once(model, bags, shares=SHARES):
    """Oracle: the model's landmarks, every row in memory, every length taken."""
    scaled = [bag / model.features.scale for bag in bags]
    features, labelled = model.features.features, LabelledBags.of(scaled, shares)
    mean = np.array([features(bag).mean(axis=0) for bag in scaled])
    own = np.array([np.square(features(bag)).sum(axis=1).mean() for bag in scaled])
    products = covariances_of([features(bag) @ mean.T for bag in scaled])
    return MatchedMeans.of(labelled, mean @ mean.T, own, products), mean


def test_blocks_give_what_all_rows_give_at_once():
    bags, unlabelled = drawn()
    model = learn_streamed_ratios([cut(bag, 9) for bag in bags], SHARES)
    whole, mean = matched_at_once(model, bags)
    product = model.features.features(unlabelled / model.features.scale) @ mean.T
    found = model.ratio(cut(unlabelled, 9))
    np.testing.assert_allclose(found.ratio, whole.ratio(product), rtol=0, atol=1e-12)
    interval = whole.interval(whole.bag_mean(product), 0.9)
    np.testing.assert_allclose(found.interval, interval, rtol=0, atol=1e-10)


def of_three_classes(size, unlike, seed=0):
    """Forty bags in which classes look the same but for shifts of size `unlike`, and their shares."""
    rng = np.random.default_rng(seed)
    centre, bags, shares = rng.normal(size=(3, 4)), [], []
    for share in rng.dirichlet(np.full(3, 3.0), size=40):
        label = rng.choice(3, size=size, p=share)
        middle = centre + unlike * rng.normal(size=centre.shape)
        bags.append([middle[label] + rng.normal(size=(size, 4))])
        shares.append(np.bincount(label, minlength=3) / size)
    return bags, np.array(shares)


@pytest.mark.long
@pytest.mark.parametrize("size", [50, 1000])
def test_the_errors_of_bags_left_out_are_those_of_all_rows(size):
    """The oracle learns from the bags that are left, and predicts those left out."""
    bags, shares = of_three_classes(size, 0.0)
    errors = []
    for part in parts_left_out(shares):
        rest = [bag for bag in range(len(bags)) if bag not in part]
        model = learn_streamed_ratios([bags[bag] for bag in rest], shares[rest])
        found = model.ratios([bags[bag] for bag in part])
        errors += [
            np.abs(one.ratio - shares[bag]).sum() for one, bag in zip(found, part, strict=True)
        ]
    known = learn_streamed_ratios(bags, shares).ratio(bags[0]).diagnostics
    assert known.error_left_out == pytest.approx(np.mean(errors), rel=0.3)
    assert known.error_left_out < known.expected_left_out < 3 * known.error_left_out


def test_bags_in_which_classes_look_unlike_are_told_by_all_rows():
    """By a sample of 5000 rows the error would be as large where classes look the same."""
    warned = []
    for unlike in (0.0, 0.3):
        bags, shares = of_three_classes(1000, unlike)
        warnings = learn_streamed_ratios(bags, shares).ratio(bags[0]).diagnostics.warnings
        warned.append(any("left out were off by" in text for text in warnings))
    assert warned == [False, True]


def test_the_samples_correction_moves_a_ratio_by_less_than_a_thousandth_of_its_interval():
    """Eight features, so that the landmarks leave much of a point's length out."""
    rng = np.random.default_rng(0)
    centre = rng.normal(size=(2, 8))

    def bag(share):
        label = rng.random(3000) >= share
        return centre[label.astype(int)] + rng.normal(size=(3000, 8))

    bags, unlabelled = [bag(share[0]) for share in SHARES], bag(0.4)
    model = learn_streamed_ratios([cut(one, 1000) for one in bags], SHARES)
    whole, mean = matched_at_once(model, bags)
    assert not np.allclose(model.means.own, whole.own, rtol=0, atol=1e-5)
    np.testing.assert_allclose(model.means.own, whole.own, rtol=0, atol=0.02)
    np.testing.assert_allclose(model.mean, mean, rtol=0, atol=1e-11)
    found = model.ratio(cut(unlabelled, 1000))
    product = model.features.features(unlabelled / model.features.scale) @ mean.T
    width = np.diff(found.interval)[0, 0]
    assert np.abs(found.ratio - whole.ratio(product)).max() < width / 1000


def test_a_small_sample_chooses_and_all_rows_are_matched(monkeypatch):
    monkeypatch.setattr("learners.class_ratios.streamed.SAMPLE_POINTS", 120)
    bags, unlabelled = drawn(size=600)
    model = learn_streamed_ratios([cut(bag, 50) for bag in bags], SHARES)
    assert model.shares.size.tolist() == [600] * 4
    found = model.ratio(cut(unlabelled, 50))
    np.testing.assert_allclose(found.ratio, [0.4, 0.6], atol=0.05)  # seed fixed
    memory = NystroemMatcher.of(
        LabelledBags.of([bag / model.features.scale for bag in bags], SHARES), model.bandwidth
    )
    means, product = memory.match(unlabelled / model.features.scale)
    np.testing.assert_allclose(found.ratio, means.ratio(product), atol=0.03)


@pytest.mark.long
@pytest.mark.parametrize("noise", [None, np.tile(1e-4 * (np.eye(2) - 0.5), (4, 1, 1))])
def test_covariances_of_a_sample_have_the_error_of_its_rows(noise, monkeypatch):
    """Of r rows of a bag, a few times sqrt(2 / r): nowhere more than six."""
    bags, unlabelled = drawn(size=20_000)
    blocks, unknown = [cut(bag, 1000) for bag in bags], cut(unlabelled, 1000)
    whole = learn_streamed_ratios(blocks, SHARES, noise=noise)
    rows = 2_000
    monkeypatch.setattr("learners.class_ratios.streamed.SAMPLE_CELLS", rows * len(bags) * 2)
    some = learn_streamed_ratios(blocks, SHARES, noise=noise)
    assert np.array_equal(some.mean, whole.mean)
    size = np.linalg.norm(whole.means.error, axis=(1, 2))
    error = np.linalg.norm(some.means.error - whole.means.error, axis=(1, 2)) / size
    assert (error > 0).all()
    assert (error < 6 * np.sqrt(2 / rows)).all()
    found, expected = some.ratio(unknown), whole.ratio(unknown)
    width = np.diff(expected.interval)
    assert np.abs(found.ratio - expected.ratio).max() < width.min() / 50
    assert np.abs(np.diff(found.interval) / width - 1).max() < 2 * np.sqrt(2 / rows)


class Travelling(LocalBlocks):
    """Passes whose work, parameters and findings go through bytes, as to another process."""

    def each(self, work, parameters):
        sent = pickle.dumps((work, parameters))

        def there(block, _):
            its_work, its_parameters = pickle.loads(sent)
            return pickle.loads(pickle.dumps(its_work(block, its_parameters)))

        return super().each(there, None)


def test_blocks_worked_on_elsewhere_give_the_same_bytes():
    bags, unlabelled = drawn()
    blocks = [cut(bag, 9) for bag in bags]
    here, there = (learn_streamed_ratios(of, SHARES) for of in (blocks, Travelling(blocks)))
    new = [cut(unlabelled, 9), cut(bags[0], 7)]
    found = there.ratios(Travelling(new))
    for one, other, single in zip(found, here.ratios(new), map(here.ratio, new), strict=True):
        assert one.ratio.tobytes() == other.ratio.tobytes() == single.ratio.tobytes()
        assert one.interval.tobytes() == other.interval.tobytes() == single.interval.tobytes()


def test_a_bag_to_predict_may_be_read_once_only():
    bags, unlabelled = drawn()
    model = learn_streamed_ratios([[bag] for bag in bags], SHARES)
    once = model.ratio(iter([unlabelled]))
    assert once.ratio.tobytes() == model.ratio([unlabelled]).ratio.tobytes()


class ParquetBag:
    """The rows of one group of a Parquet file, a batch at a time."""

    def __init__(self, path, group):
        self.path, self.group = path, group

    def __iter__(self):
        with parquet.ParquetFile(self.path) as file:
            for batch in file.iter_batches(batch_size=50):
                rows = batch.filter(compute.equal(batch["group"], self.group))
                yield np.column_stack([rows["x"], rows["y"]])


def test_groups_of_a_parquet_file_are_bags(tmp_path):
    bags, unlabelled = drawn()
    rows = np.concatenate([*bags, unlabelled])
    columns = {"x": rows[:, 0], "y": rows[:, 1], "group": np.repeat(range(5), 80)}
    parquet.write_table(pa.table(columns), tmp_path / "tasks.parquet", row_group_size=70)
    *labelled, new = (ParquetBag(tmp_path / "tasks.parquet", group) for group in range(5))
    found = learn_streamed_ratios(labelled, SHARES).ratio(new)
    memory = learn_streamed_ratios([[bag] for bag in bags], SHARES).ratio([unlabelled])
    np.testing.assert_allclose(found.ratio, memory.ratio, rtol=0, atol=1e-12)


def test_a_bag_that_can_be_read_once_only_is_refused():
    bags, _ = drawn()
    with pytest.raises(ValueError, match="anew each time"):
        learn_streamed_ratios([iter(cut(bag, 9)) for bag in bags], SHARES)


@pytest.mark.parametrize(
    ("bag", "message"),
    [
        ([np.zeros((5, 3))], "must have 2 features"),
        ([np.full((5, 2), np.nan)], "finite"),
        ([np.zeros((1, 2))], "at least 2 points, got 1"),
        ([], "at least 2 points, got 0"),
    ],
)
def test_an_unlabelled_bag_that_does_not_fit_is_refused(bag, message):
    model = learn_streamed_ratios([[bag] for bag in drawn()[0]], SHARES)
    with pytest.raises(ValueError, match=message):
        model.ratio(bag)
