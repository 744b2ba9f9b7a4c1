"""Fixtures of all tests: the folder of real data, a seeded generator, and Ctrl-C."""

from __future__ import annotations

import signal
from collections.abc import Iterator
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


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Ctrl-C and the terminal's end work, here and in children; `nohup make test &` starts both ignored."""
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    hangup = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGINT, former)
    signal.signal(signal.SIGHUP, hangup)
