"""Mutants that survive, each with the reason why it may.

A name on this list that is no mutant's any more, or whose mutant is caught, makes ``make mutants`` fail.
"""

__all__ = ["SURVIVORS"]

SURVIVORS: dict[str, str] = {}
