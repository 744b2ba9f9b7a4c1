"""A section of the settings, and what is wrong with one as a sentence."""

from __future__ import annotations

import difflib
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, field_validator

__all__ = ["EngineError", "Section", "SettingsError", "fault_sentence", "section_of"]


class SettingsError(ValueError):
    """The settings file cannot be used; the message says which key, what came and what to do."""


class EngineError(RuntimeError):
    """The machines that a run works on are gone; what it has finished stays, to be gone on with."""


class Section(BaseModel):
    """One table of the settings file: frozen, and an unknown key is a mistake.

    The text under a key says what it is for: `crowdassay init` and the reference repeat it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    @field_validator("*", mode="before")
    @classmethod
    def _truth_is_no_number(cls, value: Any, info: ValidationInfo) -> Any:
        field = cls.model_fields[str(info.field_name)]
        if isinstance(value, bool) and field.annotation is not bool:
            raise ValueError("input should not be true or false")
        return value


def fault_sentence(error: ValidationError, settings: type[Section]) -> str:
    """The first fault of a settings file, as one sentence; a misspelt key before one that lacks."""
    fault = min(error.errors(), key=lambda one: one["type"] != "extra_forbidden")
    key = ".".join(str(part) for part in fault["loc"])
    if fault["type"] == "extra_forbidden":
        return f"unknown key {key!r}{_nearest(fault['loc'], settings)}"
    message = str(fault["msg"]).removeprefix("Value error, ")
    if not key:
        return message
    if fault["type"] == "missing":
        return f"{key} must be given"
    came = "" if isinstance(fault["input"], dict) else f", got {fault['input']!r}"
    return f"{key}: {message[0].lower()}{message[1:]}{came}"


def section_of(annotation: Any) -> type[Section] | None:
    """The section that a key holds, or None where it holds a value."""
    for kind in getattr(annotation, "__args__", (annotation,)):
        if isinstance(kind, type) and issubclass(kind, Section):
            return kind
    return None


def _nearest(location: tuple[Any, ...], settings: type[Section]) -> str:
    """`; did you mean ...?` where a known key of that section resembles the unknown one."""
    section = settings
    for part in location[:-1]:
        section = section_of(section.model_fields[part].annotation) or section
    close = difflib.get_close_matches(str(location[-1]), section.model_fields, n=1)
    return (
        f"; did you mean {close[0]!r}?"
        if close
        else f"; known are {', '.join(section.model_fields)}"
    )
