"""TODO face of privacy.ledger."""

from privacy.ledger.ledger import (
    BudgetError,
    Ledger,
    LedgerError,
    PlanError,
    Release,
    import_ledger,
)
from privacy.ledger.spending import told
from privacy.ledger.sqlite import new_file
from privacy.ledger.statement import Entry, PlanUse, Statement

__all__ = [
    "BudgetError",
    "Entry",
    "Ledger",
    "LedgerError",
    "PlanError",
    "PlanUse",
    "Release",
    "Statement",
    "import_ledger",
    "new_file",
    "told",
]
