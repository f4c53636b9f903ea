"""Measure about how long each suite takes: CPU minutes on one core, the `minutes` of its file.

    python benchmarks/suite_times.py [SUITE...] [--fits 8] [--data FOLDER]

A few fits of the first split are run, drawn at random, with codes of the length nearest to the
mean. The others are taken to cost the same on average. Without names: all suites that the data pack
allows.
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


def cpu_seconds(job: Job, folder: Path | None) -> float:
    """Seconds of CPU time of one job."""
    started = time.process_time()
    record = run_job(job, folder)
    if "error" in record:
        raise RuntimeError(f"{job.method.label} on {job.task}: {record['error']}")
    return time.process_time() - started


def minutes(suite: Suite, n_fits: int, folder: Path | None) -> float:
    """CPU minutes of a whole suite."""
    length = min(suite.n_bits, key=lambda n_bits: (abs(n_bits - np.mean(suite.n_bits)), -n_bits))
    jobs = [job for job in jobs_of(suite) if job.seed == 0 and job.n_bits == length]
    drawn = np.random.default_rng(0).permutation(len(jobs))[:n_fits]
    mean = np.mean([cpu_seconds(jobs[i], folder) for i in drawn])
    return float(mean) * len(jobs_of(suite)) / 60.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("suites", nargs="*", default=SUITES)
    parser.add_argument("--fits", type=int, default=8, help="number of fits per suite")
    parser.add_argument("--data", type=Path)
    options = parser.parse_args()
    for suite in load_suites(options.suites):
        try:
            time_taken = minutes(suite, options.fits, options.data)
            print(f"{suite.name}: minutes = {time_taken:.2g}", flush=True)
        except MissingDataError as error:
            print(f"{suite.name}: {error}", flush=True)


if __name__ == "__main__":
    main()
