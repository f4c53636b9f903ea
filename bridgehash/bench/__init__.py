"""Running methods on tasks."""

from ..metrics.evaluate import Report, Scores, evaluate

__all__ = ["Report", "Scores", "evaluate"]
