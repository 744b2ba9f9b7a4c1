"""The command line `crowdassay`: `main` runs it, `app` is the Typer application with all commands.

Every module beside `root` adds its commands. Heavy imports happen inside the commands, so that `--help`
stays quick.
"""

from flows.cli.root import app

# isort: off
from flows.cli import campaign, check, init, importing  # noqa: F401  # add commands
from flows.cli import crowd, finished, machine, spending  # noqa: F401  # likewise

# isort: on
from flows.cli.root import main

__all__ = ["app", "main"]
