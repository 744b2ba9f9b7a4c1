"""The loops of the learning array: one small kernel for each cell that learns, and the run over events.

A program is an array of whole numbers, one row for each cell in the order of computation, with the columns
`OP` to `SIZE` below, and an array of parameters. `state` has a row for each lane.
"""

from math import exp, isfinite, isnan, log, nan, pi, sqrt, tanh
from typing import Any

import numpy as np

from quality.parallel import kernel  # the numba decorator alone

__all__ = ["COLUMNS", "run_events"]

Array = Any  # what numba compiles is not checked by type

COLUMNS = 8
OP, LEFT, RIGHT, OUT, SIGN, STATE, BEFORE, SIZE = range(COLUMNS)
# codes of the cells, as in `cells.OPS`
BIAS, MIRROR, DIODE, PAIR, PROD, CMP, CAP, GATE = range(8)
COND, REGR, BUMP, CUSUM, TABLE, EVIDENCE = range(8, 14)
DROPS = (0.1, 0.2, 0.35)  # falls of a rate that the evidence is spread over
WHEN = 500.0  # events in which half of its prior weight on the time of the fall lies
LANES = 100.0  # lanes that share half of the false alarms
LARGEST = 1e200
LEAST_RATE = 0.02
NATURAL = 9.0 / (3.0 + pi * pi)  # the inverse information of a logistic's log width
MAX_STEP = 0.5


@kernel(forceinline=True)
def rate_of(gamma: float, n: float, n0: float) -> float:
    """Return the weight of the nth event."""
    return max(gamma, 1.0 / (n + n0))


@kernel(forceinline=True)
def cap(s: Array, o: int, p: Array, q: int, x: float, learn: bool) -> float:
    if learn and isfinite(x):
        s[o] += 1.0
        s[o + 1] += rate_of(p[q], s[o], p[q + 1]) * (x - s[o + 1])
    return float(s[o + 1])


@kernel(forceinline=True)
def gate(s: Array, o: int, p: Array, q: int, x: float, y: float, learn: bool) -> float:
    if learn and isfinite(x) and isfinite(y):
        w = s[o]
        if p[q + 4] > 0:
            s[o] = max(w + p[q] * x - p[q + 1] * y, 0.0)
        else:
            new = w + p[q] * x * w ** (2.0 - p[q + 3]) - p[q + 1] * y * w ** (1.0 + p[q + 2])
            if not isnan(new):  # of a weight that gains alone, whose powers are infinite
                s[o] = min(max(new, 1e-12), LARGEST)
    return float(s[o])


@kernel(forceinline=True)
def cond(s: Array, o: int, p: Array, q: int, x: float, y: float, learn: bool) -> float:
    if learn and y > 0 and isfinite(x) and isfinite(y):
        s[o] += 1.0
        s[o + 1] += rate_of(p[q], s[o], p[q + 1]) * (x - s[o + 1])
    return float(s[o + 1])


@kernel(forceinline=True)
def regr(s: Array, o: int, p: Array, q: int, x: float, y: float, learn: bool) -> float:
    out = (s[o] - s[o + 1]) * x
    if learn and isfinite(x) and isfinite(y):
        # a step beyond the point that explains y would make the weights grow without end
        step = p[q] / (p[q + 2] + x * x) if p[q + 2] > 0 else min(p[q], 1.0 / max(x * x, 1e-300))
        change = step * (y - out) * x
        s[o] = s[o] * (1.0 - p[q + 1]) + max(change, 0.0)
        s[o + 1] = s[o + 1] * (1.0 - p[q + 1]) + max(-change, 0.0)
    return float(out)


@kernel(forceinline=True)
def cusum(s: Array, o: int, p: Array, q: int, x: float, learn: bool) -> float:
    """Take an event in; the state is events, running mean, sum, event of the alarm."""
    if learn and isfinite(x):
        s[o] += 1.0
        if s[o] > p[q + 3]:
            before = min(max(s[o + 1], 0.05), 0.97)
            after = max(LEAST_RATE, before - p[q + 1])
            if x == 1.0:
                gain = log(after / before)
            elif x == 0.0:
                gain = log((1.0 - after) / (1.0 - before))
            else:
                gain = x * log(after / before) + (1.0 - x) * log((1.0 - after) / (1.0 - before))
            s[o + 2] = max(0.0, s[o + 2] + gain)
            if s[o + 2] > p[q] and s[o + 3] == 0.0:
                s[o + 3] = s[o]
        s[o + 1] += max(1.0 / s[o], 1.0 / p[q + 2]) * (x - s[o + 1])
    return float(s[o + 2])


@kernel(forceinline=True)
def table(s: Array, o: int, p: Array, q: int, x: float, y: float, size: int, learn: bool) -> float:
    """Take an event in; the state is events of each truth, then a row of probabilities for each truth."""
    if not (isfinite(x) and isfinite(y)):
        return nan
    label, truth = int(x), int(y)
    if not (0 <= label < size and 0 <= truth < size):
        return nan
    row = o + size + truth * size
    if learn:
        s[o + truth] += 1.0
        rate = rate_of(p[q + 1], s[o + truth], p[q + 2])
        for k in range(size):
            s[row + k] -= rate * s[row + k]
        s[row + label] += rate
    return float(s[row + label])


@kernel(forceinline=True)
def evidence(s: Array, o: int, p: Array, q: int, x: float, lane: int, learn: bool) -> float:
    """Take an event in; the state is events, their sum, a ratio per fall, event of the alarm, e-value."""
    if learn and isfinite(x):
        n = s[o]
        live = (s[o + 1] + 0.5) / (n + 1.0)
        weight = WHEN / ((n + 1.0 + WHEN) * (n + WHEN)) / 3.0
        s[o] = n + 1.0
        s[o + 1] += 1.0 if x > 0.5 else 0.0
        total = WHEN / (n + 1.0 + WHEN)
        for d in range(3):
            after = max(min(LEAST_RATE, live), live - DROPS[d])
            ratio = after / live if x > 0.5 else (1.0 - after) / (1.0 - live)
            s[o + 2 + d] = min((s[o + 2 + d] + weight) * ratio, LARGEST)
            total += s[o + 2 + d]
        s[o + 6] = total / (2.0 * sqrt(n + 1.0))
        level = p[q] * LANES / ((lane + 1.0 + LANES) * (lane + LANES))
        if s[o + 6] * level >= 1.0 and s[o + 5] == 0.0:
            s[o + 5] = s[o]
    return float(s[o + 6])


@kernel(forceinline=True)
def warm_up(s: Array, o: int, p: Array, q: int, size: int) -> None:
    """Put the bumps at quantiles of the first values, which are kept after the bumps."""
    first = o + 1 + 3 * size
    n = int(p[q + 4])
    values = s[first : first + n].copy()
    for i in range(1, n):  # sorted by insertion: they are few, and np.sort takes seconds to compile
        value, j = values[i], i
        while j > 0 and values[j - 1] > value:
            values[j] = values[j - 1]
            j -= 1
        values[j] = value
    spread = max(p[q + 2], values.std() * sqrt(3.0) / pi / size)
    for k in range(size):
        s[o + 1 + k] = values[int((k + 0.5) * n / size)]
        if p[q + 8] == 0.0:
            s[o + 1 + size + k] = spread


@kernel
def bump(
    s: Array,
    o: int,
    p: Array,
    q: int,
    x: float,
    size: int,
    learn: bool,
    is_read: bool,
    scratch: Array,
) -> float:
    """Take an event in; the state is events, location, width and weight of each bump, and the first values.

    tanh(z/2) is the score of a logistic, so this is a natural-gradient step of maximum likelihood.
    """
    if not isfinite(x):
        return nan
    if learn:
        s[o] += 1.0
        if s[o] <= p[q + 4]:
            s[o + 3 * size + int(s[o])] = x
            if s[o] == p[q + 4]:
                warm_up(s, o, p, q, size)
            return nan
    elif s[o] < p[q + 4]:
        return nan
    at, width, share = o + 1, o + 1 + size, o + 1 + 2 * size
    total, best, largest = 0.0, 0, -1.0
    score, chance = scratch
    for k in range(size):
        z = (x - s[at + k]) / s[width + k]
        e = exp(-abs(z))
        score[k] = (1.0 - e) / (1.0 + e) if z > 0 else (e - 1.0) / (1.0 + e)
        chance[k] = s[share + k] * e / ((1.0 + e) * (1.0 + e) * s[width + k]) + 1e-300
        total += chance[k]
        if chance[k] > largest:
            best, largest = k, chance[k]
    if learn:
        rate = rate_of(p[q + 1], s[o], p[q + 3])
        for k in range(size):
            mine = chance[k] / total
            if p[q + 7] > 0:
                mine = 1.0 if k == best else 0.0
            step = min(rate * mine / s[share + k], MAX_STEP)
            z = (x - s[at + k]) / s[width + k]
            s[at + k] += step * 3.0 * s[width + k] * score[k]
            if p[q + 8] == 0.0:
                change = step * NATURAL * (z * score[k] - 1.0)
                u = min(max(change, -MAX_STEP), MAX_STEP)  # exp(u) to 5 digits is enough for a step
                wider = s[width + k] * (12.0 + u * (6.0 + u)) / (12.0 - u * (6.0 - u))
                s[width + k] = max(wider, p[q + 2])
            s[share + k] = max(s[share + k] + rate * (mine - s[share + k]), 1e-6)
    return log(total) if is_read else 0.0


@kernel(forceinline=True)
def stateless(op: int, p: Array, q: int, x: float, y: float) -> float:
    if op == BIAS:
        return float(p[q])
    if op == MIRROR:
        return float(p[q] * x)
    if op == DIODE:
        return max(x, 0.0) if isfinite(x) else nan
    if op == PAIR:
        return float(p[q] * tanh((x - y) / p[q + 1]))
    if op == PROD:
        return x * y
    if not (isfinite(x) and isfinite(y)):
        return nan
    return 1.0 if x > y else 0.0


@kernel(forceinline=True)
def compute(
    op: int, size: int, is_read: bool, p: Array, q: int, s: Array, o: int,
    x: float, y: float, lane: int, learn: bool, scratch: Array,
) -> Any:  # fmt: skip
    """Return the output of one cell at one event, after it has learned from the event."""
    if op < CAP:
        return stateless(op, p, q, x, y)
    if op == COND:
        return cond(s, o, p, q, x, y, learn)
    if op == CAP:
        return cap(s, o, p, q, x, learn)
    if op == TABLE:
        return table(s, o, p, q, x, y, size, learn)
    if op == REGR:
        return regr(s, o, p, q, x, y, learn)
    if op == BUMP:
        return bump(s, o, p, q, x, size, learn, is_read, scratch)
    if op == CUSUM:
        return cusum(s, o, p, q, x, learn)
    if op == EVIDENCE:
        return evidence(s, o, p, q, x, lane, learn)
    return gate(s, o, p, q, x, y, learn)


@kernel
def run_events(
    program: Array,
    params: Array,
    inputs: Array,
    outputs: Array,
    n_nets: int,
    state: Array,
    lanes: Array,
    values: Array,
    learn: bool,
) -> None:
    """Run all events in their order; the value of a net is the sum of the cells that drive it.

    `inputs` names the net of each column of `values`; `outputs` has a net and a place in the state for each
    net that is kept. A cell with a place `BEFORE` reads its inputs' values at the lane's last event.
    """
    nets = np.zeros(n_nets)
    scratch = (np.empty(16), np.empty(16))  # of one bump at one event
    n_cells, n_params, n_state = len(program), params.shape[1], state.shape[1]
    # a view for each cell would take longer than the cell
    s, p = state.reshape(-1), params.reshape(-1)
    for e in range(len(lanes)):
        lane = lanes[e]
        first = lane * n_state
        nets[:] = 0.0
        for i in range(len(inputs)):
            nets[inputs[i]] = values[e, i]
        for c in range(n_cells):
            left, right, out = program[c, LEFT], program[c, RIGHT], program[c, OUT]
            x = nets[left] if left >= 0 else 0.0
            y = nets[right] if right >= 0 else 0.0
            if program[c, BEFORE] >= 0:
                place = first + program[c, BEFORE]
                x, y = s[place], s[place + 1]
            found = compute(
                program[c, OP], program[c, SIZE], out >= 0, p, c * n_params, s,
                first + program[c, STATE], x, y, lane, learn, scratch,
            )  # fmt: skip
            if out >= 0:
                nets[out] += program[c, SIGN] * found
        for c in range(n_cells):
            if program[c, BEFORE] >= 0:
                place = first + program[c, BEFORE]
                s[place] = nets[program[c, LEFT]]
                s[place + 1] = nets[program[c, RIGHT]] if program[c, RIGHT] >= 0 else 0.0
        for k in range(len(outputs)):
            s[first + outputs[k, 1]] = nets[outputs[k, 0]]
