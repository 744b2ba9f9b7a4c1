"""Loops of this room that numba compiles when they are first called.

>>> import numpy as np
>>> @kernel
... def total(numbers):
...     found = 0.0
...     for number in numbers:
...         found += number
...     return found
>>> total(np.arange(4.0))
6.0
"""

import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast, no_type_check

from numba import njit

__all__ = ["kernel"]

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compile a loop with numba when it is first called, without the interpreter's lock.

    Compiled code is kept where numba keeps it: in ``NUMBA_CACHE_DIR``, beside the source, or in the
    user's cache; nowhere if none of them can be written. The shape checks of the tests must not wrap
    what numba compiles.
    """
    plain: Any = no_type_check(inspect.unwrap(function))
    try:
        compiled: Any = njit(nogil=True, cache=True)(plain)
    except RuntimeError:  # no folder can be written, or the source is no file
        compiled = njit(nogil=True)(plain)
    return cast("Function", compiled)
