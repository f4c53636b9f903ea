"""Data that does not fit into memory: files read in blocks, and where the work on them runs."""

from .blocks import Blocks, as_blocks

__all__ = ["Blocks", "as_blocks"]
