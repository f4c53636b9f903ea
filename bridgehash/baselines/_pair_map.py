"""A linear map from the target space to the source space, learned from pairs, then ITQ.

This is the usual manual solution when the model behind a catalogue changes: learn a linear map from
the new space to the old one on rows known in both, and search the old codes with mapped queries.
"""

from __future__ import annotations

from abc import abstractmethod
from numbers import Integral
from typing import ClassVar

from sklearn.utils.validation import check_random_state

from .._core.errors import InputError
from .._core.linalg import Array
from .._core.validation import Flag, Range, Rules
from ..models.base import N_BITS, BaseTransferHasher, TrainingData
from ..models.encoder import LinearEncoder
from ..models.feature_maps import unit_row_map
from ._projections import itq_projection


class BaseMappedITQ(BaseTransferHasher):
    """ITQ codes of the source; rows of the target are mapped into its space first.

    Subclasses implement `_learn_map`. Both sides are centred by the means of the pairs.
    """

    _rules: ClassVar[Rules] = {
        "n_bits": N_BITS,
        "max_iter": Range(0, kind=Integral),
        "unit_rows": Flag(),
    }
    n_bits: int
    max_iter: int
    unit_rows: bool
    random_state: object

    def _learn(self, data: TrainingData) -> tuple[LinearEncoder, LinearEncoder]:
        if data.pairs is None or len(data.pairs) < 2:
            n = 0 if data.pairs is None else len(data.pairs)
            raise InputError(f"{n} given; {type(self).__name__} needs at least 2", "pairs")
        maps_s, X_s = unit_row_map(data.X_source, self.unit_rows)
        maps_t, X_t = unit_row_map(data.X_target, self.unit_rows)
        mean = X_s.mean(axis=0)
        rng = check_random_state(self.random_state)
        A = itq_projection(X_s - mean, self.n_bits, self.max_iter, rng)
        paired_s, paired_t = X_s[data.pairs[:, 0]], X_t[data.pairs[:, 1]]
        mean_s, mean_t = paired_s.mean(axis=0), paired_t.mean(axis=0)
        M = self._learn_map(paired_t - mean_t, paired_s - mean_s)
        return (
            LinearEncoder(A, mean, maps=maps_s),
            LinearEncoder(M @ A, mean_t, maps=maps_t, intercept=(mean_s - mean) @ A),
        )

    @abstractmethod
    def _learn_map(self, X: Array, Y: Array) -> Array:
        """Return M of shape (d, d') such that X M is close to Y, both centred."""
