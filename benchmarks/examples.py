"""Run the two worked examples of the how-to guides on several splits.

    python benchmarks/examples.py [--splits 5] [--record FILE]

Needs pacs.npz of the data pack ($BRIDGEHASH_DATA, or ../shared/data). Prints the scores of
examples/new_model_old_index.py and examples/sketch_finds_photo.py, mean ± standard deviation over
the splits.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys

import numpy as np
from recorded import ROOT, Recorder, add_option

EXAMPLES = ("new_model_old_index.py", "sketch_finds_photo.py")
_LINE = re.compile(r"^(\S.*?) {2,}((?:[\d.]+ *)+)$", re.MULTILINE)
_HEADING = re.compile(r"^ +(\S.*)$", re.MULTILINE)


def scores(example: str, seed: int) -> dict[tuple[str, str], float]:
    """Return the scores of one split by row and column of what the example prints."""
    line = [sys.executable, str(ROOT / "examples" / example), "--seed", str(seed)]
    done = subprocess.run(
        line,
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},  # rounding depends on the number of threads
    )
    heading = _HEADING.search(done.stdout)
    assert heading is not None
    columns = heading[1].split()
    return {
        (title, column): float(value)
        for title, values in _LINE.findall(done.stdout)
        for column, value in zip(columns, values.split(), strict=True)
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--splits", type=int, default=5)
    add_option(parser)
    options = parser.parse_args()
    seeds = range(options.splits)
    recorder = Recorder(options.record, seeds, ["pacs.npz"])
    for example in EXAMPLES:
        runs = [scores(example, seed) for seed in seeds]
        for title, column in runs[0]:
            values = [run[title, column] for run in runs]
            recorder.add(values, title, column)
            print(f"{title:48}  {column:12}  {np.mean(values):.3f} ± {np.std(values):.3f}")
    recorder.write()


if __name__ == "__main__":
    main()
