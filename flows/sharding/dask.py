"""Sharded work on a Dask cluster: of this machine's processes, or at a scheduler's address.

Workers load shards and blocks from the run folder, or from its copy in a store, so that another worker loads
again what a dead one held: no row is ever sent. Parameters travel as one task, whose result the workers hand
on; the workers add parts up in pairs, in one fixed order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from typing import Any, TypeAlias, TypeVar
from uuid import uuid4

import dask
import numpy as np
from dask.typing import Key
from distributed import Client, Future, KilledWorker, LocalCluster
from distributed.scheduler import NoWorkerError
from jaxtyping import Bool, Int

from flows.settings import EngineError, EngineSettings, SettingsError
from flows.sharding.shards import Mapper, ShardFolder, load_shard
from quality.labels import LabelShard, Sums, add_parts

__all__ = ["DaskEngine", "open_dask", "open_dask_mapper"]

Result = TypeVar("Result")
Change: TypeAlias = Callable[[LabelShard], LabelShard]
QUIET = {
    "distributed.admin.large-graph-warning-threshold": "1GB",  # parameters are tens of megabytes
    "distributed.scheduler.allowed-failures": 10,  # deaths of workers on one task
    "distributed.scheduler.no-workers-timeout": "3 minutes",  # and not for ever, where none comes back
    "distributed.worker.memory.target": False,  # nothing is spilled: spilling pickles to disk
    "distributed.worker.memory.spill": False,
    "distributed.comm.timeouts.connect": "20s",
}


class _Tasks:
    """Tasks of a client under unique names: Dask does not take equal calls for one."""

    def __init__(self, client: Client) -> None:
        self.client, self._calls = client, count()
        self._name = f"crowdassay-{uuid4().hex}"

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Submit one task."""
        key: Key = f"{self._name}-{work.__name__}-{next(self._calls)}"
        return self.client.submit(work, *arguments, key=key, pure=False)

    def send(self, value: Any) -> Future[Any]:
        """Send a value as the result of a task: unlike scattered data it can be made again."""
        return self.submit(_itself, value)

    def gather(self, futures: Any) -> Any:
        """Return the results of one task or of several, in their order."""
        try:
            return self.client.gather(futures)  # type: ignore[no-untyped-call]
        except (KilledWorker, NoWorkerError) as error:
            raise EngineError(
                f"the Dask cluster has no worker that lives ({error}); see why they end, memory_gb "
                "perhaps, and go on with --resume"
            ) from None
        except FileNotFoundError as error:
            raise EngineError(
                f"a Dask worker does not find {error.filename}; let every machine have the run folder under "
                "the same path, or name an engine.store, and go on with --resume"
            ) from None


class DaskEngine:
    """An :class:`~quality.labels.shards.Engine` of Dask workers.

    Parameters
    ----------
    client
        Of the cluster.
    shards
        Where they lie; every worker must see the folder under the same path, or their store.
    hold
        Whether workers keep the shards in memory between passes.
    changes
        What is done to a shard that a worker loads, one after the other.

    Notes
    -----
    **Guarantees.** The bytes are those of a :class:`~quality.labels.shards.LocalEngine` on the same
    shards, whichever workers die on the way, as long as some are left or come back.
    """

    def __init__(
        self,
        client: Client,
        shards: ShardFolder,
        *,
        hold: bool,
        changes: tuple[Change, ...] = (),
    ) -> None:
        self.client, self._shards, self._hold = client, shards, hold
        self._changes = changes
        self._numbers, self._tasks = range(len(shards.paths)), _Tasks(client)
        self._sent = self._tasks.send(changes)
        self._held = (
            [self._tasks.submit(_load, shards, n, self._sent) for n in self._numbers]
            if hold
            else []
        )

    def __repr__(self) -> str:
        return f"DaskEngine({len(self._numbers)} shards)"

    def map(self, work: Callable[[LabelShard, Any], Result], parameters: Any) -> list[Result]:
        """Return ``work(shard, parameters)`` of every shard, in the order of the shards."""
        found: list[Result] = self._tasks.gather(self._each(work, parameters))
        return found

    def add_up(self, work: Callable[[LabelShard, Any], Sums], parameters: Any) -> Sums:
        """Return the :func:`~quality.labels.shards.tree_total` of what `map` would return."""
        level = self._each(work, parameters)
        while len(level) > 1:
            pairs, add = [level[at : at + 2] for at in range(0, len(level), 2)], self._tasks.submit
            level = [add(add_parts, *two) if len(two) == 2 else two[0] for two in pairs]
        total: Sums = self._tasks.gather(level[0])
        return total

    def keep_workers(self, keep: Bool[np.ndarray, " workers"]) -> DaskEngine:
        """Return an engine on the same shards without the labels of the other workers."""
        return self.changed(partial(LabelShard.keep_workers, keep=keep))

    def merge_workers(self, groups: Int[np.ndarray, " workers"]) -> DaskEngine:
        """Return an engine on the same shards in which every group has one label per task."""
        return self.changed(partial(LabelShard.merge_workers, groups=groups))

    def changed(self, change: Change) -> DaskEngine:
        """Return an engine on changed shards: workers change what they load."""
        changes = (*self._changes, change)
        return DaskEngine(self.client, self._shards, hold=self._hold, changes=changes)

    def _each(self, work: Callable[[LabelShard, Any], Any], parameters: Any) -> list[Future[Any]]:
        """Submit the work on every shard; results stay on the workers."""
        sent, submit = self._tasks.send(parameters), self._tasks.submit
        if self._hold:
            return [submit(work, shard, sent) for shard in self._held]
        rest = (self._sent, work, sent)
        return [submit(_load_and_work, self._shards, n, *rest) for n in self._numbers]


@contextmanager
def open_dask(shards: ShardFolder, chosen: EngineSettings, *, hold: bool) -> Iterator[DaskEngine]:
    """Open an engine at the scheduler of the settings, or on a cluster of this machine's processes."""
    with _open_client(chosen) as client:
        yield DaskEngine(client, shards, hold=hold)


@contextmanager
def open_dask_mapper(chosen: EngineSettings) -> Iterator[Mapper]:
    """Open the same for pieces of work that load their data themselves."""
    with _open_client(chosen) as client:
        yield partial(_map_over, client)


def _map_over(
    client: Client, work: Callable[[Any, Any], Any], pieces: Sequence[Any], parameters: Any
) -> Iterable[Any]:
    """Return ``work(piece, parameters)`` of every piece, in their order."""
    tasks = _Tasks(client)
    sent = tasks.send(parameters)
    found: list[Any] = tasks.gather([tasks.submit(work, piece, sent) for piece in pieces])
    return found


@contextmanager
def _open_client(chosen: EngineSettings) -> Iterator[Client]:
    """Open a client of the scheduler of the settings, or of a cluster of this machine's processes."""
    with dask.config.set(QUIET):
        if chosen.scheduler is not None:
            try:
                client = Client(chosen.scheduler, set_as_default=False)  # type: ignore[no-untyped-call]
            except (OSError, TimeoutError, ValueError) as error:
                raise SettingsError(
                    f"engine.scheduler: {chosen.scheduler!r} does not answer ({error}); start it, or "
                    "leave the address out"
                ) from None
            with client:
                yield client
            return
        n_workers = chosen.workers or dask.system.CPU_COUNT
        with (
            LocalCluster(  # type: ignore[no-untyped-call]
                n_workers=n_workers,
                threads_per_worker=1,
                processes=True,
                memory_limit=f"{max(round(2e3 * chosen.memory_gb / n_workers), 500)}MB",
                dashboard_address="127.0.0.1:0",  # any port that is free, for no other machine
                security=True,  # certificates of its own: no other account of this machine may join
            ) as cluster,
            Client(cluster, set_as_default=False) as client,  # type: ignore[no-untyped-call]
        ):
            yield client


def _itself(value: Any) -> Any:
    return value


def _load(shards: ShardFolder, number: int, changes: tuple[Change, ...]) -> LabelShard:
    """Load a shard from its file, and change it."""
    shard = load_shard(shards, number)
    for change in changes:
        shard = change(shard)
    return shard


def _load_and_work(
    shards: ShardFolder,
    number: int,
    changes: tuple[Change, ...],
    work: Callable[[LabelShard, Any], Result],
    parameters: Any,
) -> Result:
    """Load a shard, work on it and drop it."""
    return work(_load(shards, number, changes), parameters)
