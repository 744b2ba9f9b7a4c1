"""Commands that read labels and print what they say, without a run: `workers` and `aggregate`."""

from flows.cli.crowd.label_commands import aggregate, workers

__all__ = ["aggregate", "workers"]
