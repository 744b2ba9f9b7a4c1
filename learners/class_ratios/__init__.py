"""TODO face of learners/class_ratios."""

__all__: list[str] = []
