"""Where sharded work runs: in this process, or on a Dask cluster; and where a fit stood when it died."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from os import cpu_count
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from flows.files import write_whole
from flows.settings.sections import EngineSettings, SettingsError
from flows.sharding.shards import ShardFolder, load_shard
from quality.aggregation import EMFit
from quality.labels import Engine, LocalEngine

__all__ = ["Spread", "load_fit", "open_engine", "open_spread", "save_fit"]

Spread: TypeAlias = Callable[[Callable[[Any, Any], Any], Sequence[Any], Any], Iterable[Any]]
"""Returns ``work(piece, parameters)`` of every piece, in their order."""
LABEL_BYTES = 8  # of a shard in memory: two codes, and a share of what its tasks take


@contextmanager
def open_engine(
    shards: ShardFolder, chosen: EngineSettings, *, hold: bool | None = None
) -> Iterator[Engine]:
    """Open the engine that the settings name, on all shards.

    With `hold` shards stay in memory between passes, without it every pass reads them anew; None
    holds them where all of them take no more than half of the memory that the settings allow.

    Raises
    ------
    SettingsError
        If Dask is asked for and is not installed, or its scheduler does not answer.
    """
    if hold is None:
        hold = LABEL_BYTES * shards.n_labels <= chosen.memory_gb * 1e9 / 2
    if chosen.kind == "dask":
        with _saying_what_to_install():
            from flows.sharding.dask import open_dask
        with open_dask(shards, chosen, hold=hold) as engine:
            yield engine
        return
    numbers = range(len(shards.paths))
    if hold:
        yield LocalEngine([load_shard(shards, n) for n in numbers], threads=chosen.workers)
    else:
        loaders = [partial(load_shard, shards, number) for number in numbers]
        yield LocalEngine(loaders, threads=chosen.workers)


@contextmanager
def open_spread(chosen: EngineSettings) -> Iterator[Spread]:
    """Open what the settings name, for pieces of work that say themselves what they load.

    Raises
    ------
    SettingsError
        As :func:`open_engine`.
    """
    if chosen.kind == "dask":
        with _saying_what_to_install():
            from flows.sharding.dask import open_dask_spread
        with open_dask_spread(chosen) as spread:
            yield spread
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
def _saying_what_to_install() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError:
        raise SettingsError(
            'engine.kind = "dask" needs the extra "scale": pip install "crowdassay[scale]"'
        ) from None


def save_fit(path: Path, fit: EMFit) -> None:
    """Write where a fit stands, whole or not at all."""
    arrays = {"prior": fit.prior, "table": fit.table, "counts": fit.counts, "mass": fit.mass}
    state = np.array([fit.log_likelihood, fit.n_iter, fit.converged], dtype=np.float64)

    def write(aside: Path) -> None:
        with aside.open("wb") as file:
            np.savez(file, allow_pickle=False, state=state, **arrays)

    write_whole(path, write)


def load_fit(path: Path) -> EMFit | None:
    """Where the fit of a run that died stood, or None."""
    if not path.is_file():
        return None
    with np.load(path, allow_pickle=False) as kept:
        log_likelihood, n_iter, converged = kept["state"].tolist()
        arrays = (kept["prior"], kept["table"], kept["counts"], kept["mass"])
    return EMFit(*arrays, log_likelihood, int(n_iter), bool(converged))
