# ruff: noqa: E402 - Ctrl-C is seen to first
"""The command line `crowdassay`: `main` runs it, `app` is the Typer application with all commands.

Every module beside `root` adds its commands. Heavy imports happen inside the commands, so that `--help`
stays quick. Ctrl-C ends the process during these imports, in which nothing has begun, without a traceback.
"""

import signal
import threading

_interrupts = (
    threading.current_thread() is threading.main_thread()
    and signal.getsignal(signal.SIGINT) is signal.default_int_handler
)
if _interrupts:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from flows.cli.root import app

# isort: off
from flows.cli import campaign, check, init, importing  # noqa: F401  # add commands
from flows.cli import crowd, finished, machine, spending  # noqa: F401  # likewise

# isort: on
from flows.cli.root import main

if _interrupts:
    signal.signal(signal.SIGINT, signal.default_int_handler)

__all__ = ["app", "main"]
