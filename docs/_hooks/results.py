"""Build the page of all tables and figures from the kept records when the site is built."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from bridgehash.bench.kept import kept_records
from bridgehash.bench.report import report_page
from bridgehash.bench.spec import load_suites

PAGE = "results/report.html"
SUITES = ("*-twin", "bridge-*")


def on_files(files: Files, config: Any, **_: Any) -> Files:
    """Add the page to the files of the site; suites without records are shown as not run."""
    suites = load_suites(SUITES)
    records = kept_records(suites, Path(config.docs_dir) / "results" / "records")
    page = report_page(suites, records, back=("index.html", "Results"))
    files.append(File.generated(config, PAGE, content=page))
    return files
