"""Search for codes by Hamming distance: `HammingIndex`, and indexes on servers."""

from .exact import HammingIndex

__all__ = ["HammingIndex"]
