"""Where sharded work runs: in this process, or on a Dask cluster; and where a fit stood when it died."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np

from flows.run_store import write_whole
from flows.section import SettingsError
from flows.settings_sections import EngineSettings
from flows.shards import ShardFolder, load_shard
from quality.em_fit import EMFit
from quality.local_engine import LocalEngine
from quality.shards import Engine

__all__ = ["load_fit", "open_engine", "save_fit"]

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
        try:
            from flows.engine_dask import open_dask
        except ModuleNotFoundError:
            raise SettingsError(
                'engine.kind = "dask" needs the extra "scale": pip install "crowdassay[scale]"'
            ) from None
        with open_dask(shards, chosen, hold=hold) as engine:
            yield engine
        return
    numbers = range(len(shards.paths))
    if hold:
        yield LocalEngine([load_shard(shards, n) for n in numbers], threads=chosen.workers)
    else:
        loaders = [partial(load_shard, shards, number) for number in numbers]
        yield LocalEngine(loaders, threads=chosen.workers)


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
