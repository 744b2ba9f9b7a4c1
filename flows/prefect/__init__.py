"""Prefect: a run as a flow, on a schedule or on demand. No other sub-room imports Prefect.

    from flows.prefect import crowd_quality_flow
    crowd_quality_flow("settings.toml")

`run_as_flow` is what `crowdassay run` calls; `serve_campaign` and `deploy_campaign` keep a flow
running; `watch_labels_flow` takes labels in as they come. Names load when they are first used:
`api_reachable` and `embedded_server` do not load Prefect, the others take seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flows.faces import late_face

if TYPE_CHECKING:
    from flows.prefect.deploy import Schedule, deploy_campaign, serve_campaign, write_prefect_yaml
    from flows.prefect.flow import crowd_quality_flow, run_as_flow
    from flows.prefect.server import api_reachable, embedded_server
    from flows.prefect.watch_flow import watch_labels_flow

__all__ = [
    "Schedule", "api_reachable", "crowd_quality_flow", "deploy_campaign", "embedded_server",
    "run_as_flow", "serve_campaign", "watch_labels_flow", "write_prefect_yaml",
]  # fmt: skip

__getattr__, __dir__ = late_face(__name__)
