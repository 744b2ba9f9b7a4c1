"""Commands for whoever runs the machine: `doctor`, `prune` and `warm`."""

from flows.cli.machine.upkeep import doctor, prune, warm

__all__ = ["doctor", "prune", "warm"]
