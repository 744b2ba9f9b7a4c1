"""Why a stage goes by: a data set that lacks what the stage needs is not an error."""

from __future__ import annotations

from flows.run.crowd import Crowd
from flows.run.store import Run
from flows.settings.settings import Settings

__all__ = ["skip", "why_no_features", "why_nothing_leaves"]


def skip(run: Run, output: str, reason: str) -> str:
    """Write the reason in place of the stage's output, and say it."""
    run.write_json(output, {"skipped": reason})
    return f"skipped: {reason}"


def why_nothing_leaves(settings: Settings) -> str | None:
    """Why no release can be made under these settings, or None."""
    if settings.privacy is None:
        return "the settings have no [privacy] section, so nothing is released"
    if settings.classes is None:
        return (
            "the settings do not declare the classes, and names found in private labels would leak"
        )
    return None


def why_no_features(crowd: Crowd) -> str | None:
    """Why nothing can be learned from features, or None."""
    if crowd.tasks is None or not crowd.tasks.feature_names:
        return "there are no task features"
    return None
