"""The process of a command: quick to start and quick to end."""

from __future__ import annotations

import atexit
import gc
import os
import sys

from flows.cli.app import app

__all__ = ["main"]

OBJECTS = 500_000  # new ones before the collector looks
LIVE = {"distributed", "prefect"}  # have threads of their own, which an ordinary exit waits for


def main() -> None:
    """Run the command that the arguments name, and end the process.

    The libraries of a run make hundreds of thousands of objects that stay. The collector need not look
    through them again and again while they are imported, nor take them apart one by one at the end.
    """
    gc.set_threshold(OBJECTS)
    try:
        app()
    except SystemExit as ended:
        if not isinstance(ended.code, int) or LIVE & sys.modules.keys():
            raise
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(ended.code)
