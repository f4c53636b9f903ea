"""Measure about how long each suite takes: CPU minutes on one core, the `minutes` of its file.

    python benchmarks/suite_times.py [SUITE...] [--data FOLDER]

One split is run with the shortest and the longest codes. The time of the other lengths is taken
from a line between them, and all splits are taken to be alike. Without names: all suites that the
data pack allows. It takes about half an hour.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from bridgehash._core.errors import MissingDataError
from bridgehash.bench.runner import Job, jobs_of, run_job
from bridgehash.bench.spec import Suite, load_suites

SUITES = ("*-twin", "bridge-*", "closed", "partial", "open", "universal")


def cpu_seconds(job: Job, folder: Path | None, known: dict[str, float]) -> float:
    """Seconds of CPU time of one job; a job that another suite has too is run once."""
    key = str(job.identity({}))
    if key not in known:
        started = time.process_time()
        record = run_job(job, folder)
        known[key] = time.process_time() - started
        if "error" in record:
            raise RuntimeError(f"{job.method.label} on {job.task}: {record['error']}")
    return known[key]


def minutes(suite: Suite, folder: Path | None, known: dict[str, float]) -> float:
    """CPU minutes of a whole suite."""
    ends = sorted({min(suite.n_bits), max(suite.n_bits)})
    jobs = [job for job in jobs_of(suite) if job.seed == 0 and job.n_bits in ends]
    spent = dict.fromkeys(ends, 0.0)
    for job in jobs:
        spent[job.n_bits] += cpu_seconds(job, folder, known)
    by_length = np.interp(suite.n_bits, ends, list(spent.values()))
    return suite.seeds * float(by_length.sum()) / 60.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("suites", nargs="*", default=SUITES)
    parser.add_argument("--data", type=Path)
    options = parser.parse_args()
    known: dict[str, float] = {}
    for suite in load_suites(options.suites):
        try:
            print(f"{suite.name}: minutes = {minutes(suite, options.data, known):.2g}", flush=True)
        except MissingDataError as error:
            print(f"{suite.name}: {error}", flush=True)


if __name__ == "__main__":
    main()
