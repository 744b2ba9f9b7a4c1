"""Commands that read labels and print what they say, without a run: `workers`, `aggregate`, `watch`."""

from flows.cli.crowd.label_commands import aggregate, workers
from flows.cli.crowd.watch_command import watch

__all__ = ["aggregate", "watch", "workers"]
