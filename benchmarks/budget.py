"""Measure retrieval by bytes per text with BitBudget: its own methods and those of the example.

    pip install bitbudget
    python benchmarks/budget.py [--record FILE]

Needs external/banking77.npz of the data pack ($BRIDGEHASH_DATA, or ../shared/data). Prints the
table of examples/bitbudget_compressor.py for two text models, at one bit per column. (A
script with the name of the package would hide it.)
"""

from __future__ import annotations

import argparse
import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from recorded import DATA, ROOT, Recorder, add_option
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

sys.path.append(str(ROOT / "examples"))
from bitbudget_compressor import table

BYTES = {"use512": 64, "wordllama256": 32}
COLUMNS = {"bytes": "bytes", "recall@10": "recall", "nDCG@10": "ndcg", "% of float": "pct_float"}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_option(parser)
    options = parser.parse_args()
    file = "external/banking77.npz"
    if not (DATA / file).is_file():
        parser.exit(2, f"{DATA / file}: file not found; set BRIDGEHASH_DATA\n")
    recorder = Recorder(options.record, [0], [file])
    for feature, n_bytes in BYTES.items():
        shown = Table("method", *COLUMNS, title=f"banking77, {feature}", box=MARKDOWN)
        for row in table(feature, n_bytes):
            for column, key in COLUMNS.items():
                recorder.add([row[key]], feature, row["method"], column)
            shown.add_row(row["method"], *(str(row[key]) for key in COLUMNS.values()))
        Console(width=None if os.isatty(1) else 120).print(shown)
    recorder.write()


if __name__ == "__main__":
    main()
