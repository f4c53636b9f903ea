"""The start for domains that have nothing in common but their structure."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import ClassVar

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator

from .._validation import Range, Rules
from .._xp import to_numpy
from ..matching import match
from .starts import GivenStart, Scene, Start


class StructuralStart(BaseEstimator):
    """Rows matched by how each lies among its own (`bridgehash.matching`): no labels, no pairs.

    The number of classes need not be known. How far independent searches agree is left in
    the start and, after a fit, in `ATH.agreement_`.

    Parameters
    ----------
    n_starts : int, default=60
        Clusterings that are matched, in each of four views of the data.
    n_kept : int, default=10
        Of their plans that are followed up.
    max_rows : int, default=700
        Rows of a domain that are matched, drawn at random. The others follow by the hash
        functions.
    """

    _rules: ClassVar[Rules] = {
        "n_starts": Range(1, kind=Integral),
        "n_kept": Range(1, kind=Integral),
        "max_rows": Range(2, kind=Integral),
    }

    def __init__(self, n_starts: int = 60, n_kept: int = 10, max_rows: int = 700) -> None:
        self.n_starts = n_starts
        self.n_kept = n_kept
        self.max_rows = max_rows

    def begin(self, scene: Scene) -> Start:
        """The projections that agree with the match, and the match as the first graph."""
        X_s, X_t = scene.raw or (scene.X_s, scene.X_t)
        found = match(
            to_numpy(X_s),
            to_numpy(X_t),
            scene.rng,
            n_starts=self.n_starts,
            n_kept=self.n_kept,
            max_rows=self.max_rows,
        )
        shares = found.plan / found.plan.sum(axis=1, keepdims=True)
        rows, columns = np.meshgrid(found.rows_s, found.rows_t, indexing="ij")
        shape = (scene.X_s.shape[0], scene.X_t.shape[0])
        W = csr_array((shares.ravel(), (rows.ravel(), columns.ravel())), shape=shape)
        start = GivenStart(W).begin(scene)
        return replace(start, agreement=found.agreement)
