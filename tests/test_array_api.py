"""Arrays of any library, on any device, give what NumPy gives, and stay where they are."""

from __future__ import annotations

import subprocess
import sys
import warnings

import numpy as np
import pytest

from bridgehash import ATH, load
from bridgehash._core.arrays import array_namespace, balanced_signs, is_on_gpu, like, to_numpy
from bridgehash._core.linalg import SPDSolver, pca, row_space
from bridgehash.ath.steps import graph_gamma, graph_step, simplex_projection
from bridgehash.codes import signs
from bridgehash.models.feature_maps import AnchorKernel, UnitRows
from bridgehash.neighbors.graphs import KNNGraph

try:
    import torch
except ImportError:
    torch = None
try:
    import array_api_strict
except ImportError:
    array_api_strict = None

NO_STRICT = pytest.mark.skipif(array_api_strict is None, reason="array-api-strict is not installed")
NO_TORCH = pytest.mark.skipif(torch is None, reason="torch is not installed")
NO_CUDA = pytest.mark.skipif(
    torch is None or not torch.cuda.is_available(), reason="there is no CUDA device"
)
LIBRARIES = [
    pytest.param(lambda X: array_api_strict.asarray(X), id="strict", marks=NO_STRICT),
    pytest.param(lambda X: torch.from_numpy(X), id="torch", marks=NO_TORCH),
    pytest.param(lambda X: torch.from_numpy(X).cuda(), id="cuda", marks=NO_CUDA),
]
PRESETS = {  # variant: which labels it learns from
    "unsupervised": (),
    "semi_supervised": ("y_source",),
    "supervised": ("y_source", "y_target"),
    "kernel": ("y_source", "y_target"),
    "propagated": ("y_source",),
    "paired": ("pairs",),
}


@pytest.fixture(params=LIBRARIES)
def convert(request):
    return request.param


def domains(n_s=90, n_t=70, d_s=12, d_t=12, dtype=np.float64):
    rng = np.random.default_rng(0)
    centres = 2.0 * rng.normal(size=(4, 12))
    y_s, y_t = rng.integers(4, size=n_s), rng.integers(4, size=n_t)
    turn = np.linalg.qr(rng.normal(size=(d_t, d_t)))[0][:12]
    X_s = np.pad(centres[y_s], ((0, 0), (0, d_s - 12))) + rng.normal(size=(n_s, d_s))
    X_t = (centres[y_t] @ turn if d_t != 12 else centres[y_t]) + rng.normal(size=(n_t, d_t))
    labels = {"y_source": y_s, "y_target": y_t}
    return X_s.astype(dtype), X_t.astype(dtype), labels


def fitted(X_s, X_t, variant, extra):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        preset = getattr(ATH, variant)(16, random_state=0, max_iter=5)
        return preset.fit(X_s, X_t, **extra)


def extras(variant, labels):
    known = labels | {"pairs": np.stack([np.arange(40)] * 2, axis=1)}
    return {name: known[name] for name in PRESETS[variant]}


@pytest.mark.parametrize("variant", PRESETS)
@pytest.mark.parametrize("width", [12, 100], ids=["tall", "wide"])
def test_a_fit_gives_the_projections_that_numpy_gives(convert, variant, width):
    if variant == "propagated" and width != 12:
        pytest.skip("the match across feature spaces takes long, and is the host's")
    X_s, X_t, labels = domains(d_t=width)
    extra = extras(variant, labels)
    ours = fitted(convert(X_s), convert(X_t), variant, extra)
    numpys = fitted(X_s, X_t, variant, extra)
    for one, other in zip(
        (ours.source_encoder_, ours.target_encoder_),
        (numpys.source_encoder_, numpys.target_encoder_),
        strict=True,
    ):
        assert array_namespace(one.projection) is array_namespace(convert(X_s))
        np.testing.assert_allclose(to_numpy(one.projection), other.projection, atol=1e-8)
        np.testing.assert_allclose(to_numpy(one.mean), other.mean, atol=1e-12)
    np.testing.assert_allclose(ours.objective_["total"], numpys.objective_["total"])


def test_the_script_of_the_authors_gives_the_projections_that_numpy_gives(convert):
    X_s, X_t, _ = domains()
    ours, numpys = (
        ATH.unsupervised(16, published="authors", random_state=0).fit(form(X_s), form(X_t))
        for form in (convert, np.asarray)
    )
    projection = to_numpy(ours.target_encoder_.projection)
    np.testing.assert_allclose(projection, numpys.target_encoder_.projection, atol=1e-8)


def test_codes_stay_in_the_library_of_the_rows(convert):
    X_s, X_t, _ = domains()
    ath = fitted(convert(X_s), convert(X_t), "unsupervised", {})
    ours, numpys = ath.encode(convert(X_t), "target"), ath.encode(X_t, "target")
    assert array_namespace(ours) is array_namespace(convert(X_t))
    assert is_on_gpu(ours) == is_on_gpu(convert(X_t))
    assert isinstance(numpys, np.ndarray)
    np.testing.assert_array_equal(to_numpy(ours), numpys)


def test_the_learned_graph_is_on_the_host(convert):
    X_s, X_t, labels = domains()
    for variant, given in (("unsupervised", {}), ("supervised", labels)):
        W = fitted(convert(X_s), convert(X_t), variant, given).bipartite_graph_
        expected = fitted(X_s, X_t, variant, given).bipartite_graph_
        assert isinstance(W.degrees, np.ndarray)
        ones = np.ones((len(X_t), 1))
        assert isinstance(W @ ones, np.ndarray)
        np.testing.assert_allclose(W @ ones, expected @ ones, atol=1e-6)
        np.testing.assert_allclose(W.T.degrees, expected.T.degrees, atol=1e-6)


def test_a_saved_model_knows_no_library(convert, tmp_path):
    X_s, X_t, labels = domains()
    ath = fitted(convert(X_s), convert(X_t), "kernel", labels)
    ath.save(tmp_path / "model.bh")
    loaded = load(tmp_path / "model.bh")
    assert isinstance(loaded.target_encoder_.projection, np.ndarray)
    np.testing.assert_array_equal(loaded.encode(X_t, "target"), to_numpy(ath.encode(X_t, "target")))


def test_float32_stays_float32(convert):
    X_s, X_t, _ = domains(dtype=np.float32)
    ath = fitted(convert(X_s), convert(X_t), "unsupervised", {})
    assert to_numpy(ath.target_encoder_.projection).dtype == np.float32


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda X: X[:1], "^X_target: has 1 of at least 2 rows"),
        (lambda X: X * np.nan, "^X_target: contains NaN"),
        (lambda X: np.ones_like(X), "^X_target: all rows are equal"),
        (lambda X: X[0], "^X_target: shape"),
    ],
    ids=["one row", "nan", "equal", "one dimension"],
)
def test_wrong_arrays_are_refused_by_name(convert, change, words):
    X_s, X_t, _ = domains()
    with pytest.raises(ValueError, match=words):
        ATH.unsupervised(8).fit(convert(X_s), convert(change(X_t)))


@NO_TORCH
def test_a_device_for_numpy_input_gives_numpy_back():
    X_s, X_t, _ = domains()
    plain = fitted(X_s, X_t, "unsupervised", {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        on_device = ATH.unsupervised(16, random_state=0, max_iter=5).fit(X_s, X_t, device="cpu")
    projection = on_device.target_encoder_.projection
    assert isinstance(projection, np.ndarray)
    np.testing.assert_allclose(projection, plain.target_encoder_.projection, atol=1e-8)


@NO_TORCH
def test_a_device_that_is_not_there_is_named():
    X_s, X_t, _ = domains()
    with pytest.raises(ValueError, match=r"^device: 'cuda:77' is not available"):
        ATH.unsupervised(8).fit(X_s, X_t, device="cuda:77")


@NO_TORCH
def test_a_device_is_checked_with_a_target_map_too():
    X_s, X_t, _ = domains()
    pairs = np.column_stack([np.arange(5), np.arange(5)])
    with pytest.raises(ValueError, match=r"^device: 'cuda:77' is not available"):
        ATH.paired(8).fit(X_s, X_t, pairs=pairs, device="cuda:77")


@pytest.mark.skipif(torch is not None, reason="torch is installed")
@pytest.mark.filterwarnings("ignore::bridgehash._core.errors.PairsWarning")
@pytest.mark.parametrize("name", ["unsupervised", "paired"])
def test_a_device_without_torch_names_what_to_install(name):
    X_s, X_t, _ = domains()
    pairs = np.column_stack([np.arange(5), np.arange(5)])
    with pytest.raises(ValueError, match=r"^device: 'cuda' needs torch; pip install"):
        getattr(ATH, name)(8).fit(X_s, X_t, pairs=pairs, device="cuda")


@NO_TORCH
@pytest.mark.parametrize("dtype", [np.float16, np.int32])
def test_other_numbers_of_torch_are_taken_as_numpy_takes_them(dtype):
    X_s, X_t = ((10 * X).astype(dtype) for X in domains()[:2])
    ours = ATH.unsupervised(8, random_state=0, max_iter=3, tol=0.0)
    theirs = ATH.unsupervised(8, random_state=0, max_iter=3, tol=0.0)
    ours.fit(X_s, X_t)
    theirs.fit(torch.from_numpy(X_s), torch.from_numpy(X_t))
    np.testing.assert_array_equal(
        to_numpy(theirs.encode(torch.from_numpy(X_s), "source")), ours.encode(X_s, "source")
    )


@NO_TORCH
def test_torch_and_numpy_together_are_refused():
    X_s, X_t, _ = domains()
    with pytest.raises(ValueError, match=r"X_source is torch \(cpu\), X_target is numpy"):
        ATH.unsupervised(8).fit(torch.from_numpy(X_s), X_t)


def test_auto_is_the_host_without_a_gpu():
    X_s, X_t, _ = domains()
    if torch is not None and torch.cuda.is_available():
        pytest.skip("there is a GPU")
    auto = ATH.unsupervised(16, random_state=0, max_iter=3, tol=0.0).fit(X_s, X_t, device="auto")
    host = ATH.unsupervised(16, random_state=0, max_iter=3, tol=0.0).fit(X_s, X_t)
    np.testing.assert_array_equal(auto.target_encoder_.projection, host.target_encoder_.projection)


def test_steps_give_what_numpy_gives(convert):
    rng = np.random.default_rng(0)
    F = np.sort(rng.random((20, 6)), axis=1)
    F[0] = 1.0  # all distances equal
    for step in (graph_step, graph_gamma, simplex_projection, signs, balanced_signs):
        np.testing.assert_allclose(to_numpy(step(convert(F))), step(F), atol=1e-12)


def test_ties_of_balanced_signs_go_by_position(convert):
    H = np.random.default_rng(0).integers(3, size=(31, 5)).astype(float)
    np.testing.assert_array_equal(to_numpy(balanced_signs(convert(H))), balanced_signs(H))


def test_maps_and_factors_give_what_numpy_gives(convert):
    X, _, _ = domains()
    X[0] = 0.0
    X[1] *= 1e-200  # its square is nothing
    np.testing.assert_allclose(
        to_numpy(UnitRows().fit_transform(convert(X))), UnitRows().fit_transform(X)
    )
    kernel = AnchorKernel(10, random_state=0)
    np.testing.assert_allclose(
        to_numpy(kernel.fit_transform(convert(X))), kernel.fit_transform(X), atol=1e-12
    )
    np.testing.assert_allclose(to_numpy(pca(convert(X), 5)), pca(X, 5), atol=1e-10)
    Phi = X.T @ X
    np.testing.assert_allclose(
        to_numpy(SPDSolver(convert(Phi.copy()), 1.0)(convert(Phi[:, :2].copy()))),
        SPDSolver(Phi.copy(), 1.0)(Phi[:, :2]),
        atol=1e-10,
    )
    wide = np.ascontiguousarray(X[:5])
    Z, back = row_space(convert(wide))
    np.testing.assert_allclose(to_numpy(Z @ back(like(np.eye(5), Z)).T), wide, atol=1e-10)


@pytest.mark.parametrize("mutual", [False, True])
def test_a_graph_gives_what_numpy_gives(convert, mutual):
    X, _, _ = domains()
    ours, numpys = (KNNGraph(4, mutual).build(rows) for rows in (convert(X), X))
    np.testing.assert_allclose(to_numpy(ours @ convert(X)), numpys @ X, atol=1e-10)
    np.testing.assert_allclose(to_numpy(ours.degrees), numpys.degrees)


def test_torch_and_faiss_are_not_loaded_with_the_package():
    line = (
        "import sys, bridgehash; "
        "print([m for m in ('torch', 'triton', 'faiss', 'dask', 'array_api_compat', 'numba')"
        " if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_scikit_learn_is_not_loaded_with_an_index():
    line = "import sys, bridgehash.index, bridgehash.cli.io; print('sklearn' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
