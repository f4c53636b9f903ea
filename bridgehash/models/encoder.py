"""`LinearEncoder`: the hash function of one domain, the result of every method.

An encoder maps rows of features to projections, signs or packed codes. It does not depend on how it
was learned. It works on blocks of rows that fit into the CPU cache: product, threshold, sign and
packing of a block are finished before the next block, so no temporary is as large as the input.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy, deepcopy
from typing import Any, ClassVar, Self
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import assert_all_finite, check_array

from .._core.arrays import (
    array_namespace,
    block_rows,
    by_rows,
    is_array_api_obj,
    is_foreign,
    is_half,
    like,
    place,
    row_norms,
    rows_product,
    to_numpy,
)
from .._core.errors import InputError, ModelFileError
from .._core.files import StrPath
from .._core.linalg import Array
from .._core.threads import map_blocks
from .._core.validation import Range
from ..codes import n_bytes, pack, signs, unpack
from ..streaming.blocks import Blocks, as_blocks, column_names, needs_reading, read_all
from .contents import Contents, Entries, Maybe, Number, Part, Parts, Values, widths
from .decoder import CodeDecoder, CorrectedCodes, packed_pair, split_pair
from .feature_maps import BaseFeatureMap, UnitRows
from .persistence import fingerprint, load, save

_LARGEST = float(np.finfo(np.float64).max)
_FLOATS = (np.float32, np.float64)


class SaveMixin:
    """`save` and `load` as methods."""

    def save(self, path: StrPath) -> None:
        """Write the model to a file (see `bridgehash.save`)."""
        save(self, path)

    @classmethod
    def load(cls, path: StrPath) -> Self:
        """Read a model of this class (`bridgehash.load` reads any class)."""
        model = load(path)
        if not isinstance(model, cls):
            raise ModelFileError(f"holds {type(model).__name__}, not {cls.__name__}", str(path))
        return model


class LinearEncoder(SaveMixin, TransformerMixin, BaseEstimator):
    """A hash function: maps φ, then sign((φ(x) - mean) / scale @ projection + intercept).

    The parameters are the whole state, so there is nothing to fit: an encoder can be cloned, put
    into a pipeline, pickled or saved. Rows may be arrays of NumPy, torch or another array API
    library, DataFrames, paths or blocks of rows (see `as_blocks`); the result is where the rows
    are. P and c (below) are cached, so replace the arrays of an encoder instead of writing into
    them.

    Notes
    -----
    The encoder computes φ(x) @ P - c with P = projection / scale and c = mean @ P - intercept; unit
    rows are divided by their norm after the product. Codes of float32 rows agree with those of
    float64 rows in all but 3e-7 of the bits (1e-5 if the mean is a hundred times the spread).
    16-bit torch tensors are multiplied in 16 bits and summed in float32; up to 7e-4 of the bits
    differ in bfloat16, 6e-5 in float16. benchmarks/encode.py measures all this.

    Parameters
    ----------
    projection : array of shape (m, n_bits)
        A of the paper.
    mean : array of shape (m,)
        Subtracted from the mapped features.
    scale : float
        Divides the centred features.
    maps : sequence of fitted transformers
        Applied to the input in order.
    intercept : array of shape (n_bits,), optional
        Added to the projections.

    Attributes
    ----------
    feature_names_in_ : list of str or None
        Names of the columns of the DataFrame or file that `fit` of a model was given. Rows whose
        columns have other names, or another order, are refused.

    Examples
    --------
    >>> encoder = LinearEncoder(projection=np.eye(2), mean=np.array([1.0, 1.0]))
    >>> encoder.transform([[3.0, 0.0]])
    array([[ 1, -1]], dtype=int8)
    >>> encoder.encode([[3.0, 0.0]])
    array([[128]], dtype=uint8)
    """

    _contents: ClassVar[Contents] = {
        "projection": Values("m r", "iuf"),
        "mean": Values("m", "iuf"),
        "scale": Number(Range(-_LARGEST, _LARGEST)),
        "maps": Parts(),
        "intercept": Maybe(Values("r", "iuf")),
        "decoder_": Maybe(Part("CodeDecoder")),
        "feature_names_in_": Maybe(Entries("d")),
    }
    decoder_: CodeDecoder | None = None  # set by `fit` of a model; changes no code of `encode`
    feature_names_in_: list[str] | None = None  # of the columns, if `fit` knew them; the same

    def __init__(
        self,
        projection: Array,
        mean: Array,
        scale: float = 1.0,
        maps: Sequence[Any] = (),
        intercept: Array | None = None,
    ) -> None:
        self.projection = projection
        self.mean = mean
        self.scale = scale
        self.maps = maps
        self.intercept = intercept

    @property
    def projection_(self) -> Array:
        return self.projection

    @property
    def n_bits(self) -> int:
        """Length of the codes."""
        return int(self.projection.shape[1])

    @property
    def n_features_in_(self) -> int:
        """Width of the input."""
        return int(self.maps[0].n_features_in_ if self.maps else self.projection.shape[0])

    def fingerprint(self) -> str:
        """Return a digest of the parameters: equal for encoders that give the same codes."""
        plain = copy(self)
        for name in ("decoder_", "feature_names_in_"):  # change no code
            plain.__dict__.pop(name, None)
        return fingerprint(plain)

    def fit(self, X: ArrayLike | None = None, y: object = None) -> Self:
        """Do nothing; present for pipelines."""
        return self

    def __sklearn_clone__(self) -> Self:
        return deepcopy(self)  # the default would drop the state of the maps

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def _check_loaded(self) -> None:
        """Refuse an encoder whose parts do not fit together; run when it is loaded."""
        width = self.n_features_in_
        if self.feature_names_in_ is not None and len(self.feature_names_in_) != width:
            raise ValueError(f"{len(self.feature_names_in_)} names for {width} columns")
        for feature_map in self.maps:
            takes, gives = widths(feature_map)
            if takes != width:
                raise ValueError(f"{type(feature_map).__name__} takes {takes} columns, not {width}")
            width = gives
        if width != len(self.mean):
            raise ValueError(f"the projection takes {len(self.mean)} columns, not {width}")
        n_bytes(self.n_bits)
        self.decision_function(np.random.default_rng(0).random((2, self.n_features_in_)))

    def like(self, reference: Array) -> LinearEncoder:
        """Return a copy with arrays in the library, and on the device, of another array."""
        if array_namespace(self.projection) is array_namespace(reference):
            return self
        moved = LinearEncoder(
            like(self.projection, reference),
            like(self.mean, reference),
            self.scale,
            [_moved(feature_map, reference) for feature_map in self.maps],
            None if self.intercept is None else like(self.intercept, reference),
        )
        moved.decoder_ = self.decoder_
        return moved.with_names(self.feature_names_in_)

    def with_names(self, names: list[str] | None) -> LinearEncoder:
        """Return a copy that knows the names of its columns; itself if there are none."""
        if names is None:
            return self
        named = copy(self)
        named.feature_names_in_ = names
        return named

    def check_names(self, X: Any, argument: str = "X") -> None:
        """Refuse rows whose columns have other names, or another order, than those of the fit.

        Columns without names are not checked.
        """
        known = self.feature_names_in_
        names = None if known is None else column_names(X)
        if known is None or names is None or names == known:
            return
        if sorted(names) == sorted(known):
            raise InputError(
                f"has the columns of the fit in another order; use {argument}"
                "[encoder.feature_names_in_]",
                argument,
            )
        missing = [name for name in known if name not in names]
        other = [name for name in names if name not in known]
        parts = [f"lacks {_listed(missing)}"] * bool(missing) + [
            f"has also {_listed(other)}"
        ] * bool(other)
        raise InputError(
            f"its columns are not those of the fit: it {' and '.join(parts)}; give the columns in "
            "encoder.feature_names_in_",
            argument,
        )

    def decision_function(self, X: Any) -> Array:
        """Return the projections before the sign, shape (n, n_bits)."""
        return self._apply(X, lambda H, _: H)

    def transform(self, X: Any) -> NDArray[np.int8]:
        """Return the codes as ±1, shape (n, n_bits)."""
        return self._apply(X, lambda H, _: signs(H))

    def encode(self, X: Any, *, done: Callable[[int], None] | None = None) -> NDArray[np.uint8]:
        """Return packed codes, shape (n, ceil(n_bits / 8)).

        Parameters
        ----------
        X : array of shape (n, d), DataFrame, path or blocks of rows
        done : callable, optional
            Called with the number of rows encoded so far.
        """
        return self._apply(X, lambda H, _: pack(H), done)

    def query_weights(self, X: Any) -> NDArray[np.float32]:
        """Return what each bit of a code counts for queries X, shape (n, n_bits).

        Give them to `HammingIndex.search(weights=)`.
        """
        return self._decoder().weights(self.decision_function(X))

    def encode_corrected(
        self,
        X: Any,
        *,
        codes: ArrayLike | None = None,
        done: Callable[[int], None] | None = None,
    ) -> CorrectedCodes:
        """Return packed codes and two numbers per item, which estimate distances of rows.

        A code is not always the signs of the projections: some bits are flipped so that the row
        can be predicted better. It remains a code for Hamming search. Results are NumPy arrays.

        Parameters
        ----------
        X : array of shape (n, d), DataFrame, path or blocks of rows
        codes : uint8 array of shape (n, ceil(n_bits / 8)), optional
            Packed codes of these rows that must not change. Only their corrections are computed.
        done : callable, optional
            Called with the number of rows encoded so far.
        """
        decoder = self._decoder()
        if codes is not None:
            X = self._checked(read_all(X))
            B, H = unpack(codes, self.n_bits), self.decision_function(X)
            if len(B) != len(H):
                raise InputError(f"{len(B)} codes for {len(H)} rows; give one per row", "codes")
            lengths = self.row_lengths(X) if decoder.row_scale else None
            return CorrectedCodes(np.asarray(codes), decoder.corrections(H, B, lengths))

        def of(H: Array, rows: Array) -> Any:
            lengths = self.row_lengths(rows) if decoder.row_scale else None
            B = decoder.codes(H)
            return like(packed_pair(B, decoder.corrections(H, B, lengths)), H)

        return split_pair(to_numpy(self._apply(X, of, done)))

    @property
    def stores_corrections(self) -> bool:
        """False: an encoder does not know whether it was learned from labels (see `ATH`)."""
        return False

    def row_lengths(self, X: Any) -> NDArray[np.floating[Any]]:
        """Return the lengths of mapped and centred rows, before the division by `scale`."""
        Z = _mapped(self._checked(X), list(self.maps))
        Z = array_namespace(Z).astype(Z, array_namespace(Z).float32) if is_half(Z) else Z
        return to_numpy(row_norms(Z - like(self.mean, Z, Z.dtype)))

    def _decoder(self) -> CodeDecoder:
        if self.decoder_ is None:
            raise InputError(
                "this encoder has no decoder, because no model of this version has fitted it; fit "
                "the model again, or use `with_decoders` of bridgehash.models.decoder",
                "decoder_",
            )
        return self.decoder_

    def _apply(
        self,
        X: Any,
        of: Callable[[Array, Array], Any],
        done: Callable[[int], None] | None = None,
    ) -> Any:
        """Return `of` projections and their rows, block by block."""
        if not isinstance(X, np.ndarray) and needs_reading(X):
            return self._apply_to_blocks(as_blocks(X), of, done)
        X = self._checked(X)
        *maps, last = [*self.maps] or [None]
        if type(last) is not UnitRows:
            maps, last = [*self.maps], None
        P, c = self._linear_part(X)

        def work(rows: slice) -> Any:
            return of(_project(X[rows, :], maps, last, P, c), X[rows, :])

        ours = all(isinstance(each, BaseFeatureMap) for each in maps)
        threads = ours and not is_foreign(X)  # other maps may not be thread-safe
        parts = map_blocks(work, X.shape[0], block_rows(X, P), threads=threads, done=done)
        return parts[0] if len(parts) == 1 else array_namespace(X).concat(parts, axis=0)

    def _apply_to_blocks(
        self, blocks: Blocks, of: Callable[[Array, Array], Any], done: Callable[[int], None] | None
    ) -> Any:
        self.check_names(blocks)
        self._check_width(blocks.shape[1])
        parts = []
        for i in range(blocks.n_blocks):
            parts.append(self._apply(blocks.read_checked(i), of))
            if done is not None:
                done(blocks.bounds(i)[1])
        return np.concatenate(parts)

    def _checked(self, X: Any) -> Any:
        """X as a matrix of the right width; non-finite values show in its projections."""
        self.check_names(X)
        if _is_matrix(X):
            pass  # scikit-learn would return it as it is, after a longer time than a row takes
        elif not is_foreign(X):
            X = check_array(X, dtype="numeric", ensure_all_finite=False, input_name="X")
        elif X.ndim != 2 or X.shape[0] == 0:
            raise InputError(f"shape {tuple(X.shape)}; rows and columns are needed", "X")
        elif not array_namespace(X).isdtype(X.dtype, "real floating"):
            X = array_namespace(X).astype(X, array_namespace(X).float64)  # as NumPy does
        self._check_width(X.shape[1])
        return X

    def _check_width(self, n_features: int) -> None:
        if n_features != self.n_features_in_:
            raise InputError(
                f"{n_features} features, but this encoder takes {self.n_features_in_}; check the "
                "domain",
                "X",
            )

    def _linear_part(self, X: Array) -> tuple[Array, Array]:
        """P and c in the library, and on the device, of X."""
        own = (self.projection, self.mean, self.scale, self.intercept)
        folded, at = _FOLDED.setdefault(self, {}), place(X)
        known = folded.get(at)
        if known is None or any(a is not b for a, b in zip(known[0], own, strict=True)):
            folded[at] = known = own, _folded(*own, X)
        return known[1]


# P and c of encoders by device: a cache, never saved
_FOLDED: WeakKeyDictionary[LinearEncoder, dict[Any, Any]] = WeakKeyDictionary()


def _folded(
    projection: Any, mean: Any, scale: float, intercept: Any, X: Array
) -> tuple[Array, Array]:
    """P in the type of the encoder and c in float64, in the library and on the device of X."""
    xp = array_namespace(X)
    P = by_rows(like(projection, X)) / float(scale)
    c = like(mean, X, xp.float64) @ xp.astype(P, xp.float64, copy=False)
    return P, c if intercept is None else c - like(intercept, X, xp.float64)


def _project(X: Array, maps: list[Any], unit_rows: UnitRows | None, P: Array, c: Array) -> Array:
    """Projections of a block of rows; refuse rows whose projections are not finite."""
    xp = array_namespace(X)
    with np.errstate(all="ignore"):
        Z = _mapped(X, maps)
        wide = xp.float32 if is_half(Z) else xp.result_type(Z.dtype, P.dtype)
        Z = Z if is_half(Z) else xp.astype(Z, wide, copy=False)
        norms = None
        if unit_rows is not None:
            Z, norms = _with_norms(Z, unit_rows)
        H = rows_product(Z, xp.astype(P, wide, copy=False))
        if norms is not None:
            H *= (1.0 / norms)[:, None]
        H -= xp.astype(c, wide)
        finite = bool(xp.isfinite(xp.sum(H))) or bool(xp.all(xp.isfinite(H)))
    if not finite:
        _check_finite(X)
        raise InputError(
            f"values are too large to encode: projections overflow {wide}; "
            + ("" if wide == xp.float64 else "use float64 rows or ")
            + "scale the features down",
            "X",
        )
    return H


def _mapped(X: Array, maps: list[Any]) -> Any:
    """Rows after the feature maps."""
    xp = array_namespace(X)
    known = is_foreign(X) or X.dtype in (np.float32, np.float64)
    Z: Any = X if known else X.astype(np.float64)
    if maps:
        _check_finite(X)  # a map may hide infinities: exp(-inf) = 0
        Z = xp.astype(Z, xp.float32) if is_half(Z) else Z
    for feature_map in maps:
        try:
            Z = feature_map.transform(Z)
        except InputError:
            raise
        except ValueError as error:  # such as infinities after the map before it
            name = type(feature_map).__name__
            raise InputError(f"{name} cannot map these rows ({error})", "X") from error
        Z = Z if is_foreign(Z) else np.asarray(Z)  # a map may return DataFrames
    return Z


def _with_norms(Z: Any, unit_rows: UnitRows) -> tuple[Any, Any]:
    """Rows and their norms; rows too large or too small to be squared are normalised here."""
    xp = array_namespace(Z)
    norms = row_norms(Z)
    limits = xp.finfo(norms.dtype)
    least = float(limits.smallest_normal / limits.eps) ** 0.5
    odd = ~((norms >= least) & xp.isfinite(norms))
    if bool(xp.any(odd)):
        _check_finite(Z)
        units = unit_rows.transform(xp.astype(Z, norms.dtype, copy=False))
        Z = xp.where(odd[:, None], xp.astype(units, Z.dtype, copy=False), Z)
        norms = xp.where(odd, xp.ones_like(norms), norms)
    return Z, norms


def _check_finite(X: Any) -> None:
    """Raise the error of scikit-learn for rows that are not finite."""
    X = array_namespace(X).astype(X, array_namespace(X).float32) if is_half(X) else X
    assert_all_finite(to_numpy(X), input_name="X")


def _is_matrix(X: Any) -> bool:
    """Whether X is a NumPy array with rows of floats, which needs no conversion."""
    return type(X) is np.ndarray and X.ndim == 2 and len(X) > 0 and X.dtype in _FLOATS


def _listed(names: list[str]) -> str:
    shown = ", ".join(map(repr, names[:4]))
    return f"{shown} and {len(names) - 4} more" if len(names) > 4 else shown


def _moved(feature_map: Any, reference: Array) -> Any:
    """A copy of a fitted map with its arrays on the device of another array."""
    moved = copy(feature_map)
    for name, value in vars(feature_map).items():
        if is_array_api_obj(value):
            setattr(moved, name, like(value, reference))
    return moved
