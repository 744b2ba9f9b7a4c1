"""Settings that a deployment overrides without editing the file: CROWDASSAY__SECTION__KEY=value.

>>> from flows.settings import Settings
>>> variables_of(Settings)["CROWDASSAY__PRIVACY__EPSILON"]
('privacy', 'epsilon')

An override replaces the file's value before any check, and is recorded with the settings in the
manifest. Secrets therefore have other names (CROWDASSAY_LEDGER), which are never read here. A variable
that looks like an override and is not one raises `SettingsError` with its name, never its value.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping
from typing import Any, get_args, get_origin

from flows.settings.section import Section, SettingsError, section_of

__all__ = ["Key", "overridden", "set_by", "variables_of"]

PREFIX = "CROWDASSAY__"
Key = tuple[str, ...]


def variables_of(settings: type[Section]) -> dict[str, Key]:
    """Return every variable that may be set, in capitals, with the key that it sets."""
    known: dict[str, Key] = {}
    for name, field in settings.model_fields.items():
        section = section_of(field.annotation)
        keys = [(name,)] if section is None else [(name, key) for key in section.model_fields]
        known |= {PREFIX + "__".join(key).upper(): key for key in keys}
    return known


def overridden(
    raw: Mapping[str, Any], settings: type[Section], environment: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, Key]]:
    """Return a file's values with those of the environment in their places, and the variables that were set.

    A value is text; for a key that takes a list it is a TOML list. Relative paths are relative to the
    settings file. A section that the file lacks is not switched on.

    Raises
    ------
    SettingsError
        If a variable looks like an override and is not one, is empty, is not a list where the key takes
        one, or belongs to a section that is off. The message never contains the value.
    """
    known = variables_of(settings)
    given = sorted(name for name in environment if _means_override(name, known))
    values = dict(raw)
    for name in given:
        if name not in known:
            raise SettingsError(f"unknown environment variable {name}{_nearest(name, known)}")
        *inside, last = known[name]
        value = _value(name, environment[name], settings, known[name])
        if not inside:
            values[last] = value
        elif isinstance(section := _section(name, inside[0], values, settings), Mapping):
            values[inside[0]] = {**section, last: value}
    return values, {name: known[name] for name in given}


def set_by(location: tuple[Any, ...], given: Mapping[str, Key], told: str) -> str:
    """Return ``; set by ...`` if a fault at that place concerns a value of the environment.

    A fault of several keys has no place: it concerns those whose section or key is told.
    """
    concerned = [
        name
        for name, key in given.items()
        if key[: len(location)] == location or location[: len(key)] == key
        if location or any(re.search(rf"\b{part}\b", told) for part in key)
    ]
    return f"; set by the environment: {', '.join(concerned)}" if concerned else ""


def _means_override(name: str, known: Mapping[str, Key]) -> bool:
    """Return whether a name has the prefix, or is a known name but for its underscores and capitals."""
    joined = {re.sub("_+", "_", one) for one in known}
    return name.upper().startswith(PREFIX) or re.sub("_+", "_", name.upper()) in joined


def _nearest(name: str, known: Mapping[str, Key]) -> str:
    tails = {one.removeprefix(PREFIX): one for one in known}
    close = difflib.get_close_matches(
        name.upper().removeprefix("CROWDASSAY").strip("_"), tails, n=1
    )
    return f"; did you mean {tails[close[0]]}?" if close else f"; its form is {PREFIX}SECTION__KEY"


def _section(name: str, section: str, values: Mapping[str, Any], settings: type[Section]) -> Any:
    """Return the section as it is in the file; raise SettingsError if it is off there."""
    if section not in values and settings.model_fields[section].default is None:
        raise SettingsError(
            f"{name} needs a [{section}] section in the settings file: the environment switches no "
            "stage on"
        )
    return values.get(section, {})


def _value(name: str, text: str, settings: type[Section], key: Key) -> Any:
    """Return the text, or the list that it stands for if the key takes a list."""
    if not text.strip():
        raise SettingsError(f"{name} must have a value, got an empty one; give one or unset it")
    section = settings
    for part in key[:-1]:
        section = section_of(section.model_fields[part].annotation) or section
    annotation = section.model_fields[key[-1]].annotation
    if not any(get_origin(kind) is tuple for kind in (annotation, *get_args(annotation))):
        return text
    try:
        listed = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        listed = None
    if not isinstance(listed, list):
        raise SettingsError(f'{name} must be a list as TOML has it, such as ["a", "b"] or [0.1, 1]')
    return listed
