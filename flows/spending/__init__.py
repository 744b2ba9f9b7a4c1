"""TODO face of flows/spending."""

__all__: list[str] = []
