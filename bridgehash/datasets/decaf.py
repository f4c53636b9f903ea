"""DeCAF6 features of Office-Caltech10, from the MATLAB files that the field shares.

`amazon_decaf.mat` and `caltech_decaf.mat` hold `feas` (one row of 4096 values per image) and
`labels` (classes 1 to 10, in the order of the SURF files of Gong et al.). Collections of data for
domain adaptation link to them, such as data/dataset.md of jindongwang/transferlearning on GitHub.
They have no stable address to download from.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .._core.errors import InputError, named
from .dataset import DataSource, DataView, Rows
from .files import DataFile

_WIDTH = 4096
_CLASS_SIZES = {  # of Office-Caltech10: other sizes are another set, or another order of classes
    "amazon": [92, 82, 94, 99, 100, 100, 99, 100, 94, 98],
    "caltech10": [151, 110, 100, 138, 85, 128, 133, 94, 87, 97],
}


def read_decaf(paths: Sequence[Path], view: DataView) -> Rows:
    """Return the rows (float64) and class numbers from 0 of a domain."""
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    (path,) = paths
    with named(path, "copy it again"):
        try:
            arrays = loadmat(path, variable_names=["feas", "labels"])
        except (MatReadError, NotImplementedError, TypeError, ValueError) as error:
            raise InputError(
                f"is not a MATLAB file up to version 7, or is damaged ({error})"
            ) from error
        missing = {"feas", "labels"} - set(arrays)
        if missing:
            raise InputError(f"has no variable {' and '.join(sorted(missing))}")
        X, y = arrays["feas"], arrays["labels"].ravel()
        sizes = _CLASS_SIZES[view.domain]
        if X.shape != (sum(sizes), _WIDTH):
            raise InputError(f"feas has shape {X.shape}; {(sum(sizes), _WIDTH)} is needed")
        if not np.array_equal(np.unique(y, return_counts=True)[1], sizes) or y.min() != 1:
            raise InputError(
                f"the classes in labels do not have {sizes} rows; use the file whose classes have "
                "the order of the SURF files"
            )
    return X.astype(np.float64), y.astype(np.int64) - 1


def _source(name: str) -> DataSource:
    hint = (
        "It holds feas (one row of 4096 DeCAF6 values per image) and labels (1 to 10). Collections "
        "of data for domain adaptation link to it, such as data/dataset.md of "
        "jindongwang/transferlearning on GitHub (Office+Caltech, DeCAF)."
    )
    return DataSource((DataFile(name, hint=hint),), read_decaf)


DECAF = {
    DataView("amazon", "decaf6"): _source("amazon_decaf.mat"),
    DataView("caltech10", "decaf6"): _source("caltech_decaf.mat"),
}
