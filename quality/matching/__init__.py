"""TODO face of quality/matching."""

__all__: list[str] = []
