"""Tasks and the data behind them."""

from .dataset import DataSet, View
from .digits import DigitDomains, DigitImages, digit_domains
from .extracted import read_extracted, task_from_files
from .files import DataFile, MissingData, checksum
from .registry import DATASETS
from .spec import TaskSpec, parse_task
from .task import TransferTask

__all__ = [
    "DATASETS",
    "DataFile",
    "DataSet",
    "DigitDomains",
    "DigitImages",
    "MissingData",
    "TaskSpec",
    "TransferTask",
    "View",
    "checksum",
    "digit_domains",
    "parse_task",
    "read_extracted",
    "task_from_files",
]
