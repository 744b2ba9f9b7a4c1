"""Arguments of a wrong type, refused in one sentence before any computation.

>>> from jaxtyping import Int
>>> @check_arguments
... def halves(level: float, gold: Int[np.ndarray, " tasks"] | None = None) -> float:
...     return level / 2
>>> halves("0.9")
Traceback (most recent call last):
    ...
TypeError: level must be a number, got str
>>> halves(0.9, gold=[0, 1])
Traceback (most recent call last):
    ...
TypeError: gold must be a NumPy array of whole numbers, or None, got list; make one with numpy.asarray(...)

Functions check sizes and ranges themselves. A message names types, never a value.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, wraps
from inspect import unwrap
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

import numpy as np
from jaxtyping import AbstractArray

__all__ = ["check_arguments"]

Function = TypeVar("Function", bound=Callable[..., Any])

MADE_BY = {  # how a caller makes what a function needs
    "CrowdLabels": "quality.encode(worker, task, label)",
    "MultiLabels": "quality.encode_multilabels(worker, task, labels)",
    "Comparisons": "quality.encode_comparisons(worker, left, right, winner)",
    "Engine": "quality.LocalEngine(shards)",
    "Generator": "numpy.random.default_rng(seed)",
    "a NumPy array": "numpy.asarray(...)",
}


NOTHING = frozenset[type]()


class Kind(NamedTuple):
    """The values that one annotation admits: in words, by exact type, or by a closer check."""

    words: str
    types: frozenset[type]
    admits: Callable[[Any], bool]


def _instances(words: str, *types: type) -> Kind:
    return Kind(words, frozenset(types), lambda value: isinstance(value, types))


PLAIN: dict[Any, Kind] = {
    float: _instances("a number", float, int, np.float64, np.integer, np.floating, Real),
    int: _instances("a whole number", int, np.int64, np.integer, Integral),
    bool: _instances("True or False", bool, np.bool_),
    NoneType: _instances("None", NoneType),
    Any: Kind("anything", frozenset(), lambda _: True),
    # beside what is registered as such, a column of a table
    Iterable: Kind("a column", frozenset({list}), lambda value: hasattr(value, "__iter__")),
    Sequence: Kind("a sequence", frozenset({list, tuple}), lambda value: hasattr(value, "__len__")),
    Mapping: _instances("a mapping", dict, Mapping),
    Callable: Kind("a function", frozenset(), callable),
    tuple: _instances("a tuple", tuple, list),
    Literal: _instances("a text", str),
}


def _holds(letters: str, value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind in letters


def _array(annotation: Any) -> Kind:
    """Return what a jaxtyping array admits: any numbers, as functions check their codes themselves."""
    if not isinstance(annotation.dtypes, tuple):
        return _instances("a NumPy array", np.ndarray)
    found = {name.rstrip("0123456789_").removeprefix("u") for name in annotation.dtypes}
    if found == {"bool"}:
        return Kind("a NumPy array of truth values", frozenset(), partial(_holds, "b"))
    words = "whole numbers" if found == {"int"} else "numbers"
    return Kind(f"a NumPy array of {words}", frozenset(), partial(_holds, "iuf"))


def _methods(protocol: type, value: Any) -> bool:
    return all(hasattr(value, name) for name in vars(protocol) if not name.startswith("_"))


def _kind(annotation: Any) -> Kind:
    """Return what an annotation admits."""
    origin = get_origin(annotation)
    if origin in (Union, UnionType):
        kinds = [_kind(part) for part in get_args(annotation)]
        words = ", or ".join(dict.fromkeys(kind.words for kind in kinds))
        types = frozenset().union(*(kind.types for kind in kinds))
        return Kind(words, types, lambda value: any(kind.admits(value) for kind in kinds))
    if origin in PLAIN or annotation in PLAIN:
        return PLAIN[origin or annotation]
    if issubclass(annotation, AbstractArray):
        return _array(annotation)
    if getattr(annotation, "_is_protocol", False):
        return Kind(annotation.__name__, frozenset(), partial(_methods, annotation))
    return _instances(annotation.__name__, annotation)


def _refuse(name: str, kind: Kind, value: Any) -> None:
    """Raise TypeError unless the value is of the kind."""
    if kind.admits(value):
        return
    came = "None" if value is None else type(value).__name__
    if isinstance(value, np.ndarray) and "array" in kind.words:
        came = f"one of {value.dtype}"
    made = [how for what, how in MADE_BY.items() if kind.words.startswith(what)]
    advice = f"; make one with {made[0]}" if made else ""
    raise TypeError(f"{name} must be {kind.words}, got {came}{advice}")


def check_arguments(function: Function) -> Function:
    """Return the function behind a check that each argument is of the type that its annotation names.

    Annotations are read once. An argument of the exact type costs one look-up in a set, an array or an
    instance of a subclass one call more. An array's shape is not checked, and of its type only that it
    holds numbers or truth values.

    Raises
    ------
    TypeError
        On a call, before the function runs: the argument's name, what must hold, what came.
    """
    inner: Any = unwrap(function)
    code = inner.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    kinds = {name: _kind(inner.__annotations__[name]) for name in names}
    admitted = {name: kind.types for name, kind in kinds.items()}
    in_order = tuple(admitted.items())[: code.co_argcount]

    @wraps(function)
    def checked(*values: Any, **named: Any) -> Any:
        for (name, types), value in zip(in_order, values, strict=False):
            if type(value) not in types:
                _refuse(name, kinds[name], value)
        for name, value in named.items():
            if type(value) not in admitted.get(name, NOTHING) and name in kinds:
                _refuse(name, kinds[name], value)
        return function(*values, **named)

    return checked  # type: ignore[return-value]
