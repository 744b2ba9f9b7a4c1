"""Commands for whoever runs the machine: `runs`, `prune`, `doctor` and `warm`."""

from flows.cli.machine.upkeep import doctor, prune, runs, warm

__all__ = ["doctor", "prune", "runs", "warm"]
