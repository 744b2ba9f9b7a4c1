"""Commands that read labels and print what they say, without a run: `workers`, `aggregate`, `agreement`."""

from flows.cli.crowd.agreement_command import agreement
from flows.cli.crowd.label_commands import aggregate, workers

__all__ = ["aggregate", "agreement", "workers"]
