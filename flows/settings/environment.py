"""What a deployment sets without editing the settings file: CROWDASSAY__SECTION__KEY=value.

An override stands in the place of the file's value before anything is checked, and is recorded where
settings are: in the manifest. So secrets have other names (CROWDASSAY_LEDGER): those are never read
here, and what has the form of an override without being one is refused by its name alone.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping
from typing import Any, get_args, get_origin

from flows.settings.sections import Section, SettingsError, section_of

__all__ = ["Key", "overridden", "set_by", "variables_of"]

PREFIX = "CROWDASSAY__"
Key = tuple[str, ...]


def variables_of(settings: type[Section]) -> dict[str, Key]:
    """Every variable that may be set, with the key it sets: one name each, in capitals."""
    known: dict[str, Key] = {}
    for name, field in settings.model_fields.items():
        section = section_of(field.annotation)
        keys = [(name,)] if section is None else [(name, key) for key in section.model_fields]
        known |= {PREFIX + "__".join(key).upper(): key for key in keys}
    return known


def overridden(
    raw: Mapping[str, Any], settings: type[Section], environment: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, Key]]:
    """A file's values with those of the environment in their places, and which variables were set.

    Values are text as the key takes it; a key that lists takes a TOML list. Relative paths count
    from the settings file, like those in it. A section that the file lacks is not switched on.

    Raises
    ------
    SettingsError
        If a variable has the form of an override and is none, is empty, is not the list it must
        be, or belongs to a section that is off. The message never has the value.
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


def set_by(location: tuple[Any, ...], given: Mapping[str, Key]) -> str:
    """`; set by ...` where a fault at that place concerns a value of the environment."""
    concerned = [
        name
        for name, key in given.items()
        if key[: len(location)] == location or location[: len(key)] == key
    ]
    return f"; set by the environment: {', '.join(concerned)}" if concerned else ""


def _means_override(name: str, known: Mapping[str, Key]) -> bool:
    """Whether a name has the prefix, or is a known name but for its underscores and capitals."""
    joined = {re.sub("_+", "_", one) for one in known}
    return name.upper().startswith(PREFIX) or re.sub("_+", "_", name.upper()) in joined


def _nearest(name: str, known: Mapping[str, Key]) -> str:
    tails = {one.removeprefix(PREFIX): one for one in known}
    close = difflib.get_close_matches(
        name.upper().removeprefix("CROWDASSAY").strip("_"), tails, n=1
    )
    return f"; did you mean {tails[close[0]]}?" if close else f"; its form is {PREFIX}SECTION__KEY"


def _section(name: str, section: str, values: Mapping[str, Any], settings: type[Section]) -> Any:
    """The file's section, as it stands there; one that is off unless given stays off."""
    if section not in values and settings.model_fields[section].default is None:
        raise SettingsError(
            f"{name} needs a [{section}] section in the settings file: the environment switches no "
            "stage on"
        )
    return values.get(section, {})


def _value(name: str, text: str, settings: type[Section], key: Key) -> Any:
    """The text itself, or the list it spells where the key takes a list."""
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
