"""TODO face of flows/spending."""

__all__ = []
