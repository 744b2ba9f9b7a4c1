import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import cdist
from sklearn.gaussian_process.kernels import RationalQuadratic

from learners.svm.proximities import coulomb_kernel, coulomb_radii, plummer_kernel


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0, 3.0])
def test_plummer_equals_scikit_learns_rational_quadratic(rng, exponent):
    x, centres = rng.normal(size=(20, 3)), rng.normal(size=(7, 3))
    found = plummer_kernel(x, centres, exponent=exponent, softening=1.5)
    oracle = RationalQuadratic(alpha=exponent / 2, length_scale=1.5 / np.sqrt(exponent))
    np.testing.assert_allclose(found, oracle(x, centres), rtol=1e-12)
    assert ((found > 0) & (found <= 1)).all()


def test_on_distinct_points_the_matrix_is_positive_definite(rng):
    x = rng.normal(size=(60, 2))
    assert np.linalg.eigvalsh(plummer_kernel(x, x, softening=0.5)).min() > 0


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0, 3.0])
def test_scaling_rows_centres_and_radii_by_s_scales_the_matrix_by_s_to_the_minus_l(rng, exponent):
    x, centres = rng.normal(size=(20, 3)), rng.normal(size=(7, 3))
    radius = coulomb_radii(centres)
    found = coulomb_kernel(x, centres, radius=radius, exponent=exponent)
    scaled = coulomb_kernel(10 * x, 10 * centres, radius=10 * radius, exponent=exponent)
    np.testing.assert_allclose(scaled, found * 10**-exponent, rtol=1e-10)


def test_a_sphere_reaches_half_of_the_way_to_the_nearest_other(rng):
    centres = rng.normal(size=(2100, 2)) + 1e4  # more than a block, far from the origin
    distance = np.linalg.norm(centres[:, None] - centres, axis=2)
    np.fill_diagonal(distance, np.inf)
    radius = coulomb_radii(centres)
    np.testing.assert_allclose(radius, distance.min(axis=1) / 2, rtol=1e-12)
    inside = coulomb_kernel(centres[:5], centres[:5], radius=radius[:5], exponent=2.0)
    np.testing.assert_allclose(inside.diagonal(), radius[:5] ** -2, rtol=1e-12)


@pytest.mark.parametrize("far", [1e6, 1e9, 1e12])
def test_a_row_far_out_leaves_the_others_their_digits(rng, far):
    """About the mean of the rows, which one such row moves, distances of one lost all of them."""
    rows = np.vstack([rng.normal(size=(30, 2)), [[far, 0.0]]])
    apart = cdist(rows, rows)
    np.testing.assert_allclose(plummer_kernel(rows, rows), (1 + apart**2) ** -0.5, atol=1e-9)
    np.fill_diagonal(apart, np.inf)
    np.testing.assert_allclose(coulomb_radii(rows), apart.min(axis=1) / 2)


@pytest.mark.parametrize("gap", [1e3, 1e9, 1e12])
def test_a_radius_is_of_the_nearest_of_many_that_are_near(rng, gap):
    """Two groups far apart: in one product all distances within a group are rounding."""
    rows = np.vstack([rng.normal(size=(20, 2)), gap + rng.normal(size=(20, 2))])
    apart = cdist(rows, rows)
    np.fill_diagonal(apart, np.inf)
    np.testing.assert_allclose(coulomb_radii(rows), apart.min(axis=1) / 2, rtol=1e-12)


def test_centres_that_coincide_are_refused_with_their_number():
    with pytest.raises(ValueError, match="distinct rows; 2 duplicated; use kernel='plummer'"):
        coulomb_radii(np.array([[0.0], [1.0], [0.0], [1.0], [2.0]]))
    with pytest.raises(ValueError, match="two rows or more, got 1"):
        coulomb_radii(np.array([[0.0]]))


@pytest.mark.parametrize("value", [0.0, -1.0, np.inf, np.nan])
def test_a_parameter_must_be_positive_and_finite(value):
    x = np.zeros((1, 1))
    with pytest.raises(ValueError, match="exponent must be > 0"):
        plummer_kernel(x, x, exponent=value)
    with pytest.raises(ValueError, match="softening must be > 0"):
        plummer_kernel(x, x, softening=value)
    with pytest.raises(ValueError, match="exponent must be > 0"):
        coulomb_kernel(x, x, radius=np.ones(1), exponent=value)
    if not value > 0:
        with pytest.raises(ValueError, match="radius must be > 0"):
            coulomb_kernel(x, x, radius=np.array([value]))


@pytest.mark.refusal
@pytest.mark.parametrize("kind", [pd.DataFrame, np.ndarray.tolist])
def test_data_frames_and_lists_give_the_kernels_of_the_arrays(rng, kind):
    x, centres = rng.normal(size=(20, 3)), rng.normal(size=(7, 3))
    np.testing.assert_array_equal(
        plummer_kernel(kind(x), kind(centres)), plummer_kernel(x, centres)
    )
    radius = coulomb_radii(kind(centres))
    np.testing.assert_array_equal(
        coulomb_kernel(kind(x), kind(centres), radius=radius.tolist()),
        coulomb_kernel(x, centres, radius=radius),
    )


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("x", "said"),
    [
        ([["a", "b", "c"]], "x must be numbers"),
        ([[1.0, 2.0, 3.0], [1.0]], "rows of several lengths"),
        ([[1.0, 2.0]], "x and centres must have the same features"),
    ],
)
def test_rows_that_are_no_matrix_of_numbers_are_refused_in_a_sentence(x, said):
    with pytest.raises(ValueError, match=said):
        plummer_kernel(x, np.eye(3))
    with pytest.raises(ValueError, match=said):
        coulomb_kernel(x, np.eye(3), radius=np.ones(3))
