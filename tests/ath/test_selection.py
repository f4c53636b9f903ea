"""Cycle consistency finds the λ that joins the domains, without labels."""

import numpy as np
import pytest

from bridgehash import ATH, GivenBipartite
from bridgehash.ath import problem, selection
from bridgehash.ath.selection import FIRST_LAM, WEAK_LAM, CycleConsistency, best_lam
from bridgehash.datasets import digit_domains


def clusters(rng, centres, n):
    y = np.repeat(np.arange(len(centres)), n)
    return centres[y] + 0.1 * rng.normal(size=(len(y), centres.shape[1]))


@pytest.fixture
def domains():
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(4, 6))
    X_s, X_t = clusters(rng, centres, 12), clusters(rng, centres, 9)
    return X_s - X_s.mean(axis=0), X_t - X_t.mean(axis=0)


def by_loops(X_s, X_t, H_s, H_t, k=5):
    """The definition, one row at a time."""
    U_s, U_t = (X / np.linalg.norm(X, axis=1, keepdims=True) for X in (X_s, X_t))
    B_s, B_t = np.where(H_s > 0, 1, -1), np.where(H_t > 0, 1, -1)

    def nearest(b, others):
        """Rows and their shares: those as far as the k-th share what is left."""
        distances = [int((b != other).sum()) for other in others]
        kth = sorted(distances)[k - 1]
        left = k - sum(d < kth for d in distances)
        shares = {kth: left / distances.count(kth)}
        return [(j, shares.get(d, 1.0)) for j, d in enumerate(distances) if d <= kth]

    def one_way(U, B, B_other):
        reached, own = [], []
        for i, b in enumerate(B):
            for j, share in nearest(b, B_other):
                reached += [share * w * (U[i] @ U[m]) for m, w in nearest(B_other[j], B)]
            own += sorted((U[i] @ u for m, u in enumerate(U) if m != i), reverse=True)[:k]
        return (sum(reached) / (k * k * len(B))) / np.mean(own)

    return (one_way(U_s, B_s, B_t) + one_way(U_t, B_t, B_s)) / 2


@pytest.mark.parametrize("n_bits", [4, 2001], ids=["many ties", "few ties"])
def test_consistency_is_its_definition(domains, n_bits):
    A = np.random.default_rng(1).normal(size=(6, n_bits))
    H_s, H_t = (X @ A for X in domains)
    np.testing.assert_allclose(
        CycleConsistency(*domains)(H_s, H_t), by_loops(*domains, H_s, H_t), rtol=1e-6
    )


def test_codes_that_do_not_match_are_less_consistent(domains):
    A = np.random.default_rng(1).normal(size=(6, 16))
    consistency = CycleConsistency(*domains)
    H_s, H_t = (X @ A for X in domains)
    shuffled = np.random.default_rng(2).permutation(H_t)
    joined, apart = consistency(H_s, H_t), consistency(H_s, shuffled)
    collapsed = consistency(np.ones_like(H_s), np.ones_like(H_t))
    assert joined > 0.9
    assert max(apart, collapsed) < 0.7


@pytest.mark.parametrize(("best", "expected"), [(0.5, 0.7), (0.1, 0.0875), (6.0, 5.6)])
def test_the_best_value_is_found_by_halving_and_doubling(best, expected):
    seen = []

    def score(lam):
        seen.append(lam)
        return -abs(np.log(lam / best))

    assert best_lam(score) == pytest.approx(expected)
    assert len(seen) == len(set(seen)) <= 6


def test_the_search_ends_if_the_score_always_rises():
    assert best_lam(lambda lam: lam) <= 64 * FIRST_LAM


def test_a_fit_stores_the_value_it_chose():
    task = digit_domains(120, n_queries=20).homogeneous()
    model = ATH.unsupervised(16, random_state=0).fit(task.X_source, task.X_target)
    assert model.lam == "auto"
    again = ATH.unsupervised(16, random_state=0, lam=model.lam_).fit(task.X_source, task.X_target)
    np.testing.assert_array_equal(
        *(m.transform(task.X_query, domain="target") for m in (model, again))
    )


def test_a_collapsed_fit_is_left_behind(monkeypatch):
    task = digit_domains(120, n_queries=20).homogeneous()
    monkeypatch.setattr(selection, "FIRST_LAM", 12.0)
    model = ATH.unsupervised(16, random_state=0, max_iter=10, tol=0.0)
    assert model.fit(task.X_source, task.X_target).lam_ < 12.0


def test_a_given_graph_leaves_the_first_value():
    task = digit_domains(60, n_queries=10).homogeneous()
    W = np.ones((len(task.X_source), len(task.X_target)))
    model = ATH(8, bipartite=GivenBipartite(W), random_state=0, max_iter=2, tol=0.0)
    assert model.fit(task.X_source, task.X_target).lam_ == FIRST_LAM


def test_an_arbitrary_bridge_stays_weak():
    task = digit_domains(60, n_queries=10).heterogeneous()
    model = ATH.unsupervised(8, random_state=0, max_iter=2, tol=0.0)
    assert model.fit(task.X_source, task.X_target).lam_ == WEAK_LAM


@pytest.mark.filterwarnings("ignore::bridgehash.FewLabelsWarning")
def test_a_few_labels_outside_the_sample_are_no_error(monkeypatch):
    task = digit_domains(120, n_queries=20).homogeneous()
    y = np.where(np.arange(len(task.X_source)) < 20, task.y_source, -1)
    monkeypatch.setattr(problem, "rows_by_norm", lambda X, n: np.arange(30, 40))
    model = ATH.semi_supervised(8, random_state=0, max_iter=2, tol=0.0)
    model.fit(task.X_source, task.X_target, y_source=y)
    assert model.lam_ == FIRST_LAM
