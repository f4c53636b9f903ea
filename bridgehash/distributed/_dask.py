"""What is used of Dask, or what to install."""

from __future__ import annotations

try:
    from dask.sizeof import sizeof
    from distributed import Client, Future, KilledWorker
    from distributed.utils import silence_logging_cmgr
except ImportError as error:
    raise ImportError("a cluster needs Dask; pip install 'bridgehash[dask]'") from error

__all__ = ["Client", "Future", "KilledWorker", "silence_logging_cmgr", "sizeof"]
