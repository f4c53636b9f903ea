"""Measure about how long each suite takes: CPU minutes on one core, the `minutes` of its file.

    python benchmarks/suite_times.py [SUITE...] [--data FOLDER]

One split is run with codes of one length, the one nearest to the mean. Other lengths and splits are
taken to cost the same on average. Without names: all suites that the data pack allows. It takes
about half an hour.
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
    length = min(suite.n_bits, key=lambda n_bits: (abs(n_bits - np.mean(suite.n_bits)), -n_bits))
    jobs = [job for job in jobs_of(suite) if job.seed == 0 and job.n_bits == length]
    spent = sum(cpu_seconds(job, folder, known) for job in jobs)
    return spent * suite.seeds * len(suite.n_bits) / 60.0


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
