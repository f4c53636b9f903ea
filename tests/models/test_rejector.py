"""Rejection of rows and of codes: a linear function, and what models do with it."""

import numpy as np
import pytest

from bridgehash import ATH, InputError, ModelFileError, load, save
from bridgehash.codes import pack
from bridgehash.models.rejector import Rejector

N_BITS = 12


@pytest.fixture
def model():
    rng = np.random.default_rng(0)
    fitted = ATH.unsupervised(N_BITS, random_state=0).fit(
        rng.normal(size=(30, 5)), rng.normal(size=(40, 5))
    )
    fitted.rejectors_ = {"target": Rejector(np.eye(5)[0], 0.0, 0.1)}
    fitted.code_rejectors_ = {"target": Rejector(np.eye(N_BITS)[-1], 0.5, 0.5)}
    return fitted


def test_ridge_regression_finds_the_bits_that_matter():
    B = np.random.default_rng(0).choice([-1, 1], size=(300, N_BITS))
    unlikeness = (B[:, 2] > 0).astype(float)
    learned = Rejector.learned(B, unlikeness, 0.5)
    np.testing.assert_array_equal(learned.rejects(B), B[:, 2] > 0)
    np.testing.assert_allclose(learned.scores(B), unlikeness, atol=0.01)


def test_without_new_rows_the_limit_is_that_of_most_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 4))
    learned = Rejector.learned(X, X[:, 0] / np.linalg.norm(X, axis=1), None)
    assert learned.rejects(X).mean() == pytest.approx(0.01, abs=0.001)


def test_codes_are_rejected_by_their_bits(model):
    B = np.random.default_rng(0).choice([-1, 1], size=(20, N_BITS))
    expected = 0.5 + B[:, -1] / np.sqrt(N_BITS)  # the last bit, which padding follows
    np.testing.assert_allclose(model.code_rejection_score(pack(B)), expected)
    np.testing.assert_array_equal(model.rejects_codes(pack(B)), B[:, -1] > 0)


def test_codes_of_another_length_are_refused(model):
    with pytest.raises(InputError, match="codes: 1 bytes per row; n_bits=12 needs 2"):
        model.rejects_codes(np.zeros((3, 1), np.uint8))
    with pytest.raises(InputError, match="codes: must be packed uint8 codes, not float64"):
        model.code_rejection_score(np.zeros((3, 2)))


def test_a_model_whose_codes_have_changed_asks_for_features(model, tmp_path):
    del model.code_rejectors_
    save(model, tmp_path / "changed.bh")
    old = load(tmp_path / "changed.bh")
    assert old.rejects(np.eye(5)).tolist() == [True, False, False, False, False]
    with pytest.raises(InputError, match=r"fit it again, or give features to rejection_score"):
        old.rejects_codes(np.zeros((1, 2), np.uint8))


def test_new_codes_make_what_was_learned_from_the_old_ones_void():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    X = rng.normal(size=(60, 5)) + 3 * np.eye(5)[y]
    model = ATH.supervised(N_BITS, random_state=0).partial_fit(X, X, y_source=y, y_target=y)
    model.code_rejectors_ = {"target": Rejector(np.eye(N_BITS)[0], 0.0, 0.0)}
    assert model.partial_fit(X + 1, y_source=y).code_rejectors_ is None


@pytest.mark.parametrize(
    ("name", "weights", "problem"),
    [
        ("rejectors_", 4, "a rejector has 4 weights for 5 features of target"),
        ("code_rejectors_", 16, "a rejector has 16 weights for 12 bits of target"),
    ],
)
def test_rejectors_that_do_not_fit_the_encoders_are_refused(
    model, tmp_path, monkeypatch, name, weights, problem
):
    setattr(model, name, {"target": Rejector(np.ones(weights), 0.0, 0.0)})
    with pytest.raises(InputError, match=problem):
        save(model, tmp_path / "model.bh")
    with monkeypatch.context() as patched:
        patched.setattr(ATH, "_check_loaded", lambda self: None)
        save(model, tmp_path / "model.bh")
    with pytest.raises(ModelFileError, match=problem):
        load(tmp_path / "model.bh")
