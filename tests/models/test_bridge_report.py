"""The report of a fit: what it knows, when it warns, and that it can be had for any model."""

import warnings

import numpy as np
import pytest

from bridgehash import ATH, ITQ, BridgeReport, BridgeWarning, RidgeMap, Shared, bridge_report
from bridgehash.models.bridge_calibration import LogisticModel, _models, calibrated
from bridgehash.models.bridge_report import warn_of_bridge

N, CLASSES = 150, 5


@pytest.fixture(scope="module")
def data():
    """One feature space seen twice, with noise, and a second feature space; the same classes."""
    rng = np.random.default_rng(0)
    y = np.arange(N) % CLASSES
    centres = 3.0 * rng.normal(size=(CLASSES, 10))
    X, Z = (centres[y] + rng.normal(size=(N, 10)) for _ in range(2))
    return {"X": X, "Z": Z, "other": Z @ rng.normal(size=(10, 7)), "y": y}


def report(expected=0.5, link="columns", labels="none", n_rows=200):
    return BridgeReport(("a", "b"), link, labels, expected, 0.1, 0.9, n_rows, {})


def test_each_fit_says_what_connects_the_domains(data):
    X, Z, other, y = data.values()
    pairs = np.column_stack([np.arange(60)] * 2)
    few = np.where(np.arange(N) < 15, y, -1)
    all_labels, few_labels = ({"y_source": each, "y_target": each} for each in (y, few))
    cases = [
        (ATH.unsupervised(16, random_state=0), Z, {}, "columns", "none"),
        (ATH.semi_supervised(16, random_state=0), Z, {"y_source": y}, "columns", "source"),
        (ATH.supervised(16, random_state=0), other, all_labels, "labels", "both"),
        (ATH.propagated(16, random_state=0), other, few_labels, "labels", "few"),
        (ATH.paired(16, random_state=0), other, {"pairs": pairs}, "pairs", "none"),
        (RidgeMap(n_bits=16), other, {"pairs": pairs}, "pairs", "none"),
        (Shared(ITQ(16, random_state=0)), Z, {}, "columns", "none"),
    ]  # fmt: skip
    for hasher, target, given, link, labels in cases:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BridgeWarning)
            found = hasher.fit(X, target, **given).bridge_report_
        assert (found.link, found.labels) == (link, labels), hasher
        assert 0.0 <= found.low <= found.expected <= found.high <= 1.0


def test_a_report_can_be_made_later_with_labels_that_the_fit_did_not_see(data):
    X, Z, _, y = data.values()
    ath = ATH.unsupervised(16, random_state=0).fit(X, Z)
    same = bridge_report(ath, X, Z)
    assert same == ath.bridge_report_
    better = bridge_report(ath, X, Z, y_source=y)
    assert np.isnan(same.signals["purity"])
    assert better.signals["purity"] > 0.5
    assert better.labels == "source"


def test_a_report_changes_no_result(data):
    X, Z, _, _ = data.values()
    state = np.random.RandomState(0)
    ATH.unsupervised(16, random_state=state).fit(X, Z)
    drawn = state.randint(1000)
    state = np.random.RandomState(0)
    ath = ATH.unsupervised(16, random_state=state).fit(X, Z)
    bridge_report(ath, X, Z)
    assert state.randint(1000) == drawn


def test_the_worst_pair_of_three_domains_is_reported(data):
    X, _, other, y = data.values()
    noise = np.random.default_rng(1).normal(size=(N, 6))
    labels = dict.fromkeys(("a", "b", "c"), y)
    model = ATH.supervised(16, random_state=0).fit({"a": X, "b": other, "c": noise}, y=labels)
    assert model.bridge_report_.domains == ("a", "c")


def test_codes_without_rows_have_no_report(data):
    X, Z, _, y = data.values()
    codes = ITQ(16, random_state=0).fit(X).encode(X)
    model = ATH.adopted(16, random_state=0).fit(
        {"old": None, "new": Z}, y={"old": y, "new": y}, frozen={"old": codes}
    )
    assert model.bridge_report_ is None


def test_only_red_reports_of_enough_rows_warn():
    with pytest.warns(BridgeWarning, match="labels of some rows of both domains would help"):
        warn_of_bridge(report(0.1))
    with pytest.warns(BridgeWarning, match="nothing that connects"):
        warn_of_bridge(report(0.1, link="none"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_bridge(report(0.4))
        warn_of_bridge(report(0.1, n_rows=20))
        warn_of_bridge(report(0.1, link="none"), checked=True)
        warn_of_bridge(None)


def test_verdicts_and_advice():
    assert [report(value).verdict for value in (0.1, 0.4, 0.8)] == ["red", "yellow", "green"]
    assert [report(value, "structure").verdict for value in (0.5, 0.57)] == ["red", "yellow"]
    many = BridgeReport(("a", "b"), "labels", "both", 0.15, 0.1, 0.2, 200, {"chance": 0.01})
    assert many.verdict == "yellow"  # of a hundred classes
    assert report(labels="source").advice == "labels of some target rows"
    assert report(link="labels", labels="few").advice == "more labels"
    assert report(link="labels", labels="both").advice == "more rows"
    assert report(link="labels", labels="both", n_rows=5000).advice == "better features"
    assert "expect 10-90 %" in str(report())
    assert "would help" not in str(report(0.8))


def test_a_logistic_model_is_what_its_formula_says():
    model = LogisticModel(("a", "b"), (1.0, 0.0), (2.0, 1.0), (0.5, -1.0), 0.2, -1.0, 2.0)
    logit = 0.2 + 0.5 * (2.0 - 1.0) / 2.0 - 1.0 * 0.3
    expected = [1 / (1 + np.exp(-value)) for value in (logit, logit - 1.0, logit + 2.0)]
    np.testing.assert_allclose(model({"a": 2.0, "b": 0.3}), expected)
    missing, cut = model({"a": np.nan}), model({"a": 1e9})
    assert missing[0] == pytest.approx(1 / (1 + np.exp(-0.2)))
    assert cut[0] == pytest.approx(1 / (1 + np.exp(-0.2 - 0.5 * 4.0)))


def test_every_kind_of_bridge_is_calibrated():
    kinds = {"columns", "structure", "pairs", "source", "matched", "few", "both"}
    assert set(_models()) == kinds
    for link, labels in (
        ("frozen", "none"),
        ("none", "none"),
        ("structure", "source"),
        ("labels", "both"),
    ):
        expected, low, high = calibrated({}, link, labels)
        assert low < expected < high
