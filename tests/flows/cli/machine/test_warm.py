"""The command that compiles kernels ahead: nothing is left to compile for a run after it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flows.cli import app
from flows.cli.kernels import _fit_crowdkit, _some_labels, notice
from quality.parallel import KernelFolders

RUN = """
import sys
from pathlib import Path
from flows.cli import kernels
folder = Path(sys.argv[1])
kernels._run_sample(folder / "whole")
print("whole", kernels._n_compiled())
kernels._run_sharded(folder / "shards")
print("in shards", kernels._n_compiled())
kernels._fit_crowdkit(kernels._some_labels(2))
print("as crowd-kit", kernels._n_compiled())
kernels._watch()
kernels._map_concepts()
kernels._simulate(folder / "crowd")
kernels._simulate_neurons()
kernels._judge()
print("watched, mapped, simulated and judged", kernels._n_compiled())
"""
FRESH = """
import pkgutil
from importlib import import_module
from flows.cli import kernels
print(kernels.compile_kernels())
for room in kernels.ROOMS:
    for module in pkgutil.walk_packages(import_module(room).__path__, f"{room}."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
for one in kernels._kernels():
    if not one.signatures:
        print(one.py_func.__module__, one.py_func.__name__)
"""


def call(*arguments: str, kernels: Path) -> str:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(kernels)}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return done.stdout


@pytest.mark.slow
def test_warm_calls_every_kernel_and_after_it_runs_and_estimators_compile_nothing(
    tmp_path: Path,
) -> None:
    """Runs of the sample, whole and in shards."""
    kernels = tmp_path / "kernels"
    n_compiled, *never_called = call("-c", FRESH, kernels=kernels).splitlines()
    assert int(n_compiled) > 40
    assert never_called == []
    told = call("-c", RUN, str(tmp_path / "sample"), kernels=kernels)
    assert told.splitlines() == [
        "whole 0", "in shards 0", "as crowd-kit 0", "watched, mapped, simulated and judged 0",
    ]  # fmt: skip
    again = call("-m", "flows.cli", "warm", kernels=kernels)
    assert again.startswith("0 kernels compiled")
    assert f"kept in {kernels}" in again.replace("\n", "")


def test_every_estimator_with_crowd_kits_names_is_fitted() -> None:
    """Also one that is added, or whose arguments change."""
    _fit_crowdkit(_some_labels(2))


def test_help_has_an_example() -> None:
    done = CliRunner().invoke(app, ["warm", "--help"])
    assert done.exit_code == 0
    assert "crowdassay warm" in done.output


@pytest.mark.parametrize(
    ("folders", "expected"),
    [
        (KernelFolders((Path("/k/q"),), Path("/k/q"), temporary=False), None),
        (KernelFolders((Path("/k/q"),), None, temporary=False), None),
        (KernelFolders((Path("/t/q"),), Path("/t/q"), temporary=True), "temporary files, in /t/q"),
        (KernelFolders((), None, temporary=False), "compiles them anew"),
    ],
    ids=["kept", "read", "temporary", "none"],
)
def test_a_makeshift_is_mentioned_and_nothing_else(
    folders: KernelFolders, expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quality.parallel.kernel_folders", lambda: folders)
    found = notice()
    assert found is None if expected is None else expected in (found or "")
