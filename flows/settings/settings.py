"""The settings of a run: one TOML file, one frozen model.

    settings = load_settings(Path("settings.toml"))

Every path in the file is relative to the file itself, so that a campaign's folder can be moved whole.
"""

from __future__ import annotations

import difflib
import os
import shlex
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from flows.files import name_advice, open_text
from flows.settings.environment import overridden, set_by
from flows.settings.input_sections import InputSettings
from flows.settings.section import Section, SettingsError, section_of
from flows.settings.sections import FilterSettings, Settings

__all__ = ["fault_sentence", "filter_settings", "input_settings", "load_settings", "run_settings"]

Chosen = TypeVar("Chosen", bound=Section)

FORMS = ("bool", "float", "int", "str")
PLAIN = {  # pydantic's words for Python's types, in those of a settings file
    "tuple_type": 'must be a list, as in ["a", "b"] or [0.1, 1]',
    "path_type": 'must be a path, as in "labels.csv"',
    "dict_type": "must be a section of keys",
    "model_type": "must be a section of keys",
}


def load_settings(path: str | os.PathLike[str]) -> Settings:
    """Return the settings in a file, with its relative paths made absolute.

    Environment variables CROWDASSAY__SECTION__KEY replace the file's values.

    Raises
    ------
    SettingsError
        If the file is missing or a pipe, is not TOML, or has an unknown key (the message names the nearest
        known one) or an invalid value; likewise for an environment variable. If its folder's path is not
        UTF-8.
    """
    path = Path(path)
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise SettingsError(
            f"settings file {path} is a pipe or a device, and a run reads its settings more than once; save "
            "what comes, and name that file"
        )
    try:
        with open_text(path) as file:
            raw = tomllib.loads(file.read().replace("\r\n", "\n"))
    except OSError as error:
        raise SettingsError(f"settings file {path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeError) as error:
        hint = "; texts stand in quotes" * ("Invalid value" in str(error))
        if path.suffix.lower() not in ("", ".toml"):
            hint = (
                f"; for a table, settings are written by: crowdassay init {shlex.quote(str(path))}"
            )
        raise SettingsError(f"settings file {path} must be TOML: {error}{hint}") from None
    values, given = overridden(raw, Settings, os.environ)
    try:
        settings = Settings.model_validate(values)
    except ValidationError as error:
        told = fault_sentence(error, Settings)
        who = set_by(_first_fault(error)["loc"], given, told)
        raise SettingsError(f"{path}: {told}{who}") from None
    folder = path.resolve().parent
    try:
        str(folder).encode()  # every run records its paths as text
    except UnicodeEncodeError:
        raise SettingsError(
            f"a campaign's folder must have a path of UTF-8 text, got {str(folder)!a}; "
            + name_advice("rename it")
        ) from None
    return settings.under(folder)


def filter_settings(**given: Any) -> FilterSettings:
    """Return the filter's settings from a command's options; raise SettingsError as for a settings file."""
    return _of_options(FilterSettings, given)


def input_settings(**given: Any) -> InputSettings:
    """Return the tables to read from a command's options; raise SettingsError as for a settings file."""
    return _of_options(InputSettings, given)


def run_settings(**given: Any) -> Settings:
    """Return a run's settings from values; raise SettingsError as for a settings file."""
    return _of_options(Settings, given)


def _of_options(section: type[Chosen], given: dict[str, Any]) -> Chosen:
    try:
        return section.model_validate(given)
    except ValidationError as error:
        raise SettingsError(fault_sentence(error, section)) from None


def fault_sentence(error: ValidationError, settings: type[Section]) -> str:
    """Return the first fault that pydantic reports as one sentence; unknown keys come before missing ones.

    >>> try:
    ...     FilterSettings(penalti="soft")
    ... except ValidationError as error:
    ...     print(fault_sentence(error, FilterSettings))
    unknown key 'penalti'; did you mean 'penalty'?
    """
    faults, fault = error.errors(), _first_fault(error)
    place = tuple(part for part in fault["loc"] if not _is_choice(part))
    key = ".".join(str(part) for part in place)
    if fault["type"] == "extra_forbidden":
        return f"unknown key {key!r}{_nearest(fault['loc'], settings)}"
    same = [one for one in faults if one["loc"][: len(place)] == place]  # of each form it may have
    plain = [_plain(one) for one in (same if place != fault["loc"] else [fault])]
    if not key:
        return plain[0]
    message = ", or ".join(dict.fromkeys(f"{one[0].lower()}{one[1:]}" for one in plain))
    if key == "name" and fault["type"] == "string_pattern_mismatch":
        message = (
            "must be letters, digits, dots, dashes and underscores, a letter or digit first, "
            "at most 200 in all"
        )
    if key == "keep_runs":
        message = 'must be a number of runs, such as 20, or an age, such as "90 days"'
    if fault["type"] == "missing":
        return f"{key} must be given"
    came = "" if isinstance(fault["input"], dict) else f", got {fault['input']!r}"
    return f"{key}: {message}{came}"


def _first_fault(error: ValidationError) -> ErrorDetails:
    """Return the fault that is told: the first unknown key, else the first of all."""
    return min(error.errors(), key=lambda one: one["type"] != "extra_forbidden")


def _is_choice(part: int | str) -> bool:
    """Return whether a part of a place names no key but one of several forms that a value may have."""
    return str(part).startswith(("constrained-", "literal[", "function-")) or part in FORMS


def _plain(fault: Mapping[str, Any]) -> str:
    """Return pydantic's complaint about a value in the words of a settings file."""
    message = str(fault["msg"]).removeprefix("Value error, ")
    return PLAIN.get(fault["type"], message)


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
