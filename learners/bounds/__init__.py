"""TODO face of learners/bounds."""

__all__: list[str] = []
