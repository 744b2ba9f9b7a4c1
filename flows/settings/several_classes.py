"""The one list of settings that do not go with several classes at once, and what such a run needs.

A run of sets of classes has its own model, filter and shares; what knows of one label a task alone is
refused before anything is read.

>>> from flows.settings import Settings
>>> Settings(name="c", input={"labels": "labels.csv", "several": "|"}).input.several
'|'
"""

from __future__ import annotations

from typing import Any, Protocol

from privacy import Unit

__all__ = ["check_several"]

ONE_LABEL = {
    "input": (
        "order", "reference", "seconds", "subject", "models", "wide", "duplicates", "gold_sampling",
        "embeddings", "standardize",
    ),
    "filter": ("penalty", "potentials"),
    "consensus": (
        "aggregator", "loss", "max_iter", "tol", "smoothing", "go_on", "removed",
    ),
    "privacy": ("correction_epsilon", "planned_runs"),
    "report": (
        "archetypes", "error_features", "decision_images", "psychometric", "plan_search",
    ),
}  # fmt: skip
"""Keys, by section, of what needs one label a task; each must be left as it is by default."""
SECTIONS = ("model", "topics", "engine")
"""Sections likewise, which must be left out."""


class Sections(Protocol):
    """The sections of `Settings` that are read, None where one is left out."""

    @property
    def classes(self) -> tuple[str, ...] | None:
        """The classes declared."""

    @property
    def input(self) -> Any:
        """The tables."""

    @property
    def privacy(self) -> Any:
        """The budget and its unit."""


def check_several(settings: Sections) -> None:
    """Raise ValueError for settings that do not go with `input.several`, or that need it.

    Examples
    --------
    >>> from flows.settings import Settings
    >>> tables = {"labels": "labels.csv", "several": "|", "order": True}
    >>> Settings(name="c", classes=("low", "high"), input=tables)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    pydantic_core._pydantic_core.ValidationError: 1 validation error for Settings
      Value error, input.order must be left out with input.several: it is for one label a task...
    """
    split, privacy = settings.input.several, settings.privacy
    if split is None:
        _check_without(settings)
        return
    for section, keys in ONE_LABEL.items():
        given = getattr(settings, section)
        for key in keys if given is not None else ():
            if getattr(given, key) != type(given).model_fields[key].default:
                raise ValueError(
                    f"{section}.{key} must be left out with input.several: it is for one label a task"
                )
    for section in SECTIONS:
        if getattr(settings, section) is not None:
            raise ValueError(
                f"[{section}] must be left out with input.several: it is for one label a task"
            )
    if settings.classes is not None and any(split in name for name in settings.classes):
        raise ValueError(
            f"input.several must not stand in a class, got {split!r}: name another separator, as consensus "
            "labels are joined by it"
        )
    if settings.input.nothing in (settings.classes or ()):
        raise ValueError(
            f"input.nothing must be no class, got {settings.input.nothing!r}: it is the word for none of them"
        )
    if privacy is not None:
        _check_privacy(privacy, settings.classes)


def _check_without(settings: Sections) -> None:
    """Raise ValueError for a key that needs `input.several`."""
    if settings.input.nothing is not None:
        raise ValueError("input.nothing needs input.several, what stands between classes in a cell")
    if settings.privacy is not None and settings.privacy.max_labels is not None:
        raise ValueError(
            "privacy.max_labels needs input.several, what stands between classes in a cell"
        )


def _check_privacy(privacy: Any, classes: tuple[str, ...] | None) -> None:
    """Raise ValueError unless the shares of sets can be paid for under these settings."""
    if privacy.unit is not Unit.CONSENSUS_LABEL:
        raise ValueError(
            'privacy.unit must be "consensus label" with input.several, whose model finds a task\'s classes '
            f'from all answers together; got "{privacy.unit}"'
        )
    if privacy.max_labels is None:
        raise ValueError(
            "privacy.max_labels must be given with input.several: the most classes of a task that count, as "
            "each needs more noise; choose it without a look at the answers"
        )
    if classes is not None and privacy.max_labels > len(classes):
        raise ValueError(
            f"privacy.max_labels must be at most the number of classes, {len(classes)}, got "
            f"{privacy.max_labels}"
        )
