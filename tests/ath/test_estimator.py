"""ATH as an estimator: its named settings, its record of the fit, its choices and refusals."""

import inspect
import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from bridgehash import (
    ATH,
    AdaptiveBipartite,
    AnchorKernel,
    GivenBipartite,
    GivenStart,
    InputError,
    KNNGraph,
    LabelBipartite,
    LabelGraph,
    PCAStart,
    PrincipalMap,
    Propagation,
    TrainingData,
    UnitRows,
)
from bridgehash.ath.class_codes import class_weights
from bridgehash.ath.presets import NAMED_PARTS, PRESETS, preset
from bridgehash.ath.steps import Domain, code_step, objective
from bridgehash.codes import hamming
from tests import reference
from tests.cases import two_domains

VARIANTS = ("unsupervised", "semi_supervised", "supervised", "kernel")
PAPER = {  # α_s, α_t, β_s, β_t, λ; the graphs of source and target, the bipartite graph, φ
    "unsupervised": (1e-2, 1e-1, 1e-3, 1e-1, 1.0, "knn", "knn", "adaptive", None),
    "semi_supervised": (1e-1, 1e-1, 1e3, 1e-2, 1.0, "labels", "knn", "adaptive", None),
    "supervised": (1e-3, 1e-1, 1e-2, 1e-2, 1e-2, "labels", "labels", "labels", None),
    "kernel": (1e-2, 1.0, 1e-3, 1e-3, 1e-2, "labels", "labels", "labels", "anchors"),
}
ORDER = (
    *("alpha_source", "alpha_target", "beta_source", "beta_target", "lam"),
    *("source_graph", "target_graph", "bipartite", "feature_map"),
)


@pytest.fixture(scope="module")
def data():
    return two_domains()


def make(variant, **parameters):
    fixed = {"n_bits": 10, "max_iter": 5, "tol": 0.0, "random_state": 0}
    return getattr(ATH, variant)(**(fixed | parameters))


def fit(hasher, data):
    return hasher.fit(data.X_source, data.X_target, y_source=data.y_source, y_target=data.y_target)


# --- named settings


OPEN = {  # what the paper leaves open, as `published=True` has it
    "codes": "balanced",
    "ridge": 1e-2,
    "ridge_target": None,
    "ridge_towards": None,
    "unit_rows": True,
    "unit_scale": True,
    "center": "domain",
    "feature_space": "auto",
    "source_encoder": "own",
    "completion": None,
    "random_state": None,
}
ALGORITHM_1 = {"start": "pca", "start_scale": None, "step_order": "ABW", "max_iter": 10, "tol": 0.0}


@pytest.mark.parametrize("variant", VARIANTS)
def test_published_settings_are_those_of_the_paper(variant):
    """Every parameter is stated, so that a new one cannot change the paper's method unseen."""
    parameters = getattr(ATH, variant)(32, published=True).get_params(deep=False)
    printed = dict(zip(ORDER, PAPER[variant], strict=True))
    assert parameters == {"n_bits": 32} | printed | ALGORITHM_1 | OPEN


def test_the_published_start_is_one_pca_per_domain_at_its_natural_size():
    """H = X P with orthonormal P of each domain, whether or not the widths agree."""
    seen = []

    class Seen(PCAStart):
        def begin(self, context):
            start = super().begin(context)
            seen.extend([(context.X_s, start.H_s), (context.X_t, start.H_t)])
            return start

    chosen = Seen(**NAMED_PARTS["start"][ATH.unsupervised(published=True).start].get_params())
    for d_t in (5, 7):
        data = two_domains(d_t=d_t, n_s=40, n_t=30)
        ath = ATH.unsupervised(4, published=True, start=chosen, max_iter=1)
        ath.fit(data.X_source, data.X_target)
    assert len(seen) == 4
    for X, H in seen:
        largest = np.linalg.eigvalsh(X.T @ X)[::-1][:4]
        np.testing.assert_allclose(H.T @ H, np.diag(largest), atol=1e-8 * largest[0])


def test_an_unscaled_start_is_used_as_it_is(data):
    class Twice(PCAStart):
        def begin(self, context):
            start = super().begin(context)
            return replace(start, H_s=2.0 * start.H_s, H_t=2.0 * start.H_t)

    def weights(start, size):
        ath = make("unsupervised", start=start, start_scale=size, max_iter=1)
        return ath.fit(data.X_source, data.X_target).target_encoder_.projection

    once, twice = PCAStart(), Twice()
    np.testing.assert_allclose(weights(once, 1.0), weights(twice, 1.0))
    assert not np.allclose(weights(once, None), weights(twice, None))


def test_the_script_of_the_authors_exists_without_labels_only():
    with pytest.raises(
        InputError, match=r"^published: .* for supervised; .* has unsupervised only"
    ):
        ATH.supervised(published="authors")
    with pytest.raises(InputError, match=r"^published: 'author' is not allowed; use .*'authors'"):
        ATH.unsupervised(published="author")


def test_rows_may_keep_their_scale(data):
    """Then a ridge of s² for rows times s is a ridge of one: A is divided by s, codes stay."""
    raw = {"unit_rows": False, "unit_scale": False, "max_iter": 2, "start_scale": 1.0}
    one, three = (
        make("unsupervised", ridge=s**2, **raw).fit(s * data.X_source, s * data.X_target)
        for s in (1.0, 3.0)
    )
    assert one.source_encoder_.scale == three.target_encoder_.scale == 1.0
    for domain in ("source", "target"):
        A, A_three = (ath.encoder(domain).projection for ath in (one, three))
        np.testing.assert_allclose(A, 3.0 * A_three, atol=1e-9)


def test_the_target_may_have_a_ridge_of_its_own(data):
    def norms(**ridges):
        ath = make("unsupervised", max_iter=1, lam=1.0, **ridges).fit(data.X_source, data.X_target)
        return [np.linalg.norm(ath.encoder(k).projection) for k in ("source", "target")]

    same, other = norms(ridge=1.0, ridge_target=1.0), norms(ridge=1.0, ridge_target=100.0)
    assert same == norms(ridge=1.0)
    assert other[0] == same[0]  # the first A-step of the source does not see the target's
    assert other[1] < 0.5 * same[1]


@pytest.mark.parametrize("variant", VARIANTS)
def test_named_settings_use_the_graphs_of_the_paper(variant):
    parameters = getattr(ATH, variant)().get_params(deep=False)
    for name in ("source_graph", "target_graph", "bipartite"):
        kinds = NAMED_PARTS[name]
        graph = parameters[name]
        kind = type(kinds[PAPER[variant][ORDER.index(name)]])
        assert isinstance(kinds[graph] if isinstance(graph, str) else graph, kind)
    assert (parameters["feature_map"] is not None) == (PAPER[variant][8] is not None)


@pytest.mark.parametrize("variant", VARIANTS)
def test_any_parameter_of_a_named_setting_can_be_replaced(variant):
    for hasher in (
        getattr(ATH, variant)(24, lam=7.0, source_graph="knn"),
        getattr(ATH, variant)(24, published=True, lam=7.0, source_graph="knn"),
    ):
        assert (hasher.n_bits, hasher.lam, hasher.source_graph) == (24, 7.0, "knn")


def test_an_unknown_preset_is_refused_with_the_known_ones():
    with pytest.raises(InputError, match=r"'superior'.*unsupervised.*kernel"):
        preset("superior")
    with pytest.raises(InputError, match=r"unknown published preset 'paired'"):
        preset("paired", published=True)


def test_named_constructors_show_every_parameter_with_its_default():
    for name, settings in PRESETS.items():
        shown = inspect.signature(getattr(ATH, name)).parameters
        assert set(ATH().get_params(deep=False)) <= set(shown)
        assert shown["random_state"].default is None
        assert all(shown[key].default is value for key, value in settings.items())


def test_runtime_options_are_no_part_of_the_model(data, tmp_path):
    model = make("unsupervised").fit(data.X_source, data.X_target, memory_limit="8GiB")
    assert not {"device", "memory_limit", "verbose"} & set(model.get_params())
    model.save(tmp_path / "model.bh")
    assert b"memory_limit" not in (tmp_path / "model.bh").read_bytes()
    for option, value in (
        ("memory_limit", "much"),
        ("memory_limit", 0),
        ("device", "nowhere"),
    ):
        with pytest.raises(InputError, match=f"^{option}: ") as caught:
            make("unsupervised").fit(data.X_source, data.X_target, **{option: value})
        assert caught.value.argument == option


@pytest.mark.parametrize("variant", VARIANTS)
def test_estimators_share_no_part(variant):
    first, second = getattr(ATH, variant)(), getattr(ATH, variant)()
    before = repr(second.get_params())
    for name in first.get_params():
        if name.endswith("__n_neighbors"):
            first.set_params(**{name: 7})
    assert repr(second.get_params()) == before
    assert repr(getattr(ATH, variant)().get_params()) == before


def test_the_graphs_of_an_estimator_are_set_one_by_one():
    hasher = ATH.unsupervised()
    hasher.set_params(target_graph__n_neighbors=7)
    assert hasher.target_graph.n_neighbors == 7
    assert hasher.source_graph.n_neighbors == "auto"


@pytest.mark.parametrize(
    ("names", "objects"),
    [
        ({"source_graph": "knn"}, {"source_graph": KNNGraph()}),
        ({"target_graph": "labels"}, {"target_graph": LabelGraph()}),
        ({"bipartite": "adaptive"}, {"bipartite": AdaptiveBipartite()}),
        ({"bipartite": "labels"}, {"bipartite": LabelBipartite()}),
        ({"start": "pca"}, {"start": PCAStart("domain", None)}),
        ({"feature_map": "anchors"}, {"feature_map": AnchorKernel()}),
    ],
)
def test_a_name_stands_for_an_object(data, names, objects):
    fixed = {"n_bits": 10, "max_iter": 3, "tol": 0.0, "random_state": 0}
    by_name, by_object = (fit(ATH(**fixed, **choice), data) for choice in (names, objects))
    for X, domain in ((data.X_source, "source"), (data.X_query, "target")):
        np.testing.assert_array_equal(
            by_name.decision_function(X, domain), by_object.decision_function(X, domain)
        )


# --- the record of the fit


@pytest.mark.parametrize("variant", VARIANTS)
def test_terms_of_the_objective_add_up(data, variant):
    record = fit(make(variant), data).objective_
    assert record.dtype.names == ("total", "quantisation", "bridge", "structure", "ridge")
    terms = sum(record[name] for name in record.dtype.names[1:])
    np.testing.assert_allclose(record["total"], terms, rtol=1e-12)
    used = [
        name
        for name in record.dtype.names
        if variant in ("unsupervised", "semi_supervised") or name not in ("bridge", "structure")
    ]  # class words need neither
    assert all((record[name] > 0).all() for name in used)


@pytest.mark.parametrize("shape", [{}, {"n_s": 9, "n_t": 8, "d_s": 30, "d_t": 20}])
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_record_is_the_objective_of_the_encoders(variant, shape):
    """Maps, centring, scale and row space left aside: what encoders say is what was optimised."""
    data = two_domains(**shape)
    model = fit(make(variant), data)
    H = [model.decision_function(data.X_source, "source")]
    H.append(model.decision_function(data.X_target, "target"))
    domains = [
        Domain(
            None, domain_graph(model, name, data), *weights, weights=row_weights(model, name, data)
        )
        for name, weights in (
            ("source", (model.alpha_source, model.beta_source)),
            ("target", (model.alpha_target, model.beta_target)),
        )
    ]
    decorrelation = getattr(model.codes, "decorrelation", 0.0)
    B = [code_step(projections, decorrelation) for projections in H]
    if model.codes == "classes":
        B = [
            class_codes(projections, y)
            for projections, y in zip(H, (data.y_source, data.y_target), strict=True)
        ]
    terms = objective(domains, H, B, [(0, 1, model.bipartite_graph_)], lam=model.lam_)
    last = model.objective_[-1]
    np.testing.assert_allclose(
        terms, [last["quantisation"], last["bridge"], last["structure"]], rtol=1e-6
    )
    norms = [np.linalg.norm(model.encoder(name).projection) for name in ("source", "target")]
    np.testing.assert_allclose(
        last["ridge"], model.ridges_["source"] * np.square(norms).sum(), rtol=1e-6
    )


def row_weights(model, name, data):
    return class_weights(getattr(data, f"y_{name}")) if model.codes == "classes" else None


def class_codes(H, y):
    """The sign of the mean of each class: its word, if the fit is good."""
    return np.array([np.sign(H[y == c].mean(axis=0)) for c in range(y.max() + 1)])[y]


def domain_graph(model, name, data):
    """The graph of a domain, built anew from mapped rows."""
    graph = getattr(model, f"{name}_graph")
    graph = NAMED_PARTS[f"{name}_graph"][graph] if isinstance(graph, str) else graph
    if isinstance(graph, LabelGraph):
        y = getattr(data, f"y_{name}")
        return graph.build(y[:, None], y)
    Z = getattr(data, f"X_{name}")
    for feature_map in model.encoder(name).maps:
        Z = feature_map.transform(Z)
    return graph.build(Z - Z.mean(axis=0))


def test_the_learned_graph_is_that_of_the_final_projections(data):
    model = fit(make("unsupervised", bipartite=AdaptiveBipartite(4)), data)
    H_s = model.decision_function(data.X_source, "source")
    H_t = model.decision_function(data.X_target, "target")
    expected = AdaptiveBipartite(4).rule(TrainingData(H_s, H_t))(H_s, H_t) @ np.eye(24)
    W = model.bipartite_graph_ @ np.eye(24)
    np.testing.assert_allclose(W, expected, atol=1e-8)
    np.testing.assert_allclose(W.sum(axis=1), 1.0)
    np.testing.assert_array_equal((W > 0).sum(axis=1), 4)


def test_the_supervised_graph_is_that_of_the_labels(data):
    model = fit(make("supervised"), data)
    expected = reference.label_graph(data.y_source, data.y_target)
    np.testing.assert_array_equal(model.bipartite_graph_ @ np.eye(24), expected)


class Operator:
    """A graph with nothing but what the documentation asks for."""

    penalty = 0.0

    def __init__(self, W):
        self.W, self.shape, self.degrees = W, W.shape, W.sum(axis=1)

    @property
    def T(self):
        return Operator(self.W.T)

    def __matmul__(self, H):
        return self.W @ H


def test_a_graph_may_be_any_operator(data):
    W = np.eye(len(data.X_source), 24)
    W[24:, 0] = 1.0
    own = fit(make("unsupervised", bipartite=GivenBipartite(Operator(W))), data)
    given = fit(make("unsupervised", bipartite=GivenBipartite(W)), data)
    np.testing.assert_array_equal(own.bipartite_graph_ @ np.eye(24), W)
    np.testing.assert_allclose(
        own.target_encoder_.projection, given.target_encoder_.projection, atol=1e-8
    )


class Aliased(Operator):
    """A graph whose product is an array that it keeps."""

    def __init__(self, W, X=None):
        super().__init__(W)
        self.kept = {}

    def __matmul__(self, H):
        return self.kept.setdefault(H.shape, self.W @ H)

    def products(self, H, parts):
        yield from (self @ H[part] for part in parts)


class AliasedGraph:
    """A domain graph of a user that returns the same array again and again."""

    def build(self, X, y=None):
        self.graph = Aliased(np.eye(len(X)))
        return self.graph


def test_what_the_graph_of_a_user_returns_is_not_changed(data):
    chosen = AliasedGraph()
    make("unsupervised", source_graph=chosen, max_iter=1, beta_source=0.5).fit(
        data.X_source, data.X_target
    )
    kept = next(iter(chosen.graph.kept.values()))
    assert np.sqrt((kept**2).sum(axis=1).mean()) == pytest.approx(1.0)  # W X, not β W X


def test_propagation_that_finds_one_class_blames_no_argument():
    rng = np.random.default_rng(0)
    X_s, X_t = np.vstack([np.eye(4), 5 + np.eye(4)]), 9 + 0.01 * rng.normal(size=(8, 4))
    hasher = ATH.propagated(4, random_state=0, completion=Propagation(n_voters=1, n_rounds=0))
    with pytest.raises(InputError, match="label propagation found a single class") as caught:
        hasher.fit(X_s, X_t, y_source=[0] * 4 + [1] * 4)
    assert caught.value.argument == ""


def test_running_out_of_rounds_is_a_warning(data):
    hasher = make("unsupervised", max_iter=1, tol=1e-9)
    with pytest.warns(ConvergenceWarning, match="max_iter=1 iterations") as caught:
        hasher.fit(data.X_source, data.X_target)
    assert caught[0].filename == __file__  # points at the caller
    assert not hasher.converged_
    assert hasher.n_iter_ == len(hasher.objective_) == 1


def test_without_a_tolerance_there_is_no_warning(data):
    hasher = make("unsupervised", max_iter=2, tol=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        hasher.fit(data.X_source, data.X_target)
    assert (hasher.n_iter_, hasher.converged_) == (2, False)


@pytest.mark.parametrize("variant", VARIANTS)
def test_defaults_converge_and_stop(data, variant):
    model = fit(getattr(ATH, variant)(n_bits=10, random_state=0), data)
    assert model.converged_
    assert 2 <= model.n_iter_ == len(model.objective_) < model.max_iter
    totals = model.objective_["total"]
    changes = np.abs(np.diff(totals)) / totals[:-1]
    assert changes[-1] <= model.tol
    assert (changes[:-1] > model.tol).all()


@pytest.mark.parametrize("verbose", [True, False])
def test_progress_is_shown_on_request_only(data, capfd, verbose):
    make("unsupervised").fit(data.X_source, data.X_target, verbose=verbose)
    out, err = capfd.readouterr()
    assert out == ""
    if verbose:
        assert "ATH" in err
        assert "5/5" in err
        assert "objective" in err
    else:
        assert err == ""


# --- what the encoders are


@pytest.mark.parametrize("variant", VARIANTS)
def test_each_domain_is_centred_by_itself(data, variant):
    model = fit(make(variant), data)
    for X, domain in ((data.X_source, "source"), (data.X_target, "target")):
        H = model.decision_function(X, domain)
        if model.center == "classes":
            y = getattr(data, f"y_{domain}")
            H = np.array([H[y == c].mean(axis=0) for c in np.unique(y)])
        np.testing.assert_allclose(H.mean(axis=0), 0.0, atol=1e-9)


def test_joint_centring_has_one_mean():
    data = two_domains(d_t=7)
    model = fit(make("unsupervised", center="joint", unit_rows=False), data)
    mean = np.vstack([data.X_source, data.X_target]).mean(axis=0)
    for domain in ("source", "target"):
        np.testing.assert_allclose(model.encoder(domain).mean, mean)


def test_features_are_brought_to_unit_scale(data):
    model = fit(make("unsupervised", unit_rows=False), data)
    for X, domain in ((data.X_source, "source"), (data.X_target, "target")):
        encoder = model.encoder(domain)
        np.testing.assert_allclose(
            encoder.scale, np.sqrt(((X - X.mean(axis=0)) ** 2).sum(axis=1).mean())
        )
        expected = (X - X.mean(axis=0)) / encoder.scale @ encoder.projection
        np.testing.assert_allclose(model.decision_function(X, domain), expected)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("unit_rows", [True, False])
def test_each_domain_may_have_its_own_scale(data, variant, unit_rows):
    scaled = data.changed(X_source=1e3 * data.X_source, X_target=1e-3 * data.X_target)
    plain, other = (fit(make(variant, unit_rows=unit_rows), rows) for rows in (data, scaled))
    for X, scale, domain in ((data.X_source, 1e3, "source"), (data.X_target, 1e-3, "target")):
        np.testing.assert_allclose(
            other.decision_function(scale * X, domain),
            plain.decision_function(X, domain),
            atol=1e-6,
        )


def test_unit_rows_see_directions_only(data):
    model = fit(make("unsupervised"), data)
    longer = data.X_query * np.linspace(1, 9, len(data.X_query))[:, None]
    np.testing.assert_allclose(
        model.decision_function(longer, "target"),
        model.decision_function(data.X_query, "target"),
        atol=1e-9,
    )


def test_maps_stand_before_the_projection_of_each_domain(data):
    model = fit(make("kernel", feature_map=AnchorKernel(n_anchors=6)), data)
    anchors = {}
    for X, domain in ((data.X_source, "source"), (data.X_target, "target")):
        unit, kernel = model.encoder(domain).maps
        assert isinstance(unit, UnitRows)
        assert isinstance(kernel, AnchorKernel)
        rows = {tuple(row) for row in unit.transform(X)}
        anchors[domain] = {tuple(row) for row in kernel.anchors_}
        assert anchors[domain] <= rows
        assert model.encoder(domain).projection.shape == (6, 10)
    assert model.feature_map.random_state is None
    assert not hasattr(model.feature_map, "anchors_")


def test_anchors_follow_the_seed_unless_they_have_their_own(data):
    def anchors(seed, own=None):
        feature_map = AnchorKernel(n_anchors=4, random_state=own)
        model = fit(make("kernel", feature_map=feature_map, random_state=seed), data)
        return model.source_encoder_.maps[1].anchors_

    np.testing.assert_array_equal(anchors(0), anchors(0))
    assert not np.array_equal(anchors(0), anchors(1))
    np.testing.assert_array_equal(anchors(0, own=7), anchors(1, own=7))


def test_another_seed_is_another_result(data):
    first, second = (fit(make("unsupervised", random_state=seed), data) for seed in (0, 1))
    H, other = (m.decision_function(data.X_query, "target") for m in (first, second))
    assert np.abs(H - other).max() > 1e-3


def test_the_source_may_use_the_encoder_of_the_target():
    data = two_domains(d_t=7)
    model = fit(make("unsupervised", source_encoder="target"), data)
    np.testing.assert_array_equal(
        model.encode(data.X_query, "source"), model.encode(data.X_query, "target")
    )
    own = fit(make("unsupervised"), data)
    assert not np.array_equal(
        own.encode(data.X_query, "source"), own.encode(data.X_query, "target")
    )


def test_one_width_may_still_be_two_spaces():
    data = two_domains(d_t=7)
    permuted = data.changed(X_target=data.X_target[:, ::-1], X_query=data.X_query[:, ::-1])
    for space, blind in (("separate", True), ("same", False)):
        model, other = (fit(make("unsupervised", feature_space=space), d) for d in (data, permuted))
        H = model.decision_function(data.X_query, "target")
        H_other = other.decision_function(permuted.X_query, "target")
        assert (np.abs(H - H_other).max() < 1e-6) == blind


# --- does it learn?


def distance_gap(model, data):
    """Mean Hamming distance between classes less that inside a class, source against target."""
    D = hamming(
        model.encode(data.X_source, "source"), model.encode(data.X_target, "target")
    ).astype(float)
    same = data.y_source[:, None] == data.y_target
    return (D[~same].mean() - D[same].mean()) / model.n_bits


@pytest.mark.parametrize("variant", ["supervised", "kernel"])
@pytest.mark.parametrize("d_t", [5, 7])
def test_labels_bring_the_classes_of_two_spaces_together(variant, d_t):
    data = two_domains(d_t=d_t, n_s=60, n_t=45)
    model = fit(getattr(ATH, variant)(n_bits=16, random_state=0), data)
    assert distance_gap(model, data) > 0.3


@pytest.mark.parametrize("variant", ["unsupervised", "semi_supervised"])
def test_one_space_is_bridged_without_labels_of_the_target(variant):
    data = two_domains(d_t=7, n_s=60, n_t=45)
    model = fit(getattr(ATH, variant)(n_bits=16, random_state=0), data)
    assert distance_gap(model, data) > 0.3


def test_a_given_graph_bridges_two_spaces_without_labels():
    data = two_domains(n_s=60, n_t=45)
    W = reference.label_graph(data.y_source, data.y_target)
    for choice in ({"start": GivenStart(W)}, {"bipartite": GivenBipartite(W)}):
        model = ATH(16, random_state=0, max_iter=200, **choice).fit(data.X_source, data.X_target)
        assert distance_gap(model, data) > 0.3


# --- what is refused


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_bits", 0),
        ("source_graph", "nearest"),
        ("target_graph", 3),
        ("bipartite", "knn"),
        ("bipartite", None),
        ("feature_map", "rbf"),
        ("start", "random"),
        ("start", None),
        ("alpha_source", -1.0),
        ("alpha_target", "much"),
        ("beta_source", -1e-9),
        ("beta_target", None),
        ("lam", -0.5),
        ("lam", np.nan),
        ("lam", np.inf),
        ("ridge", 0.0),
        ("unit_rows", "no"),
        ("center", "median"),
        ("feature_space", "one"),
        ("start_scale", 0.0),
        ("source_encoder", "both"),
        ("max_iter", 0),
        ("max_iter", 2.5),
        ("tol", -1e-3),
    ],
)
def test_parameters_out_of_range_are_refused_by_name(data, name, value):
    hasher = clone(make("unsupervised")).set_params(**{name: value})
    with pytest.raises(ValueError, match=f"^{name}: "):
        hasher.fit(data.X_source, data.X_target)


@pytest.mark.parametrize(
    ("name", "part", "blamed"),
    [
        ("source_graph", KNNGraph(n_neighbors=0), "n_neighbors"),
        ("source_graph", KNNGraph(n_neighbors=2.5), "n_neighbors"),
        ("bipartite", AdaptiveBipartite(n_neighbors=0), "n_neighbors"),
        ("bipartite", AdaptiveBipartite(gamma="median"), "gamma"),
        ("start", PCAStart(basis="both"), "basis"),
        ("start", PCAStart(rotation="random"), "rotation"),
    ],
    ids=str,
)
def test_parameters_of_parts_are_refused_by_name(data, name, part, blamed):
    with pytest.raises(ValueError, match=f"^{blamed}: "):
        make("unsupervised", **{name: part}).fit(data.X_source, data.X_target)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"center": "joint"}, "^center: 'joint' needs one feature space"),
        ({"source_encoder": "target"}, "^source_encoder: 'target' needs one feature space"),
        ({"feature_space": "same"}, "7 and 5 features"),
        ({"start": "shared_pca"}, "7 and 5 separate features"),
        ({"start": "labels"}, "y_source or y_target"),
    ],
)
def test_choices_that_need_more_say_so(data, parameters, words):
    with pytest.raises(ValueError, match=words):
        make("unsupervised", **parameters).fit(data.X_source, data.X_target)


def test_a_feature_map_makes_two_spaces_of_one():
    data = two_domains(d_t=7)
    for choice in ({"center": "joint"}, {"source_encoder": "target"}, {"feature_space": "same"}):
        with pytest.raises(ValueError, match="feature"):
            make("kernel", **choice).fit(
                data.X_source, data.X_target, y_source=data.y_source, y_target=data.y_target
            )


def test_any_transformer_may_be_the_feature_map(data):
    model = fit(make("unsupervised", feature_map=PrincipalMap(3)), data)
    assert model.encoder("source").projection.shape == (3, 10)
    assert model.encode(data.X_query, "target").shape == (9, 2)
