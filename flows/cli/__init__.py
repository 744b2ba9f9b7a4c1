"""The command line. Heavy imports happen inside the commands, so that `--help` stays quick."""

from flows.cli.app import app

# In the order of the help.
# isort: off
from flows.cli import init, campaign, deploy, importing, label_commands, account, ledger, warm  # noqa: F401  # they add their commands to the app

# isort: on
from flows.cli.app import main

__all__ = ["app", "main"]
