"""The story of a run: from a campaign's settings to its report.

    from flows import assess, load_settings, run_pipeline
    assess(frame).consensus.to_pandas()                   # a data frame of labels, no settings
    result = run_pipeline(load_settings("settings.toml"))
    result.workers.to_pandas()

`crowd_quality_flow` is the same run as a Prefect flow. Names load when they are first used: `crowdassay
--help` stays quick, and only the flow pays for importing Prefect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flows.faces import late_face

if TYPE_CHECKING:
    from flows.assessment import Assessment, assess
    from flows.pipeline import RunResult, run_pipeline
    from flows.prefect import crowd_quality_flow
    from flows.settings import Settings, load_settings
    from flows.tables import ResultTable, result_table

__all__ = [
    "Assessment", "ResultTable", "RunResult", "Settings", "assess", "crowd_quality_flow",
    "load_settings", "result_table", "run_pipeline",
]  # fmt: skip

__getattr__, __dir__ = late_face(__name__)
