"""Indexes on a server: PostgreSQL with pgvector, or Milvus."""

from ..._core.errors import EngineError
from .base import EngineIndex, build_index, create_index, index_exists, open_index

__all__ = [
    "EngineError",
    "EngineIndex",
    "build_index",
    "create_index",
    "index_exists",
    "open_index",
]
