"""A piece of membrane at one potential.

C dV/dt = (Em - V)/Rm + sum of g_ax (V_j - V) + sum of g_ch (E - V) + inject.

The sum is A - B V; with A and B held for a step the solution is exact (exponential Euler):
V <- V exp(-B dt/C) + A/B (1 - exp(-B dt/C)). Units are mV, ms, µA/cm², mS/cm² and µF/cm².
"""

from __future__ import annotations

import numpy as np

from learners.genesis.core import Block, element_class, variant
from quality.parallel import kernel

__all__ = ["ACTIVE", "COMPARTMENT", "PASSIVE"]


def _to_rest(block: Block, dt: float) -> dict[str, np.ndarray]:
    """Begin at the initial potential."""
    block.check_positive("C", "Rm", "Ra")
    return {"V": block["V0"]}


@element_class(
    "compartment",
    fields={
        "C": 1.0,
        "Em": -65.0,
        "Rm": 1 / 0.3,
        "Ra": 2.0,
        "V0": -65.0,
        "inject": 0.0,
        "euler": 0.0,
    },
    state={"V": -65.0},
    aliases={"capacitance": "C", "potential": "V", "initial": "V0"},
    outputs={"AXIAL": ("V", "Ra"), "VOLTAGE": ("V",)},
    replies={"RAXIAL": ("V",), "VOLTAGE": ("V",)},
    inputs=("AXIAL", "RAXIAL", "CHANNEL"),
    phase=2,
    reset=_to_rest,
)
def COMPARTMENT(block: Block, dt: float) -> dict[str, np.ndarray]:  # noqa: N802  # becomes a class
    """Move every membrane by a step."""
    drive = block["Em"] / block["Rm"] + block["inject"]
    total = 1.0 / block["Rm"]
    for axial in block.messages["AXIAL"]:
        _add_axial(drive, total, axial.start, axial.row, axial.fields[0], axial.fields[1])
    for axial in block.messages["RAXIAL"]:
        _add_back(drive, total, axial.start, axial.row, axial.fields[0], block["Ra"])
    for channel in block.messages["CHANNEL"]:
        _add_channels(
            drive, total, channel.start, channel.row, channel.fields[0], channel.fields[1]
        )
    return {"V": _advanced(block["V"], drive, total, block["C"], block["euler"], dt)}


@kernel
def _add_axial(
    drive: np.ndarray,
    total: np.ndarray,
    start: np.ndarray,
    row: np.ndarray,
    v: np.ndarray,
    ra: np.ndarray,
) -> None:
    """Add the currents from compartments that are linked to a row: the conductance is theirs."""
    for k in range(len(drive)):
        for one in range(start[k], start[k + 1]):
            g = 1.0 / ra[row[one]]
            drive[k] += g * v[row[one]]
            total[k] += g


@kernel
def _add_back(
    drive: np.ndarray,
    total: np.ndarray,
    start: np.ndarray,
    row: np.ndarray,
    v: np.ndarray,
    ra: np.ndarray,
) -> None:
    """Add the currents from compartments that a row is linked to: the conductance is its own."""
    for k in range(len(drive)):
        for one in range(start[k], start[k + 1]):
            drive[k] += v[row[one]] / ra[k]
            total[k] += 1.0 / ra[k]


@kernel
def _add_channels(
    drive: np.ndarray,
    total: np.ndarray,
    start: np.ndarray,
    row: np.ndarray,
    g: np.ndarray,
    e: np.ndarray,
) -> None:
    """Add the currents of channels and synapses."""
    for k in range(len(drive)):
        for one in range(start[k], start[k + 1]):
            drive[k] += g[row[one]] * e[row[one]]
            total[k] += g[row[one]]


@kernel
def _advanced(
    v: np.ndarray, drive: np.ndarray, total: np.ndarray, c: np.ndarray, euler: np.ndarray, dt: float
) -> np.ndarray:
    """Return the potentials after a step; by Euler's method in rows where `euler` is not 0."""
    new = np.empty_like(v)
    for k in range(len(v)):
        if euler[k] != 0.0 or total[k] == 0.0:  # without a leak both are the same
            new[k] = v[k] + dt / c[k] * (drive[k] - total[k] * v[k])
        else:
            kept = np.exp(-total[k] * dt / c[k])
            new[k] = v[k] * kept + drive[k] / total[k] * (1.0 - kept)
    return new


PASSIVE = variant("passive_compartment", COMPARTMENT)
ACTIVE = variant("active_compartment", COMPARTMENT, Em=-54.387)
