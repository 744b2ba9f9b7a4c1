"""TODO face of flows/settings."""

__all__ = []
