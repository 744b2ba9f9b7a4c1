"""What it costs to begin: what an import loads, and that no kernel is compiled twice."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import quality

SOURCE = Path(quality.__file__).parent
# a vote, from the names on; printed: how many kernels were found in the cache, and how many not
WORK = """
import json, pkgutil, importlib
from numba.core.dispatcher import Dispatcher
import quality
labels = quality.encode(["ann", "bob"] * 3, [1, 1, 2, 2, 3, 3], list("xyxxyy"))
quality.majority_vote(labels)
hits = misses = 0
for found in pkgutil.walk_packages(quality.__path__, "quality."):
    for kernel in vars(importlib.import_module(found.name)).values():
        if isinstance(kernel, Dispatcher) and kernel.__module__ == found.name:
            hits += sum(kernel.stats.cache_hits.values())
            misses += sum(kernel.stats.cache_misses.values())
print(json.dumps([quality.__file__, hits, misses]))
"""


def run(code: str, **environment: str) -> str:
    """What a fresh interpreter prints."""
    command = [sys.executable, "-P", "-c", code]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return done.stdout


def test_an_import_loads_only_what_every_caller_needs() -> None:
    heavy = ["duckdb", "matplotlib", "pandas", "scipy.optimize", "scipy.stats", "sklearn"]
    code = f"import sys, quality; print([name for name in {heavy} if name in sys.modules])"
    assert run(code) == "[]\n"


def test_an_import_compiles_and_loads_no_kernel() -> None:
    code = """
import pkgutil, importlib, quality
from numba.core.dispatcher import Dispatcher
kernels = {
    name: kernel.signatures
    for found in pkgutil.walk_packages(quality.__path__, "quality.")
    for name, kernel in vars(importlib.import_module(found.name)).items()
    if isinstance(kernel, Dispatcher)
}
print(len(kernels) > 5, any(kernels.values()))
"""
    assert run(code) == "True False\n"


def test_every_kernel_is_kept_and_lets_other_threads_run() -> None:
    for path in SOURCE.rglob("*.py"):
        assert path.name == "parallel.py" or "njit" not in path.read_text(encoding="utf-8")
    assert "njit(cache=True, nogil=True," in (SOURCE / "parallel.py").read_text(encoding="utf-8")


def test_no_kernel_is_compiled_twice_where_the_package_cannot_be_written(tmp_path: Path) -> None:
    """A file stands where the cache folder would be: so not even root can make it."""
    site, home = tmp_path / "site", tmp_path / "home"
    shutil.copytree(SOURCE, site / "quality", ignore=shutil.ignore_patterns("__pycache__"))
    (site / "quality" / "__pycache__").touch()
    environment = {"PYTHONPATH": str(site), "HOME": str(home), "XDG_CACHE_HOME": str(home)}
    where, hits, misses = json.loads(run(WORK, **environment))
    assert Path(where).parent == site / "quality"
    assert hits == 0
    assert misses > 2
    where, hits, misses = json.loads(run(WORK, **environment))
    assert misses == 0
    assert hits > 2
    assert list(home.rglob("*.nbi"))  # the user's own cache folder
