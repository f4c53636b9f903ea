"""Running methods on tasks."""

from .evaluate import Report, Scores, evaluate

__all__ = ["Report", "Scores", "evaluate"]
