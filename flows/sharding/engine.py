"""Where sharded work runs, in this process or on a Dask cluster; its store, and the checkpoints of a fit.

>>> from flows.settings import EngineSettings
>>> with open_mapper(EngineSettings(workers=2)) as mapper:
...     list(mapper(pow, [1, 2, 3], 2))
[1, 4, 9]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from os import cpu_count
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from flows.files import write_arrays
from flows.settings import EngineError, EngineSettings, SettingsError
from flows.sharding.shards import Mapper, ShardFolder, load_shard, read_back
from quality.aggregation import EMFit, SharedPrior
from quality.labels import Engine, LocalEngine

__all__ = ["load_fit", "open_engine", "open_mapper", "save_fit", "stored"]

LABEL_BYTES = 8  # of a shard in memory: two codes, and a share of what its tasks take


@contextmanager
def open_engine(
    shards: ShardFolder, chosen: EngineSettings, *, hold: bool | None = None
) -> Iterator[Engine]:
    """Open the engine that the settings name, on all shards.

    With `hold` the shards stay in memory between passes; without it every pass reads them anew. None
    holds them if all of them take at most half of the memory that the settings allow.

    Raises
    ------
    SettingsError
        If Dask is asked for and is not installed, or its scheduler does not answer.
    """
    if hold is None:
        hold = LABEL_BYTES * shards.n_labels <= chosen.memory_gb * 1e9 / 2
    if chosen.kind == "dask":
        with _naming_the_extra():
            from flows.sharding.dask import open_dask  # Dask, an extra
        with open_dask(shards, chosen, hold=hold) as engine:
            yield engine
        return
    loaders = [partial(load_shard, shards, number) for number in range(len(shards.paths))]
    held = [load() for load in loaders] if hold else loaders
    yield LocalEngine(held, threads=chosen.workers)


@contextmanager
def open_mapper(chosen: EngineSettings) -> Iterator[Mapper]:
    """Open what the settings name for pieces of work that load their data themselves.

    Raises
    ------
    SettingsError
        As :func:`open_engine`.
    """
    if chosen.kind == "dask":
        with _naming_the_extra():
            from flows.sharding.dask import open_dask_mapper  # Dask, an extra
        with open_dask_mapper(chosen) as mapper:
            yield mapper
        return
    with ThreadPoolExecutor(chosen.workers or cpu_count()) as pool:

        def here(
            work: Callable[[Any, Any], Any], pieces: Sequence[Any], parameters: Any
        ) -> Iterable[Any]:
            return pool.map(partial(_with, work, parameters), pieces)

        yield here


def _with(work: Callable[[Any, Any], Any], parameters: Any, piece: Any) -> Any:
    return work(piece, parameters)


@contextmanager
def _naming_the_extra() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError:
        raise SettingsError(
            'engine.kind = "dask" needs the extra "scale": pip install "crowdassay[scale]"'
        ) from None


@contextmanager
def stored(paths: Sequence[Path], chosen: EngineSettings) -> Iterator[str | None]:
    """Copy files into the settings' store while work on them goes on, and yield the address of the copies.

    Without a store it is None. The copies have a folder of their own there, which is taken away at the end.

    Raises
    ------
    SettingsError
        If the store is not there or cannot be written, or the package that its address needs is not
        installed.
    EngineError
        If the copies cannot be taken away.
    """
    if chosen.store is None:
        yield None
        return
    with _naming_the_extra():
        from fsspec.core import url_to_fs  # type: ignore[import-untyped]  # Dask brings it
    try:
        files, place = url_to_fs(f"{chosen.store.rstrip('/')}/crowdassay-{uuid4().hex}")
    except (ImportError, ValueError) as error:
        raise _not_writable(chosen.store, error) from None
    try:
        files.mkdir(place, create_parents=False)  # a missing store is taken for a misspelt one
        for path in paths:
            files.put_file(str(path), f"{place}/{path.name}")
    except BaseException as error:
        with suppress(Exception):  # one error is enough
            files.rm(place, recursive=True)
        if isinstance(error, Exception):  # each kind of store has errors of its own
            raise _not_writable(chosen.store, error) from None
        raise
    try:
        yield files.unstrip_protocol(place)
    finally:
        try:
            files.rm(place, recursive=True)
        except Exception as error:
            raise EngineError(
                f"engine.store: the copies at {place} cannot be taken away: {error}; delete them, and go on "
                "with --resume"
            ) from None


def _not_writable(store: str, error: Exception) -> SettingsError:
    return SettingsError(
        f"engine.store: {store} must be a folder or a bucket that is there and that this run can write: "
        f"{error}"
    )


def save_fit(path: Path, fit: EMFit) -> None:
    """Write the state of a fit, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    state = np.array([fit.log_likelihood, fit.n_iter, fit.converged], dtype=np.float64)
    arrays = {"prior": fit.prior, "table": fit.table, "counts": fit.counts, "mass": fit.mass}
    if fit.shared is not None:
        arrays |= {"shared": fit.shared.mean, "strength": np.array(fit.shared.strength)}
    write_arrays(path, {"state": state, **arrays})


def load_fit(path: Path) -> EMFit | None:
    """Return the last state that was written of a fit, or None; EngineError if its file is damaged."""
    if not path.is_file():
        return None
    with read_back(path), path.open("rb") as file, np.load(file, allow_pickle=False) as kept:
        log_likelihood, n_iter, converged = kept["state"].tolist()
        arrays = (kept["prior"], kept["table"], kept["counts"], kept["mass"])
        shared = None
        if "shared" in kept:
            shared = SharedPrior(kept["shared"], float(kept["strength"]))
    return EMFit(*arrays, log_likelihood, int(n_iter), bool(converged), shared)
