"""One-domain methods and feature maps are scikit-learn estimators in full."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import bridgehash
from bridgehash import (
    DPLM,
    FSDH,
    ITQ,
    KSH,
    LSH,
    PCAH,
    SCDH,
    SDH,
    SH,
    SHSR,
    SP,
    AnchorGraphMap,
    AnchorKernel,
    PrincipalMap,
    SpectralModes,
    UnitRows,
)
from bridgehash.codes import pack
from tests.cases import two_domains

HASHERS = [
    ITQ(n_bits=10, random_state=0),
    LSH(n_bits=10, random_state=0),
    PCAH(n_bits=10),
    SH(n_bits=10),
    SP(n_bits=10, random_state=0),
    SHSR(n_bits=10, random_state=0),
    DPLM(n_bits=10, random_state=0),
    KSH(n_bits=10, random_state=0),
    SDH(n_bits=10, random_state=0),
    FSDH(n_bits=10, random_state=0),
    SCDH(n_bits=10, random_state=0),
]
BY_NAME = pytest.mark.parametrize("hasher", HASHERS, ids=lambda hasher: type(hasher).__name__)


def labelled_rows():
    """Rows and their classes, which methods without a use for them ignore."""
    data = two_domains()
    return data.X_source, data.y_source


METHODS = [ITQ(), LSH(), PCAH(), SH(), SP(), SHSR(), DPLM(), KSH(), SDH(), FSDH(), SCDH()]
MAPS = [UnitRows(), PrincipalMap(), AnchorKernel(), AnchorGraphMap(), SpectralModes()]


@parametrize_with_checks([*METHODS, *MAPS])
def test_scikit_learn_finds_nothing_to_object_to(estimator, check):
    check(estimator)


@BY_NAME
def test_the_three_outputs_are_one_code(hasher):
    X, y = labelled_rows()
    model = clone(hasher).fit(X[:20], y[:20])
    H, B, codes = model.decision_function(X), model.transform(X), model.encode(X)
    assert H.shape == B.shape == (len(X), 10)
    assert (B.dtype, codes.dtype) == (np.int8, np.uint8)
    np.testing.assert_array_equal(B, np.where(H > 0, 1, -1))
    np.testing.assert_array_equal(codes, pack(B))
    np.testing.assert_array_equal(model.encoder_.encode(X), codes)


@BY_NAME
def test_a_saved_hasher_is_the_same_bit_for_bit(hasher, tmp_path):
    X, y = labelled_rows()
    model = clone(hasher).fit(X, y)
    model.save(tmp_path / "model")
    loaded = bridgehash.load(tmp_path / "model")
    assert repr(loaded) == repr(model)
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    np.testing.assert_array_equal(loaded.get_feature_names_out(), model.get_feature_names_out())


@BY_NAME
@pytest.mark.parametrize("n_bits", [0, 4097, 2.5])
def test_a_length_out_of_range_is_refused_by_name(hasher, n_bits):
    with pytest.raises(ValueError, match="n_bits"):
        clone(hasher).set_params(n_bits=n_bits).fit(*labelled_rows())


@BY_NAME
def test_float32_stays_float32(hasher):
    X, y = labelled_rows()
    single = clone(hasher).fit(X.astype(np.float32), y)
    assert single.decision_function(X.astype(np.float32)).dtype == np.float32
    differing = single.transform(X.astype(np.float32)) != clone(hasher).fit(X, y).transform(X)
    assert differing.mean() < 0.01
