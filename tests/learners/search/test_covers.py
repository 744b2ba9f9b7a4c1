import numpy as np
import pytest

from learners.search.covers import FeatureCover, HyperplaneCover


def test_a_query_is_in_the_cell_of_each_feature_it_has():
    found = FeatureCover().fit(np.eye(3)).cells(np.array([[0, 2.0, -1.0], [0, 0, 0]]))
    assert [one.tolist() for one in found] == [[1, 2], []]


def test_each_partition_has_one_cell_for_a_known_query(rng):
    x = rng.normal(size=(300, 5))
    cells = HyperplaneCover(7, random_state=0).fit(x).cells(x)
    assert {len(one) for one in cells} == {7}
    assert (
        len({int(cell) for one in cells for cell in one})
        == max(int(one.max()) for one in cells) + 1
    )


def test_planes_are_so_many_that_a_cell_holds_about_ten(rng):
    x = rng.normal(size=(2000, 20))
    cells = np.concatenate(HyperplaneCover(5, random_state=0).fit(x).cells(x))
    assert 4 < len(cells) / (cells.max() + 1) < 25


def test_centred_planes_divide_positive_queries_better(rng):
    x = 5 + rng.random(size=(1000, 30))
    counts = [
        max(int(one.max()) for one in HyperplaneCover(1, 8, center, random_state=0).fit(x).cells(x))
        for center in (True, False)
    ]
    assert counts[0] > 3 * counts[1]


def test_a_pattern_that_no_training_query_had_is_in_no_cell(rng):
    fitted = HyperplaneCover(1, 40, random_state=0).fit(rng.normal(size=(5, 10)))
    assert [len(one) for one in fitted.cells(rng.normal(size=(50, 10)))] == [0] * 50


@pytest.mark.refusal
def test_numbers_out_of_range_are_refused():
    x = np.zeros((2, 2))
    with pytest.raises(ValueError, match="n_partitions must be"):
        HyperplaneCover(0).fit(x)
    with pytest.raises(ValueError, match="n_planes must be"):
        HyperplaneCover(n_planes=64).fit(x)


@pytest.mark.refusal
def test_a_number_may_be_numpys_and_a_text_is_refused(rng):
    queries = rng.normal(size=(9, 2))
    HyperplaneCover(np.int64(2), np.int64(3)).fit(queries)
    for odd in ("two", 1.5):
        with pytest.raises(ValueError, match="n_partitions must be a whole number"):
            HyperplaneCover(odd).fit(queries)


def test_sixty_three_planes_are_told_apart(rng):
    x = rng.normal(size=(50, 100))
    cells = np.concatenate(HyperplaneCover(1, 63, random_state=0).fit(x).cells(x))
    assert sorted(cells.tolist()) == list(range(50))
