"""Encoding in blocks is the plain formula, whatever the blocks, the library and the company."""

import pickle
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import array_api_strict
import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.preprocessing import FunctionTransformer
from threadpoolctl import threadpool_info, threadpool_limits

import bridgehash
from bridgehash import ITQ, AnchorKernel, LinearEncoder, UnitRows, _xp
from bridgehash import encoder as encoders
from bridgehash._threaded import map_blocks
from bridgehash.codes import hamming, pack, signs, unpack

N, D, BITS = 3000, 40, 20

try:
    import torch
except ImportError:
    torch = None

LIBRARIES = [
    pytest.param(array_api_strict, id="strict"),
    pytest.param(
        torch, id="torch", marks=pytest.mark.skipif(torch is None, reason="torch is not installed")
    ),
]


class Doubled(TransformerMixin, BaseEstimator):
    """A map of somebody else, for any library."""

    n_features_in_ = D

    def transform(self, X):
        return X + X


def rows(n=N, dtype=np.float64, d=D, shift=0.5):
    return (np.random.default_rng(0).normal(size=(n, d)) + shift).astype(dtype)


def made(maps=(), dtype=np.float64, d=D, bits=BITS):
    rng = np.random.default_rng(1)
    A, mean, b = rng.normal(size=(d, bits)), rng.normal(size=d) / d**0.5, rng.normal(size=bits)
    return LinearEncoder(A.astype(dtype), mean.astype(dtype), 1.7, maps, 0.1 * b.astype(dtype))


def unit_rows(d=D):
    return [UnitRows().fit(np.ones((1, d)))]


def kernel():
    return [*unit_rows(), AnchorKernel(D, random_state=0).fit(rows(60))]


def formula(encoder, X):
    """Maps, then ((φ(x) - mean) / scale) @ projection + intercept, all rows at once in float64."""
    Z = np.asarray(X, dtype=np.float64)
    for feature_map in encoder.maps:
        Z = feature_map.transform(Z)
    H = ((Z - encoder.mean) / encoder.scale) @ encoder.projection.astype(np.float64)
    return H + encoder.intercept


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of seven rows, and no product too small to be cut into them."""
    monkeypatch.setattr(_xp, "_IN_CACHE", 0)
    monkeypatch.setattr(_xp, "_ROWS", 7)
    monkeypatch.setattr(_xp, "_ROWS_ON_DEVICE", 7)
    monkeypatch.setattr(_xp, "_SMALL", 0)


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
    import tracemalloc

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


def test_what_overflows_is_not_called_infinite():
    X = np.full((3, D), 3e38, dtype=np.float32)
    with pytest.warns(RuntimeWarning, match="too large for float32: give rows of float64"):
        made(dtype=np.float32).encode(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made(unit_rows(), np.float32).encode(X)
        X[:] = 1e37  # finite projections whose sum is not
        one = LinearEncoder(np.eye(D, dtype=np.float32), np.zeros(D, np.float32))
        assert (one.transform(np.repeat(X, 100, axis=0)) == 1).all()


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (np.ones(D), "Expected 2D array"),
        (np.ones((0, D)), "minimum of 1 is required"),
        (np.ones((2, D + 1)), f"X has {D + 1} features, but this encoder was made for {D}"),
        (np.full((2, D), 1j), "Complex data not supported"),
        ([["a"] * D], "numeric|convert"),
    ],
)
def test_what_is_no_matrix_of_numbers_is_refused(X, words):
    with pytest.raises(ValueError, match=words):
        made().encode(X)


# --- other libraries


@pytest.mark.parametrize("xp", LIBRARIES)
@pytest.mark.parametrize("maps", [list, unit_rows, lambda: [Doubled()]])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_arrays_of_another_library_stay_there(xp, maps, dtype, small_blocks):
    encoder, X = made(maps(), dtype), rows(50, dtype)
    given = xp.asarray(X)
    codes, B, H = encoder.encode(given), encoder.transform(given), encoder.decision_function(given)
    assert all(isinstance(part, type(given)) for part in (codes, B, H))
    assert (codes.dtype, B.dtype, H.dtype) == (xp.uint8, xp.int8, getattr(xp, dtype))
    expected = encoder.decision_function(X)
    np.testing.assert_allclose(_xp.to_numpy(H), expected, rtol=0, atol=1e-5)
    np.testing.assert_array_equal(_xp.to_numpy(B), signs(_xp.to_numpy(H)))
    np.testing.assert_array_equal(_xp.to_numpy(codes), pack(_xp.to_numpy(H)))


def foreign(xp, encoder):
    """The same encoder with arrays of another library."""
    arrays = (encoder.projection, encoder.mean, encoder.intercept)
    A, mean, b = map(xp.asarray, arrays)
    return LinearEncoder(A, mean, encoder.scale, encoder.maps, b)


@pytest.mark.parametrize("xp", LIBRARIES)
def test_an_encoder_of_another_library_takes_any_rows(xp):
    encoder, X = made(unit_rows()), rows(50)
    H = encoder.decision_function(X)
    other = foreign(xp, encoder)
    assert type(other.encode(X)) is np.ndarray
    np.testing.assert_array_equal(other.decision_function(X), H)
    theirs = other.decision_function(xp.asarray(X))
    np.testing.assert_allclose(_xp.to_numpy(theirs), H, rtol=0, atol=1e-12)


@pytest.mark.parametrize("xp", LIBRARIES)
def test_arrays_are_moved_once_and_again_when_replaced(xp, monkeypatch):
    encoder, X = made(), xp.asarray(rows(50))
    first = encoder.encode(X)
    monkeypatch.setattr(encoders, "like", None)  # whoever moves again fails
    np.testing.assert_array_equal(_xp.to_numpy(encoder.encode(X)), _xp.to_numpy(first))
    monkeypatch.undo()
    encoder.set_params(projection=-encoder.projection, intercept=-encoder.intercept)
    np.testing.assert_array_equal(
        _xp.to_numpy(encoder.transform(X)), -unpack(_xp.to_numpy(first), BITS)
    )


@pytest.mark.parametrize("xp", LIBRARIES)
def test_what_was_moved_is_no_part_of_an_encoder(xp, tmp_path):
    encoder = made(unit_rows())
    kept, parameters = pickle.dumps(encoder), repr(encoder.get_params())
    encoder.save(tmp_path / "before")
    encoder.encode(xp.asarray(rows(50)))
    assert pickle.dumps(encoder) == kept
    assert repr(encoder.get_params()) == parameters
    assert vars(clone(encoder)).keys() == vars(encoder).keys() == encoder.get_params().keys()
    encoder.save(tmp_path / "after")
    assert (tmp_path / "after").read_bytes() == (tmp_path / "before").read_bytes()


@pytest.mark.parametrize("xp", LIBRARIES)
def test_an_encoder_of_another_library_is_saved_as_numpy(xp, tmp_path):
    encoder, X = made(unit_rows()), rows(50)
    encoder.save(tmp_path / "numpy")
    foreign(xp, encoder).save(tmp_path / "foreign")
    assert (tmp_path / "foreign").read_bytes() == (tmp_path / "numpy").read_bytes()
    loaded = bridgehash.load(tmp_path / "foreign")
    assert type(loaded.projection) is np.ndarray
    np.testing.assert_array_equal(loaded.encode(X), encoder.encode(X))
    assert isinstance(loaded.encode(xp.asarray(X)), type(xp.asarray(X)))


@pytest.mark.parametrize("xp", LIBRARIES)
def test_clones_and_pickles_of_another_library_work(xp):
    encoder, X = foreign(xp, made()), rows(50)
    expected = encoder.encode(X)
    np.testing.assert_array_equal(clone(encoder).encode(X), expected)
    if xp is torch:  # arrays of array-api-strict are not made for pickling
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(encoder)).encode(X), expected)


@pytest.mark.parametrize("xp", LIBRARIES)
@pytest.mark.parametrize("maps", [list, unit_rows, lambda: [Doubled()]])
def test_arrays_of_another_library_are_checked_as_well(xp, maps):
    encoder, X = made(maps()), rows(50)
    with pytest.raises(ValueError, match=f"X has 3 features, but this encoder was made for {D}"):
        encoder.encode(xp.asarray(X[:, :3]))
    with pytest.raises(ValueError, match="one row a sample"):
        encoder.encode(xp.asarray(X[0]))
    with pytest.raises(ValueError, match="a floating type is needed"):
        encoder.encode(xp.asarray(X.astype(int)))
    for value, words in ((np.nan, "contains NaN"), (np.inf, "contains infinity")):
        X[3, 3] = value
        with pytest.raises(ValueError, match=words):
            encoder.encode(xp.asarray(X))


@pytest.mark.parametrize("xp", LIBRARIES)
def test_one_domain_methods_encode_other_libraries(xp):
    X = rows(50)
    model = ITQ(n_bits=8, random_state=0).fit(X)
    np.testing.assert_array_equal(_xp.to_numpy(model.encode(xp.asarray(X))), model.encode(X))
    assert isinstance(model.transform(xp.asarray(X)), type(xp.asarray(X)))


@pytest.mark.skipif(torch is None, reason="torch is not installed")
@pytest.mark.parametrize("maps", [list, unit_rows, lambda: [Doubled()]])
@pytest.mark.parametrize("name", ["bfloat16", "float16"])
def test_sixteen_bits_are_summed_in_float32(maps, name):
    encoder, X = made(maps(), np.float32), rows(dtype=np.float32)
    rounded = torch.asarray(X).to(getattr(torch, name))
    H = encoder.decision_function(rounded)
    assert H.dtype == torch.float32
    same_rows = encoder.decision_function(rounded.to(torch.float32).numpy())
    np.testing.assert_allclose(H.numpy(), same_rows, rtol=0, atol=1e-4)
    assert (encoder.transform(rounded).numpy() != encoder.transform(X)).mean() < 5e-3


# --- packed codes of other libraries


@pytest.mark.parametrize("xp", LIBRARIES)
@pytest.mark.parametrize("n_bits", [1, 8, 13, 64, 300])
def test_packed_codes_are_those_of_numpy(xp, n_bits):
    rng = np.random.default_rng(0)
    B, C = rng.normal(size=(9, n_bits)), rng.normal(size=(5, n_bits))
    codes, other = pack(xp.asarray(B)), pack(xp.asarray(C))
    np.testing.assert_array_equal(_xp.to_numpy(codes), pack(B))
    np.testing.assert_array_equal(_xp.to_numpy(unpack(codes, n_bits)), signs(B))
    np.testing.assert_array_equal(_xp.to_numpy(signs(xp.asarray(B))), signs(B))
    distances = hamming(codes, other)
    assert (codes.dtype, distances.dtype) == (xp.uint8, xp.uint16)
    np.testing.assert_array_equal(_xp.to_numpy(distances), hamming(pack(B), pack(C)))


@pytest.mark.parametrize("xp", LIBRARIES)
def test_codes_of_another_library_are_checked_as_well(xp):
    codes = pack(xp.asarray(np.ones((2, 8))))
    with pytest.raises(ValueError, match="codes of 1 and 2 bytes"):
        hamming(codes, pack(xp.asarray(np.ones((2, 16)))))
    with pytest.raises(ValueError, match="1 bytes a row; n_bits=9 needs 2"):
        unpack(codes, 9)
    with pytest.raises(TypeError, match="packed uint8"):
        unpack(xp.asarray(np.ones((2, 1))), 8)
    with pytest.raises(ValueError, match=r"two-dimensional.*\(8,\)"):
        pack(xp.asarray(np.ones(8)))
