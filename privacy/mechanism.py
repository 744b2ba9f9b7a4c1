"""The protocols of a paid mechanism: its event, its draws, and their source.

A mechanism's fields are public knobs: a frozen dataclass of numbers, strings, tuples and other such
dataclasses. Its methods take private data as arguments. Only the ledger calls methods that draw, after it
has booked the price of `event`, so that there is no noise without payment.

A mechanism outside `privacy.mechanisms` proves its guarantee in its own docstring and describes
itself by a `PureEvent` or an `ApproximateEvent`:

>>> PureEvent("report noisy max", epsilon=0.1).cost().epsilon
Fraction(1, 10)
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from jaxtyping import Float

from privacy.accounting import (
    Arithmetic,
    Cost,
    Event,
    Loss,
    check_arithmetic,
    claim_loss,
    exact,
    keep_declared,
)
from privacy.query import Query, check_arrays, check_name, even_rows

__all__ = [
    "ApproximateEvent",
    "Batched",
    "History",
    "Interaction",
    "Json",
    "Mechanism",
    "Noise",
    "PureEvent",
    "Question",
]

Json: TypeAlias = Any
"""A value that `json.dumps` writes without NaN: None, bool, int, float, str, lists, dicts of them."""


@runtime_checkable
class Noise(Protocol):
    """Fresh randomness for privacy, reached through the ledger alone; it takes no seed."""

    def discrete_laplace(self, scale: float, size: int) -> list[int]:
        """Draw independent integers, P(z) ~ exp(-|z| / scale), exactly."""

    def discrete_gaussian(self, scale: float, size: int) -> list[int]:
        """Draw independent integers, P(z) ~ exp(-z^2 / (2 scale^2)), exactly."""

    def uniform_integer(self, below: int) -> int:
        """Draw an integer, uniform on 0, ..., below - 1, exactly."""

    def gamma(self, shape: float | int, scale: float) -> float:
        """Draw a number >= 0 with density ~ z^(shape - 1) exp(-z / scale), up to floating point."""

    def direction(self, dimension: int) -> Float[np.ndarray, " dimension"]:
        """Draw a point, uniform on the unit sphere, up to floating point."""


@runtime_checkable
class Mechanism(Protocol):
    """A release of one value, paid before it is drawn.

    `event` refuses every query that the mechanism cannot draw for; the ledger calls it before it pays.
    Whether `draw` raises must not depend on private values, and no exception may repeat them.
    """

    def event(self, query: Query) -> Event:
        """Describe the release, by public things only."""

    def draw(self, query: Query, noise: Noise) -> Json:
        """Draw the value; only the ledger calls this."""


@runtime_checkable
class Batched(Protocol):
    """A mechanism that draws for many queries in few calls of the noise source."""

    def draw_all(self, queries: Sequence[Query], noise: Noise) -> list[Json]:
        """Draw one value per query, each as `draw` would; only the ledger calls this."""


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """One question to an `Interaction`.

    Parameters
    ----------
    name
        The question's identity, **public**: an interaction answers each name once, and returns the same
        answer to every repetition of the name, for any value. Another model needs another name.
    value
        The arrays and numbers that the answer is computed from, **private**. It has no repr.

    Examples
    --------
    >>> Question("accuracy", {"train": 0.9, "holdout": np.array([1.0, 0.0])})
    Question(name='accuracy')
    """

    name: str
    value: Mapping[str, Any] = field(repr=False)

    def __post_init__(self) -> None:
        check_name("name", self.name)
        if not isinstance(self.value, Mapping):
            raise TypeError("value must be a mapping of names to arrays and numbers")
        held = ((name, even_rows(f"value of {name!r}", one)) for name, one in self.value.items())
        check_arrays(dict(held))


@dataclass(frozen=True, slots=True)
class History:
    """The calls to interactions with the same rows, up to and including one question.

    Two interactions have the same rows unless they use different cells of one partition.

    Parameters
    ----------
    asked
        Calls to all of them, repeated names and the present call included; public.
    number
        Place of the present interaction among them in the order of their first questions, from 1;
        public.
    cost
        Cost of all of them together; public.
    others
        States of the other interactions that have one, **secret**.
    """

    asked: int
    number: int
    cost: Cost
    others: tuple[Json, ...] = field(repr=False)


@runtime_checkable
class Interaction(Protocol):
    """A mechanism that is paid once and answers many questions, such as a reusable holdout.

    The ledger recognises it by public things: its knobs, and the query without its private arrays. The
    state is secret. It stays in the ledger, which keeps the next one with each answer. Whether `check`,
    `start` or `answer` raises must not depend on private values: arrays' shapes and types are public.
    """

    def event(self, query: Query) -> Event:
        """Describe the whole interaction, by public things only."""

    def check(self, query: Query, question: Question) -> None:
        """Raise ValueError for what `answer` would refuse; the ledger calls this before it pays."""

    def start(self, query: Query, noise: Noise) -> Json:
        """Draw the first secret state; only the ledger calls this."""

    def answer(
        self, state: Json, question: Question, noise: Noise, history: History
    ) -> tuple[Json, Json]:
        """Return the next state and the public answer; only the ledger calls this."""


@dataclass(frozen=True, slots=True)
class PureEvent:
    """A mechanism ran whose docstring proves epsilon-differential privacy.

    Parameters
    ----------
    name
        The mechanism.
    epsilon
        Its proved guarantee, > 0 and finite; a decimal, or text that `fractions.Fraction` reads.
    parameters
        Its public knobs, as JSON.
    arithmetic
        "exact" if all its noise is drawn by its exact law, in integers; "double", which claims less,
        if any is drawn in double precision.

    Examples
    --------
    >>> PureEvent("report noisy max", epsilon=0.1).cost().epsilon
    Fraction(1, 10)
    """

    name: str
    epsilon: float | str
    parameters: dict[str, Any] = field(default_factory=dict, hash=False)
    arithmetic: Arithmetic = "double"

    def __post_init__(self) -> None:
        keep_declared(self)
        if not self.name:
            raise ValueError("name must not be empty")
        if not exact(self.epsilon) > 0:
            raise ValueError(f"epsilon must be > 0, got epsilon={self.epsilon}")
        check_arithmetic(self.arithmetic)
        object.__setattr__(self, "parameters", _plain_json(self.parameters))

    def cost(self) -> Cost:
        """Return the cost of pure differential privacy."""
        return Cost(exact(self.epsilon), exact(0))

    def loss(self) -> Loss:
        """Return the loss of randomised response, +-epsilon; it dominates every epsilon-private release."""
        return claim_loss(exact(self.epsilon), exact(0))


@dataclass(frozen=True, slots=True)
class ApproximateEvent:
    """A mechanism ran whose docstring proves (epsilon, delta)-differential privacy.

    Parameters
    ----------
    name
        The mechanism.
    epsilon, delta
        Its proved guarantee, epsilon > 0 and finite, 0 < delta < 1; decimals, or text that
        `fractions.Fraction` reads.
    parameters
        Its public knobs, as JSON.
    arithmetic
        "exact" if all its noise is drawn by its exact law, in integers; "double", which claims less,
        if any is drawn in double precision.

    Raises
    ------
    ValueError
        If one of these conditions is broken.

    Examples
    --------
    >>> ApproximateEvent("toy", epsilon=0.1, delta=1e-6).cost().delta
    Fraction(1, 1000000)
    """

    name: str
    epsilon: float | str
    delta: float | str
    parameters: dict[str, Any] = field(default_factory=dict, hash=False)
    arithmetic: Arithmetic = "double"

    def __post_init__(self) -> None:
        keep_declared(self)
        if not self.name:
            raise ValueError("name must not be empty")
        if not exact(self.epsilon) > 0:
            raise ValueError(f"epsilon must be > 0, got epsilon={self.epsilon}")
        if not 0 < exact(self.delta) < 1:
            raise ValueError(f"delta must be in (0, 1), got delta={self.delta}")
        check_arithmetic(self.arithmetic)
        object.__setattr__(self, "parameters", _plain_json(self.parameters))

    def cost(self) -> Cost:
        """Return the cost of approximate differential privacy at the claim."""
        return Cost(exact(self.epsilon), exact(self.delta))

    def loss(self) -> Loss:
        """Return a loss that is infinite with probability delta, else that of randomised response."""
        return claim_loss(exact(self.epsilon), exact(self.delta))


def _plain_json(parameters: dict[str, Any]) -> Any:
    """Return parameters with Python's numbers for NumPy's; raise if JSON cannot hold them."""
    plain = _plain(parameters)
    try:
        json.dumps(plain, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise type(error)(
            "parameters must be texts, finite numbers, truth values, None, and lists and mappings of "
            f"them: {error}"
        ) from None
    return plain


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value.item() if isinstance(value, np.generic) else value
