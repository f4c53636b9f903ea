"""Codes on a server: PostgreSQL with pgvector, or Milvus, behind the interface of an index."""

from .base import CodeIndex, EngineError, EngineIndex
from .opening import create_index, index_exists, open_index

__all__ = [
    "CodeIndex",
    "EngineError",
    "EngineIndex",
    "create_index",
    "index_exists",
    "open_index",
]
