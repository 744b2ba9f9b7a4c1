"""The story of a run: from a campaign's settings to its report.

    from flows import load_settings, run_pipeline
    result = run_pipeline(load_settings(Path("settings.toml")))

`crowd_quality_flow` is the same run as a Prefect flow. Names load when they are first used: `crowdassay
--help` stays quick, and only the flow pays for importing Prefect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flows.faces import late_face

if TYPE_CHECKING:
    from flows.pipeline import RunResult, run_pipeline
    from flows.prefect import crowd_quality_flow
    from flows.settings import Settings, load_settings

__all__ = ["RunResult", "Settings", "crowd_quality_flow", "load_settings", "run_pipeline"]

__getattr__, __dir__ = late_face(__name__)
