"""Fixtures of all tests: the folder of real data, and a seeded generator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture
def shared_data() -> Path:
    """Return the folder of real crowd data, or skip the test if it is missing."""
    if not DATA.is_dir():
        pytest.skip("the shared data folder is not beside the project")
    return DATA


@pytest.fixture(params=[0])
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """A seeded generator; a test must hold for any seed."""
    return np.random.default_rng(request.param)
