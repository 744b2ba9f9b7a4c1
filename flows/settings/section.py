"""One section of the settings file: what every section is, the sentences under its keys, and its errors.

>>> class Kettle(Section):
...     litres: float = 1.0
>>> Kettle(litres=2).litres
2.0
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from flows.settings.addresses import NO_HOME

__all__ = [
    "EngineError", "Level", "Positive", "Section", "SettingsError", "Share", "key_sentences", "section_of",
]  # fmt: skip

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(gt=0, lt=1)]
# of confidence: beyond, doubles cannot divide it among bounds that are to hold together
Level = Annotated[float, Field(ge=1e-9, le=1 - 1e-9)]


class SettingsError(ValueError):
    """The settings file cannot be used; the message says which key, what came and what to do."""


class EngineError(RuntimeError):
    """The machines that a run works on are gone; ``--resume`` goes on from the stages that are finished."""


class Section(BaseModel):
    """One table of the settings file: frozen, and an unknown key is a mistake.

    The text under a key says what it is for; `crowdassay init` and the reference repeat it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    @field_validator("*", mode="before")
    @classmethod
    def _truth_is_no_number(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse a truth value for a number, and a blank path, which would be the settings' own folder.

        Refuse a path that begins with ~ too: by it a folder called ~ would be made beside the settings.
        """
        annotation = cls.model_fields[str(info.field_name)].annotation
        if annotation is not bool and any(isinstance(one, bool) for one in _each(value)):
            raise ValueError("input should not be true or false")
        if Path not in (annotation, *get_args(annotation)):
            return value
        if any(map(_is_no_path, _each(value))):
            if isinstance(value, str):
                raise PydanticCustomError("path_type", "must be a path")  # as for another type
            raise ValueError("must be a list of paths, none of them blank")
        if any(str(one).partition("/")[0] == "~" for one in _each(value)):
            raise ValueError(NO_HOME)
        return value

    @field_validator("*", mode="after")
    @classmethod
    def _text_says_something(cls, value: Any, info: ValidationInfo) -> Any:
        says_nothing = isinstance(value, str) and (not value or "\0" in value)
        if says_nothing and info.field_name != "sep":  # which has a rule of its own
            raise ValueError("must be a text that is not empty and holds no NUL")
        return value


def _each(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list | tuple) else (value,)


def _is_no_path(value: Any) -> bool:
    return isinstance(value, str) and (not value.strip() or "\0" in value)


@cache
def key_sentences(section: type[Section]) -> dict[str, str]:
    """Return the sentence under each key of a section, which says what the key is for.

    Read from the source when asked: read by pydantic at each start it costs four times what the sections do.

    >>> from flows.settings import FilterSettings
    >>> key_sentences(FilterSettings)["n_workers"]
    'Instead of a rate: the number of workers to remove.'
    """
    (written,) = ast.parse(inspect.getsource(section)).body
    assert isinstance(written, ast.ClassDef)
    return {
        key.target.id: inspect.cleandoc(str(text.value.value))
        for key, text in pairwise(written.body)
        if isinstance(key, ast.AnnAssign) and isinstance(key.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
    }


def section_of(annotation: Any) -> type[Section] | None:
    """Return the section that a key holds, or None where it holds a value."""
    for kind in getattr(annotation, "__args__", (annotation,)):
        if isinstance(kind, type) and issubclass(kind, Section):
            return kind
    return None
