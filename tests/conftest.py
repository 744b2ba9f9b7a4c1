"""What every test shares: where the real data lie, and a seeded generator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture
def shared_data() -> Path:
    """The folder of real crowd data; tests that need it are skipped, with the reason, where it is missing."""
    if not DATA.is_dir():
        pytest.skip("the shared data folder is not beside the project")
    return DATA


@pytest.fixture(params=[0])
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """A seeded generator; a test must hold for any seed."""
    return np.random.default_rng(request.param)
