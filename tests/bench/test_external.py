"""Published figures on public data name data sets, views and metrics that exist."""

import csv
from importlib import resources

from bridgehash.bench.spec import parse_suite
from bridgehash.datasets import DATASETS
from tests.bench.test_spec import TEXT
