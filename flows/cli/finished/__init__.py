"""Commands about finished runs: `compare` two of them, `block` workers and `repost` tasks on platforms."""

from flows.cli.finished.compare_command import compare
from flows.cli.finished.platform_commands import block, repost

__all__ = ["block", "compare", "repost"]
