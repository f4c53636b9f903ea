"""Which code, packages and machine made a result."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn

from .._version import __version__

_PACKAGE = Path(__file__).resolve().parents[1]


def run_origin() -> dict[str, Any]:
    """Return the commit (if known), versions, the machine and the present time."""
    return {
        **({"commit": commit} if (commit := source_commit()) else {}),
        "versions": {
            "bridgehash": __version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "scikit-learn": sklearn.__version__,
        },
        "device": f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}",
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


@cache
def source_commit(package: Path = _PACKAGE) -> str:
    """Return the commit of the package's source, with "+changes" if code differs from it.

    It is empty if the package is not in a repository of its own, for example if it was installed.
    The answer of the first call stays: that is when a run begins.
    """
    is_tracked = _git(package, "ls-files", "--error-unmatch", "__init__.py")
    commit = _git(package, "rev-parse", "--short=12", "HEAD") if is_tracked else ""
    code = (".", ":/benchmarks", ":/examples")
    is_changed = commit and _git(package, "status", "--porcelain", "--", *code)
    return f"{commit}+changes" if is_changed else commit


def _git(folder: Path, *arguments: str) -> str:
    """Return the output of git; empty if it fails or is not installed."""
    try:
        command = ["git", "-C", str(folder), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
