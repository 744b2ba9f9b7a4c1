"""Commands about labels, sets of them and comparisons without a run: they read, print or plan them."""

from flows.cli.crowd.agreement_command import agreement
from flows.cli.crowd.label_commands import aggregate, workers
from flows.cli.crowd.multilabel_command import multilabel
from flows.cli.crowd.power_command import power
from flows.cli.crowd.rank_command import rank
from flows.cli.crowd.watch_command import watch

__all__ = ["aggregate", "agreement", "multilabel", "power", "rank", "watch", "workers"]
