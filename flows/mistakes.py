"""What a user can mend: told in one sentence, without a traceback."""

from __future__ import annotations

from flows.settings import SettingsError
from flows.tables import TableError
from privacy import BudgetError, LedgerError, UnitError
from quality import LabelError

__all__ = ["MISTAKES"]

MISTAKES = (
    BudgetError,
    FileNotFoundError,
    LabelError,
    LedgerError,
    PermissionError,
    SettingsError,
    TableError,
    UnitError,
)
