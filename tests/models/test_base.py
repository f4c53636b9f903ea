"""Encoders by their formula, and one-domain methods lifted to two domains."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from bridgehash import ATH, ITQ, AnchorKernel, InputError, LinearEncoder, Shared, UnitRows
from bridgehash.models.base import BaseHasher, BaseLabelHasher
from bridgehash.models.feature_maps import PrincipalMap
from tests.cases import two_domains


class Plain(BaseHasher):
    """The features themselves, made unit rows first; remembers what it was given."""

    def __init__(self, n_bits=5):
        self.n_bits = n_bits

    def _learn(self, X, y):
        self.seen_ = X, y
        projection = np.eye(X.shape[1])[:, : self.n_bits]
        return LinearEncoder(projection, np.zeros(X.shape[1]), maps=[UnitRows().fit(X)])


@pytest.fixture(scope="module")
def data():
    return two_domains()


def labels(data):
    return {"y_source": data.y_source, "y_target": data.y_target}


# --- encoders


def test_an_encoder_is_its_formula(data):
    X, rng = data.X_source, np.random.default_rng(0)
    maps = [UnitRows().fit(X)]
    maps.append(AnchorKernel(6, random_state=0).fit(maps[0].transform(X)))
    A, mean = rng.normal(size=(6, 4)), rng.normal(size=6)
    encoder = LinearEncoder(A, mean, scale=2.5, maps=maps)
    phi = maps[1].transform(X / np.linalg.norm(X, axis=1, keepdims=True))
    np.testing.assert_allclose(encoder.decision_function(X), ((phi - mean) / 2.5) @ A)
    assert (encoder.n_bits, encoder.n_features_in_) == (4, 7)


def test_an_encoder_needs_no_fit(data):
    encoder = LinearEncoder(np.eye(7), np.zeros(7))
    check_is_fitted(encoder)
    assert encoder.fit() is encoder.fit(data.X_source) is encoder
    np.testing.assert_array_equal(encoder.transform([[1.0] * 7]), [[1] * 7])


def test_queries_may_be_more_precise_than_the_encoder(data):
    encoder = LinearEncoder(np.eye(7, dtype=np.float32), np.zeros(7, dtype=np.float32))
    assert encoder.decision_function(data.X_source.astype(np.float32)).dtype == np.float32
    np.testing.assert_array_equal(encoder.decision_function(data.X_source), data.X_source)


# --- shared methods


def test_one_space_shares_one_encoder():
    data = two_domains(d_t=7)
    shared = Shared(Plain()).fit(data.X_source, data.X_target)
    rows, y = shared.hasher_.seen_
    np.testing.assert_array_equal(rows, np.vstack([data.X_source, data.X_target]))
    assert y is None
    np.testing.assert_array_equal(
        shared.decision_function(data.X_query, "source"),
        shared.decision_function(data.X_query, "target"),
    )


@pytest.mark.parametrize(("d_s", "d_t"), [(7, 5), (5, 7)])
def test_the_wider_domain_is_reduced_before_anything_else(d_s, d_t):
    data = two_domains(d_s=d_s, d_t=d_t)
    shared = Shared(Plain()).fit(data.X_source, data.X_target)
    sets = {"source": data.X_source, "target": data.X_target}
    wide = "source" if d_s > d_t else "target"
    Z = dict(sets)
    Z[wide] = PrincipalMap(5).fit_transform(sets[wide])
    rows, _ = shared.hasher_.seen_
    np.testing.assert_allclose(rows, np.vstack([Z["source"], Z["target"]]))
    for name, X in sets.items():
        unit = Z[name] / np.linalg.norm(Z[name], axis=1, keepdims=True)
        np.testing.assert_allclose(shared.decision_function(X, name), unit)
        assert shared.encoder(name).n_features_in_ == X.shape[1]


@pytest.mark.parametrize("given", [("y_source",), ("y_target",), ("y_source", "y_target")])
def test_labels_go_with_their_rows_and_are_unknown_elsewhere(data, given):
    known = {name: labels(data)[name] for name in given}
    shared = Shared(Plain()).fit(data.X_source, data.X_target, **known)
    expected = [known.get(name, np.full(len(y), -1)) for name, y in labels(data).items()]
    np.testing.assert_array_equal(shared.hasher_.seen_[1], np.concatenate(expected))


def test_the_method_inside_is_left_unfitted(data):
    hasher = ITQ(n_bits=4, random_state=0)
    shared = Shared(hasher).fit(data.X_source, data.X_target)
    assert not hasattr(hasher, "encoder_")
    assert shared.hasher is hasher
    assert shared.get_params()["hasher__n_bits"] == 4


# --- methods that learn from labels


class Means(BaseLabelHasher):
    """Remembers the labelled rows."""

    def __init__(self, n_bits=5):
        self.n_bits = n_bits

    def _learn_classes(self, X, y):
        self.seen_ = X, y
        return LinearEncoder(np.eye(X.shape[1])[:, : self.n_bits], np.zeros(X.shape[1]))


def test_rows_of_unknown_class_are_left_out(data):
    y = np.where(np.arange(len(data.y_source)) % 4 == 0, -1, data.y_source + 5)
    model = Means().fit(data.X_source, y)
    np.testing.assert_array_equal(model.seen_[0], data.X_source[y >= 0])
    np.testing.assert_array_equal(model.seen_[1], y[y >= 0] - 5)


def test_labels_of_one_domain_train_on_its_rows_alone():
    data = two_domains(d_t=7)
    shared = Shared(Means()).fit(data.X_source, data.X_target, y_source=data.y_source)
    np.testing.assert_array_equal(shared.hasher_.seen_[0], data.X_source)


def test_missing_labels_are_asked_for_by_name(data):
    with pytest.raises(InputError, match=r"^y_source: missing; Means needs labels"):
        Shared(Means()).fit(data.X_source, data.X_target)
    with pytest.raises(InputError, match=r"^y_source: fewer than two classes.* Means needs"):
        Shared(Means()).fit(data.X_source, data.X_target, y_source=np.zeros(31, dtype=int))
    with pytest.raises(InputError, match=r"^y: fewer than two classes"):
        Means().fit(data.X_source, np.zeros(len(data.X_source)))


@pytest.mark.parametrize("missing", [None, np.nan], ids=["None", "NaN"])
def test_text_labels_with_a_missing_value_are_refused(data, missing):
    y = np.array(["ant", "cat", "zebra"], dtype=object)[data.y_source]
    y[3] = missing
    with pytest.raises(InputError, match=f"^y: row 3 is {missing}, not text; .* use whole numbers"):
        Means().fit(data.X_source, y)


# --- scikit-learn


def test_a_two_domain_method_in_a_pipeline_is_refused(data):
    """scikit-learn would pass labels as X_target."""
    for hasher in (ATH(4), Shared(ITQ(4))):
        pipeline = make_pipeline(StandardScaler(), hasher)
        for second in (data.y_source, data.X_source):
            name = type(hasher).__name__
            with pytest.raises(InputError, match=f"^{name} learns from two domains .* Pipeline"):
                pipeline.fit(data.X_source, second)


# --- pairs


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([0, 1], "two whole numbers per pair"),
        ([[0.0, 1.0]], "two whole numbers per pair"),
        ([[0, 99]], "rows of the target outside 0..23"),
        ([[-1, 0]], "rows of the source outside 0..30"),
    ],
)
def test_pairs_that_name_no_rows_are_refused(data, pairs, message):
    with pytest.raises(ValueError, match=message):
        Shared(Plain()).fit(data.X_source, data.X_target, pairs=pairs)
