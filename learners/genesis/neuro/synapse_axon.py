"""Synapses, whose conductance follows an event as an alpha function, and axons, which send the events.

After an event of weight w the conductance is gmax w (t/tau) exp(1 - t/tau), by the exact recursion
of two states: y <- exp(-dt/tau) (y + x dt), x <- x exp(-dt/tau), g = gmax y e/tau. An axon fires
where the potential crosses its threshold upward, not within `refractory` of the last time.
"""

from __future__ import annotations

import numpy as np

from learners.genesis.core import Block, element_class, variant
from quality.parallel import kernel

__all__ = ["AXON", "SPIKEGEN", "SYNAPSE"]


def _silent(block: Block, dt: float) -> dict[str, np.ndarray]:
    block.check_positive("tau")
    nothing = np.zeros(len(block))
    return {"x": nothing, "y": nothing, "g": nothing}


@element_class(
    "synapse",
    fields={"gmax": 1.0, "tau": 2.0, "E": 0.0},
    state={"x": 0.0, "y": 0.0, "g": 0.0},
    outputs={"CHANNEL": ("g", "E")},
    replies={"CHANNEL": ("g", "E")},
    receives=("spike",),
    phase=1,
    reset=_silent,
)
def SYNAPSE(block: Block, dt: float) -> dict[str, np.ndarray]:  # noqa: N802  # becomes a class
    """Take the events that arrive and move the conductance by a step."""
    x, y = block["x"].copy(), block["y"].copy()
    return {"g": _opened(block.arrived, block["gmax"], block["tau"], x, y, dt), "x": x, "y": y}


@kernel
def _opened(
    arrived: np.ndarray, gmax: np.ndarray, tau: np.ndarray, x: np.ndarray, y: np.ndarray, dt: float
) -> np.ndarray:
    """Move both states in place and return the conductances."""
    g = np.empty_like(gmax)
    for k in range(len(gmax)):
        x[k] += arrived[k]
        if x[k] == 0.0 and y[k] == 0.0:  # nothing has arrived yet
            g[k] = 0.0
            continue
        kept = np.exp(-dt / tau[k])
        y[k] = kept * (y[k] + x[k] * dt)
        x[k] *= kept
        g[k] = gmax[k] * y[k] * np.e / tau[k]
    return g


def _waiting(block: Block, dt: float) -> dict[str, np.ndarray]:
    """Begin as if the potential had been above, so that the first step is no crossing."""
    rows = np.ones(len(block))
    return {"above": rows, "rest": 0 * rows, "fired": 0 * rows}


@element_class(
    "axon",
    fields={"threshold": 0.0, "refractory": 1.0},
    state={"above": 1.0, "rest": 0.0, "fired": 0.0},
    inputs=("VOLTAGE",),
    emits="spike",
    phase=3,
    reset=_waiting,
)
def AXON(block: Block, dt: float) -> dict[str, np.ndarray]:  # noqa: N802  # becomes a class
    """Fire where the potential has crossed the threshold."""
    v = np.full(len(block), -np.inf)
    for sent in block.messages["VOLTAGE"]:
        _take_voltage(v, sent.start, sent.row, sent.fields[0])
    above, rest, fired = _crossed(
        v, block["threshold"], block["refractory"], block["above"], block["rest"], dt
    )
    return {"above": above, "rest": rest, "fired": fired}


@kernel
def _take_voltage(v: np.ndarray, start: np.ndarray, row: np.ndarray, sent: np.ndarray) -> None:
    for k in range(len(v)):
        for one in range(start[k], start[k + 1]):
            v[k] = max(v[k], sent[row[one]])


@kernel
def _crossed(
    v: np.ndarray, threshold: np.ndarray, refractory: np.ndarray, above: np.ndarray, rest: np.ndarray,
    dt: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """Return whether each row is above its threshold, the time it has yet to rest, and whether it fires."""
    is_above, left, fired = np.zeros_like(v), np.empty_like(v), np.zeros_like(v)
    for k in range(len(v)):
        left[k] = max(rest[k] - dt, 0.0)
        if v[k] >= threshold[k]:
            is_above[k] = 1.0
            if above[k] == 0.0 and left[k] <= 0.0:
                fired[k] = 1.0
                left[k] = refractory[k]
    return is_above, left, fired


SPIKEGEN = variant("spikegen", AXON)
