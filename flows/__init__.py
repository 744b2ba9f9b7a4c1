"""The story of a run: `from flows import run_pipeline, crowd_quality_flow`.

Names load when they are first used, so that `crowdassay --help` stays quick and only the flow pays for
importing Prefect.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flows.pipeline import RunResult, run_pipeline
    from flows.prefect.flow import crowd_quality_flow
    from flows.settings.settings import Settings, load_settings

__all__ = ["RunResult", "Settings", "crowd_quality_flow", "load_settings", "run_pipeline"]

HOME = {
    "RunResult": "flows.pipeline",
    "Settings": "flows.settings.settings",
    "crowd_quality_flow": "flows.prefect.flow",
    "load_settings": "flows.settings.settings",
    "run_pipeline": "flows.pipeline",
}


def __getattr__(name: str) -> Any:
    if name not in HOME:
        raise AttributeError(f"module 'flows' has no attribute {name!r}")
    return getattr(import_module(HOME[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *HOME]
