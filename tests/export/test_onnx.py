"""An exported encoder gives the codes of Python, for every method and both types of input."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from bridgehash import (
    AnchorKernel,
    InputError,
    LinearEncoder,
    StructuralStart,
    UnitRows,
    codes,
)
from bridgehash.datasets import digit_domains
from bridgehash.registry import METHODS

onnx = pytest.importorskip("onnx", reason="no onnx: pip install 'bridgehash[onnx]'")
onnxruntime = pytest.importorskip("onnxruntime")
from bridgehash.export import to_onnx  # noqa: E402

N_BITS = 20  # not a multiple of eight
ONE_SPACE = ("ath-propagated", "ath-adopted")  # slow with two feature spaces


@pytest.fixture(scope="module")
def domains():
    return digit_domains(400, n_queries=60)


def run(path, X):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(["codes"], {"features": X})[0]


def fitted(name, task):
    """Return a method that has learned from all it may see."""
    method = METHODS[name]
    seen = set(method.about.needs) | set(method.about.uses)
    n = min(len(task.X_source), len(task.X_target))
    given = {"y_source": task.y_source, "y_target": task.y_target}
    pairs = np.column_stack([np.arange(n)] * 2)
    labels = {key: value for key, value in given.items() if {key, "y"} & seen}
    more = {"pairs": pairs} if "pairs" in seen else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quick = {"start": StructuralStart(n_starts=4)} if name == "ath-structural" else {}
        return method.prepared(N_BITS, seed=0, **quick).fit(
            task.X_source, task.X_target, **labels, **more
        )


@pytest.mark.parametrize("name", METHODS)
def test_codes_are_those_of_python(name, domains, tmp_path):
    task = domains.homogeneous() if name in ONE_SPACE else domains.heterogeneous()
    hasher = fitted(name, task)
    for domain, X in (("source", task.X_source), ("target", task.X_query)):
        encoder = hasher.encoders_[domain]
        for dtype in ("float32", "float64"):
            rows = np.asarray(X, dtype)
            to_onnx(encoder, tmp_path / "a.onnx", dtype=dtype)
            found = run(tmp_path / "a.onnx", rows)
            expected = encoder.encode(rows.astype(np.float64))
            assert np.array_equal(found, expected), (domain, dtype)
            assert found.std() > 10  # codes differ
            bits, python = (codes.unpack(each, N_BITS) for each in (found, encoder.encode(rows)))
            assert (bits != python).mean() < 1e-4  # float32 rows round in Python


@pytest.mark.parametrize("kernel", ["gaussian", "exponential"])
@pytest.mark.parametrize("root", [False, True])
def test_kernels_are_exported(kernel, root, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 7))
    maps = [UnitRows().fit(X), AnchorKernel(30, random_state=0, kernel=kernel, root=root).fit(X)]
    encoder = LinearEncoder(rng.normal(size=(30, 9)), np.full(30, 0.5), 2.0, maps, np.ones(9) / 9)
    to_onnx(encoder, tmp_path / "a.onnx", dtype="float64")
    assert np.array_equal(run(tmp_path / "a.onnx", X), encoder.encode(X))


def test_zero_and_extreme_rows_are_normalised(tmp_path):
    rng = np.random.default_rng(0)
    X = np.vstack([np.zeros((1, 5)), 1e-200 * np.ones((1, 5)), 1e200 * rng.normal(size=(3, 5))])
    encoder = LinearEncoder(rng.normal(size=(5, 16)), rng.normal(size=5), 1.0, [UnitRows().fit(X)])
    to_onnx(encoder, tmp_path / "a.onnx", dtype="float64")
    assert np.array_equal(run(tmp_path / "a.onnx", X), encoder.encode(X))


def test_float32_models_are_stored_in_half_the_space(tmp_path):
    A = np.random.default_rng(0).normal(size=(100, 64))
    sizes = []
    for dtype in (np.float32, np.float64):
        to_onnx(LinearEncoder(A.astype(dtype), np.zeros(100, dtype)), tmp_path / "a.onnx")
        sizes.append((tmp_path / "a.onnx").stat().st_size)
    assert sizes[0] < 0.6 * sizes[1]


def test_the_file_says_what_it_is(tmp_path):
    to_onnx(LinearEncoder(np.eye(3), np.zeros(3)), tmp_path / "a.onnx", about={"domain": "target"})
    model = onnx.load(tmp_path / "a.onnx")
    words = {each.key: each.value for each in model.metadata_props}
    assert words == {"n_bits": "3", "n_features": "3", "domain": "target"}
    assert model.producer_name == "bridgehash"


def test_an_unknown_map_is_named(tmp_path):
    class Mine(UnitRows):
        """A map of somebody else."""

    encoder = LinearEncoder(np.eye(3), np.zeros(3), 1.0, [Mine().fit(np.eye(3))])
    with pytest.raises(InputError, match="Mine cannot be exported to ONNX"):
        to_onnx(encoder, tmp_path / "a.onnx")
    assert not (tmp_path / "a.onnx").exists()
    with pytest.raises(InputError, match="'float16' is not float32 or float64"):
        to_onnx(LinearEncoder(np.eye(3), np.zeros(3)), tmp_path / "a.onnx", dtype="float16")
