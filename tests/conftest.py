"""Fixtures of all tests: the folder of real data, a seeded generator, Ctrl-C, no stray files, and streams."""

from __future__ import annotations

import functools
import logging
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import typer.testing
from absl.logging import PythonHandler

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session", autouse=True)
def nothing_is_left_behind(pytestconfig: pytest.Config) -> Iterator[None]:
    """Tests write into temporary folders; tools keep their caches in hidden ones."""
    root = pytestconfig.rootpath
    before = {path.name for path in root.iterdir()}
    yield
    left = {path.name for path in root.iterdir()} - before
    strays = sorted(name for name in left if not name.startswith("."))
    assert strays == [], f"tests left files in {root}: let them work in tmp_path"


@pytest.fixture(scope="session", autouse=True)
def captured_streams_stay_open() -> None:
    """absl, which dp-accounting brings, closes the stream that it met when Prefect sets up logging.

    Under a CliRunner that is pytest's own: every later test of the process would fail.
    """
    PythonHandler.close = logging.StreamHandler.close


@pytest.fixture(scope="session", autouse=True)
def the_command_line_is_built_once() -> None:
    """A CliRunner builds all commands anew for each call, which takes as long as most of them."""
    typer.testing._get_command = functools.cache(typer.main.get_command)  # type: ignore[attr-defined]


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
