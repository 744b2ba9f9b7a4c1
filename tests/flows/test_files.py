"""Files that a user named for a result: new or overwritten on demand, whole or not at all, no input."""

from __future__ import annotations

import errno
import mmap
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from flows.files import (
    OutputError,
    OutputFile,
    forget_pages,
    map_texts,
    output_folder,
    text_parts,
    write_arrays,
    write_whole,
)


def write(text: str, path: Path) -> None:
    path.write_text(text)


def new(path: Path) -> None:
    write("new", path)


def links(path: Path, folder: Path) -> dict[str, Path]:
    """Other names of a file, in another folder beside it."""
    folder.mkdir()
    (folder / "symbolic.csv").symlink_to(path)
    (folder / "twice.csv").symlink_to(folder / "symbolic.csv")
    (folder / "hard.csv").hardlink_to(path)
    (folder / "folder").symlink_to(path.parent)
    return {
        "itself": path,
        "symbolic": folder / "symbolic.csv",
        "twice": folder / "twice.csv",
        "hard": folder / "hard.csv",
        "dots": folder / ".." / path.parent.name / path.name,
        "folder": folder / "folder" / path.name,
    }


WAYS = ("itself", "symbolic", "twice", "hard", "dots", "folder")


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_an_input_is_never_overwritten_by_whatever_name(
    tmp_path: Path, way: str, force: bool
) -> None:
    given = tmp_path / "given" / "labels.csv"
    given.parent.mkdir()
    write("raw", given)
    other = tmp_path / "other.csv"
    write("raw", other)
    name = links(given, tmp_path / "elsewhere")[way]
    with pytest.raises(OutputError, match="is an input of this command"):
        OutputFile(name, inputs=(other, given), force=force)
    assert given.read_text() == "raw"


def test_an_input_in_other_letters_case_is_not_overwritten(tmp_path: Path) -> None:
    """Where the file system ignores case it is the input; elsewhere it is another file."""
    given = tmp_path / "labels.csv"
    write("raw", given)
    same = (tmp_path / "LABELS.csv").exists()
    try:
        OutputFile(tmp_path / "LABELS.csv", inputs=(given,), force=True).write(new)
    except OutputError:
        assert same
    assert given.read_text() == "raw"


def test_a_file_that_becomes_an_input_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    given = tmp_path / "labels.csv"
    write("raw", given)
    output = OutputFile(tmp_path / "out.csv", inputs=(given,), force=True)
    output.path.hardlink_to(given)
    with pytest.raises(OutputError, match="is an input"):
        output.write(new)
    assert given.read_text() == "raw"


def test_nothing_is_added_to_a_folder_that_is_read(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="which this command reads"):
        OutputFile(tmp_path / "new.csv", inputs=(tmp_path,))


def test_without_force_nothing_is_overwritten(tmp_path: Path) -> None:
    output = tmp_path / "out.csv"
    write("mine", output)
    with pytest.raises(OutputError, match=r"exists; --force overwrites it"):
        OutputFile(output)
    OutputFile(output, force=True).write(new)
    assert output.read_text() == "new"
    assert list(tmp_path.iterdir()) == [output]


@pytest.mark.parametrize("linked", [True, False], ids=["hard links", "no hard links"])
@pytest.mark.parametrize("when", ["before it is written", "while it is written"])
def test_a_file_that_appears_meanwhile_is_not_overwritten(
    tmp_path: Path, when: str, linked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    if not linked:
        monkeypatch.setattr("os.link", refuse)
    output = OutputFile(tmp_path / "out.csv")
    if when.startswith("before"):
        write("mine", output.path)

    def meanwhile(aside: Path) -> None:
        write("new", aside)
        write("mine", output.path)

    with pytest.raises(OutputError, match="exists|not permitted"):
        output.write(meanwhile)
    assert output.path.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [output.path]


def test_where_there_are_no_hard_links_a_new_file_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr("os.link", refuse)
    OutputFile(tmp_path / "out.csv").write(new)
    assert (tmp_path / "out.csv").read_text() == "new"


def test_what_is_overwritten_keeps_its_link_and_its_permissions(tmp_path: Path) -> None:
    behind, link = tmp_path / "behind.csv", tmp_path / "link.csv"
    write("old", behind)
    behind.chmod(0o600)
    link.symlink_to(behind)
    OutputFile(link, force=True).write(new)
    assert link.is_symlink()
    assert behind.read_text() == "new"
    assert behind.stat().st_mode & 0o777 == 0o600


def test_a_new_file_has_the_permissions_of_any_new_file(tmp_path: Path) -> None:
    write("plain", tmp_path / "plain.csv")
    OutputFile(tmp_path / "out.csv").write(new)
    modes = {(tmp_path / name).stat().st_mode for name in ("plain.csv", "out.csv")}
    assert len(modes) == 1


def test_a_link_to_nothing_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "link.csv").symlink_to(tmp_path / "nothing.csv")
    with pytest.raises(OutputError, match="exists"):
        OutputFile(tmp_path / "link.csv")


def test_a_pipe_is_written_to_as_it_is(tmp_path: Path) -> None:
    """As in `--output >(gzip > rows.gz)` and `--output /dev/stdout`."""
    pipe, read = tmp_path / "pipe", list[str]()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    OutputFile(pipe).write(new)
    reader.join()
    assert read == ["new"]
    OutputFile(Path(os.devnull)).write(new)
    assert Path(os.devnull).is_char_device()


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("no/out.csv", "no must be a folder, and is not there; make it first"),
        ("file/out.csv", "out.csv cannot be written: Not a directory"),
        (".", "is a folder; name a file"),
        ("x" * 300, "cannot be written: File name too long"),
        ("loop", "exists"),
    ],
)
def test_what_cannot_be_written_is_one_sentence(tmp_path: Path, name: str, sentence: str) -> None:
    write("file", tmp_path / "file")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(OutputError, match=sentence):
        OutputFile(tmp_path / name)


@pytest.mark.parametrize("name", ["file", "file/folder"])
def test_a_file_in_a_folders_place_is_one_sentence(tmp_path: Path, name: str) -> None:
    write("mine", tmp_path / "file")
    with pytest.raises(OutputError, match="cannot be a folder for results"):
        output_folder(tmp_path / name)
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.skipif(
    not Path("/proc/self").exists(), reason="no folder that is there and never writable"
)
def test_a_folder_in_which_nothing_can_be_written_is_no_folder_for_results() -> None:
    """It is found before what it is for is paid."""
    with pytest.raises(OutputError, match="/proc/self cannot be a folder for results"):
        output_folder(Path("/proc/self"))


def test_a_full_disk_leaves_what_was_there(tmp_path: Path) -> None:
    def full(aside: Path) -> None:
        write("half", aside)
        raise OSError(errno.ENOSPC, "No space left on device")

    output = tmp_path / "out.csv"
    write("old", output)
    with pytest.raises(OutputError, match=r"out.csv cannot be written: No space left on device"):
        OutputFile(output, force=True).write(full)
    assert output.read_text() == "old"
    assert list(tmp_path.iterdir()) == [output]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_file_of_a_run_on_a_full_disk_is_a_mistake_told_in_a_sentence(
    tmp_path: Path, number: int
) -> None:
    """Also where `ulimit -f` bounds a file, which was a traceback."""

    def full(aside: Path) -> None:
        write("half", aside)
        raise OSError(number, os.strerror(number))

    path = tmp_path / "report.html"
    write("old", path)
    with pytest.raises(
        OutputError, match=f"report.html cannot be written: {os.strerror(number)}; make"
    ):
        write_whole(path, full)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


KILLED = """
import os, signal, sys
from pathlib import Path
from flows.files import OutputFile

path, force, fatal = Path(sys.argv[1]), sys.argv[2] == "True", int(sys.argv[3])
left = iter(range(fatal))

def die(*_):
    if next(left, None) is None:
        os.kill(os.getpid(), signal.SIGKILL)

def half(aside):
    with aside.open("w") as file:
        for part in ("n", "e", "w"):
            file.write(part)
            file.flush()
            die()

sys.addaudithook(lambda event, _: die() if event in STEPS else None)
STEPS = {"os.rename", "os.link", "os.remove", "os.rmdir", "os.mkdir", "open"}
OutputFile(path, force=force).write(half)
"""


@pytest.mark.parametrize("former", [None, "old"])
def test_a_killed_process_leaves_the_former_file_or_the_new_one(
    tmp_path: Path, former: str | None
) -> None:
    """Killed at each step that touches the disk, one after the other, until none is left."""
    output, found = tmp_path / "out.csv", []
    for fatal in range(100):
        output.unlink(missing_ok=True)
        if former is not None:
            write(former, output)
        asked = [str(output), str(former is not None), str(fatal)]
        done = subprocess.run([sys.executable, "-c", KILLED, *asked])
        found.append(output.read_text() if output.exists() else None)
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL
    assert fatal > 6
    switch = found.index("new")
    assert found == [former] * switch + ["new"] * (len(found) - switch)
    assert 5 < switch < len(found) - 1


ARRAYS = {
    "names": np.array(["ann", "ünï", ""]),
    "number": np.arange(7),
    "long name of an array": np.array(["a" * 40]),
    "none": np.empty(0, dtype="<U5"),
    "cells": np.array([["a", "b"], ["c", "d"]]),
}


def test_texts_are_mapped_where_they_lie_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "arrays.npz"
    write_arrays(path, ARRAYS)
    with np.load(path) as stored:
        assert set(stored.files) == set(ARRAYS)
        for name, array in ARRAYS.items():
            np.testing.assert_array_equal(stored[name], array)
    mapped = map_texts(path)
    assert set(mapped) == {"names", "long name of an array"}
    for name, array in mapped.items():
        np.testing.assert_array_equal(array, ARRAYS[name])
        assert isinstance(array.base, memoryview)
        assert isinstance(array.base.obj, mmap.mmap)
        assert array.flags.aligned
        assert not array.flags.writeable


def test_a_file_written_over_leaves_what_was_mapped(tmp_path: Path) -> None:
    path = tmp_path / "arrays.npz"
    write_arrays(path, {"names": np.array(["before"])})
    before = map_texts(path)["names"]
    write_arrays(path, {"names": np.array(["after"])})
    assert before.tolist() == ["before"]
    assert map_texts(path)["names"].tolist() == ["after"]


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux which pages are in memory")
def test_pages_of_mapped_texts_are_given_back_and_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "arrays.npz"
    names = np.array([f"task-{number:019d}" for number in range(200_000)])  # nineteen megabytes
    write_arrays(path, {"names": names})
    mapped = map_texts(path)["names"]
    np.testing.assert_array_equal(mapped, names)
    assert megabytes_in_memory(path) > 15
    forget_pages()
    assert megabytes_in_memory(path) < 1
    np.testing.assert_array_equal(mapped, names)


def megabytes_in_memory(path: Path) -> float:
    """Of a mapped file."""
    lines = Path("/proc/self/smaps").read_text(encoding="utf-8").splitlines()
    (at,) = (number for number, line in enumerate(lines) if line.endswith(str(path)))
    (held,) = (line for line in lines[at + 1 : at + 8] if line.startswith("Rss:"))
    return int(held.split()[1]) / 1e3


def test_of_a_compressed_file_nothing_is_mapped(tmp_path: Path) -> None:
    write_arrays(tmp_path / "arrays.npz", ARRAYS, compressed=True)
    assert map_texts(tmp_path / "arrays.npz") == {}


@pytest.mark.parametrize("at_once", [1, 2, 3, 2**20])
def test_texts_come_in_parts_in_their_order(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr("flows.files.TEXTS_AT_ONCE", at_once)
    names = ["b", "ü", "", "a", "b"]
    parts = list(text_parts(np.array(names)))
    assert [name for part in parts for name in part] == names
    assert {type(name) for part in parts for name in part} == {str}
    assert max(map(len, parts)) == min(at_once, len(names))
    assert list(text_parts(np.array(names)[:0])) == []
