"""The tools of the documentation, which are scripts and no part of the package."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


def load(path: str) -> ModuleType:
    """Import a script of the repository."""
    name = f"script_{Path(path).stem}"
    spec = importlib.util.spec_from_file_location(name, ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def measured() -> ModuleType:
    return load("docs/_hooks/measured.py")


@pytest.fixture(scope="session")
def recorded() -> ModuleType:
    return load("benchmarks/recorded.py")


@pytest.fixture(scope="session")
def outputs() -> ModuleType:
    return load("docs/_hooks/outputs.py")
