"""TODO face of privacy/accounting."""

__all__: list[str] = []
