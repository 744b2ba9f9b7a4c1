"""The one list of settings under which tasks' features, or models' answers, must not join the consensus.

A classifier carries what other tasks' labels and features say into a task's consensus label. That is
sound only where nothing that is released, and nothing that is judged, rests on their being apart.

>>> from flows.settings import Settings
>>> settings = {"name": "c", "input": {"labels": "labels.csv", "tasks": ["tasks.csv"]}}
>>> why_features_stay_out(Settings(**settings)) is None
True
>>> why_features_stay_out(Settings(**settings, privacy={"unit": "row", "epsilon": 1.0}))
'with privacy.unit = "row" the features and labels of one task could move the labels of others'
"""

from __future__ import annotations

from typing import Any, Protocol

from privacy import Unit

__all__ = ["why_features_stay_out", "why_voices_stay_out"]

# every other unit promises that what it protects moves one task's label, or is read in no other's
JOINABLE = (Unit.CONSENSUS_LABEL,)


class Sections(Protocol):
    """The sections of `Settings` that are read, None where one is left out."""

    @property
    def input(self) -> Any:
        """The tables."""

    @property
    def privacy(self) -> Any:
        """The budget and its unit."""


def why_features_stay_out(settings: Sections) -> str | None:
    """Return why tasks' features cannot join the consensus under these settings, or None.

    Examples
    --------
    >>> from flows.settings import Settings
    >>> why_features_stay_out(Settings(name="c", input={"labels": "labels.csv"}))
    'there is no input.tasks, the tables that hold features'
    """
    privacy = settings.privacy
    if not settings.input.tasks:
        return "there is no input.tasks, the tables that hold features"
    if (why := why_voices_stay_out(settings)) is not None:
        return why
    if privacy is not None and settings.input.features_private:
        return "private features would move published counts that pay for labels alone"
    return None


def why_voices_stay_out(settings: Sections) -> str | None:
    """Return why nothing that learns from other tasks can join the consensus, or None.

    Examples
    --------
    >>> from flows.settings import Settings
    >>> settings = Settings(name="c", input={"labels": "labels.csv"}, privacy={"epsilon": 1.0})
    >>> why_voices_stay_out(settings) is None
    True
    """
    if settings.input.several is not None:
        return "several classes may hold for a task, and a classifier tells apart what excludes each other"
    if settings.privacy is not None and settings.privacy.unit not in JOINABLE:
        return (
            f'with privacy.unit = "{settings.privacy.unit}" the features and labels of one task could '
            "move the labels of others"
        )
    return None
