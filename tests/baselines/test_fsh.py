"""FSH: public code is reproduced, similarities by plain loops, steps are exact."""

import numpy as np
import pytest

from bridgehash import FSH
from bridgehash.baselines.fsh import FusedSimilarity


def run(data, **parameters):
    model = FSH(6, n_neighbors=4, fit_weight=3.0, ridge=1e-12, **parameters)
    anchors = data["fsh_anchors"].ravel().astype(int) - 1
    return model._alternate((data["X"], data["Y"]), anchors, data["fsh_P_x"], data["fsh_P_y"])


def test_public_code_is_reproduced(crossmodal):
    found = run(crossmodal, max_iter=12)
    np.testing.assert_array_equal(found.B, crossmodal["fsh_B"].T)
    np.testing.assert_allclose(found.P_source, crossmodal["fsh_P_x_end"], atol=1e-9)
    np.testing.assert_allclose(found.P_target, crossmodal["fsh_P_y_end"], atol=1e-9)


def test_similarities_are_those_of_a_plain_loop(crossmodal):
    X, Y = crossmodal["X"], crossmodal["Y"]
    anchors, k = np.array([3, 17, 20, 41, 58]), 2

    def close(Z, i):
        return anchors[np.argsort([np.linalg.norm(Z[i] - Z[j]) for j in anchors])[:k]]

    found = FusedSimilarity.build(X, Y, anchors, k)
    for S, Z, other in ((found.S_source, X, Y), (found.S_target, Y, X)):
        for i in range(60):
            for column, j in enumerate(anchors):
                total = sum(
                    np.exp(-np.linalg.norm(Z[a] - Z[b]) / 2)
                    for a in close(Z, i)
                    for b in close(other, j)
                )
                assert S[i, column] == pytest.approx(total / k**2)
    np.testing.assert_allclose(found.fused(0.3), 0.3 * found.S_source + 0.7 * found.S_target)


def test_the_objective_never_rises_while_the_fusion_is_fixed(crossmodal, monkeypatch):
    monkeypatch.setattr(FusedSimilarity, "weight", lambda *_: 0.5)
    values = np.array(run(crossmodal, max_iter=30).objective)
    assert (np.diff(values) <= 1e-9 * np.abs(values[:-1])).all()
    assert values[-1] < values[0]


def test_it_stops_when_nothing_changes(crossmodal):
    found, longer = run(crossmodal, max_iter=200), run(crossmodal, max_iter=400)
    assert len(found.objective) == len(longer.objective) < 200
    np.testing.assert_array_equal(found.B, longer.B)
