"""Rows without a counterpart take no part in the bipartite graph; without any, nothing changes."""

import warnings

import numpy as np
import pytest

from bridgehash import ATH, AdaptiveBipartite, CounterpartWarning, TrainingData, load
from bridgehash.ath import abstaining
from bridgehash.ath.abstaining import coming_back, compared, taking_part

CENTRES = 6.0 * np.eye(8, 12)
KINDS = {  # classes of the source, classes of the target
    "closed": (range(8), range(8)),
    "partial": (range(8), range(4)),
    "open": (range(5), range(8)),
    "universal": (range(6), (0, 1, 2, 3, 6, 7)),
}


def clouds(classes, n=40, *, seed=0, shift=0.3):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat(classes, n))
    return CENTRES[y] + rng.normal(size=(len(y), 12)) + shift, y


def task(kind):
    source, target = KINDS[kind]
    return *clouds([*source]), *clouds([*target], seed=1, shift=0.6)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_classes_that_the_other_domain_lacks_abstain(kind):
    X_s, y_s, X_t, y_t = task(kind)
    found = taking_part(X_s, X_t)
    assert (found.source == np.isin(y_s, y_t)).mean() > 0.97
    assert (found.target == np.isin(y_t, y_s)).mean() > 0.97
    assert found.all == (kind == "closed")


def test_rows_come_back_if_the_other_domain_has_their_class():
    X_s, y_s, X_t, y_t = task("partial")
    units = [X / np.linalg.norm(X, axis=1, keepdims=True) for X in (X_s, X_t)]
    shares = coming_back(*units)
    assert shares[np.isin(y_s, y_t)].mean() > 0.8 > 0.2 > shares[~np.isin(y_s, y_t)].mean()


def test_all_rows_take_part_if_nothing_is_clear():
    rng = np.random.default_rng(0)
    assert taking_part(rng.normal(size=(200, 12)), rng.normal(size=(150, 12))).all


def test_small_groups_take_part():
    X_s, X_t = clouds(range(8))[0], clouds(range(7), seed=1)[0]  # an eighth of the source rows
    assert taking_part(X_s, X_t).all


def test_few_rows_are_not_compared():
    X_s, _, X_t, _ = task("partial")
    assert compared(X_s, X_t[:99]) is None
    assert taking_part(X_s, X_t[:99]).all


def test_rows_beyond_the_sample_follow_their_neighbours(monkeypatch):
    X_s, y_s, X_t, y_t = task("partial")
    monkeypatch.setattr(abstaining, "_MOST_ROWS", 200)
    found = taking_part(X_s, X_t)
    assert found.source.shape == (320,)
    assert (found.source == np.isin(y_s, y_t)).mean() > 0.97


@pytest.mark.parametrize("both_ways", [False, True])
@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_the_graph_is_that_of_the_rows_that_take_part(both_ways, metric):
    X_s, _, X_t, _ = task("universal")
    part = taking_part(X_s, X_t)
    rule = AdaptiveBipartite(5, metric=metric, both_ways=both_ways, abstaining=True)
    graph = rule.rule(TrainingData(X_s, X_t))(X_s, X_t)
    W = graph @ np.eye(len(X_t))
    np.testing.assert_array_equal(graph.degrees, part.source)
    np.testing.assert_allclose(W.sum(axis=1), part.source)
    np.testing.assert_allclose(graph.T.degrees, W.sum(axis=0))
    assert not W[:, ~part.target].any()
    plain = AdaptiveBipartite(5, metric=metric, both_ways=both_ways)
    rows = X_s[part.source], X_t[part.target]
    expected = plain.rule(TrainingData(*rows))(*rows)
    np.testing.assert_allclose(
        W[np.ix_(part.source, part.target)], expected @ np.eye(len(rows[1])), atol=1e-12
    )
    assert graph.penalty == pytest.approx(expected.penalty)


def test_arrays_of_another_library_give_the_same_graph():
    strict = pytest.importorskip("array_api_strict")
    X_s, _, X_t, _ = task("universal")
    rule = AdaptiveBipartite(5, metric="cosine", both_ways=True, abstaining=True)
    data = TrainingData(X_s, X_t)
    here = rule.rule(data)(X_s, X_t)
    there = rule.rule(data)(strict.asarray(X_s), strict.asarray(X_t))
    np.testing.assert_allclose(there.matrix.toarray(), here.matrix.toarray())
    np.testing.assert_array_equal(np.asarray(there.degrees), here.degrees)


def test_the_first_projections_decide():
    X_s, _, X_t, _ = task("partial")
    rule = AdaptiveBipartite(abstaining=True).rule(TrainingData(X_s, X_t))
    first = rule(X_s, X_t).degrees
    later = rule(X_s[::-1].copy(), X_t).degrees
    np.testing.assert_array_equal(first, later)
    assert 0 < first.sum() < len(X_s)


def fit(kind, **changes):
    X_s, _, X_t, _ = task(kind)
    return ATH.unsupervised(16, random_state=0).set_params(**changes).fit(X_s, X_t)


def test_a_closed_case_gives_the_same_codes():
    X_s, _, X_t, _ = task("closed")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = fit("closed")
    plain = fit("closed", bipartite__abstaining=False)
    for X, domain in ((X_s, "source"), (X_t, "target")):
        np.testing.assert_array_equal(model.encode(X, domain), plain.encode(X, domain))
    assert model.new_share_ == {"source": 0.0, "target": 0.0}
    assert plain.new_share_ == {}


def test_rows_that_abstain_are_told_and_have_no_partner():
    _, y_s, _, y_t = task("partial")
    with pytest.warns(CounterpartWarning, match=r"50% of the rows of source .*abstaining=False"):
        model = fit("partial")
    assert model.new_share_ == {"source": pytest.approx(0.5, abs=0.02), "target": 0.0}
    private = ~np.isin(y_s, y_t)
    assert ((model.bipartite_graph_.degrees == 0) == private).mean() > 0.97
    assert fit("partial", bipartite__abstaining=False).bipartite_graph_.degrees.min() == 1.0


def test_queries_of_a_domain_with_rows_that_abstain_are_rejected(tmp_path):
    with pytest.warns(CounterpartWarning, match="38% of the rows of target"):
        model = fit("open")
    assert set(model.rejectors_) == {"target"}
    X, y = clouds(range(8), n=20, seed=2, shift=0.6)
    assert (model.rejects(X, "target") == (y >= 5)).mean() > 0.95
    model.save(tmp_path / "model.bh")
    again = load(tmp_path / "model.bh")
    np.testing.assert_array_equal(again.rejection_score(X), model.rejection_score(X))
    assert fit("closed").rejectors_ is None


def test_no_row_abstains_if_the_features_are_not_the_same():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = fit("partial", feature_space="separate")
    assert model.bipartite_graph_.degrees.min() == 1.0
    assert model.new_share_ == {}
