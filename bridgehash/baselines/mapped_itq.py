"""A linear map from the target space to the source space, learned from pairs, then ITQ.

This is the usual manual solution when the model behind a catalogue changes: learn a linear map from
the new space to the old one on rows known in both, and search the old codes with mapped queries.
The codes of the catalogue are those of a given encoder, or of ITQ.
"""

from __future__ import annotations

from abc import abstractmethod
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_random_state

from .._core.errors import InputError
from .._core.linalg import Array, RidgeSolver, procrustes
from .._core.validation import Flag, OneOf, Range, Rules
from ..models.base import N_BITS, About, BaseTwoDomainHasher
from ..models.encoder import LinearEncoder
from ..models.feature_maps import unit_row_map
from ..models.training import TrainingData
from .itq import itq_projection


class BaseMappedITQ(BaseTwoDomainHasher):
    """Codes of the source by ITQ or a given encoder; target rows are mapped into its space first.

    Subclasses implement `_learn_map`. Both sides are centred by the means of the pairs. If the
    encoder has feature maps, the space of the source is that after them.
    """

    _rules: ClassVar[Rules] = {
        "n_bits": N_BITS,
        "max_iter": Range(0, kind=Integral),
        "unit_rows": Flag(),
        "frozen": OneOf((None,), "encode"),
    }

    def __init__(
        self,
        n_bits: int = 64,
        max_iter: int = 50,
        unit_rows: bool = True,
        random_state: int | np.random.RandomState | None = None,
        frozen: Any = None,
    ) -> None:
        self.n_bits = n_bits
        self.max_iter = max_iter
        self.unit_rows = unit_rows
        self.random_state = random_state
        self.frozen = frozen

    def _learn(self, data: TrainingData) -> tuple[LinearEncoder, LinearEncoder]:
        source = self._source_encoder(data.X_source)
        rows, X = data.paired_rows(type(self).__name__)
        Y: Array = rows
        for feature_map in source.maps:
            Y = feature_map.transform(Y)
        maps, X = unit_row_map(X, self.unit_rows)
        mean_s, mean_t = Y.mean(axis=0), X.mean(axis=0)
        A = source.projection / source.scale
        intercept = (mean_s - source.mean) @ A
        if source.intercept is not None:
            intercept = intercept + source.intercept
        M = self._learn_map(X - mean_t, Y - mean_s)
        return source, LinearEncoder(M @ A, mean_t, maps=maps, intercept=intercept)

    def _source_encoder(self, X: Array) -> LinearEncoder:
        """Return the given encoder, or one of ITQ."""
        encoder = self.frozen
        if encoder is None:
            maps, X = unit_row_map(X, self.unit_rows)
            mean = X.mean(axis=0)
            rng = check_random_state(self.random_state)
            return LinearEncoder(
                itq_projection(X - mean, self.n_bits, self.max_iter, rng), mean, maps=maps
            )
        if not isinstance(encoder, LinearEncoder):
            raise InputError("is no LinearEncoder; use the `encoder_` of the model", "frozen")
        found = encoder.n_features_in_, encoder.n_bits
        if found != (X.shape[1], self.n_bits):
            raise InputError(
                f"takes {found[0]} columns and has {found[1]} bits, but X_source has {X.shape[1]} "
                f"columns and n_bits is {self.n_bits}",
                "frozen",
            )
        return encoder

    @abstractmethod
    def _learn_map(self, X: Array, Y: Array) -> Array:
        """Return M of shape (d, d') such that X M is close to Y, both centred."""


class Procrustes(BaseMappedITQ):
    """Target rows rotated onto their partners in the source, then ITQ.

    min ‖X_t Q - X_s‖² over the pairs. Q has orthonormal columns, or orthonormal rows if the target
    has fewer features. There is nothing to tune. Two choices are ours. For spaces of different
    widths Q maximises tr(QᵀX_tᵀX_s), which is then not the exact minimiser. Directions in which the
    pairs do not differ are dropped.

    Parameters
    ----------
    n_bits : int, default=64
    max_iter : int, default=50
        Rounds of ITQ.
    unit_rows : bool, default=True
        Divide each row by its norm first.
    random_state : int, RandomState or None
        Draws the first rotation of ITQ.
    frozen : LinearEncoder, optional
        The encoder of the source, whose codes stay as they are. None: ITQ learns one.
    """

    about: ClassVar = About("paired", "Schönemann, Psychometrika 31(1), 1966, then ITQ", ("pairs",))

    def _learn_map(self, X: Array, Y: Array) -> Array:
        return procrustes(X.T @ Y, within_rank=True)


class RidgeMap(BaseMappedITQ):
    """Target rows mapped into the source space by a ridge regression on pairs, then ITQ.

    min ‖X_t M - X_s‖² + ridge ‖M‖² over the pairs. This is common practice when an embedding model
    is replaced, not a published method: all choices are ours.

    Parameters
    ----------
    n_bits : int, default=64
    ridge : float, default=0.1
        For rows of unit norm. Leave-one-out validation chose about this value at 20 to 50 pairs of
        image embeddings. With more pairs, use 1.
    max_iter, unit_rows, random_state, frozen
        As for `Procrustes`.
    """

    about: ClassVar = About("paired", "ridge regression between spaces, then ITQ", ("pairs",))
    _rules: ClassVar[Rules] = {**BaseMappedITQ._rules, "ridge": Range(0, above=True)}

    def __init__(
        self,
        n_bits: int = 64,
        ridge: float = 0.1,
        max_iter: int = 50,
        unit_rows: bool = True,
        random_state: int | np.random.RandomState | None = None,
        frozen: Any = None,
    ) -> None:
        super().__init__(n_bits, max_iter, unit_rows, random_state, frozen)
        self.ridge = ridge

    def _learn_map(self, X: Array, Y: Array) -> Array:
        return RidgeSolver(X, self.ridge)(Y)
