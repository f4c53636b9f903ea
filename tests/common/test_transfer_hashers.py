"""What every two-domain method promises, whatever it computes: one list, the same checks."""

import pickle

import numpy as np
import pytest
from scipy.stats import ortho_group
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import check_random_state

import bridgehash
from bridgehash.codes import pack, signs
from tests.cases import METHODS, N_BITS, two_domains

DOMAINS = ("source", "target")
PAIRS = (("X_source", "y_source"), ("X_target", "y_target"))
SHAPES = {
    "different widths": {},
    "one width": {"d_t": 7},
    "equally many rows": {"n_t": 31},
    "equal shapes": {"d_t": 7, "n_t": 31},
    "fewer rows than features": {"n_s": 13, "n_t": 10, "d_s": 40, "d_t": 30},
}


@pytest.fixture(params=METHODS, scope="module")
def method(request):
    return METHODS[request.param]


@pytest.fixture(scope="module")
def data():
    return two_domains()


@pytest.fixture(scope="module")
def model(method, data):
    """Fitted once a method; no test changes it."""
    return method.fit(data)


def projections(model, data):
    """All that a model says of the rows it was fitted on and of new ones."""
    return [
        model.decision_function(data.X_source, "source"),
        model.decision_function(data.X_target, "target"),
        model.decision_function(data.X_query, "target"),
    ]


def all_bits(model, data):
    return np.vstack([signs(H) for H in projections(model, data)])


def assert_close(Hs, others, tolerance=1e-6):
    for H, other in zip(Hs, others, strict=True):
        assert np.isfinite(other).all()
        np.testing.assert_allclose(H, other, rtol=0, atol=tolerance * np.abs(other).max())


def assert_equal(Hs, others):
    for H, other in zip(Hs, others, strict=True):
        np.testing.assert_array_equal(H, other)


# --- interface


@pytest.mark.parametrize("shape", SHAPES.values(), ids=list(SHAPES))
def test_both_domains_are_encoded_whatever_their_shapes(method, shape):
    data = two_domains(**shape)
    model = method.fit_to_all(data)
    for domain, X in (("source", data.X_source), ("target", data.X_query)):
        H = model.decision_function(X, domain)
        assert H.shape == (len(X), N_BITS)
        B, codes = model.transform(X, domain), model.encode(X, domain)
        assert (B.dtype, codes.dtype) == (np.int8, np.uint8)
        np.testing.assert_array_equal(B, np.where(H > 0, 1, -1))
        np.testing.assert_array_equal(codes, pack(B))
        assert len(np.unique(codes, axis=0)) > 1


def test_a_clone_has_equal_parameters_and_nothing_learned(method, model):
    twin = clone(model)
    assert repr(twin) == repr(model)
    assert repr(twin.get_params()) == repr(model.get_params())
    assert not [name for name in vars(twin) if name.endswith("_")]
    assert (
        type(twin)(**twin.get_params(deep=False)).get_params().keys() == model.get_params().keys()
    )


def test_fit_returns_the_estimator_and_keeps_its_parameters(method, data):
    estimator = method.make()
    before = repr(estimator.get_params())
    assert estimator.fit(data.X_source, data.X_target, **method.needed(data)) is estimator
    assert repr(estimator.get_params()) == before


def test_nothing_is_encoded_before_the_fit(method, data):
    for call in ("encode", "transform", "decision_function"):
        with pytest.raises(NotFittedError):
            getattr(method.make(), call)(data.X_source, "source")


def test_the_domain_has_to_be_named(model, data):
    with pytest.raises(TypeError, match="domain"):
        model.encode(data.X_source)
    with pytest.raises(ValueError, match=r"'src' .* 'source' or 'target'"):
        model.encode(data.X_source, "src")


def test_rows_of_the_other_domain_are_refused(model, data):
    with pytest.raises(ValueError, match="X has 7 features, but this encoder was made for 5"):
        model.encode(data.X_source, "target")


def test_inputs_are_not_changed_and_may_be_read_only(method, model, data):
    arrays = [data.X_source, data.X_target, data.X_query, data.y_source, data.y_target]
    frozen = [array.copy() for array in arrays]
    for array in frozen:
        array.flags.writeable = False  # whoever writes raises
    locked = type(data)(*frozen)
    again = method.fit(locked)
    for array, before in zip(frozen, arrays, strict=True):
        np.testing.assert_array_equal(array, before)
    assert_equal(projections(again, locked), projections(model, data))


def test_lists_and_arrays_in_another_order_of_memory_are_the_same(method, model, data):
    fortran = data.each(np.asfortranarray)
    assert_close(projections(method.fit(fortran), fortran), projections(model, data))
    lists = data.each(np.ndarray.tolist).changed(
        y_source=data.y_source.tolist(), y_target=data.y_target.tolist()
    )
    assert_equal(projections(method.fit(lists), lists), projections(model, data))


def test_one_seed_gives_one_result_bit_for_bit(method, model, data):
    assert_equal(projections(method.fit(data), data), projections(model, data))
    assert_equal(
        projections(clone(model).fit(data.X_source, data.X_target, **method.needed(data)), data),
        projections(model, data),
    )


def test_fitting_again_forgets_the_first_fit(method, model, data):
    other = two_domains(1, d_s=6, d_t=8)
    refitted = method.fit(other).fit(data.X_source, data.X_target, **method.needed(data))
    assert_equal(projections(refitted, data), projections(model, data))


def test_the_global_seed_plays_no_part(method, model, data):
    shared = check_random_state(None)
    before = shared.get_state()[1].copy()
    assert_equal(projections(method.fit(data), data), projections(model, data))
    np.testing.assert_array_equal(shared.get_state()[1], before)


# --- types


def test_float32_stays_float32(method, data):
    single = data.each(lambda X: X.astype(np.float32))
    model = method.fit(single)
    for H in projections(model, single):
        assert H.dtype == np.float32
    for domain in DOMAINS:
        encoder = model.encoder(domain)
        assert encoder.projection.dtype == encoder.mean.dtype == np.float32


def test_float32_gives_about_the_same_codes(method, model, data):
    if method.rounding_decides:
        pytest.skip("searches among matches of random rows; tests/test_matching.py has real ones")
    single = data.each(lambda X: X.astype(np.float32))
    differing = all_bits(method.fit(single), single) != all_bits(model, data)
    assert differing.mean() < 0.015


def test_whole_numbers_are_taken_as_floats(method, data):
    whole = data.each(lambda X: np.round(10 * X).astype(np.int64))
    as_float = whole.each(lambda X: X.astype(float))
    assert_equal(projections(method.fit(whole), whole), projections(method.fit(as_float), as_float))


# --- what must not matter


@pytest.mark.parametrize("scale", [1e-3, 1e3])
@pytest.mark.parametrize("shape", ["different widths", "one width"])
def test_the_scale_of_the_features_does_not_matter(method, shape, scale):
    if method.rounding_decides:
        pytest.skip("searches among matches of random rows; tests/test_matching.py has real ones")
    data = two_domains(**SHAPES[shape])
    scaled = data.each(lambda X: scale * X)
    differing = all_bits(method.fit(scaled), scaled) != all_bits(method.fit(data), data)
    assert differing.mean() <= 0.001


@pytest.mark.parametrize("shape", ["different widths", "one width", "fewer rows than features"])
def test_rotating_the_features_changes_no_projection(method, shape):
    if method.sees_single_features:
        pytest.skip("weighs features one by one")
    if method.rounding_decides:
        pytest.skip("searches among matches of random rows; tests/test_matching.py has real ones")
    data = two_domains(**SHAPES[shape])
    d_s, d_t = data.X_source.shape[1], data.X_target.shape[1]
    Q_s = ortho_group.rvs(d_s, random_state=1)
    Q_t = Q_s if d_s == d_t else ortho_group.rvs(d_t, random_state=2)
    if d_s != d_t and not method.blind_to_own_rotation:
        Q_t = np.eye(d_t)  # the wider domain is reduced to the coordinates of the narrower
    rotated = data.changed(
        X_source=data.X_source @ Q_s, X_target=data.X_target @ Q_t, X_query=data.X_query @ Q_t
    )
    assert_close(projections(method.fit(rotated), rotated), projections(method.fit(data), data))


@pytest.mark.parametrize("shape", ["different widths", "one width", "fewer rows than features"])
def test_the_order_of_samples_changes_no_projection(method, shape):
    data = two_domains(**SHAPES[shape])
    rng = np.random.default_rng(0)
    s, t = rng.permutation(len(data.X_source)), rng.permutation(len(data.X_target))
    shuffled = data.changed(
        X_source=data.X_source[s],
        X_target=data.X_target[t],
        y_source=data.y_source[s],
        y_target=data.y_target[t],
    )
    assert_close(projections(method.fit(shuffled), data), projections(method.fit(data), data))


# --- labels


def test_labels_that_are_not_needed_are_ignored(method, model, data):
    given = {y: getattr(data, y) for _, y in PAIRS if y not in method.welcome}
    everything = method.make().fit(data.X_source, data.X_target, **(method.needed(data) | given))
    assert_equal(projections(everything, data), projections(model, data))


def test_labels_that_are_needed_are_demanded_by_name(method, data):
    if method.either_will_do:
        with pytest.raises(ValueError, match="y_source or y_target"):
            method.make().fit(data.X_source, data.X_target)
        return
    for missing in method.labels:
        given = {name: y for name, y in method.needed(data).items() if name != missing}
        with pytest.raises(ValueError, match=missing):
            method.make().fit(data.X_source, data.X_target, **given)


def test_names_of_classes_may_be_words_in_any_order(method, model, data):
    words = np.array(["zebra", "ant", "cat"])
    named = data.changed(y_source=words[data.y_source], y_target=words[data.y_target])
    assert_close(projections(method.fit(named), named), projections(model, data))
    numbers = data.changed(y_source=9.0 * data.y_source, y_target=9.0 * data.y_target)
    assert_close(projections(method.fit(numbers), numbers), projections(model, data))


def test_some_labels_may_be_unknown(method, model, data):
    y_s, y_t = data.y_source.copy(), data.y_target.copy()
    y_s[::4] = y_t[::3] = -1
    partly = data.changed(y_source=y_s, y_target=y_t)
    Hs = projections(method.fit(partly), partly)
    assert all(np.isfinite(H).all() for H in Hs)
    if method.labels:  # the labels left out were seen before
        assert np.abs(Hs[0] - projections(model, data)[0]).max() > 1e-6


@pytest.mark.parametrize("label", [-1, 0])
def test_labels_that_tell_nothing_apart_are_refused_by_name_or_ignored(method, data, label):
    one = {"y_source": np.full(31, label), "y_target": np.full(24, label)}
    if method.either_will_do:
        with pytest.raises(ValueError, match="y_source"):
            method.fit(data.changed(**one))
        return
    for name in method.labels:
        spoilt = data.changed(**{name: one[name]})
        with pytest.raises(ValueError, match=name):
            method.fit(spoilt)
    if not method.labels:
        model = method.make().fit(data.X_source, data.X_target, **(method.needed(data) | one))
        assert_equal(projections(model, data), projections(method.fit(data), data))


@pytest.mark.parametrize("name", ["y_source", "y_target"])
def test_labels_of_the_wrong_length_are_refused_by_name(method, data, name):
    labels = {"y_source": data.y_source, "y_target": data.y_target}
    for wrong in (labels[name][1:], labels[name][:, None], labels[name] + 0.5):
        with pytest.raises(ValueError, match=name):
            method.make().fit(data.X_source, data.X_target, **(labels | {name: wrong}))


# --- what is refused


def _with(X, value):
    X = X.copy()
    X[2, 1] = value
    return X


BAD_ROWS = {
    "NaN": lambda X: _with(X, np.nan),
    "infinity": lambda X: _with(X, np.inf),
    "no rows": lambda X: X[:0],
    "one row": lambda X: X[:1],
    "constant rows": lambda X: np.repeat(X[:1], len(X), axis=0),
    "zeros": np.zeros_like,
}


@pytest.mark.parametrize("name", ["X_source", "X_target"])
@pytest.mark.parametrize("spoil", BAD_ROWS.values(), ids=list(BAD_ROWS))
def test_rows_that_cannot_be_learned_from_are_refused_by_name(method, data, spoil, name):
    bad = data.changed(**{name: spoil(getattr(data, name))})
    labels = {y: getattr(bad, y)[: len(getattr(bad, X))] for X, y in PAIRS if y in method.labels}
    with pytest.raises(ValueError, match=name):
        method.make().fit(bad.X_source, bad.X_target, **labels)


@pytest.mark.parametrize("n_bits", [0, 4097, 2.5, "many"])
def test_a_length_out_of_range_is_refused_by_name(method, data, n_bits):
    with pytest.raises(ValueError, match="n_bits"):
        method.fit(data, n_bits=n_bits)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_queries_that_are_not_finite_are_refused(model, data, value):
    with pytest.raises(ValueError, match="X contains"):
        model.encode(_with(data.X_query, value), "target")


# --- edges of the range


@pytest.mark.parametrize("n_bits", [1, 8, 40])
def test_codes_may_be_shorter_or_longer_than_the_features(method, data, n_bits):
    model = method.fit_to_all(data, n_bits=n_bits)
    assert model.encode(data.X_query, "target").shape == (9, -(-n_bits // 8))
    bits = model.transform(np.vstack([data.X_target, data.X_query]), "target")
    assert method.idle_bits or (np.abs(bits.mean(axis=0)) < 1).all()


@pytest.mark.parametrize(("n_s", "n_t"), [(2, 2), (3, 2), (2, 9), (15, 16)])
def test_few_samples_and_odd_numbers_are_enough(method, n_s, n_t):
    data = two_domains(n_s=n_s, n_t=n_t)
    assert all(np.isfinite(H).all() for H in projections(method.fit(data), data))


def test_repeated_samples_are_no_obstacle(method):
    data = two_domains(n_s=10, n_t=8)
    repeated = data.changed(
        X_source=np.repeat(data.X_source, 30, axis=0),
        X_target=np.repeat(data.X_target, 30, axis=0),
        y_source=np.repeat(data.y_source, 30),
        y_target=np.repeat(data.y_target, 30),
    )
    assert all(np.isfinite(H).all() for H in projections(method.fit(repeated), data))


# --- encoders


@pytest.mark.parametrize("domain", DOMAINS)
def test_an_encoder_is_a_transformer(model, data, domain):
    X = data.X_source if domain == "source" else data.X_query
    encoder = model.encoder(domain)
    expected = model.transform(X, domain)
    assert (encoder.n_bits, encoder.n_features_in_) == (N_BITS, X.shape[1])
    np.testing.assert_array_equal(encoder.projection_, encoder.projection)
    for twin in (encoder, clone(encoder), clone(clone(encoder)), encoder.fit(X)):
        np.testing.assert_array_equal(twin.transform(X), expected)
    np.testing.assert_array_equal(encoder.fit_transform(X), expected)


@pytest.mark.parametrize("domain", DOMAINS)
def test_an_encoder_works_in_a_pipeline(model, data, domain):
    X = data.X_source if domain == "source" else data.X_query
    pipeline = make_pipeline(FunctionTransformer(), model.encoder(domain))
    for pipe in (pipeline.fit(X), clone(pipeline).fit(X)):
        np.testing.assert_array_equal(pipe.transform(X), model.transform(X, domain))
        np.testing.assert_array_equal(pipe.decision_function(X), model.decision_function(X, domain))


def test_a_cloned_encoder_shares_nothing(model, data):
    before = model.encode(data.X_query, "target")
    twin = clone(model.encoder("target"))
    twin.projection[:] = 0.0
    np.testing.assert_array_equal(model.encode(data.X_query, "target"), before)


# --- keeping models


def test_a_pickled_model_is_the_same(model, data):
    assert_equal(projections(pickle.loads(pickle.dumps(model)), data), projections(model, data))


def test_a_saved_model_is_the_same_bit_for_bit(model, data, tmp_path):
    path = tmp_path / "model"
    model.save(path)
    for loaded in (type(model).load(path), bridgehash.load(path)):
        assert type(loaded) is type(model)
        assert repr(loaded.get_params()) == repr(model.get_params())
        assert_equal(projections(loaded, data), projections(model, data))
    again = tmp_path / "again"
    loaded.save(again)
    assert again.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("domain", DOMAINS)
def test_a_saved_encoder_is_the_same_bit_for_bit(model, data, tmp_path, domain):
    X = data.X_source if domain == "source" else data.X_query
    model.encoder(domain).save(tmp_path / "encoder")
    loaded = bridgehash.load(tmp_path / "encoder")
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X, domain))
