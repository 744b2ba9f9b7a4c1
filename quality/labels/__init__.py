"""TODO face of quality/labels."""

__all__: list[str] = []
