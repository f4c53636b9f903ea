"""Rows of torch and array-api-strict are encoded where they are, by encoders of any library."""

import pickle

import array_api_strict
import numpy as np
import pytest
from sklearn.base import clone

import bridgehash
from bridgehash import ITQ, LinearEncoder
from bridgehash._core import arrays as _xp
from bridgehash.codes import hamming, pack, signs, unpack
from bridgehash.models import encoder as encoders
from tests.encoders import BITS, D, Doubled, made, rows, unit_rows, use_small_blocks

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


@pytest.fixture
def small_blocks(monkeypatch):
    use_small_blocks(monkeypatch)


# --- encoders


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
    monkeypatch.setattr(encoders, "like", None)  # a second copy would fail
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
    with pytest.raises(ValueError, match=f"X: 3 features, but this encoder takes {D}"):
        encoder.encode(xp.asarray(X[:, :3]))
    with pytest.raises(ValueError, match="rows and columns are needed"):
        encoder.encode(xp.asarray(X[0]))
    whole = (10 * X).astype(int)
    np.testing.assert_array_equal(
        _xp.to_numpy(encoder.encode(xp.asarray(whole))), encoder.encode(whole)
    )
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
    with pytest.raises(ValueError, match="1 bytes per row; n_bits=9 needs 2"):
        unpack(codes, 9)
    with pytest.raises(ValueError, match="packed uint8"):
        unpack(xp.asarray(np.ones((2, 1))), 8)
    with pytest.raises(ValueError, match=r"two-dimensional.*\(8,\)"):
        pack(xp.asarray(np.ones(8)))
