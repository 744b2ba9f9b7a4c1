"""TODO face of flows/prefect."""

__all__: list[str] = []
