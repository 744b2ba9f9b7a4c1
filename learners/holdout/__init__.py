"""TODO face of learners/holdout."""

__all__: list[str] = []
