"""Tasks and the data behind them."""

from .task import TransferTask

__all__ = ["TransferTask"]
