"""Commands about finished runs: `compare` two of them, `block` workers and `repost` tasks on platforms."""

from flows.cli.finished.run_commands import block, compare, repost

__all__ = ["block", "compare", "repost"]
