"""TODO face of flows/tables."""

__all__ = []
