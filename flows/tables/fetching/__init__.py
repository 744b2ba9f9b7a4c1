"""Tables from elsewhere, written to a Parquet file: the answer to a query, and what an address names.

SQLAlchemy is loaded for a query, DuckDB's extensions for an address, and neither for anything else.
"""

from typing import TYPE_CHECKING

from flows.faces import late_face

if TYPE_CHECKING:
    from flows.tables.fetching.remote import fetch_address
    from flows.tables.fetching.sql import fetch, is_ordered

__all__ = ["fetch", "fetch_address", "is_ordered"]

__getattr__, __dir__ = late_face(__name__)
