"""The sample campaign that comes with the package, copied to where its runs may be written."""

from __future__ import annotations

import shutil
from importlib.resources import as_file, files
from pathlib import Path

__all__ = ["copy_sample"]

NAMES = ("labels.csv", "tasks.csv", "gold.csv", "settings.toml")


def copy_sample(folder: Path) -> Path:
    """Copy the sample's files where they are missing; a settings file that was edited stays.

    Returns
    -------
    Path
        The copied settings file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        if not (folder / name).exists():
            with as_file(files("sample_data") / name) as source:
                shutil.copyfile(source, folder / name)
    return folder / "settings.toml"
