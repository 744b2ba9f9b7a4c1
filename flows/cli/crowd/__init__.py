"""Commands about labels and comparisons without a run: they read them, print what they say, or plan them."""

from flows.cli.crowd.agreement_command import agreement
from flows.cli.crowd.label_commands import aggregate, workers
from flows.cli.crowd.power_command import power
from flows.cli.crowd.rank_command import rank
from flows.cli.crowd.watch_command import watch

__all__ = ["aggregate", "agreement", "power", "rank", "watch", "workers"]
