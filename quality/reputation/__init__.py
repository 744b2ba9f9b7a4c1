"""TODO face of quality/reputation."""

__all__: list[str] = []
