"""Eight numbers at a time, in kernels: a processor's work of one or two instructions.

The compiler makes such instructions from a loop over an array, but not from a loop within a loop that
begins anew for every label. A kernel with eight numbers in a register is explicit:

>>> import numpy as np
>>> from numba import njit
>>> @njit
... def double(numbers):
...     here = np.uint64(0)
...     put_lanes(numbers, here, times(lanes_at(numbers, here), filled(2.0)))
...     return lanes_sum(lanes_at(numbers, here))
>>> numbers = np.arange(8.0)
>>> double(numbers), numbers
(56.0, array([ 0.,  2.,  4.,  6.,  8., 10., 12., 14.]))

Places are unsigned and are not checked. On a processor with narrower instructions the compiler uses
several.
"""

import math
from typing import Any

import numpy as np
from jaxtyping import Float64
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, register_model

__all__ = [
    "LANES", "divided", "filled", "in_lines", "lanes_at", "lanes_sum", "plus", "power_of_two", "put_lanes",
    "times", "whole_lanes",
]  # fmt: skip

LANES = 8  # numbers in a line of a cache, too
VECTOR = ir.VectorType(ir.DoubleType(), LANES)
INDEX, LONG = ir.IntType(32), ir.IntType(64)
# of a number in double precision: bias of its exponent, and bits below it
EXPONENT, DIGITS = 1023, 52


class _Lanes(types.Type):
    """Numba's type of eight numbers."""

    def __init__(self) -> None:
        super().__init__(name="Lanes")


LANES_TYPE: Any = _Lanes()


@register_model(_Lanes)
class _LanesModel(models.PrimitiveModel):
    """Eight numbers are one value to the compiler."""

    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, VECTOR)


def whole_lanes(n: int) -> int:
    """Return the smallest multiple of the number of lanes that is at least `n`.

    >>> whole_lanes(1), whole_lanes(24)
    (8, 24)
    """
    return -(-n // LANES) * LANES


def in_lines(*shape: int) -> Float64[np.ndarray, "..."]:
    """Return zeros aligned so that every eight are one line of a cache, if the last size is whole lanes.

    >>> in_lines(3, 8).ctypes.data % 64
    0
    """
    n_numbers = math.prod(shape)
    room = np.zeros(n_numbers + LANES)
    first = -room.__array_interface__["data"][0] // room.itemsize % LANES
    placed: np.ndarray = room[first : first + n_numbers].reshape(shape)
    return placed


def _address(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Return the address of eight numbers of an array."""
    data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
    return builder.bitcast(builder.gep(data, [arguments[1]]), VECTOR.as_pointer())


def _lanes_at(typing: Any, array: Any, place: Any) -> Any:
    """Return ``array[place:place + 8]``."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(_address(context, builder, signature, arguments), align=8)

    return LANES_TYPE(array, place), code


def _put_lanes(typing: Any, array: Any, place: Any, lanes: Any) -> Any:
    """Write ``array[place:place + 8]``."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(arguments[2], _address(context, builder, signature, arguments), align=8)
        return context.get_dummy_value()

    return types.void(array, place, lanes), code


def _filled(typing: Any, number: Any) -> Any:
    """Return one number in all lanes."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes = ir.Constant(VECTOR, ir.Undefined)
        for lane in range(LANES):
            lanes = builder.insert_element(lanes, arguments[0], ir.Constant(INDEX, lane))
        return lanes

    return LANES_TYPE(types.float64), code


def _lanes_sum(typing: Any, lanes: Any) -> Any:
    """Return the sum of all lanes: of the halves, then of their halves, and so on."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        total, width = arguments[0], LANES
        while width > 1:
            width //= 2
            halves = [
                builder.shuffle_vector(
                    total,
                    ir.Constant(total.type, ir.Undefined),
                    ir.Constant(ir.VectorType(INDEX, width), list(range(first, first + width))),
                )
                for first in (0, width)
            ]
            total = builder.fadd(*halves)
        return builder.extract_element(total, ir.Constant(INDEX, 0))

    return types.float64(lanes), code


def _each(instruction: str) -> Any:
    """Return the function of two numbers in every lane that compiles to one instruction."""

    def typed(typing: Any, one: Any, other: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return getattr(builder, instruction)(*arguments)

        return LANES_TYPE(one, other), code

    return intrinsic(typed)


def _power_of_two(typing: Any, exponent: Any) -> Any:
    """Return 2 to a whole power between -1022 and 1023, without a call, which would end vectorisation."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        whole = builder.fptosi(arguments[0], INDEX)
        biased = builder.zext(builder.add(whole, ir.Constant(INDEX, EXPONENT)), LONG)
        return builder.bitcast(builder.shl(biased, ir.Constant(LONG, DIGITS)), ir.DoubleType())

    return types.float64(types.float64), code


lanes_at: Any = intrinsic(_lanes_at)
put_lanes: Any = intrinsic(_put_lanes)
filled: Any = intrinsic(_filled)
lanes_sum: Any = intrinsic(_lanes_sum)
power_of_two: Any = intrinsic(_power_of_two)
times: Any = _each("fmul")
plus: Any = _each("fadd")
divided: Any = _each("fdiv")
