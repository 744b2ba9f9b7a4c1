"""Commands about labels without a run: `workers` and `aggregate` read them, `power` plans them."""

from flows.cli.crowd.label_commands import aggregate, workers
from flows.cli.crowd.power_command import power

__all__ = ["aggregate", "power", "workers"]
