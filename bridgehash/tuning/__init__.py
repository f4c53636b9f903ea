"""Choice of a method and its parameters, with or without labels."""

from .tune import Candidate, TuneResult, tune
from .with_source import WithSource

__all__ = ["Candidate", "TuneResult", "WithSource", "tune"]
