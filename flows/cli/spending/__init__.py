"""Commands about a budget: `budget`, `ledger`, `audit`, `gate` and `plan gold`."""

from flows.cli.spending.gate_command import gate
from flows.cli.spending.gold_commands import gold, plan
from flows.cli.spending.privacy_commands import audit, backup, budget, ledger, verify

__all__ = ["audit", "backup", "budget", "gate", "gold", "ledger", "plan", "verify"]
