"""TODO face of flows/sharding."""

__all__: list[str] = []
