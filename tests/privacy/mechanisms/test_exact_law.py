"""The public law of noise: its edges. What it holds is compared with enumeration beside each mechanism."""

import math

import numpy as np
import pytest

from privacy.mechanisms import ExactLaw

COIN = np.array([-1, 0, 1]), np.array([0.25, 0.5, 0.25])


def law(n_classes=2):
    return ExactLaw(1.0, n_classes, *(one.copy() for one in COIN))


def test_the_level_of_an_interval_is_above_none_and_below_all():
    assert [law().half_width(level) for level in (1e-9, 0.5, 0.51, 1 - 1e-9)] == [0, 0, 1, 1]
    for level in (0.0, 1.0, math.nan):
        with pytest.raises(ValueError, match=r"level must be in \(0, 1 - 1e-9\], got level="):
            law().half_width(level)


def test_noise_on_other_classes_cannot_be_added():
    with pytest.raises(ValueError, match="laws must be of as many classes, got 2 and 3"):
        law(2).plus(law(3))


def test_a_law_is_read_only():
    for array in (law().support, law().probability):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_no_noise_has_no_kurtosis():
    assert ExactLaw(1.0, 2, np.array([0]), np.array([1.0])).kurtosis == 0.0
