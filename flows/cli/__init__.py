"""The command line `crowdassay`: `main` runs it, `app` is the Typer application with all commands.

Every module beside `root` adds its commands. Heavy imports happen inside the commands, so that `--help`
stays quick.
"""

from flows.cli.root import app

# In the order of the help.
# isort: off
from flows.cli import (  # noqa: F401  # add commands
    campaign,
    init,
    importing,
    label_commands,
    gold_commands,
    privacy_commands,
    warm,
)

# isort: on
from flows.cli.root import main

__all__ = ["app", "main"]
