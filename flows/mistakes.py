"""What a user can mend: told in one sentence, without a traceback."""

from __future__ import annotations

from flows.settings import SettingsError
from flows.text_table import TableError
from privacy import BudgetError, LedgerError, UnitError
from quality import LabelError

__all__ = ["MISTAKES", "way_on"]

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


def way_on(error: Exception) -> str:
    """The command that mends a budget, for messages of a room that knows no commands."""
    if isinstance(error, BudgetError) or "change_budget" in str(error):
        return " (crowdassay budget STATE --dataset NAME --raise-to EPSILON)"
    return ""
