import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.learners.span_matching import span_matching


@settings(deadline=None, derandomize=True, max_examples=30)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_mixture_of_labelled_bags_gets_that_mixture_of_their_proportions(seed):
    rng = np.random.default_rng(seed)
    mean, mixture = rng.normal(size=(4, 9)), rng.dirichlet(np.ones(3), size=4)
    share = rng.dirichlet(np.ones(4))
    gram = mean @ mean.T
    found = span_matching(gram, gram @ share, mixture)
    np.testing.assert_allclose(found, mixture.T @ share, atol=1e-6)


def test_the_ratio_is_on_the_simplex_whatever_the_weights_are():
    mixture = np.array([[0.9, 0.1], [0.1, 0.9]])
    found = span_matching(np.eye(2), np.array([3.0, -1.0]), mixture)
    assert found.sum() == pytest.approx(1)
    assert (found >= 0).all()
