"""Two spaces joined by a map learned from pairs: the target is carried over, then coded as source.

What one does by hand when the model behind a catalogue changes: learn a linear map from the new
space to the old one on rows known in both, and search the old codes with mapped queries.
"""

from __future__ import annotations

from abc import abstractmethod

from sklearn.utils.validation import check_random_state

from .._core.linalg import Array, itq_projection
from ..models.base import BaseTransferHasher, TrainingData
from ..models.encoder import LinearEncoder
from ..models.feature_maps import UnitRows


class BasePairedMap(BaseTransferHasher):
    """ITQ codes of the source; rows of the target are mapped into its space first.

    A subclass says in `_map_between` which map it learns from the paired rows. Both sides are
    centred by the means of the pairs.
    """

    n_bits: int
    max_iter: int
    unit_rows: bool
    random_state: object

    def _learn(self, data: TrainingData) -> tuple[LinearEncoder, LinearEncoder]:
        if data.pairs is None or len(data.pairs) < 2:
            raise ValueError(
                f"{type(self).__name__} learns from pairs: give pairs, at least two rows of "
                "numbers (row of X_source, row of X_target)"
            )
        maps_s, X_s = self._unit(data.X_source)
        maps_t, X_t = self._unit(data.X_target)
        mean = X_s.mean(axis=0)
        rng = check_random_state(self.random_state)
        A = itq_projection(X_s - mean, self.n_bits, self.max_iter, rng)
        paired_s, paired_t = X_s[data.pairs[:, 0]], X_t[data.pairs[:, 1]]
        mean_s, mean_t = paired_s.mean(axis=0), paired_t.mean(axis=0)
        M = self._map_between(paired_t - mean_t, paired_s - mean_s)
        return (
            LinearEncoder(A, mean, maps=maps_s),
            LinearEncoder(M @ A, mean_t, maps=maps_t, intercept=(mean_s - mean) @ A),
        )

    def _unit(self, X: Array) -> tuple[list[UnitRows], Array]:
        if not self.unit_rows:
            return [], X
        unit = UnitRows().fit(X)
        return [unit], unit.transform(X)

    @abstractmethod
    def _map_between(self, X: Array, Y: Array) -> Array:
        """M of shape (d, d') such that X M is close to Y, both centred."""
