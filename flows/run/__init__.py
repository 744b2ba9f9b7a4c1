"""TODO face of flows/run."""

__all__: list[str] = []
