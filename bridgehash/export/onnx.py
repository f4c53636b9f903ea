"""Write an encoder as an ONNX model: rows of features in, packed codes out.

The model computes in float64, whatever the type of its input is: projections near zero then have
the same sign as in Python. Only operators of the default domain are used, so that every runtime
can read it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np

from .._core.arrays import to_numpy
from .._core.errors import InputError
from .._core.files import StrPath, atomic_write
from .._version import __version__
from ..baselines import AnchorGraphMap, SpectralModes
from ..codes import n_bytes
from ..models.encoder import LinearEncoder
from ..models.feature_maps import AnchorKernel, PrincipalMap, RowsAndKernel, UnitRows

_OPSET, _IR_VERSION = 17, 8  # ONNX Runtime 1.13 and later
_TYPES = {"float32": 1, "float64": 11, "uint8": 2}  # numbers of the ONNX format

Name = str  # of a value in the graph


def to_onnx(
    encoder: LinearEncoder,
    path: StrPath,
    *,
    dtype: Literal["float32", "float64"] = "float32",
    about: Mapping[str, str] | None = None,
) -> None:
    """Write an encoder to an ONNX file.

    The input is called `features` and has shape (n, d); the output is called `codes`, uint8 of
    shape (n, ceil(n_bits / 8)). The codes are those of `encoder.encode` for the same rows as
    float64. Rows with NaN or infinite values are not refused: check them before.

    Parameters
    ----------
    encoder : LinearEncoder
        For example `ath.encoders_["target"]`.
    path : path
        File to write; an existing one is replaced.
    dtype : "float32" or "float64", default="float32"
        Type of the input.
    about : mapping of str to str, optional
        Stored as metadata, beside `n_bits`, `n_features` and the version of bridgehash.

    Examples
    --------
    >>> import onnxruntime  # doctest: +SKIP
    >>> to_onnx(ath.encoders_["target"], "target.onnx")  # doctest: +SKIP
    >>> session = onnxruntime.InferenceSession("target.onnx")  # doctest: +SKIP
    >>> session.run(["codes"], {"features": X})[0]  # doctest: +SKIP
    array([[227, 107, 129, 211,  21,  60,   5, 151]], dtype=uint8)
    """
    if dtype not in ("float32", "float64"):
        raise InputError(f"{dtype!r} is not float32 or float64", "dtype")
    graph = _Graph()
    x = graph.add("Cast", "features", to=_TYPES["float64"])
    for feature_map in encoder.maps:
        write = _MAPS.get(type(feature_map))
        if write is None:
            known = ", ".join(cls.__name__ for cls in _MAPS)
            name = type(feature_map).__name__
            raise InputError(f"{name} cannot be exported to ONNX; known maps: {known}", "encoder")
        x = write(graph, feature_map, x)
    codes = _packed(graph, encoder, x)
    words = {
        "n_bits": str(encoder.n_bits),
        "n_features": str(encoder.n_features_in_),
        **(about or {}),
    }
    content = graph.model(codes, dtype, encoder.n_features_in_, n_bytes(encoder.n_bits), words)
    with atomic_write(path) as temporary:
        temporary.write_bytes(content)


class _Graph:
    """Nodes and constants of a model; values are numbered in the order they are made."""

    def __init__(self) -> None:
        try:
            import onnx
        except ImportError as error:
            raise ImportError(
                "the export needs the package onnx; pip install 'bridgehash[onnx]'"
            ) from error
        self._onnx: Any = onnx
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def add(self, operator: str, *inputs: Name, **attributes: Any) -> Name:
        """Add a node and return the name of its result."""
        result = f"v{len(self._nodes)}"
        self._nodes.append(
            self._onnx.helper.make_node(operator, list(inputs), [result], **attributes)
        )
        return result

    def several(self, operator: str, *inputs: Name, results: int, **attributes: Any) -> list[Name]:
        """Add a node with several results."""
        names = [f"v{len(self._nodes)}_{i}" for i in range(results)]
        self._nodes.append(self._onnx.helper.make_node(operator, list(inputs), names, **attributes))
        return names

    def constant(self, values: Any, dtype: Any = None) -> Name:
        """Add an array; float32 is stored as it is and converted when the model is loaded."""
        array = np.ascontiguousarray(to_numpy(values), dtype)
        name = f"c{len(self._constants)}"
        self._constants.append(self._onnx.numpy_helper.from_array(array, name))
        is_short = dtype is None and array.dtype != np.float64
        return self.add("Cast", name, to=_TYPES["float64"]) if is_short else name

    def number(self, value: float) -> Name:
        return self.constant(float(value), np.float64)

    def row_sums(self, x: Name) -> Name:
        return self.add("ReduceSum", x, self.constant([1], np.int64), keepdims=1)

    def model(
        self, codes: Name, dtype: str, width: int, n_out: int, about: Mapping[str, str]
    ) -> bytes:
        """Return the file: a graph from `features` to `codes`."""
        helper = self._onnx.helper
        self.add("Identity", codes)
        self._nodes[-1].output[0] = "codes"
        graph = helper.make_graph(
            self._nodes,
            "encoder",
            [helper.make_tensor_value_info("features", _TYPES[dtype], ["n", width])],
            [helper.make_tensor_value_info("codes", _TYPES["uint8"], ["n", n_out])],
            self._constants,
        )
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", _OPSET)],
            ir_version=_IR_VERSION,
            producer_name="bridgehash",
            producer_version=__version__,
        )
        helper.set_model_props(model, dict(about))
        self._onnx.checker.check_model(model, full_check=True)
        return bytes(model.SerializeToString())


def _packed(graph: _Graph, encoder: LinearEncoder, x: Name) -> Name:
    """Project, compare with zero and pack; bits that fill the last byte are never one."""
    width = n_bytes(encoder.n_bits)
    P = to_numpy(encoder.projection) / float(encoder.scale)
    c = to_numpy(encoder.mean).astype(np.float64) @ P.astype(np.float64)
    c = c if encoder.intercept is None else c - to_numpy(encoder.intercept).astype(np.float64)
    missing = 8 * width - encoder.n_bits
    P, c = np.pad(P, ((0, 0), (0, missing))), np.pad(c, (0, missing), constant_values=1.0)
    H = graph.add("Sub", graph.add("MatMul", x, graph.constant(P)), graph.constant(c))
    bits = graph.add("Cast", graph.add("Greater", H, graph.number(0)), to=_TYPES["float32"])
    shape = graph.constant([-1, width, 8], np.int64)
    places = graph.constant(2.0 ** np.arange(7, -1, -1), np.float32)
    weighted = graph.add("Mul", graph.add("Reshape", bits, shape), places)
    values = graph.add("ReduceSum", weighted, graph.constant([2], np.int64), keepdims=0)
    return graph.add("Cast", values, to=_TYPES["uint8"])


def _unit_rows(graph: _Graph, _: UnitRows | None, x: Name) -> Name:
    """Divide by the largest value first, so that squares neither overflow nor vanish."""
    largest = graph.add("ReduceMax", graph.add("Abs", x), axes=[1], keepdims=1)
    x = graph.add("Div", x, _one_for_zero(graph, largest))
    norms = graph.add("Sqrt", graph.row_sums(graph.add("Mul", x, x)))
    return graph.add("Div", x, _one_for_zero(graph, norms))


def _one_for_zero(graph: _Graph, x: Name) -> Name:
    positive = graph.add("Greater", x, graph.number(0))
    return graph.add("Where", positive, x, graph.number(1))


def _principal(graph: _Graph, fitted: PrincipalMap, x: Name) -> Name:
    centred = graph.add("Sub", x, graph.constant(fitted.mean_))
    return graph.add("MatMul", centred, graph.constant(fitted.components_))


def _squared_distances(graph: _Graph, x: Name, anchors: Any) -> Name:
    """Return ‖x - χ_j‖² of each row and anchor."""
    A = to_numpy(anchors)
    squares = graph.constant((A.astype(np.float64) ** 2).sum(axis=1))
    products = graph.add("MatMul", x, graph.constant(A.T))
    mixed = graph.add("Mul", products, graph.number(-2))
    own = graph.row_sums(graph.add("Mul", x, x))
    F = graph.add("Add", graph.add("Add", own, squares), mixed)
    return graph.add("Max", F, graph.number(0))


def _kernel(graph: _Graph, fitted: AnchorKernel, x: Name) -> Name:
    if fitted.root_:
        roots = graph.add("Sqrt", graph.add("Abs", x))
        x = _unit_rows(graph, None, graph.add("Mul", graph.add("Sign", x), roots))
    F = _squared_distances(graph, x, fitted.anchors_)
    F = F if fitted.kernel == "gaussian" else graph.add("Sqrt", F)
    return graph.add("Exp", graph.add("Div", F, graph.number(-fitted.bandwidth_)))


def _rows_and_kernel(graph: _Graph, fitted: RowsAndKernel, x: Name) -> Name:
    coordinates = _kernel(graph, fitted.kernel_, x)
    if fitted.basis_ is not None:
        coordinates = graph.add("MatMul", coordinates, graph.constant(fitted.basis_))
    return graph.add("Concat", x, coordinates, axis=1)


def _memberships(graph: _Graph, fitted: AnchorGraphMap, x: Name) -> Name:
    """Weights of the nearest anchors, which sum to one; zero for all others."""
    F = _squared_distances(
        graph, graph.add("Sub", x, graph.constant(fitted.mean_)), fitted.anchors_
    )
    k = graph.constant([min(fitted.n_neighbors, len(fitted.anchors_))], np.int64)
    near, columns = graph.several("TopK", F, k, results=2, axis=1, largest=0, sorted=1)
    least = graph.add("ReduceMin", near, axes=[1], keepdims=1)
    excess = graph.add("Div", graph.add("Sub", least, near), graph.number(fitted.sigma_**2))
    weights = graph.add("Exp", excess)
    shares = graph.add("Div", weights, graph.row_sums(weights))
    zeros = graph.add("Mul", F, graph.number(0))
    return graph.add("ScatterElements", zeros, columns, shares, axis=1)


def _modes(graph: _Graph, fitted: SpectralModes, x: Name) -> Name:
    V = graph.add("Sub", x, graph.constant(fitted.mean_))
    V = graph.add("MatMul", V, graph.constant(fitted.components_))
    widths = np.where(fitted.range_ > 0, fitted.range_, 1.0)
    phase = graph.add("Sub", V, graph.constant(fitted.low_))
    phase = graph.add("Mul", phase, graph.constant(np.pi / widths))
    phase = graph.add("Gather", phase, graph.constant(fitted.axis_, np.int64), axis=1)
    frequency = graph.constant(fitted.frequency_, np.float64)
    return graph.add("Cos", graph.add("Mul", phase, frequency))


_MAPS: dict[type, Callable[[_Graph, Any, Name], Name]] = {
    UnitRows: _unit_rows,
    PrincipalMap: _principal,
    AnchorKernel: _kernel,
    RowsAndKernel: _rows_and_kernel,
    AnchorGraphMap: _memberships,
    SpectralModes: _modes,
}
