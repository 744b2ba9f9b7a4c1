# ruff: noqa: E402 - Prefect reads its environment when it is imported, so that is set first
"""Labels watched on a schedule: each run takes in what a file has gained, and keeps its state for the next.

    from flows.prefect import watch_labels_flow
    watch_labels_flow.serve("watch", cron="*/10 * * * *",
                            parameters={"labels": "labels.csv", "state": "state/watch.npz"})

Parameters are paths and names of columns. Nothing that is read or found is sent to Prefect, and of an error
the type alone; alarms are printed by the process that runs the flow, and not sent either.
"""

from __future__ import annotations

import sys
from functools import partial
from importlib.metadata import version
from pathlib import Path
from traceback import clear_frames
from typing import cast

from flows.prefect.server import quieten
from flows.terminal import is_mistake, printable, sentence
from flows.watching import watch_once

quieten()

from prefect import Flow, State

from flows.prefect.task import LastingFlow, failed, with_or_without_server

__all__ = ["watch_labels_flow"]


def _watch(
    labels: str, state: str, seconds: str | None = None, columns: dict[str, str] | None = None
) -> State[None] | None:
    """Take in what the file of labels has gained since the last run with this state."""
    work = partial(_take_in, labels, state, seconds=seconds, columns=columns)
    return with_or_without_server(work, say=_print)


def _take_in(
    labels: str, state: str, *, seconds: str | None, columns: dict[str, str] | None
) -> State[None] | None:
    try:
        watch_once(Path(labels), Path(state), seconds=seconds, columns=columns, on_alarm=_print)
    except Exception as error:  # raised again by Prefect, which is sent its type alone
        if is_mistake(error):
            _print(sentence(error))
        clear_frames(error.__traceback__)  # Prefect keeps the error: let it keep no rows
        return failed(error, data=error)
    return None


def _print(words: str) -> None:
    print(f"crowdassay: {printable(words)}", file=sys.stderr, flush=True)


watch_labels_flow = cast(
    "Flow[[str, str, str | None, dict[str, str] | None], None]",
    LastingFlow(
        _watch,
        name="crowdassay-watch",
        version=version("crowdassay"),
        flow_run_name="{state}",
        persist_result=False,
        log_prints=False,
    ),
)
"""Labels watched in micro-batches as a Prefect flow: call it with the paths of a growing CSV file and of the
state, or serve or deploy it.

A run that is started while another holds the state fails, and the next one takes in what it would have.
"""
