"""SCRATCH: public code is reproduced, every step is exact, unknown labels are left out."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import euclidean_distances

from bridgehash import SCRATCH, InputError
from bridgehash.codes import unpack


@pytest.fixture(scope="module")
def model():
    return SCRATCH(6, source_weight=0.4, fit_weight=10.0, label_weight=20.0, ridge=0.5, max_iter=15)


def run(model, data, y):
    views = data["X"], data["Y"]
    return model._alternate(views, y, data["scratch_V"], data["scratch_R"].T)


def test_public_code_is_reproduced(model, crossmodal):
    found = run(model, crossmodal, crossmodal["y"])
    np.testing.assert_array_equal(found.B, crossmodal["scratch_B"].T)
    np.testing.assert_allclose(found.P_source, crossmodal["scratch_P_x"], atol=1e-10)
    np.testing.assert_allclose(found.P_target, crossmodal["scratch_P_y"], atol=1e-10)


def test_the_objective_never_rises_also_with_unknown_labels(model, crossmodal):
    y = crossmodal["y"]
    for labels in (y, np.where(np.arange(60) % 4 == 0, -1, y)):
        values = np.array(run(model, crossmodal, labels).objective)
        assert (np.diff(values) <= 1e-9 * values[:-1]).all()
        assert values[-1] < values[0]


def test_the_factors_minimise_the_objective(model, crossmodal):
    rng = np.random.default_rng(0)
    views, y = (crossmodal["X"], crossmodal["Y"]), crossmodal["y"]
    known, Y = np.arange(60) % 4 > 0, np.eye(3)[y]
    Us, Ws = [rng.normal(size=(6, d)) for d in (9, 8)], [rng.normal(size=(d, 6)) for d in (9, 8)]
    G, BR = rng.normal(size=(6, 3)), np.sign(rng.normal(size=(60, 6)))

    def loss(V):
        labels = 20.0 * ((Y - V @ G)[known] ** 2).sum()
        rest = ((BR - V) ** 2).sum() + 0.5 * (V**2).sum()
        return labels + rest + model._view_loss(views, V, Us, Ws)

    Q = 20.0 * known[:, None] * Y @ G.T + BR
    V = model._factors(views, Us, Ws, Q, known, G)
    for step in (1e-3, 1.0):
        assert loss(V + step * rng.normal(size=V.shape)) > loss(V)


def test_features_are_centred_similarities_to_anchors(crossmodal):
    """With all rows as anchors: exp(-d / 2σ), where σ is the mean squared distance."""
    X, Y, y = (crossmodal[name] for name in ("X", "Y", "y"))
    pairs = np.column_stack([np.arange(60), np.arange(60)])
    model = SCRATCH(6, n_anchors=60, random_state=0).fit(X, Y, y_source=y, pairs=pairs)
    F = euclidean_distances(X, squared=True)
    kernel = np.exp(-F / (2.0 * F.mean()))
    encoder = model.source_encoder_
    mapped = encoder.maps[0].transform(X) - encoder.mean
    expected = kernel - kernel.mean(axis=0)
    order = [int(np.argmin(((X - anchor) ** 2).sum(axis=1))) for anchor in encoder.maps[0].anchors_]
    np.testing.assert_allclose(mapped, expected[:, order], atol=1e-10)


def test_learned_codes_know_the_labels(crossmodal):
    """Rows and labels are unrelated: the codes of the pairs follow the labels all the same."""
    y = np.random.default_rng(0).permutation(crossmodal["y"])
    pairs = np.column_stack([np.arange(60), np.arange(60)])
    model = SCRATCH(16, n_anchors=10, fit_weight=1.0, random_state=0)
    model.fit(crossmodal["X"], crossmodal["Y"], y_source=y, pairs=pairs)

    def contrast(codes):
        B = unpack(codes, 16).astype(float)
        same = y[:, None] == y
        return (B @ B.T)[same].mean() - (B @ B.T)[~same].mean()

    assert contrast(model.codes_) > 2 * contrast(model.encode(crossmodal["X"], "source"))


def test_labels_of_the_pairs_are_demanded(crossmodal):
    X, Y, y = (crossmodal[name] for name in ("X", "Y", "y"))
    pairs = np.column_stack([np.arange(60), np.arange(60)])
    with pytest.raises(InputError, match="y_source: missing; SCRATCH needs labels of the paired"):
        SCRATCH(8).fit(X, Y, pairs=pairs)
    with pytest.raises(InputError, match="y_source: fewer than two classes among the paired rows"):
        SCRATCH(8).fit(X, Y, y_source=y, pairs=pairs[::3])
