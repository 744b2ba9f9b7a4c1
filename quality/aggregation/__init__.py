"""TODO face of quality/aggregation."""

__all__: list[str] = []
