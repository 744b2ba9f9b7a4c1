"""TODO face of learners/selection."""

__all__: list[str] = []
