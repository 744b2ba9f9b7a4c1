"""Channels whose gates open with the potential: g = gmax x^p y^q, x' = alpha (1 - x) - beta x.

A rate is (A + B v) / (C + exp((v + D) / F)), the form of GENESIS; where it is 0/0 its limit
-B F / C stands. A gate is moved exactly for the potential of the step's beginning: x <- x_inf +
(x - x_inf) exp(-dt (alpha + beta)).

Variants hold published parameters: `Na` and `K` (Hodgkin and Huxley 1952, as usually shifted to a
rest of -65 mV), `Na_CS` and `K_CS` (Connor and Stevens 1971); `channel_A` is Connor and Stevens' A
current, whose gates have another form.
"""

from __future__ import annotations

import numpy as np

from learners.genesis.core import Block, element_class, variant
from quality.parallel import kernel

__all__ = ["CHANNEL", "CHANNEL_A", "K_CS", "NA", "NA_CS", "K"]

SMALL = 1e-6  # share of C: a denominator below it is the removable singularity
NONE = (0.0, 0.0, 1.0, 0.0, 1.0)


def _voltage(block: Block) -> np.ndarray:
    """Return the potential at each row; 0 where it is linked to no compartment."""
    v = np.zeros(len(block))
    for sent in block.messages["VOLTAGE"]:
        _add_voltage(v, sent.start, sent.row, sent.fields[0])
    return v


@kernel
def _add_voltage(v: np.ndarray, start: np.ndarray, row: np.ndarray, sent: np.ndarray) -> None:
    for k in range(len(v)):
        for one in range(start[k], start[k + 1]):
            v[k] += sent[row[one]]


def _to_steady_state(block: Block, dt: float) -> dict[str, np.ndarray]:
    """Open the gates as far as they are at the present potential in the long run."""
    x, y = block["x"].copy(), block["y"].copy()
    g = _opened(*_gates(block), x, y, np.inf)
    return {"x": x, "y": y, "g": g}


def _gates(block: Block) -> tuple[np.ndarray, ...]:
    return (
        _voltage(block), block["gmax"], block["x_power"], block["y_power"], block["x_alpha"],
        block["x_beta"], block["y_alpha"], block["y_beta"], block["euler"],
    )  # fmt: skip


@element_class(
    "channel",
    fields={
        "gmax": 1.0, "E": 0.0, "x_power": 0.0, "y_power": 0.0, "euler": 0.0,
        "x_alpha": NONE, "x_beta": NONE, "y_alpha": NONE, "y_beta": NONE,
    },
    state={"x": 0.0, "y": 0.0, "g": 0.0},
    outputs={"CHANNEL": ("g", "E")},
    replies={"CHANNEL": ("g", "E")},
    inputs=("VOLTAGE",),
    phase=1,
    reset=_to_steady_state,
)  # fmt: skip
def CHANNEL(block: Block, dt: float) -> dict[str, np.ndarray]:  # noqa: N802  # becomes a class
    """Move the gates by a step."""
    x, y = block["x"].copy(), block["y"].copy()
    return {"g": _opened(*_gates(block), x, y, dt), "x": x, "y": y}


@kernel
def _rate(r: np.ndarray, v: float) -> float:
    """Return a rate at a potential."""
    below = r[2] + np.exp((v + r[3]) / r[4])
    if abs(below) < SMALL * abs(r[2]):
        return float(-r[1] * r[4] / r[2])
    if below == 0.0:  # C is 0, and the rate more than a double holds
        return float(np.inf)
    return float((r[0] + r[1] * v) / below)


@kernel
def _moved(gate: float, alpha: float, beta: float, euler: float, dt: float) -> float:
    """Return a gate after a step, or in the long run after an infinite one."""
    total = alpha + beta
    if total <= 0.0:
        return gate
    if euler != 0.0 and dt < np.inf:
        return gate + dt * (alpha - total * gate)
    rest = alpha / total
    return rest + (gate - rest) * float(np.exp(-dt * total))


@kernel
def _power(gate: float, power: float) -> float:
    """Return gate ** power, by products where the power is one of the usual ones."""
    if power == 0.0:
        return 1.0
    if power == 1.0:
        return gate
    if power == 3.0:
        return gate * gate * gate
    if power == 4.0:
        return (gate * gate) * (gate * gate)
    return float(gate**power)


@kernel
def _opened(
    v: np.ndarray,
    gmax: np.ndarray,
    x_power: np.ndarray,
    y_power: np.ndarray,
    x_alpha: np.ndarray,
    x_beta: np.ndarray,
    y_alpha: np.ndarray,
    y_beta: np.ndarray,
    euler: np.ndarray,
    x: np.ndarray,
    y: np.ndarray,
    dt: float,
) -> np.ndarray:
    """Move the gates in place and return the conductances."""
    g = np.empty_like(v)
    for k in range(len(v)):
        if x_power[k] != 0.0:
            x[k] = _moved(x[k], _rate(x_alpha[k], v[k]), _rate(x_beta[k], v[k]), euler[k], dt)
        if y_power[k] != 0.0:
            y[k] = _moved(y[k], _rate(y_alpha[k], v[k]), _rate(y_beta[k], v[k]), euler[k], dt)
        g[k] = gmax[k] * _power(x[k], x_power[k]) * _power(y[k], y_power[k])
    return g


NA = variant(
    "Na", CHANNEL, gmax=120.0, E=50.0, x_power=3.0, y_power=1.0,
    x_alpha=(-4.0, -0.1, -1.0, 40.0, -10.0), x_beta=(4.0, 0.0, 0.0, 65.0, 18.0),
    y_alpha=(0.07, 0.0, 0.0, 65.0, 20.0), y_beta=(1.0, 0.0, 1.0, 35.0, -10.0),
)  # fmt: skip
K = variant(
    "K", CHANNEL, gmax=36.0, E=-77.0, x_power=4.0,
    x_alpha=(-0.55, -0.01, -1.0, 55.0, -10.0), x_beta=(0.125, 0.0, 0.0, 65.0, 80.0),
)  # fmt: skip
NA_CS = variant(
    "Na_CS", CHANNEL, gmax=120.0, E=55.0, x_power=3.0, y_power=1.0,
    x_alpha=(-0.38 * 29.7, -0.38, -1.0, 29.7, -10.0), x_beta=(15.2, 0.0, 0.0, 54.7, 1 / 0.0556),
    y_alpha=(0.266, 0.0, 0.0, 48.0, 20.0), y_beta=(3.8, 0.0, 1.0, 18.0, -10.0),
)  # fmt: skip
K_CS = variant(
    "K_CS", CHANNEL, gmax=20.0, E=-72.0, x_power=4.0,
    x_alpha=(-0.02 * 45.7, -0.02, -1.0, 45.7, -10.0), x_beta=(0.25, 0.0, 0.0, 55.7, 80.0),
)  # fmt: skip


def _a_to_steady_state(block: Block, dt: float) -> dict[str, np.ndarray]:
    a, b = block["a"].copy(), block["b"].copy()
    return {"g": _a_opened(_voltage(block), block["gmax"], a, b, np.inf), "a": a, "b": b}


@element_class(
    "channel_A",
    fields={"gmax": 47.7, "E": -75.0},
    state={"a": 0.0, "b": 0.0, "g": 0.0},
    outputs={"CHANNEL": ("g", "E")},
    replies={"CHANNEL": ("g", "E")},
    inputs=("VOLTAGE",),
    phase=1,
    reset=_a_to_steady_state,
)
def CHANNEL_A(block: Block, dt: float) -> dict[str, np.ndarray]:  # noqa: N802  # becomes a class
    """Move both gates of the A current by a step."""
    a, b = block["a"].copy(), block["b"].copy()
    return {"g": _a_opened(_voltage(block), block["gmax"], a, b, dt), "a": a, "b": b}


@kernel
def _a_opened(
    v: np.ndarray, gmax: np.ndarray, a: np.ndarray, b: np.ndarray, dt: float
) -> np.ndarray:
    """Move the gates in place and return the conductances gmax a³ b."""
    g = np.empty_like(v)
    for k in range(len(v)):
        rise, fall = np.exp(0.0314 * (v[k] + 94.22)), 1.0 + np.exp(0.0346 * (v[k] + 1.17))
        a_rest = (0.0761 * rise / fall) ** (1.0 / 3.0)
        a_tau = 0.3632 + 1.158 / (1.0 + np.exp(0.0497 * (v[k] + 55.96)))
        b_rest = (1.0 + np.exp(0.0688 * (v[k] + 53.3))) ** -4.0
        b_tau = 1.24 + 2.678 / (1.0 + np.exp(0.0624 * (v[k] + 50.0)))
        a[k] = a_rest + (a[k] - a_rest) * np.exp(-dt / a_tau)
        b[k] = b_rest + (b[k] - b_rest) * np.exp(-dt / b_tau)
        g[k] = gmax[k] * a[k] * a[k] * a[k] * b[k]
    return g
