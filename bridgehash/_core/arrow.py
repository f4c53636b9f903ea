"""pyarrow, imported when a Parquet file is read or written."""

from __future__ import annotations

from typing import Any

from .errors import InputError


def arrow() -> Any:
    """Import pyarrow with its Parquet modules."""
    try:
        import pyarrow.compute
        import pyarrow.parquet
    except ImportError as error:
        raise InputError("Parquet needs pyarrow; pip install 'bridgehash[parquet]'") from error
    return pyarrow
