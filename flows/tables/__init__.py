"""TODO face of flows/tables."""

__all__: list[str] = []
