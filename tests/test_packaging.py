"""The source archive and the wheel hold everything that belongs to them."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BUILD = "from setuptools.build_meta import build_{kind}; print(build_{kind}({out!r}))"


@pytest.mark.slow
def test_archives_are_complete(tmp_path):
    clone = tmp_path / "project"
    subprocess.run(["git", "clone", "-q", ROOT, clone], check=True)
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=clone, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    made = {}
    for kind in ("sdist", "wheel"):
        line = [sys.executable, "-c", BUILD.format(kind=kind, out=str(tmp_path))]
        done = subprocess.run(line, cwd=clone, capture_output=True, text=True, check=True)
        made[kind] = tmp_path / done.stdout.splitlines()[-1]
    with tarfile.open(made["sdist"]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    hidden = (".ci/", ".github/", ".gitignore", ".dockerignore")
    assert [name for name in tracked if name not in names and not name.startswith(hidden)] == []
    with zipfile.ZipFile(made["wheel"]) as archive:
        names = set(archive.namelist())
    assert [name for name in tracked if name.startswith("bridgehash/") and name not in names] == []
