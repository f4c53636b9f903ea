"""Search for codes by Hamming distance: `HammingIndex`, files, and indexes on servers."""

from .exact import HammingIndex
from .store import IndexStore

__all__ = ["HammingIndex", "IndexStore"]
