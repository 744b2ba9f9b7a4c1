"""The run folder: built aside, written whole or not at all, renamed when the run is complete.

A run is built in `runs/.partial-<id>` and becomes `runs/<id>` in one rename, so that a folder without the
dot is a whole run. A run that died stays aside, and `--resume` goes on after its last whole stage.

Whoever works on a run holds the lock on the file `.lock` in its folder, which the system gives back when the
process ends, however it ends. Where the file system has no locks, host and process id in the manifest tell.

>>> run = Run(Path("runs/.partial-20261121T094500Z-web"), settings=None)
>>> run.final_name
'20261121T094500Z-web'
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from flows.files import KEY, file_digest, forget_pages, state_key, sync_folder, write_whole
from flows.settings import Settings, SettingsError, is_remote, key_at
from flows.tables import input_files, read_json, read_parquet, write_parquet

if TYPE_CHECKING:
    from quality import Progress

__all__ = [
    "MANIFEST", "PARTIAL", "Run", "alone_with", "code_version", "digest_key", "find_unfinished",
    "has_digest_key", "identity_of", "open_run", "publication_now", "read_on", "unfinished_runs",
]  # fmt: skip

MANIFEST = "manifest.json"
PARTIAL = ".partial-"
PRUNED = ".pruned-"
LOCK = ".lock"
REFUSED = (BlockingIOError, PermissionError)  # errors of file systems for a lock that is held
LOOKS, LOOK_SECONDS = 100, 0.01
HOUSEKEEPING = {"runs", "state", "keep_runs"}  # keys that no result depends on
PACKAGES = ("crowdassay", "numpy", "scipy", "numba", "scikit-learn", "opendp", "duckdb", "pyarrow")


@dataclass(frozen=True, slots=True)
class Run:
    """One run's folder and its settings: all that one stage hands to the next."""

    folder: Path
    settings: Settings = field(repr=False)
    progress: Progress | None = field(default=None, repr=False, compare=False)  # of long work

    @property
    def final_name(self) -> str:
        """The name that the folder has when the run is complete."""
        return self.folder.name.removeprefix(PARTIAL)

    def waits_for(self, what: str) -> None:
        """Report which work begins, where its steps are not counted; names read before leave memory."""
        forget_pages()
        if self.progress is not None:
            self.progress(what, 0, 1)

    def read_json(self, name: str) -> dict[str, Any]:
        """Read a JSON output of an earlier stage."""
        return read_json(self.folder / name)

    def write_json(self, name: str, value: dict[str, Any]) -> None:
        """Write a JSON output, whole or not at all."""
        text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        write_whole(self.folder / name, lambda path: path.write_text(text, encoding="utf-8"))

    def skip(self, output: str, reason: str, **terms: Any) -> str:
        """Write why a stage is skipped in place of its JSON output, and `terms`; return the stage's line."""
        self.write_json(output, {"skipped": reason, **terms})
        return f"skipped: {reason}"

    def read_table(self, name: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Read a Parquet output of an earlier stage, whole or some of its columns."""
        return read_parquet(self.folder / name, columns)

    def write_table(self, name: str, table: pa.Table) -> None:
        """Write a Parquet output, whole or not at all."""
        self.write_rows(name, (table,))

    def write_rows(self, name: str, parts: Iterable[pa.Table]) -> None:
        """Write a Parquet output from parts, one or more, of which one is in memory at a time."""
        write_whole(self.folder / name, lambda path: write_parquet(path, parts))

    def finished(self, stage: str) -> dict[str, Any] | None:
        """Return the manifest's record of a stage that is whole, or None."""
        record: dict[str, Any] | None = self.read_json(MANIFEST)["stages"].get(stage)
        return record

    def record(self, stage: str, line: str, seconds: float) -> None:
        """Record in the manifest that a stage's outputs are whole."""
        manifest = self.read_json(MANIFEST)
        manifest["stages"][stage] = {"line": line, "seconds": round(seconds, 3)}
        self.write_json(MANIFEST, manifest)

    @property
    def publication(self) -> str | None:
        """The public key under which the run publishes, chosen when it began; None without one."""
        key: str | None = self.read_json(MANIFEST).get("publication")
        return key

    def keep_head(self, n_rows: int, seal: str) -> None:
        """Record in the manifest where the ledger stood after this run had paid."""
        manifest = self.read_json(MANIFEST)
        self.write_json(MANIFEST, manifest | {"ledger": {"n_rows": n_rows, "seal": seal}})

    @property
    def whole_stages(self) -> tuple[str, ...]:
        """Names of the stages whose outputs are whole, in their order."""
        return tuple(self.read_json(MANIFEST)["stages"])

    def work(self) -> dict[str, Any]:
        """Return the digest of settings and inputs, and the code's versions."""
        manifest = self.read_json(MANIFEST)
        return {key: manifest[key] for key in ("identity", "python", "versions")}

    def close(self) -> Run:
        """Mark the run complete and move its folder to its final name."""
        manifest = self.read_json(MANIFEST)
        manifest["state"] = "complete"
        manifest["ended"] = _now().isoformat(timespec="seconds")
        self.write_json(MANIFEST, manifest)
        read_on(self)
        final = self.folder.with_name(self.final_name)
        try:
            self.folder.rename(final)
            (final / LOCK).unlink(missing_ok=True)
        finally:
            self.release()
        sync_folder(final.parent)
        return Run(final, self.settings)

    def begin(self) -> None:
        """Note in the manifest that this process works on the run."""
        manifest = self.read_json(MANIFEST) | {"state": "running", "ended": None}
        self.write_json(MANIFEST, manifest | {"process": _process(self.folder)})

    def stop(self, state: Literal["cancelled", "failed"]) -> None:
        """Note in the manifest how a run stopped that did not end; it stays aside, to be resumed."""
        ended = _now().isoformat(timespec="seconds")
        try:
            self.write_json(MANIFEST, self.read_json(MANIFEST) | {"state": state, "ended": ended})
        finally:
            self.release()

    def discard(self) -> None:
        """Remove the folder of a run without anything worth keeping; FileNotFoundError if it is gone.

        It is first renamed, so that no half of a run is ever taken for a run.
        """
        aside = self.folder.with_name(f"{PRUNED}{self.folder.name}")
        try:
            self.folder.rename(aside)
        finally:
            self.release()
        with suppress(FileNotFoundError):  # another process prunes too, and removes what it finds
            shutil.rmtree(aside)

    def hold(self) -> bool:
        """Lock the folder until it is released or this process ends; False if it is locked or missing.

        True also where the file system has no locks, since nothing is known there.
        """
        if _is_held_here(self.folder):
            return True
        self.release()  # of a folder that had this name before
        try:
            descriptor = os.open(self.folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError:
            return self.folder.is_dir()
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            return not isinstance(error, REFUSED)
        _HELD[self.folder] = descriptor
        if _is_held_here(self.folder):
            return True
        self.release()  # the run has ended meanwhile, and its folder is another by now
        return False

    def release(self) -> None:
        """Let another process work on the run."""
        descriptor = _HELD.pop(self.folder, None)
        if descriptor is not None:
            os.close(descriptor)


def open_run(settings: Settings, *, resume: bool = False) -> Run:
    """Start a run folder, or with `resume` go on in the newest one that died on these settings and inputs.

    Raises
    ------
    SettingsError
        If the folder of the runs cannot be made or written.

    Notes
    -----
    **Guarantees.** (1) No two processes work on one run where the file system has locks, also not two that
    begin at once. (2) A run is resumed under the versions of Python and packages that its manifest names.
    """
    wanted = identity_of(settings)
    run = _taken_up(settings, wanted) if resume else None
    if run is not None:
        asked = {"identity": wanted, "settings": settings.model_dump(mode="json")}
        run.write_json(MANIFEST, run.read_json(MANIFEST) | asked)  # of another budget, perhaps
        run.begin()
        return run
    try:
        # its owner's alone: names of runs show when data were new
        settings.runs.mkdir(mode=0o700, parents=True, exist_ok=True)
        run = Run(_new_folder(settings), settings)
    except OSError as error:
        raise SettingsError(
            f"runs must be a folder that can be made and written, got {settings.runs}: {error.strerror}"
        ) from None
    run.hold()  # before it has a manifest, by which others find it
    try:
        run.write_json(MANIFEST, _manifest(run, wanted))
    except BaseException:  # a full disk, or Ctrl-C: nobody would find the folder again
        with suppress(OSError):
            run.discard()
        raise
    return run


def _taken_up(settings: Settings, identity: str) -> Run | None:
    """Return the newest run that died on these settings and inputs, locked for this process, or None."""
    for _ in range(LOOKS):
        run = find_unfinished(settings, identity)
        if run is None or run.hold():
            return run
        time.sleep(LOOK_SECONDS)  # another was faster, or looks at the lock just now
    return None


def find_unfinished(settings: Settings, identity: str) -> Run | None:
    """Return the newest run that died on these settings and inputs, or None.

    A run on which another process works has not died: two would write one folder. A run begun by other
    versions of Python or packages is left, too: its stages would be of two versions, and its manifest names
    one.
    """
    for run in unfinished_runs(settings):
        with suppress(FileNotFoundError):  # it has just ended
            if at_work(run) != "another" and _goes_on(run, identity):
                return run
    return None


def _goes_on(run: Run, identity: str) -> bool:
    """Return whether a run that did not end began on its present settings, inputs of this identity and code.

    Until the run has published, its budget may change: no earlier result depends on it.
    """
    manifest, privacy = run.read_json(MANIFEST), run.settings.privacy
    begun = manifest["settings"]["privacy"]
    if other_versions(run):
        return False
    if manifest["identity"] == identity:
        return True
    if privacy is None or begun is None or begun["epsilon"] == privacy.epsilon:
        return False
    under_it = privacy.model_copy(update={"epsilon": begun["epsilon"]})
    same = manifest["identity"] == identity_of(
        run.settings.model_copy(update={"privacy": under_it})
    )
    return same and not (run.folder / "proportions.json").is_file()


def at_work(run: Run) -> Literal["this", "another"] | None:
    """Return whether this or another process works on a run, None for neither: by lock or process id.

    Without a lock another machine's process cannot be checked: it counts as gone.
    """
    held = _is_held_elsewhere(run.folder)
    if held:
        return "another"
    manifest = run.read_json(MANIFEST)
    process = manifest.get("process") or {}
    if manifest["state"] != "running" or process.get("host") != platform.node():
        return None
    if held is False and process.get("locked"):  # the process id may be reused by now
        return None
    if process["pid"] == os.getpid():
        return "this"
    try:
        os.kill(process["pid"], 0)
    except ProcessLookupError:
        return None
    except PermissionError:  # it lives, under another user
        return "another"
    return "another"


def read_on(run: Run) -> None:
    """Keep others from removing a run, until this process ends or reads on in another of its campaign."""
    place, descriptor = run.settings.runs / run.settings.name, os.open(run.folder, os.O_RDONLY)
    with suppress(OSError):  # a file system without locks
        fcntl.flock(descriptor, fcntl.LOCK_SH)
    if place in _READ:
        os.close(_READ[place])
    _READ[place] = descriptor
    run.folder.stat()  # FileNotFoundError if it is gone


@contextmanager
def alone_with(folder: Path) -> Iterator[bool]:
    """Yield whether no other process reads on in a run, and let none begin to before the end."""
    descriptor, alone = os.open(folder, os.O_RDONLY), True
    try:
        if not any(os.path.sameopenfile(descriptor, one) for one in _READ.values()):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        alone = not isinstance(error, REFUSED)
    try:
        yield alone
    finally:
        os.close(descriptor)


_HELD: dict[Path, int] = {}  # open files of the locks that this process holds, by the run's folder
_READ: dict[Path, int] = {}  # open folders of the runs that it reads on in, by campaign


def _leave_locks() -> None:
    """Close the locks that a forked process inherits: else they outlive the process that works."""
    for held in (_HELD, _READ):
        for descriptor in held.values():
            os.close(descriptor)
        held.clear()


os.register_at_fork(after_in_child=_leave_locks)


def _is_held_here(folder: Path) -> bool:
    """Return whether this process holds the lock of the folder that has this name now."""
    descriptor = _HELD.get(folder)
    try:
        return descriptor is not None and os.path.samestat(
            os.fstat(descriptor), os.stat(folder / LOCK)
        )
    except FileNotFoundError:
        return False


def _is_held_elsewhere(folder: Path) -> bool | None:
    """Return whether another process holds a run folder's lock, or None where that cannot be known."""
    if _is_held_here(folder):
        return None
    try:
        descriptor = os.open(folder / LOCK, os.O_RDWR)
    except OSError:  # of an earlier version, perhaps
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)  # so that two may look at once
    except OSError as error:
        return True if isinstance(error, REFUSED) else None
    else:
        return False
    finally:
        os.close(descriptor)


def unfinished_runs(settings: Settings) -> list[Run]:
    """Return this campaign's runs that did not end, newest first.

    Its name may be a part of another's: the manifest says whose a run is. One that died before it wrote
    a manifest holds nothing.
    """
    found = []
    for path in settings.runs.glob(f"{PARTIAL}*-{settings.name}*/{MANIFEST}"):
        run = Run(path.parent, settings)
        with suppress(FileNotFoundError):  # it has just ended
            if run.read_json(MANIFEST).get("name") == settings.name:
                found.append(run)
    return sorted(found, key=lambda run: run.folder, reverse=True)


def _new_folder(settings: Settings) -> Path:
    """Make a folder with a name that no run has, open to its owner alone."""
    name = f"{_now():%Y%m%dT%H%M%SZ}-{settings.name}"
    for count in range(1, 1000):
        unique = name if count == 1 else f"{name}-{count}"
        folder = settings.runs / f"{PARTIAL}{unique}"
        if (settings.runs / unique).exists():
            continue
        with suppress(FileExistsError):  # of another start in this second
            folder.mkdir(mode=0o700)
            return folder
    raise SettingsError(f"{settings.runs} holds a thousand runs named {name}; name another folder")


def _manifest(run: Run, identity: str) -> dict[str, Any]:
    settings = run.settings
    return {
        "name": settings.name,
        "state": "running",
        "started": _now().isoformat(timespec="seconds"),
        "ended": None,
        "process": _process(run.folder),
        "identity": identity,
        "publication": publication_now(settings),
        "ledger": None,
        "settings": settings.model_dump(mode="json"),
        "seed": settings.seed,
        **code_version(),
        "stages": {},
    }


def _process(folder: Path) -> dict[str, Any]:
    return {"host": platform.node(), "pid": os.getpid(), "locked": _is_held_here(folder)}


def publication_now(settings: Settings) -> str | None:
    """Return the publication key of a run that begins now, or None if the settings give none."""
    key = None if settings.privacy is None else settings.privacy.publication
    return None if key is None else key_at(key, _now())


def code_version() -> dict[str, Any]:
    """Return the versions of Python and packages, as manifests record them."""
    versions = {package: version(package) for package in PACKAGES}
    return {"python": platform.python_version(), "versions": versions}


def other_versions(run: Run) -> list[str]:
    """Return what has another version than when the run began, with both versions."""
    begun, now = ({"python": of["python"]} | of["versions"] for of in (run.work(), code_version()))
    return [
        f"{name} {begun.get(name, 'none')}, now {now.get(name, 'none')}"
        for name in begun | now
        if begun.get(name) != now.get(name)
    ]


def identity_of(settings: Settings, digests: Mapping[Path, str] | None = None) -> str:
    """Return a keyed digest of the settings and of every input's bytes, which a resumed run must share.

    For an input from a database it covers the query: a resumed run keeps the rows that it has read. It
    covers names of files, not their folders, and no key that only sets where runs lie and how long they are
    kept. So a campaign that is moved whole keeps its identity. Files in `digests` are not read again.
    """
    key = digest_key(settings)
    names = {one: by_name(value) for one, value in settings.input}
    named = settings.model_copy(update={"input": settings.input.model_copy(update=names)})
    told = named.model_dump_json(exclude=HOUSEKEEPING)
    digest = hashlib.blake2b(told.encode(), key=key, digest_size=32)
    for _, path in input_files(settings.input):
        digest.update(path.name.encode())
        known = (digests or {}).get(path)
        found = known or (file_digest(path, key) if path.is_file() else "missing")
        digest.update(found.encode())
    return digest.hexdigest()


def by_name(value: Any) -> Any:
    """Return a value of the input's settings, paths of files by their last part; an address stays whole."""
    if isinstance(value, tuple):
        return tuple(map(by_name, value))
    return Path(value.name) if isinstance(value, Path) and not is_remote(value) else value


def digest_key(settings: Settings) -> bytes:
    """Return the key of the digests of inputs: the state folder's, or none where nothing is released."""
    return b"" if _digest_is_bare(settings) else state_key(settings.state)


def _digest_is_bare(settings: Settings) -> bool:
    """Return whether nothing is released, so that digests of inputs need no key."""
    return settings.privacy is None or settings.classes is None


def has_digest_key(settings: Settings) -> bool:
    """Return whether inputs can have been digested before; if not, only a run makes a key."""
    return _digest_is_bare(settings) or (settings.state / KEY).is_file()


def _now() -> datetime:
    return datetime.now(UTC)
