"""Checks that every two-domain method must pass; each test loops over the methods."""

import pickle
from functools import cache

import numpy as np
import pytest
from scipy.stats import ortho_group
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import check_random_state

import bridgehash
from bridgehash import InputError, registry
from bridgehash.codes import pack, signs
from tests.cases import BOTH, METHODS, N_BITS, REPRESENTATIVES, naming, two_domains

DOMAINS = ("source", "target")
SHAPES = {
    "different widths": {},
    "one width": {"d_t": 7},
    "equally many rows": {"n_t": 31},
    "equal shapes": {"d_t": 7, "n_t": 31},
    "fewer rows than features": {"n_s": 13, "n_t": 10, "d_s": 40, "d_t": 30},
}
DATA = {name: two_domains(**shape) for name, shape in SHAPES.items()}
some_shapes = pytest.mark.parametrize(
    "shape",
    [
        "different widths",
        pytest.param("one width", marks=pytest.mark.slow),
        pytest.param("fewer rows than features", marks=pytest.mark.slow),
    ],
)
LABELLED = [name for name, method in METHODS.items() if method.labels]
SMOOTH = [name for name, method in METHODS.items() if not method.rounding_decides]


@pytest.fixture(scope="module")
def data():
    return DATA["different widths"]


@cache
def fitted(name, shape="different widths"):
    """The model of a method, fitted once; no test changes it."""
    return METHODS[name].fit(DATA[shape])


def projections(model, data):
    """Projections of both domains and of new rows."""
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


def queries(data, domain):
    return data.X_source if domain == "source" else data.X_query


# --- interface


def test_every_registered_method_is_checked_here():
    assert set(registry.METHODS) <= set(METHODS)


@pytest.mark.parametrize("shape", SHAPES)
def test_both_domains_are_encoded_whatever_their_shapes(shape):
    data = DATA[shape]
    for name, method in METHODS.items():
        with naming(name):
            model = method.fit_with_optional(data) if method.optional else fitted(name, shape)
            for domain in DOMAINS:
                X = queries(data, domain)
                H = model.decision_function(X, domain)
                assert H.shape == (len(X), N_BITS)
                B, codes = model.transform(X, domain), model.encode(X, domain)
                assert (B.dtype, codes.dtype) == (np.int8, np.uint8)
                np.testing.assert_array_equal(B, np.where(H > 0, 1, -1))
                np.testing.assert_array_equal(codes, pack(B))
                assert len(np.unique(codes, axis=0)) > 1


def test_a_clone_has_equal_parameters_and_nothing_learned():
    for name in METHODS:
        with naming(name):
            model, twin = fitted(name), clone(fitted(name))
            assert repr(twin) == repr(model)
            assert repr(twin.get_params()) == repr(model.get_params())
            assert not [attribute for attribute in vars(twin) if attribute.endswith("_")]
            rebuilt = type(twin)(**twin.get_params(deep=False))
            assert rebuilt.get_params().keys() == model.get_params().keys()


def test_a_fit_depends_on_its_seed_only_and_changes_no_input(data):
    arrays = [data.X_source, data.X_target, data.X_query, data.y_source, data.y_target]
    frozen = [array.copy() for array in arrays]
    for array in frozen:
        array.flags.writeable = False  # writing raises
    locked = type(data)(*frozen)
    global_state = check_random_state(None).get_state()[1].copy()
    for name, method in METHODS.items():
        with naming(name):
            estimator = clone(fitted(name))
            parameters = repr(estimator.get_params())
            given = method.needed(locked)
            assert estimator.fit(locked.X_source, locked.X_target, **given) is estimator
            assert repr(estimator.get_params()) == parameters
            assert_equal(projections(estimator, locked), projections(fitted(name), data))
            assert_equal(frozen, arrays)
            np.testing.assert_array_equal(check_random_state(None).get_state()[1], global_state)


def test_fitting_again_forgets_the_first_fit(data):
    other = two_domains(1, d_s=6, d_t=8)
    for name, method in METHODS.items():
        with naming(name):
            model = method.fit(other).fit(data.X_source, data.X_target, **method.needed(data))
            assert_equal(projections(model, data), projections(fitted(name), data))


def test_a_call_that_cannot_be_encoded_is_refused(data):
    for name in REPRESENTATIVES:
        with naming(name):
            model = fitted(name)
            for call in ("encode", "transform", "decision_function"):
                with pytest.raises(NotFittedError):
                    getattr(clone(model), call)(data.X_source, "source")
            with pytest.raises(TypeError, match="domain"):
                model.encode(data.X_source)
            with pytest.raises(InputError, match=r"domain: 'src' .* 'source' or 'target'"):
                model.encode(data.X_source, "src")
            with pytest.raises(InputError, match=r"X: .*7.*5|X: .*5.*7"):
                model.encode(data.X_source, "target")
            for value in (np.nan, np.inf):
                with pytest.raises(ValueError, match="contains"):
                    model.encode(_with(data.X_query, value), "target")


def test_lists_and_whole_numbers_are_converted(data):
    lists = data.each(np.ndarray.tolist).changed(
        y_source=data.y_source.tolist(), y_target=data.y_target.tolist()
    )
    whole = data.each(lambda X: np.round(10 * X).astype(np.int64))
    as_float = whole.each(lambda X: X.astype(float))
    for name in REPRESENTATIVES:
        method = METHODS[name]
        with naming(name):
            assert_equal(projections(method.fit(lists), lists), projections(fitted(name), data))
            converted = projections(method.fit(as_float), as_float)
            assert_equal(projections(method.fit(whole), whole), converted)


# --- what must not matter


def test_float32_stays_float32_and_gives_about_the_same_codes(data):
    single = data.each(lambda X: X.astype(np.float32))
    for name, method in METHODS.items():
        with naming(name):
            model = method.fit(single)
            assert {H.dtype for H in projections(model, single)} == {np.dtype(np.float32)}
            for domain in DOMAINS:
                encoder = model.encoder(domain)
                assert encoder.projection.dtype == encoder.mean.dtype == np.float32
            if name in SMOOTH:
                assert (all_bits(model, single) != all_bits(fitted(name), data)).mean() < 0.015


def test_the_memory_order_of_arrays_does_not_matter(data):
    fortran = data.each(np.asfortranarray)
    for name, method in METHODS.items():
        with naming(name):
            assert_close(projections(method.fit(fortran), fortran), projections(fitted(name), data))


@pytest.mark.parametrize(
    ("shape", "scale"),
    [("different widths", 1e-3), pytest.param("one width", 1e3, marks=pytest.mark.slow)],
)
def test_the_scale_of_the_features_does_not_matter(shape, scale):
    data = DATA[shape]
    scaled = data.each(lambda X: scale * X)
    for name in [name for name in SMOOTH if not METHODS[name].keeps_scale]:
        with naming(name):
            model = METHODS[name].fit(scaled)
            assert (all_bits(model, scaled) != all_bits(fitted(name, shape), data)).mean() <= 0.001


@some_shapes
def test_rotating_the_features_changes_no_projection(shape):
    data = DATA[shape]
    d_s, d_t = data.X_source.shape[1], data.X_target.shape[1]
    Q_s = ortho_group.rvs(d_s, random_state=1)
    Q_own = Q_s if d_s == d_t else ortho_group.rvs(d_t, random_state=2)
    for name in SMOOTH:
        method = METHODS[name]
        if method.sees_single_features:
            continue
        with naming(name):
            # With one rotation only: the wider domain is reduced to the narrower one's columns.
            Q_t = Q_own if d_s == d_t or method.separate_rotations else np.eye(d_t)
            rotated = data.changed(
                X_source=data.X_source @ Q_s,
                X_target=data.X_target @ Q_t,
                X_query=data.X_query @ Q_t,
            )
            found = projections(method.fit(rotated), rotated)
            assert_close(found, projections(fitted(name, shape), data))


@some_shapes
def test_the_order_of_samples_changes_no_projection(shape):
    data, rng = DATA[shape], np.random.default_rng(0)
    s, t = rng.permutation(len(data.X_source)), rng.permutation(len(data.X_target))
    shuffled = data.changed(
        X_source=data.X_source[s],
        X_target=data.X_target[t],
        y_source=data.y_source[s],
        y_target=data.y_target[t],
    )
    for name, method in METHODS.items():
        with naming(name):
            found = projections(method.fit(shuffled), data)
            assert_close(found, projections(fitted(name, shape), data))


# --- labels and pairs

ATH_INPUTS = {  # by the parts of each preset
    "ath-unsupervised": set(),
    "ath-structural": set(),
    "ath-semi-supervised": {"y_source"},
    "ath-supervised": set(BOTH),
    "ath-kernel": set(BOTH),
    "ath-propagated": set(BOTH),
    "ath-adopted": set(BOTH),
    "ath-paired": {"pairs"},
}


def test_the_used_inputs_are_those_that_a_method_states():
    for name, method in registry.METHODS.items():
        with naming(name):
            stated = {*method.about.needs, *method.about.uses}
            expected = stated - {"y"} | (set(BOTH) if "y" in stated else set())
            if name.startswith("ath-"):
                expected = ATH_INPUTS[name.removesuffix("-published").removesuffix("-authors")]
                assert stated <= expected
            assert method.make().used_inputs() == expected


def test_inputs_that_are_not_used_are_ignored(data):
    for name, method in METHODS.items():
        with naming(name):
            used = fitted(name).used_inputs()
            given = {y: getattr(data, y) for y in BOTH if y not in used}
            if "pairs" not in used:
                given["pairs"] = [[0, 0], [1, 1], [2, 2]]
            given |= method.needed(data)
            model = method.make().fit(data.X_source, data.X_target, **given)
            assert_equal(projections(model, data), projections(fitted(name), data))


def test_missing_labels_are_demanded_by_name(data):
    for name in LABELLED:
        method = METHODS[name]
        with naming(name):
            if method.one_domain_enough:
                with pytest.raises(ValueError, match="y_source"):
                    method.make().fit(data.X_source, data.X_target)
                continue
            for missing in method.labels:
                given = {label: y for label, y in method.needed(data).items() if label != missing}
                with pytest.raises(InputError, match=missing):
                    method.make().fit(data.X_source, data.X_target, **given)


def test_classes_may_have_names_in_any_order(data):
    words = np.array(["zebra", "ant", "cat"])
    named = data.changed(y_source=words[data.y_source], y_target=words[data.y_target])
    numbered = data.changed(y_source=9.0 * data.y_source, y_target=9.0 * data.y_target)
    for name in LABELLED:
        with naming(name):
            for other in (named, numbered):
                found = projections(METHODS[name].fit(other), other)
                assert_close(found, projections(fitted(name), data))


def test_some_labels_may_be_unknown(data):
    y_s, y_t = data.y_source.copy(), data.y_target.copy()
    y_s[::4] = y_t[::3] = -1
    partly = data.changed(y_source=y_s, y_target=y_t)
    for name in LABELLED:
        with naming(name):
            Hs = projections(METHODS[name].fit(partly), partly)
            assert all(np.isfinite(H).all() for H in Hs)
            # The labels that are now unknown made a difference before.
            assert np.abs(Hs[0] - projections(fitted(name), data)[0]).max() > 1e-6


def test_labels_of_fewer_than_two_classes_are_refused_by_name(data):
    for name in LABELLED:
        method = METHODS[name]
        with naming(name):
            for label in (-1, 0):
                one = {"y_source": np.full(31, label), "y_target": np.full(24, label)}
                if method.one_domain_enough:
                    with pytest.raises(ValueError, match="y_source"):
                        method.fit(data.changed(**one))
                    continue
                for argument in method.labels:
                    with pytest.raises(InputError, match=argument):
                        method.fit(data.changed(**{argument: one[argument]}))


def test_labels_that_do_not_fit_the_rows_are_refused_by_name(data):
    labels = {"y_source": data.y_source, "y_target": data.y_target}
    for name in REPRESENTATIVES:
        with naming(name):
            for argument, y in labels.items():
                for wrong in (y[1:], y[:, None], y + 0.5):
                    given = labels | {argument: wrong}
                    with pytest.raises(InputError, match=f"{argument}: ") as refused:
                        METHODS[name].make().fit(data.X_source, data.X_target, **given)
                    assert refused.value.argument == argument


@pytest.mark.parametrize("missing", [None, np.nan], ids=["None", "NaN"])
def test_text_labels_with_a_missing_value_are_refused(data, missing):
    for argument, rows in (("y_source", data.y_source), ("y_target", data.y_target)):
        y = np.array(["ant", "cat", "zebra"], dtype=object)[rows]
        y[3] = missing
        given = {"y_source": data.y_source, "y_target": data.y_target, argument: y}
        for name in REPRESENTATIVES:
            with naming(name):
                pattern = (
                    rf"^{argument}: row 3 is {missing}, not text; .* use whole numbers and -1$"
                )
                with pytest.raises(InputError, match=pattern):
                    METHODS[name].make().fit(data.X_source, data.X_target, **given)


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


@pytest.mark.parametrize("bad", BAD_ROWS)
def test_rows_that_cannot_be_learned_from_are_refused_by_name(data, bad):
    for name in REPRESENTATIVES:
        method = METHODS[name]
        with naming(name):
            for argument in ("X_source", "X_target"):
                rows = {"X_source": data.X_source, "X_target": data.X_target}
                rows[argument] = BAD_ROWS[bad](rows[argument])
                y = {"y_source": rows["X_source"], "y_target": rows["X_target"]}
                given = {label: getattr(data, label)[: len(y[label])] for label in method.labels}
                with pytest.raises(InputError, match=argument):
                    method.make().fit(**rows, **given)


def test_a_length_out_of_range_is_refused_by_name(data):
    for name, method in METHODS.items():
        for n_bits in (0, 4097, 2.5, "many"):
            with naming(name), pytest.raises(InputError, match=f"n_bits: {n_bits!r} "):
                method.fit(data, n_bits=n_bits)


# --- edges of the range


@pytest.mark.parametrize("n_bits", [1, 40])
def test_codes_may_be_shorter_or_longer_than_the_features(data, n_bits):
    for name, method in METHODS.items():
        with naming(name):
            model = method.fit_with_optional(data, n_bits=n_bits)
            assert model.encode(data.X_query, "target").shape == (9, -(-n_bits // 8))
            bits = model.transform(np.vstack([data.X_target, data.X_query]), "target")
            assert method.constant_bits or (np.abs(bits.mean(axis=0)) < 1).all()


def test_few_samples_and_odd_numbers_are_enough():
    for n_s, n_t in ((2, 2), (3, 2), (2, 9)):
        data = two_domains(n_s=n_s, n_t=n_t)
        for name, method in METHODS.items():
            with naming(f"{name}, {n_s} and {n_t} rows"):
                assert all(np.isfinite(H).all() for H in projections(method.fit(data), data))


def test_repeated_samples_are_allowed():
    data = two_domains(n_s=10, n_t=8)
    repeated = data.changed(
        X_source=np.repeat(data.X_source, 30, axis=0),
        X_target=np.repeat(data.X_target, 30, axis=0),
        y_source=np.repeat(data.y_source, 30),
        y_target=np.repeat(data.y_target, 30),
    )
    for name, method in METHODS.items():
        with naming(name):
            assert all(np.isfinite(H).all() for H in projections(method.fit(repeated), data))


# --- encoders and files


def test_an_encoder_is_a_transformer_also_in_a_pipeline(data):
    for name in REPRESENTATIVES:
        model = fitted(name)
        for domain in DOMAINS:
            with naming(f"{name}, {domain}"):
                X, encoder = queries(data, domain), model.encoder(domain)
                expected = model.transform(X, domain)
                assert (encoder.n_bits, encoder.n_features_in_) == (N_BITS, X.shape[1])
                np.testing.assert_array_equal(encoder.projection_, encoder.projection)
                for twin in (encoder, clone(encoder), clone(clone(encoder)), encoder.fit(X)):
                    np.testing.assert_array_equal(twin.transform(X), expected)
                np.testing.assert_array_equal(encoder.fit_transform(X), expected)
                pipeline = make_pipeline(FunctionTransformer(), encoder)
                for pipe in (pipeline.fit(X), clone(pipeline).fit(X)):
                    np.testing.assert_array_equal(pipe.transform(X), expected)
                    H = model.decision_function(X, domain)
                    np.testing.assert_array_equal(pipe.decision_function(X), H)


def test_a_cloned_encoder_shares_nothing(data):
    for name in REPRESENTATIVES:
        with naming(name):
            before = fitted(name).encode(data.X_query, "target")
            clone(fitted(name).encoder("target")).projection[:] = 0.0
            np.testing.assert_array_equal(fitted(name).encode(data.X_query, "target"), before)


def test_a_pickled_or_saved_model_is_the_same_bit_for_bit(data, tmp_path):
    path, again = tmp_path / "model", tmp_path / "again"
    for name in METHODS:
        with naming(name):
            model = fitted(name)
            pickled = pickle.loads(pickle.dumps(model))
            assert_equal(projections(pickled, data), projections(model, data))
            model.save(path)
            for loaded in (type(model).load(path), bridgehash.load(path)):
                assert type(loaded) is type(model)
                assert repr(loaded.get_params()) == repr(model.get_params())
                assert_equal(projections(loaded, data), projections(model, data))
            loaded.save(again)
            assert again.read_bytes() == path.read_bytes()


def test_domains_may_have_names(data, tmp_path):
    names = dict(zip(DOMAINS, ("photos", "two words"), strict=True))
    X = {"photos": data.X_source, "two words": data.X_target}
    for name, method in METHODS.items():
        with naming(name):
            given = method.needed(data)
            y = {names[d]: given.pop(f"y_{d}") for d in DOMAINS if f"y_{d}" in given}
            method.make().fit(X, y=y, **given).save(tmp_path / "model")
            loaded = bridgehash.load(tmp_path / "model")
            for domain in DOMAINS:
                H = loaded.decision_function(queries(data, domain), names[domain])
                own = fitted(name).decision_function(queries(data, domain), domain)
                np.testing.assert_array_equal(H, own)


def test_a_saved_encoder_is_the_same_bit_for_bit(data, tmp_path):
    for name in REPRESENTATIVES:
        for domain in DOMAINS:
            with naming(f"{name}, {domain}"):
                X = queries(data, domain)
                fitted(name).encoder(domain).save(tmp_path / "encoder")
                H = bridgehash.load(tmp_path / "encoder").decision_function(X)
                np.testing.assert_array_equal(H, fitted(name).decision_function(X, domain))
