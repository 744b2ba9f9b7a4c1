"""Streams: small learners that see every label once, one independent copy of them for every worker.

`StreamMonitor` keeps a card for each worker: reliability with an interval, confusion, fatigue, response
times, and two drift alarms. `RunningConsensus` keeps the consensus so far. `FPLA` is the learning array
beneath the cards: cells that learn, nets between them, and one program that runs over many lanes.

>>> import numpy as np
>>> from learners import StreamMonitor
>>> monitor = StreamMonitor(n_classes=2)
>>> monitor.partial_fit(np.zeros(100, int), label=np.ones(100, int), consensus=np.ones(100, int))
>>> float(monitor.cards().reliability[0])
1.0

All names load when they are first used, because their loops are compiled by numba.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from learners.streams.cells import CELLS, ConfigError, FloatingGate
    from learners.streams.drift_evidence import alarm_levels, constant_rate_interval
    from learners.streams.learning_array import FPLA
    from learners.streams.monitor import StreamMonitor, WorkerCards
    from learners.streams.placement import RoutingError
    from learners.streams.running_consensus import JudgedLabels, RunningConsensus

__all__ = [
    "CELLS", "FPLA", "ConfigError", "FloatingGate", "JudgedLabels", "RoutingError",
    "RunningConsensus", "StreamMonitor", "WorkerCards", "alarm_levels", "constant_rate_interval",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from learners.streams import (  # numba, when first used
        cells,
        drift_evidence,
        learning_array,
        monitor,
        placement,
        running_consensus,
    )

    homes = (cells, drift_evidence, learning_array, monitor, placement, running_consensus)
    return getattr(next(home for home in homes if name in home.__all__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
