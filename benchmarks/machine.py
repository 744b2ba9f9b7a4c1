"""How fast this machine is now: shared ones take a third more or less processor time from hour to hour.

>>> 0 < loop_seconds() < 60
True
"""

import time
from statistics import median

__all__ = ["LOOP", "loop_seconds"]

N_ADDITIONS, N_TRIES = 2_000_000, 5
LOOP = f"for the machine's speed: {N_ADDITIONS:,} additions in Python"


def loop_seconds() -> float:
    """Return the CPU seconds of a loop in Python that reads no memory, the median of five."""
    return median(_one_loop() for _ in range(N_TRIES))


def _one_loop() -> float:
    begin, total = time.process_time(), 0
    for number in range(N_ADDITIONS):
        total += number
    return time.process_time() - begin
