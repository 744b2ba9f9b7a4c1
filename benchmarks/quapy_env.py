"""QuaPy 0.2.3 in an environment of its own, for side-by-side runs.

``run_there`` builds the environment once, in the user's cache folder, and runs a script in it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

__all__ = ["run_there"]

PACKAGES = ("quapy==0.2.3",)


def run_there(script: Path, *arguments: str) -> str | None:
    """What a script prints in QuaPy's environment; None where that cannot be built."""
    python = _environment()
    if python is None:
        return None
    command = [str(python), str(script), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _environment() -> Path | None:
    """The interpreter of the environment, built first if need be."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "crowdassay"
    folder = cache / "quapy-0.2.3"
    ready, python = folder / "ready", folder / "bin" / "python"
    if ready.exists():
        return python
    pip = (str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    try:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        subprocess.run([*pip, *PACKAGES], check=True)
    except subprocess.CalledProcessError:
        return None
    ready.touch()
    return python
