"""Tasks and their data."""

from .classes import ClassSelection, draw_classes
from .dataset import DataSet, DataSource, DataView, read_extracted
from .digits import DigitDomains, DigitImages, digit_domains
from .files import DataFile, checksum
from .registry import DATASETS
from .task import PairedTask, TaskSpec, TransferTask, parse_task, task_from_files

__all__ = [
    "DATASETS",
    "ClassSelection",
    "DataFile",
    "DataSet",
    "DataSource",
    "DataView",
    "DigitDomains",
    "DigitImages",
    "PairedTask",
    "TaskSpec",
    "TransferTask",
    "checksum",
    "digit_domains",
    "draw_classes",
    "parse_task",
    "read_extracted",
    "task_from_files",
]
