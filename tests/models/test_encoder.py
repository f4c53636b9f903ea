"""Encoding in blocks is the plain formula, whatever the blocks and the company of a row."""

import threading
import tracemalloc
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.preprocessing import FunctionTransformer
from threadpoolctl import threadpool_info, threadpool_limits

from bridgehash import InputError, LinearEncoder
from bridgehash._core.threads import map_blocks
from bridgehash.codes import pack, signs
from tests.encoders import D, Doubled, N, formula, kernel, made, rows, unit_rows, use_small_blocks


@pytest.fixture
def small_blocks(monkeypatch):
    use_small_blocks(monkeypatch)


# --- definition


MAPS = {
    "no maps": list,
    "unit rows": unit_rows,
    "kernel of unit rows": kernel,
    "unit rows of a kernel": lambda: [*kernel(), *unit_rows()],
    "a map of somebody else": lambda: [Doubled()],
}


@pytest.mark.parametrize("maps", MAPS.values(), ids=list(MAPS))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_encoder_is_its_formula_and_its_outputs_agree(maps, dtype):
    encoder, X = made(maps(), dtype), rows(dtype=dtype)
    H, expected = encoder.decision_function(X), formula(encoder, X)
    tolerance = 2e-5 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(H, expected, rtol=0, atol=tolerance * np.abs(expected).max())
    np.testing.assert_array_equal(encoder.transform(X), signs(H))
    np.testing.assert_array_equal(encoder.encode(X), pack(H))
    assert encoder.encode(X).dtype == np.uint8
    assert encoder.transform(X).dtype == np.int8


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, bool, np.float16])
def test_other_numbers_are_taken_as_float64(dtype):
    X = np.random.default_rng(0).integers(0, 2, (50, D)).astype(dtype)
    encoder = made(dtype=np.float32)
    expected = encoder.decision_function(X.astype(np.float64))
    np.testing.assert_array_equal(encoder.decision_function(X), expected)
    assert expected.dtype == np.float64


@pytest.mark.parametrize("single", ["rows", "encoder"])
def test_the_wider_type_decides(single):
    X = rows(dtype=np.float32 if single == "rows" else np.float64)
    encoder = made(unit_rows(), np.float32 if single == "encoder" else np.float64)
    H = encoder.decision_function(X)
    assert H.dtype == np.float64
    np.testing.assert_allclose(H, formula(encoder, X), rtol=0, atol=1e-6)
    P = encoder.projection / encoder.scale
    exact = (encoder.maps[0].transform(X.astype(float)) - encoder.mean) @ P.astype(float)
    np.testing.assert_allclose(H, exact + encoder.intercept, rtol=0, atol=1e-13)


def test_rows_too_large_or_too_small_to_be_squared_are_divided_by_their_norm():
    plain, X = rows(8, np.float32), rows(8, np.float32)
    X[1], X[2], X[3] = 0.0, X[2] * np.float32(1e30), X[3] * np.float32(1e-30)
    X[4], X[5] = X[4] * np.float32(1e-42), X[5] * np.float32(1e18)
    encoder = made(unit_rows(), np.float32)
    H = encoder.decision_function(X)
    expected = formula(encoder, X)
    np.testing.assert_allclose(H, expected, rtol=0, atol=1e-6 * np.abs(expected).max())
    np.testing.assert_array_equal(encoder.transform(X), signs(expected))
    others = [0, 6, 7]
    np.testing.assert_array_equal(H[others], encoder.decision_function(plain)[others])


def test_float32_flips_few_bits():
    encoder, X = made(unit_rows(512), np.float32, 512, 64), rows(20_000, np.float32, 512, 0.0)
    exact = made(unit_rows(512), np.float32, 512, 64).decision_function(X.astype(np.float64)) > 0
    assert ((encoder.transform(X) > 0) != exact).mean() <= 1e-5


# --- blocks


@pytest.mark.parametrize("maps", MAPS.values(), ids=list(MAPS))
def test_blocks_do_not_show(maps, small_blocks, monkeypatch):
    encoder, X = made(maps()), rows(50)
    inside = encoder.decision_function(X)
    monkeypatch.undo()
    whole = encoder.decision_function(X)
    np.testing.assert_allclose(inside, whole, rtol=0, atol=1e-12 * np.abs(whole).max())


@pytest.mark.parametrize(("d", "bits"), [(512, 64), (300, 10), (784, 128), (40, 20)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("maps", [lambda d: [], unit_rows], ids=["no maps", "unit rows"])
def test_a_row_has_the_same_projections_alone_and_among_others(d, bits, dtype, maps):
    encoder, X = made(maps(d), dtype, d, bits), rows(2500, dtype, d)
    H = encoder.decision_function(X)
    for some in (slice(0, 1), slice(2499, 2500), slice(7, 9), slice(3, 40), slice(100, 1300)):
        np.testing.assert_array_equal(encoder.decision_function(X[some]), H[some])
    with threadpool_limits(1):
        np.testing.assert_array_equal(encoder.decision_function(X), H)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_order_in_memory_does_not_show(dtype):
    encoder, X = made(dtype=dtype, d=300, bits=64), rows(2500, dtype, 300)
    H = encoder.decision_function(X)
    turned = clone(encoder).set_params(projection=np.asfortranarray(encoder.projection))
    np.testing.assert_array_equal(turned.decision_function(X), H)
    np.testing.assert_array_equal(encoder.decision_function(np.asfortranarray(X)), H)
    np.testing.assert_array_equal(encoder.decision_function(np.repeat(X, 2, axis=0)[::2]), H)


def test_no_copy_of_the_rows_is_made(tmp_path):
    X = np.lib.format.open_memmap(tmp_path / "X.npy", "w+", np.float32, (100_000, 64))
    X[:] = rows(100_000, np.float32, 64)
    encoder = made(unit_rows(64), np.float32, 64, 64)
    encoder.encode(X[:10_000])
    tracemalloc.start()
    encoder.encode(X)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < X.nbytes / 2


def test_rows_done_are_told(small_blocks):
    told = []
    made().encode(rows(20), done=told.append)
    assert told == [7, 14, 20]


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_blas_has_its_threads_back_after_calls_that_overlap():
    before = blas_threads()
    first, second = threading.Event(), threading.Event()

    def long(rows):
        first.set()
        second.wait(10)

    def short(rows):
        assert set(blas_threads()) == {1}
        raise ValueError("spoilt")

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(map_blocks, long, 2, 1, threads=True)
        first.wait(10)
        with pytest.raises(ValueError, match="spoilt"):
            map_blocks(short, 2, 1, threads=True)
        assert set(blas_threads()) == {1}
        second.set()
        running.result()
    assert blas_threads() == before


def test_maps_of_others_are_called_from_one_thread(small_blocks):
    seen = set()

    def note(X):
        seen.add(threading.get_ident())
        return X

    own = FunctionTransformer(note).fit(rows())
    made([own]).encode(rows(100))
    assert seen == {threading.get_ident()}


# --- errors


@pytest.mark.parametrize("maps", MAPS.values(), ids=list(MAPS))
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("call", ["decision_function", "transform", "encode"])
def test_rows_that_are_not_finite_are_refused(maps, value, call):
    X = rows(dtype=np.float32)
    X[N - 2, 3] = value
    words = "Input X contains NaN" if np.isnan(value) else "Input X contains infinity"
    with pytest.raises(ValueError, match=words):
        getattr(made(maps(), np.float32), call)(X)


@pytest.mark.parametrize("n", [3, 30_000])
def test_what_overflows_is_not_called_infinite(n):
    X = np.full((n, D), 3e38, dtype=np.float32)
    with pytest.raises(InputError, match="overflow float32; use float64 rows"):
        made(dtype=np.float32).encode(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made(unit_rows(), np.float32).encode(X)
        X[:] = 1e37  # finite projections whose sum is not
        one = LinearEncoder(np.eye(D, dtype=np.float32), np.zeros(D, np.float32))
        assert (one.transform(np.repeat(X[:300], 100, axis=0)) == 1).all()


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (np.ones(D), "Expected 2D array"),
        (np.ones((0, D)), "minimum of 1 is required"),
        (np.ones((2, D + 1)), f"X: {D + 1} features, but this encoder takes {D}"),
        (np.full((2, D), 1j), "Complex data not supported"),
        ([["a"] * D], "numeric|convert"),
    ],
)
def test_what_is_no_matrix_of_numbers_is_refused(X, words):
    with pytest.raises(ValueError, match=words):
        made().encode(X)
