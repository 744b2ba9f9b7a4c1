"""Commands that read labels or comparisons and print what they say, without a run."""

from flows.cli.crowd import rank  # noqa: F401  # adds its command
from flows.cli.crowd.agreement_command import agreement
from flows.cli.crowd.label_commands import aggregate, workers
from flows.cli.crowd.watch_command import watch

__all__ = ["aggregate", "agreement", "watch", "workers"]
