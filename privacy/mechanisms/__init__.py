"""TODO face of privacy/mechanisms."""

__all__: list[str] = []
