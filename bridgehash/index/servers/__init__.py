"""Codes on a server: PostgreSQL with pgvector, or Milvus, behind the interface of an index."""

from ..._core.errors import EngineError
from .base import CodeIndex, EngineIndex
from .opening import create_index, index_exists, open_index

__all__ = [
    "CodeIndex",
    "EngineError",
    "EngineIndex",
    "create_index",
    "index_exists",
    "open_index",
]
