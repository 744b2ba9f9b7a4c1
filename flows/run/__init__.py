"""TODO face of flows/run."""

__all__ = []
