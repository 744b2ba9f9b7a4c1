"""Faults of a settings file: pydantic's report about a section as the one sentence that a user reads.

>>> from flows.settings import FilterSettings
>>> try:
...     FilterSettings(penalti="soft")
... except ValidationError as error:
...     print(fault_sentence(error, FilterSettings))
unknown key 'penalti'; did you mean 'penalty'?
"""

from __future__ import annotations

import difflib
from typing import Any

from pydantic import ValidationError

from flows.settings.section import Section, section_of

__all__ = ["fault_sentence"]


def fault_sentence(error: ValidationError, settings: type[Section]) -> str:
    """Return the first fault of a settings file as one sentence; unknown keys come before missing ones."""
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


def _nearest(location: tuple[Any, ...], settings: type[Section]) -> str:
    """Return ``; did you mean ...?`` if a key of the section resembles the unknown one, else the keys."""
    section = settings
    for part in location[:-1]:
        section = section_of(section.model_fields[part].annotation) or section
    close = difflib.get_close_matches(str(location[-1]), section.model_fields, n=1)
    return (
        f"; did you mean {close[0]!r}?"
        if close
        else f"; known are {', '.join(section.model_fields)}"
    )
