"""Decisions by expected loss, beside the whole table of losses."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quality.ordered import LOSSES, Loss, least_loss, loss_table

QUICK = settings(max_examples=200, deadline=None, derandomize=True)


@QUICK
@given(
    st.integers(1, 7).flatmap(lambda k: st.lists(st.integers(0, 5), min_size=k, max_size=k)),
    st.sampled_from(LOSSES),
)
def test_no_other_class_has_a_smaller_expected_loss(weights: list[int], loss: Loss) -> None:
    """Oracle: all expected losses, in whole numbers; the first of the least is chosen."""
    weight = np.array(weights) + (sum(weights) == 0)
    expected = (weight @ loss_table(loss, len(weight))).astype(int)
    found = least_loss((weight / weight.sum())[None], loss)
    assert found.label.tolist() == [expected.argmin()]
    assert found.tied.tolist() == [(expected == expected.min()).sum() > 1]


@pytest.mark.refusal
def test_a_name_that_is_no_loss_is_refused() -> None:
    with pytest.raises(ValueError, match="loss must be one of zero_one, absolute, squared"):
        least_loss(np.full((1, 2), 0.5), "cubed")  # type: ignore[arg-type]


@pytest.mark.refusal
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(
    "posterior",
    [np.full((1, 2), np.nan), np.zeros((3, 0)), np.array([0.5, 0.5]), np.array([[0.5, 0.6]]), -np.eye(2)],
)  # fmt: skip
def test_rows_that_are_no_distributions_are_refused(posterior: np.ndarray, loss: Loss) -> None:
    with pytest.raises(ValueError, match="posterior must"):
        least_loss(posterior, loss)


def test_the_rounding_allowed_is_a_share_of_the_largest_loss() -> None:
    """Of 2,000 classes the largest absolute loss is 1,999, not its square."""
    posterior = np.zeros((1, 2000))
    posterior[0, [999, 1000]] = 0.5 - 1e-7, 0.5 + 1e-7
    found = least_loss(posterior, "absolute")
    assert (found.label[0], found.tied[0]) == (1000, False)


@pytest.mark.refusal
@pytest.mark.parametrize("loss", LOSSES)
def test_numbers_of_any_width_are_taken(loss: Loss) -> None:
    for kind in (np.float16, np.longdouble):
        assert least_loss(np.array([[0.25, 0.75]], dtype=kind), loss).label.tolist() == [1]
