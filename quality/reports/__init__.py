"""TODO face of quality/reports."""

__all__: list[str] = []
