"""TODO face of flows/sharding."""

__all__ = []
