"""Where a report comes from: versions and settings of its manifest, without times or places."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

__all__ = ["lineage"]

PLACES = ("runs", "state")  # where a run lies says nothing of what it found


def lineage(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Versions, and settings as rows of section, key and value; a path is its file's name."""
    python = {"python": manifest["python"]}
    return {
        "versions": python | manifest["versions"],
        "settings": list(_settings(manifest["settings"])),
    }


def _settings(settings: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """One row for each key that is set, the sections' after the others'."""
    plain = {key: value for key, value in settings.items() if not isinstance(value, Mapping)}
    for section, keys in {"": plain, **settings}.items():
        if isinstance(keys, Mapping):
            for key, value in keys.items():
                if value is not None and key not in PLACES:
                    yield {"section": section, "key": key, "value": _words(section, value)}


def _words(section: str, value: Any) -> str:
    """A value as it would be read aloud."""
    if isinstance(value, list):
        return ", ".join(_words(section, one) for one in value) or "none"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_words(section, one)}" for key, one in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    return PurePath(value).name if section == "input" and isinstance(value, str) else str(value)
