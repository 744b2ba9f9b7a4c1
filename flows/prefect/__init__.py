"""TODO face of flows/prefect."""

__all__ = []
