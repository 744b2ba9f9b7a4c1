"""The ledger: budgets, and the releases paid from them, in one file or one PostgreSQL database.

Open a `Ledger`, give a data set a budget, and `release` queries by mechanisms: each is booked
durably before its noise is drawn, and paid once. `Statement` lists what was spent.

>>> import tempfile
>>> from pathlib import Path
>>> from privacy import Unit
>>> with tempfile.TemporaryDirectory() as folder:
...     ledger = Ledger(Path(folder) / "ledger.sqlite", key=bytes(32))
...     ledger.open_budget("toy", unit=Unit.ROW, epsilon=1.0, delta=0.0, n=4)
...     print(cost_text(ledger.statement("toy").left))
epsilon=1, delta=0
"""

from privacy.ledger.ledger import Ledger, Release
from privacy.ledger.records import Head
from privacy.ledger.spending import BudgetError, PlanError, cost_text
from privacy.ledger.sqlite import new_file
from privacy.ledger.statement import Entry, PlanUse, Statement
from privacy.ledger.store import LedgerError

__all__ = [
    "BudgetError", "Entry", "Head", "Ledger", "LedgerError", "PlanError", "PlanUse", "Release",
    "Statement", "cost_text", "new_file",
]  # fmt: skip
