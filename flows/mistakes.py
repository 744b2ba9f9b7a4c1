"""What a user can mend: told in one sentence, without a traceback."""

from __future__ import annotations

from flows.settings.section import EngineError, SettingsError
from flows.tables.text_table import TableError
from learners import ConvergenceError
from privacy import BudgetError, LedgerError, UnitError
from quality import LabelError

__all__ = ["MISTAKES", "sentence"]

MISTAKES = (
    BudgetError,
    ConvergenceError,
    EngineError,
    FileNotFoundError,
    LabelError,
    LedgerError,
    PermissionError,
    SettingsError,
    TableError,
    UnitError,
)


def sentence(error: Exception) -> str:
    """What went wrong and how to go on, for the terminal."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, BudgetError) or "change_budget" in str(error):
        return f"{error} (crowdassay budget STATE --dataset NAME --raise-to EPSILON)"
    return str(error)
