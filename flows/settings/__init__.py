"""TODO face of flows/settings."""

__all__: list[str] = []
