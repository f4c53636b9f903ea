"""Corrections: what a code loses of its row, in two small numbers per item.

A code keeps the signs of the projections h of a row. `CodeDecoder` predicts h from the code,
ĥ = b D, and two numbers per item restore the length. Together with a real-valued query they
estimate a distance, see "Corrected codes" in docs/maths.md:

    distance² - ‖query‖² ≈ offset - slope (w · b),   w = D q

Only the weights w, the offset and the slope are needed to search; an index knows no decoder. If all
rows of a class have one code word, queries lean to the word that is expected of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from .._core.arrays import by_rows, rows_product, take_rows, to_numpy
from .._core.linalg import Array
from .._core.validation import Range
from ..codes import pack
from ..streaming.blocks import as_blocks, needs_reading
from .contents import Contents, Maybe, Number, Values

if TYPE_CHECKING:
    from .encoder import LinearEncoder

_MAX_BITS = 1024  # of codes with a matrix, which has n_bits² numbers
_MAX_ROWS = 10_000  # training rows, evenly spaced
_RIDGE = 0.01  # towards a multiple of the identity; codes have variance one
_SWEEPS = 4  # over the bits of a code; later sweeps flip almost nothing
_BLOCK = 512  # rows whose codes are chosen together
_LARGEST = float(np.finfo(np.float16).max)
_LEAN = 0.25  # length of the step of a query towards its expected word; queries have length one
_SHARPNESS = 10.0  # of the probabilities of words, for projections and words of length one
_EQUAL = 1e-3  # relative difference of lengths that still counts as equal
_POSITIVE = Number(Range(0, above=True))


class CorrectedCodes(NamedTuple):
    """Packed codes and their corrections: offset and slope of the estimate."""

    codes: NDArray[np.uint8]  # (n, n_bytes)
    corrections: NDArray[np.float16]  # (n, 2), finite; the slope is not negative


class CodeDecoder(BaseEstimator):
    """Predicts projections from codes. All domains of a model share the matrix.

    Parameters
    ----------
    matrix : float32 array of shape (n_bits, n_bits), or None
        D; row j is what bit j contributes. None: the identity.
    unit : float
        Root-mean-square length of the projections of a domain. They are divided by it, so that
        projections of several domains, and of any features, have the same size.
    length : float
        Root-mean-square length of rows in this unit, the same for all domains.
    row_scale : float
        If the projection changes no length but leaves directions out, the length of an item is
        that of its whole row, times this number. 0: the length of its projections.
    words : int8 array of shape (n_classes, n_bits), or None
        The code words ±1 of the classes, if the rows of a class have one.
    """

    _contents: ClassVar[Contents] = {
        "matrix": Maybe(Values("r r")),
        "unit": _POSITIVE,
        "length": _POSITIVE,
        "row_scale": Number(Range(0)),
        "words": Maybe(Values("c r", "i")),
    }

    def __init__(
        self,
        matrix: NDArray[np.float32] | None = None,
        unit: float = 1.0,
        length: float = 1.0,
        row_scale: float = 0.0,
        words: NDArray[np.int8] | None = None,
    ) -> None:
        self.matrix = matrix
        self.unit = unit
        self.length = length
        self.row_scale = row_scale
        self.words = words

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def weights(self, H: Any) -> NDArray[np.float32]:
        """Return what each bit counts for queries with projections H, shape (n, n_bits)."""
        scaled = self._scaled(H)
        if self.words is not None:
            scaled = scaled + _LEAN * self._expected_word(scaled)
        return scaled if self.matrix is None else rows_product(scaled, by_rows(self.matrix.T))

    def _expected_word(self, scaled: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the mean of the words, each with its probability and of length one."""
        assert self.words is not None
        units = self.words.astype(np.float32) / np.sqrt(np.float32(self.words.shape[1]))
        logits = _SHARPNESS * rows_product(scaled, by_rows(units.T))
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(rows_product(shares / shares.sum(axis=1, keepdims=True), units))

    def codes(self, H: Any) -> NDArray[np.float32]:
        """Return codes ±1 for projections H: signs, then flips that bring b D nearer to h."""
        scaled = self._scaled(H)
        B = np.where(scaled > 0, np.float32(1), np.float32(-1))
        if self.matrix is not None:
            G, turned = self.matrix @ self.matrix.T, by_rows(self.matrix.T)
            for start in range(0, len(B), _BLOCK):
                block = slice(start, start + _BLOCK)
                _flip_bits(B[block], rows_product(scaled[block], turned), G)
        return B

    def corrections(
        self, H: Any, B: NDArray[Any], row_lengths: NDArray[Any] | None = None
    ) -> NDArray[np.float16]:
        """Return offset ℓ² and slope 2ℓ / ‖b D‖ of items with codes B, where ℓ is their length.

        Parameters
        ----------
        H : array of shape (n, n_bits)
            Projections of the items.
        B : array of shape (n, n_bits)
            Codes as ±1.
        row_lengths : array of shape (n,)
            Lengths of the rows that were projected; needed if `row_scale` is not 0.
        """
        if self.row_scale:
            lengths = np.asarray(row_lengths, np.float64) * self.row_scale
        else:
            lengths = np.linalg.norm(self._scaled(H), axis=1) * self.length
        B = np.asarray(B, np.float32)
        decoded = np.linalg.norm(B if self.matrix is None else rows_product(B, self.matrix), axis=1)
        slopes = 2 * np.divide(lengths, decoded, out=np.zeros(len(B)), where=decoded > 0)
        numbers = np.column_stack([lengths**2, slopes])
        return np.minimum(numbers, _LARGEST).astype(np.float16)

    def decodes_as(self, other: CodeDecoder) -> bool:
        """Return whether two decoders have the same matrix."""
        if self.matrix is None or other.matrix is None:
            return self.matrix is other.matrix
        return np.array_equal(self.matrix, other.matrix)

    def _scaled(self, H: Any) -> NDArray[np.float32]:
        return (to_numpy(H) / self.unit).astype(np.float32)


def _flip_bits(B: NDArray[np.float32], C: NDArray[np.float32], G: NDArray[np.float32]) -> None:
    """Flip bits of B as long as that lowers ‖h - b D‖², with C = H Dᵀ and G = D Dᵀ; in place.

    Flipping bit j changes the error by 4 (b_j (C - b G)_j + G_jj).
    """
    slope = C - rows_product(B, G)
    for _ in range(_SWEEPS):
        n_flips = 0
        for j in range(B.shape[1]):
            rows = np.flatnonzero(B[:, j] * slope[:, j] + G[j, j] < 0)
            if len(rows):
                slope[rows] += 2 * B[rows, j, None] * G[j]
                B[rows, j] *= -1
                n_flips += len(rows)
        if n_flips == 0:
            return


def with_decoders(
    encoders: Sequence[LinearEncoder], rows: Sequence[Any], known: CodeDecoder | None = None
) -> list[LinearEncoder]:
    """Return copies of the encoders of a model that share one decoder.

    Parameters
    ----------
    encoders : sequence of LinearEncoder
        The first one decides whether lengths of whole rows count.
    rows : sequence of arrays or blocks
        Training rows of each encoder.
    known : CodeDecoder, optional
        The decoder of codes that stay as they are. An encoder that has it keeps it.
    """
    samples = [_some_rows(X) for X in rows]
    H = [
        to_numpy(e.decision_function(X)).astype(np.float64)
        for e, X in zip(encoders, samples, strict=True)
    ]
    units = [_rms(np.linalg.norm(each, axis=1)) for each in H]
    if known is None:
        scale = _common_scale(encoders[0]) / units[0]
        length = scale * _rms(encoders[0].row_lengths(samples[0])) if scale else 1.0
        scaled = np.concatenate([each / unit for each, unit in zip(H, units, strict=True)])
        known = CodeDecoder(_fitted_matrix(scaled), length=length, row_scale=scale)
    decoded: dict[int, LinearEncoder] = {}  # one encoder may serve several domains
    for encoder, unit in zip(encoders, units, strict=True):
        if encoder.decoder_ is not None and encoder.decoder_.decodes_as(known):
            decoded[id(encoder)] = encoder
        elif id(encoder) not in decoded:
            scale = _common_scale(encoder) / unit if known.row_scale else 0.0
            decoded[id(encoder)] = twin = copy(encoder)
            twin.decoder_ = CodeDecoder(known.matrix, unit, known.length, scale, known.words)
    return [decoded[id(encoder)] for encoder in encoders]


def with_words(encoder: LinearEncoder, words: NDArray[np.int8]) -> LinearEncoder:
    """Return a copy of an encoder whose queries lean to the words of the classes."""
    twin = copy(encoder)
    if encoder.decoder_ is not None:
        twin.decoder_ = copy(encoder.decoder_)
        twin.decoder_.words = words
    return twin


def _fitted_matrix(H: NDArray[np.float64]) -> NDArray[np.float32] | None:
    """Return D of least squares, min ‖H - sign(H) D‖², with a ridge towards mean |h| times I."""
    n, n_bits = H.shape
    if n_bits > _MAX_BITS:
        return None
    B, eye = np.where(H > 0, 1.0, -1.0), np.eye(n_bits)
    target = B.T @ H / n + _RIDGE * np.abs(H).mean() * eye
    return np.asarray(np.linalg.solve(B.T @ B / n + _RIDGE * eye, target), np.float32)


def _common_scale(encoder: LinearEncoder) -> float:
    """Return the factor by which projecting changes all lengths in the directions that it keeps.

    0 if they change differently.
    """
    P = to_numpy(encoder.projection).astype(np.float64)
    if P.shape[1] > _MAX_BITS or encoder.intercept is not None:
        return 0.0
    squares = np.linalg.eigvalsh(P.T @ P if P.shape[0] >= P.shape[1] else P @ P.T)
    kept = squares[squares > _EQUAL * squares[-1]]
    if not len(kept) or kept[0] < (1 - _EQUAL) * kept[-1]:
        return 0.0
    return float(np.sqrt(kept.mean()) / abs(encoder.scale))


def _some_rows(X: Any) -> Array:
    """Return evenly spaced training rows."""
    rows = as_blocks(X) if needs_reading(X) else X
    n = rows.shape[0]
    numbers = np.unique(np.linspace(0, n - 1, min(n, _MAX_ROWS)).astype(np.intp))
    return rows.take(numbers) if needs_reading(X) else take_rows(rows, numbers)


def _rms(lengths: NDArray[Any]) -> float:
    """Return the root mean square, or 1 if all are zero."""
    return float(np.sqrt(np.mean(np.square(lengths)))) or 1.0


def packed_pair(B: NDArray[Any], corrections: NDArray[np.float16]) -> NDArray[np.uint8]:
    """Return codes and corrections side by side as bytes; `split_pair` is the inverse."""
    return np.hstack([pack(B), np.ascontiguousarray(corrections).view(np.uint8)])


def split_pair(both: NDArray[np.uint8]) -> CorrectedCodes:
    """Return codes and corrections from their bytes."""
    n_bytes = both.shape[1] - 2 * np.dtype(np.float16).itemsize
    numbers = np.ascontiguousarray(both[:, n_bytes:]).view(np.float16)
    return CorrectedCodes(np.ascontiguousarray(both[:, :n_bytes]), numbers)
