"""Tasks and the data behind them."""

from .digits import DigitDomains, DigitImages, digit_domains
from .task import TransferTask

__all__ = ["DigitDomains", "DigitImages", "TransferTask", "digit_domains"]
