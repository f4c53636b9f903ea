"""SCM: public code and a plain loop over the similarity matrix are reproduced."""

import numpy as np
import pytest

from bridgehash import SCM, InputError
from bridgehash.baselines._views import whitened
from bridgehash.codes import signs


def unit_columns(P):
    P = P / np.linalg.norm(P, axis=0)
    return P * np.where(P[0] < 0, -1.0, 1.0)


def test_public_code_is_reproduced(crossmodal):
    X, Y, y = (crossmodal[name] for name in ("X", "Y", "y"))
    model = SCM(6, unit_rows=False).fit(X, Y, y_source=y, y_target=y)
    for encoder, name in ((model.source_encoder_, "scm_P_x"), (model.target_encoder_, "scm_P_y")):
        found, expected = unit_columns(encoder.projection), unit_columns(crossmodal[name])
        np.testing.assert_allclose(found, expected, atol=1e-7)


def test_bits_are_those_of_a_plain_loop(crossmodal):
    """Rows need not be paired: the target has others, in another order and number."""
    X, y = crossmodal["X"], crossmodal["y"]
    order = np.random.default_rng(0).permutation(60)[:45]
    Y, y_t = crossmodal["Y"][order], y[order]
    model = SCM(5, ridge=0.2, unit_rows=False).fit(X, Y, y_source=y, y_target=y_t)
    Y = Y - Y.mean(axis=0)
    left = np.array([[5.0 if a == b else -5.0 for b in y_t] for a in y])
    for k in range(5):
        (Z_x, back_x), (Z_y, back_y) = whitened(X, 0.2), whitened(Y, 0.2)
        U, _, Vt = np.linalg.svd(Z_x.T @ left @ Z_y)
        w, v = back_x(U[:, :1]), back_y(Vt[:1].T)
        for found, expected in ((model.source_encoder_, w), (model.target_encoder_, v)):
            np.testing.assert_allclose(
                unit_columns(found.projection[:, k : k + 1]), unit_columns(expected), atol=1e-7
            )
        left = left - np.outer(signs(X @ w), signs(Y @ v))


def test_rows_of_unknown_class_are_left_out(crossmodal):
    X, Y, y = (crossmodal[name] for name in ("X", "Y", "y"))
    unknown = np.where(np.arange(60) < 40, y, -1)
    part = SCM(8).fit(X[:40], Y, y_source=y[:40], y_target=y)
    whole = SCM(8).fit(X, Y, y_source=unknown, y_target=y)
    np.testing.assert_array_equal(part.encode(X, "source"), whole.encode(X, "source"))


def test_labels_of_both_domains_are_demanded(crossmodal):
    X, Y, y = (crossmodal[name] for name in ("X", "Y", "y"))
    with pytest.raises(InputError, match="y_target: missing; SCM needs labels of both domains"):
        SCM(8).fit(X, Y, y_source=y)
