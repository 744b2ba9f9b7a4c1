"""TODO face of learners/private."""

__all__: list[str] = []
