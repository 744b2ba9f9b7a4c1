"""Expressions: arithmetic, comparisons, functions and variables, walked as a tree; Python's eval has no part.

>>> evaluate("2 * x + max(1, 3) > 6 && !0", {"x": 2})
1
>>> evaluate("normal 1.6 .3", {})
Distribution(name='normal', parameters=(1.6, 0.3))
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Distribution", "evaluate"]

MAX_LENGTH = 2_000_000  # characters of an expression
MAX_TEXT = 100_000  # characters of a text that an expression makes
MAX_BITS = 1024  # of a whole number
WORD_FORM = re.compile(r"\s*(\w+)((?:\s+[-+]?[\d.][\w.+-]*)+)\s*\Z")
NOT_TEXT = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(&&)|(\|\|)|(!)(?!=)""")


@dataclass(frozen=True, slots=True)
class Distribution:
    """A distribution from which every row of a selection draws its value."""

    name: str
    parameters: tuple[float, ...]

    def __post_init__(self) -> None:
        if self.name not in DRAWS:
            raise ValueError(f"name must be one of {', '.join(DRAWS)}, got {self.name!r}")
        if len(self.parameters) != N_PARAMETERS[self.name]:
            raise ValueError(
                f"{self.name} must have {N_PARAMETERS[self.name]} parameters, got {len(self.parameters)}"
            )

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Return a value for each of n rows; raise ValueError where no value can be drawn."""
        try:
            drawn: np.ndarray = DRAWS[self.name](rng, *self.parameters, n)
        except (ValueError, OverflowError) as error:
            raise ValueError(
                f"{self.name} must have parameters that it can be drawn with, got {self.parameters}: {error}"
            ) from None
        return drawn.astype(float)


def _whole(end: float) -> int:
    """Return a number as a whole one, or raise ValueError."""
    if int(end) != end:
        raise ValueError(f"{end:g} is not whole")
    return int(end)


DRAWS: Mapping[str, Callable[..., Any]] = {
    "normal": lambda rng, mean, deviation, n: rng.normal(mean, deviation, n),
    "uniform": lambda rng, low, high, n: rng.uniform(low, high, n),
    "exponential": lambda rng, mean, n: rng.exponential(mean, n),
    "lognormal": lambda rng, mean, deviation, n: rng.lognormal(mean, deviation, n),
    "beta": lambda rng, a, b, n: rng.beta(a, b, n),
    "gamma": lambda rng, shape, scale, n: rng.gamma(shape, scale, n),
    "integers": lambda rng, low, high, n: rng.integers(_whole(low), _whole(high), n),
}
N_PARAMETERS = {name: 1 if name == "exponential" else 2 for name in DRAWS}

CONSTANTS = {"pi": math.pi, "inf": math.inf}
FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "abs": abs, "min": min, "max": max, "round": round, "len": len, "int": int, "float": float,
    "str": str, "sqrt": math.sqrt, "exp": math.exp, "log": math.log, "sin": math.sin,
    "cos": math.cos, "tan": math.tan, "floor": math.floor, "ceil": math.ceil,
}  # fmt: skip

OPERATORS: Mapping[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.Pow: operator.pow, ast.USub: operator.neg, ast.UAdd: operator.pos,
    ast.Not: lambda value: int(not value), ast.Eq: operator.eq, ast.NotEq: operator.ne,
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip


def evaluate(
    text: str,
    variables: Mapping[str, Any],
    functions: Mapping[str, Callable[..., Any]] | None = None,
) -> Any:
    """Return the value of an expression: a number, a text, a tuple of these, or a distribution.

    Parameters
    ----------
    text
        The expression, in the operators of Python, or && || ! for and, or, not.
    variables, functions
        Values of names, beside the functions of this module.

    Raises
    ------
    ValueError
        If the expression is malformed, holds an unknown name, or has too large a value.
    """
    if len(text) > MAX_LENGTH:
        raise ValueError(
            f"an expression must have at most {MAX_LENGTH} characters, got {len(text)}"
        )
    words = WORD_FORM.match(text)
    if words and words[1] in DRAWS:
        text = f"{words[1]}({', '.join(words[2].split())})"
    try:
        tree = ast.parse(NOT_TEXT.sub(_in_python, text).strip(), mode="eval")
        return _Walker(variables, functions or {}).value(tree.body)
    except SyntaxError as error:
        raise ValueError(
            f"expression must be arithmetic, got {text.strip()!r}: {error.msg}"
        ) from None
    except (RecursionError, MemoryError):
        raise ValueError("an expression must be less nested, got too many levels") from None
    except (ArithmeticError, TypeError, IndexError) as error:
        raise ValueError(f"{text.strip()!r} must have a value, got: {error}") from None


def _in_python(found: re.Match[str]) -> str:
    text, both, either, negated = found.groups()
    return text or (" and " if both else " or " if either else " not " if negated else "")


class _Walker:
    """Computes the value of a tree of the nodes that are listed here; no others are allowed."""

    def __init__(
        self, variables: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]]
    ) -> None:
        self.variables, self.functions = variables, functions

    def value(self, node: ast.AST) -> Any:
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is None:
            raise ValueError(f"an expression must not contain {type(node).__name__}")
        return _bounded(method(node))

    def _constant(self, node: ast.Constant) -> Any:
        if not isinstance(node.value, int | float | str):
            raise ValueError(f"a constant must be a number or a text, got {node.value!r}")
        return int(node.value) if isinstance(node.value, bool) else node.value

    def _name(self, node: ast.Name) -> Any:
        if node.id in CONSTANTS:
            return CONSTANTS[node.id]
        if node.id not in self.variables:
            known = ", ".join(sorted(self.variables)) or "none"
            raise ValueError(f"variable {node.id!r} must be set, got none; there are {known}")
        return self.variables[node.id]

    def _binop(self, node: ast.BinOp) -> Any:
        left, right = self.value(node.left), self.value(node.right)
        if isinstance(node.op, ast.Pow):
            _check_power(left, right)
        texts = isinstance(left, str) + isinstance(right, str)
        if texts and not (texts == 2 and isinstance(node.op, ast.Add)):
            raise ValueError(
                f"a text must only be joined to a text by +, got {left!r} and {right!r}"
            )
        if isinstance(left, tuple) or isinstance(right, tuple):
            raise ValueError("a list must not be an operand")
        return self._operator(node.op)(left, right)

    def _unaryop(self, node: ast.UnaryOp) -> Any:
        return self._operator(node.op)(self.value(node.operand))

    def _boolop(self, node: ast.BoolOp) -> int:
        values = (self.value(one) for one in node.values)
        return int(all(values) if isinstance(node.op, ast.And) else any(values))

    def _compare(self, node: ast.Compare) -> int:
        left = self.value(node.left)
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            right = self.value(right_node)
            if not self._operator(op)(left, right):
                return 0
            left = right
        return 1

    def _ifexp(self, node: ast.IfExp) -> Any:
        return self.value(node.body if self.value(node.test) else node.orelse)

    def _tuple(self, node: ast.Tuple) -> tuple[Any, ...]:
        return tuple(self.value(one) for one in node.elts)

    def _call(self, node: ast.Call) -> Any:
        if not isinstance(node.func, ast.Name) or node.keywords:
            raise ValueError("a function must be called by its name, with values in brackets")
        name = node.func.id
        given = [self.value(one) for one in node.args]
        if name in DRAWS:
            return Distribution(name, tuple(float(one) for one in given))
        if name in self.functions:
            return self.functions[name](*given)
        if name not in FUNCTIONS:
            known = ", ".join(sorted({*FUNCTIONS, *self.functions, *DRAWS}))
            raise ValueError(f"function {name!r} must be one of {known}")
        return FUNCTIONS[name](*given)

    def _operator(self, node: ast.AST) -> Callable[..., Any]:
        if type(node) not in OPERATORS:
            raise ValueError(f"an expression must not contain the operator {type(node).__name__}")
        return OPERATORS[type(node)]


def _check_power(left: Any, right: Any) -> None:
    """Raise ValueError for powers that would fill the memory, and for roots of negative numbers."""
    if (
        isinstance(left, int)
        and isinstance(right, int)
        and left.bit_length() * abs(right) > MAX_BITS
    ):
        raise ValueError(f"a whole number must have at most {MAX_BITS} bits; write a float, 2.0")
    if isinstance(left, int | float) and left < 0 and right != int(right):
        raise ValueError(f"the base of a broken power must be >= 0, got {left}")


def _bounded(value: Any) -> Any:
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise ValueError(f"a whole number must have at most {MAX_BITS} bits")
    if isinstance(value, str) and len(value) > MAX_TEXT:
        raise ValueError(f"a text must have at most {MAX_TEXT} characters")
    return int(value) if isinstance(value, bool | np.bool_) else value
