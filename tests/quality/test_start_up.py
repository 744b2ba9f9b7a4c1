"""What it costs to begin: what an import loads, and that no kernel is compiled twice."""

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import quality
from quality import parallel
from quality.parallel import KernelFolders, kernel_folders

SOURCE = Path(quality.__file__).parent
find_folders = kernel_folders.__wrapped__  # not what was found before
# a penalty, from the names on; printed: the folders for kernels, and kernels loaded and compiled
WORK = """
import json, pkgutil, importlib
from numba.core.dispatcher import Dispatcher
import quality
from quality.parallel import kernel_folders
labels = quality.encode(["ann", "bob"] * 3, [1, 1, 2, 2, 3, 3], list("xyxxyy"))
quality.soft_penalty(labels)
hits = misses = 0
for found in pkgutil.walk_packages(quality.__path__, "quality."):
    for kernel in vars(importlib.import_module(found.name)).values():
        if isinstance(kernel, Dispatcher) and kernel.__module__ == found.name:
            hits += sum(kernel.stats.cache_hits.values())
            misses += sum(kernel.stats.cache_misses.values())
folders = kernel_folders()
print(json.dumps([quality.__file__, hits, misses, *map(str, folders.read), folders.temporary]))
"""
# the package at /mnt cannot be written, nor can any folder for temporary files where `hide` is so
READ_ONLY = """
set -e
mount --bind "$SITE" /mnt && mount -o remount,ro,bind /mnt
mount --bind "$PREFIX" /media  # the interpreter may stand below a hidden folder
for folder in $HIDDEN; do
    mount -t tmpfs none "$folder"
    case "$PREFIX" in "$folder"/*) mkdir -p "$PREFIX" && mount --bind /media "$PREFIX" ;; esac
    mount -o remount,ro "$folder"
done
cd /mnt
exec env -i PYTHONPATH=/mnt HOME=/proc/none "$@"
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


def test_a_kept_kernel_is_loaded_without_what_compiles_it() -> None:
    code = """
import sys, quality
quality.soft_penalty(quality.encode(["ann", "bob"] * 3, [1, 1, 2, 2, 3, 3], list("xyxxyy")))
print("numba.np.linalg" in sys.modules)
"""
    run(code)  # compiled and kept, if they are not yet
    assert run(code) == "False\n"


def names_in(path: Path) -> set[str]:
    """The names that a file's code uses, without what its docstrings show."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    imported = {node.name for node in nodes if isinstance(node, ast.alias)}
    attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    return imported | attributes | {node.id for node in nodes if isinstance(node, ast.Name)}


def test_every_kernel_is_kept_and_lets_other_threads_run() -> None:
    for path in SOURCE.rglob("*.py"):
        assert path.name == "parallel.py" or not names_in(path) & {"jit", "njit"}, path
    parallel = (SOURCE / "parallel.py").read_text(encoding="utf-8")
    assert parallel.count("njit(") == parallel.count("njit(nogil=True,") == 1
    assert parallel.count("dispatcher._cache = _KernelCache(") == 1


def copy_package(site: Path) -> None:
    shutil.copytree(SOURCE, site / "quality", ignore=shutil.ignore_patterns("__pycache__"))


@pytest.mark.long
def test_no_kernel_is_compiled_twice_where_the_package_cannot_be_written(tmp_path: Path) -> None:
    """A file stands where each cache folder would be: so not even root can make it."""
    site, home = tmp_path / "site", tmp_path / "home"
    copy_package(site)
    for folder in [site / "quality", *(site / "quality").iterdir()]:
        if folder.is_dir():
            (folder / "__pycache__").touch()
    environment = {"PYTHONPATH": str(site), "HOME": str(home), "XDG_CACHE_HOME": str(home)}
    where, hits, misses, *_ = json.loads(run(WORK, **environment))
    assert Path(where).parent == site / "quality"
    assert hits == 0
    assert misses > 2
    where, hits, misses, *_ = json.loads(run(WORK, **environment))
    assert misses == 0
    assert hits > 2
    assert list(home.rglob("*.nbi"))  # the user's own cache folder


def run_read_only(site: Path, *hidden: str, **environment: str) -> list[Any]:
    """Run the work where the package's file system is read-only and there is no home."""
    pairs = [f"{name}={value}" for name, value in environment.items()]
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", READ_ONLY, "sh", *pairs, sys.executable, "-P", "-c", WORK],
        env=os.environ | {"SITE": str(site), "HIDDEN": " ".join(hidden), "PREFIX": sys.prefix},
        check=True,
        capture_output=True,
        text=True,
    )
    return list(json.loads(done.stdout))


def may_mount() -> bool:
    """Whether this user may mount file systems in a name space of its own."""
    command = ["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"]
    try:
        return subprocess.run(command, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


mounts = pytest.mark.skipif(not may_mount(), reason="unshare and mount need rights of their own")


@pytest.mark.long
@mounts
def test_a_read_only_installation_without_a_home_keeps_kernels_in_a_private_folder(
    tmp_path: Path,
) -> None:
    site, temporary = tmp_path / "site", tmp_path / "temporary"
    copy_package(site)
    temporary.mkdir()
    first = run_read_only(site, TMPDIR=str(temporary))
    again = run_read_only(site, TMPDIR=str(temporary))
    private = temporary / f"crowdassay-kernels-{os.getuid()}"
    assert (first[1], again[2]) == (0, 0)
    assert min(first[2], again[1]) > 2
    assert Path(again[-2]).parent == private
    assert again[-1] is True
    assert private.stat().st_mode & 0o777 == 0o700


@mounts
def test_a_read_only_installation_without_any_folder_does_without_a_cache(tmp_path: Path) -> None:
    copy_package(tmp_path / "site")
    _, hits, misses, *folders = run_read_only(tmp_path / "site", "/tmp", "/var/tmp")
    assert hits == 0
    assert misses > 2
    assert folders == [False]


@pytest.mark.long
@mounts
def test_kernels_kept_beforehand_are_loaded_from_a_folder_that_cannot_be_written(
    tmp_path: Path,
) -> None:
    site = tmp_path / "site"
    copy_package(site)
    run_read_only(site, NUMBA_CACHE_DIR=str(tmp_path / "kernels"))
    (tmp_path / "kernels").rename(site / "kernels")
    _, hits, misses, *_ = run_read_only(site, "/tmp", "/var/tmp", NUMBA_CACHE_DIR="/mnt/kernels")
    assert misses == 0
    assert hits > 2


def test_no_folder_is_trusted_in_which_others_could_put_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "site" / "module.py"
    source.parent.mkdir()
    source.touch()
    (source.parent / "__pycache__").touch()
    monkeypatch.setattr(parallel, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(source / "none"))
    private = tmp_path / f"crowdassay-kernels-{os.getuid()}"
    kept = find_folders(source)
    assert (kept.temporary, kept.read) == (True, (kept.write,))
    assert kept.write is not None
    assert kept.write.parent == private
    private.chmod(0o750)
    assert find_folders(source) == KernelFolders((), None, temporary=False)
    private.rename(tmp_path / "other")
    private.symlink_to(tmp_path / "other")
    assert find_folders(source).read == ()
    monkeypatch.setattr(parallel.config, "CACHE_DIR", str(tmp_path / "open"))
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    assert find_folders(source).read == ()
    (tmp_path / "open").chmod(0o755)
    assert find_folders(source).write is not None
    monkeypatch.setattr(os, "getuid", lambda: 4711)  # another user: root's and the source's remain
    assert len(find_folders(source).read) == 1
