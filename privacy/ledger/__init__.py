"""TODO face of privacy/ledger."""

__all__: list[str] = []
