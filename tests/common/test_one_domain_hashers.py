"""One-domain methods and feature maps are complete scikit-learn estimators."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

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
from tests.cases import naming, two_domains

HASHERS = [
    ITQ(n_bits=10, random_state=0),
    LSH(n_bits=10, random_state=0),
    PCAH(n_bits=10),
    SH(n_bits=10),
    SP(n_bits=10, random_state=0),
    SHSR(n_bits=10, random_state=0),
    DPLM(n_bits=10, random_state=0),
    KSH(n_bits=10, max_iter=20, random_state=0),
    SDH(n_bits=10, random_state=0),
    FSDH(n_bits=10, random_state=0),
    SCDH(n_bits=10, random_state=0),
]
MAPS = [UnitRows(), PrincipalMap(), AnchorKernel(), AnchorGraphMap(), SpectralModes()]


@pytest.fixture(scope="module")
def rows():
    """Rows and their classes, which unsupervised methods ignore."""
    data = two_domains()
    return data.X_source, data.y_source


@pytest.mark.parametrize("estimator", [*HASHERS, *MAPS], ids=lambda made: type(made).__name__)
def test_an_estimator_passes_all_checks_of_scikit_learn(estimator):
    check_estimator(clone(estimator), on_skip=None)


def test_the_three_outputs_are_one_code(rows):
    X, y = rows
    for hasher in HASHERS:
        with naming(hasher):
            model = clone(hasher).fit(X[:20], y[:20])
            H, B, codes = model.decision_function(X), model.transform(X), model.encode(X)
            assert H.shape == B.shape == (len(X), 10)
            assert (B.dtype, codes.dtype) == (np.int8, np.uint8)
            np.testing.assert_array_equal(B, np.where(H > 0, 1, -1))
            np.testing.assert_array_equal(codes, pack(B))
            np.testing.assert_array_equal(model.encoder_.encode(X), codes)


def test_a_saved_hasher_is_the_same_bit_for_bit(rows, tmp_path):
    X, y = rows
    for hasher in HASHERS:
        with naming(hasher):
            model = clone(hasher).fit(X, y)
            model.save(tmp_path / "model")
            loaded = bridgehash.load(tmp_path / "model")
            assert repr(loaded) == repr(model)
            np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
            names = model.get_feature_names_out()
            np.testing.assert_array_equal(loaded.get_feature_names_out(), names)


def test_a_length_out_of_range_is_refused_by_name(rows):
    for hasher in HASHERS:
        for n_bits in (0, 4097, 2.5):
            with naming(hasher), pytest.raises(ValueError, match="n_bits"):
                clone(hasher).set_params(n_bits=n_bits).fit(*rows)


def test_float32_stays_float32(rows):
    X, y = rows
    single = X.astype(np.float32)
    for hasher in HASHERS:
        with naming(hasher):
            model = clone(hasher).fit(single, y)
            assert model.decision_function(single).dtype == np.float32
            differing = model.transform(single) != clone(hasher).fit(X, y).transform(X)
            assert differing.mean() < 0.01
