"""TODO face of quality/simulation."""

__all__: list[str] = []
