"""Search for codes."""

from .exact import HammingIndex

__all__ = ["HammingIndex"]
