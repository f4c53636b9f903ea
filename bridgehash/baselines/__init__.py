"""Methods to compare with, each in a file of its own."""

from .itq import ITQ

__all__ = ["ITQ"]
