"""Classes without a counterpart: found on clouds of points, set aside, and told."""

import warnings

import numpy as np
import pytest

from bridgehash import ATH, CounterpartWarning, InputError, Propagation, load
from bridgehash._core.linalg import unit_rows
from bridgehash.ath import lacking
from bridgehash.ath.class_codes import BalancedCodes
from bridgehash.ath.coinciding import coincidence
from bridgehash.ath.groups import _silhouette, grouped
from bridgehash.ath.lacking import find_lacking
from bridgehash.ath.likeness import Space, modularity, two_groups
from bridgehash.ath.private import (
    Counterparts,
    Private,
    _mean_with_group,
    _scaled,
    find_private,
)
from bridgehash.ath.spreading import Rows, neighbour_graph
from bridgehash.models.training import Domains

N_CLASSES = 6
CENTRES = 5.0 * np.eye(N_CLASSES, 16)


def clouds(classes, n=40, *, seed=0, shift=0.5):
    """Points around the axes of some classes, all moved a little."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat(classes, n))
    return CENTRES[y] + rng.normal(size=(len(y), 16)) + shift, y


KINDS = {  # classes of the source, classes of the target
    "closed": (range(6), range(6)),
    "partial": (range(6), range(3)),
    "open": (range(4), range(6)),
    "universal": (range(5), (0, 1, 2, 5)),
}


def task(kind):
    source, target = KINDS[kind]
    return *clouds([*source]), *clouds([*target], seed=1, shift=1.0)


def found(kind, **changes):
    """Return what is found if the bridge is the features themselves, and the true classes."""
    X_s, y_s, X_t, y_t = task(kind)
    known = np.full(len(y_t), -1)
    known[: changes.get("known", 0)] = y_t[: changes.get("known", 0)]
    there, here = Rows(X_s, y_s), Rows(X_t, known)
    private = find_private(there, here, N_CLASSES, lambda *which: (X_s, X_t))
    return private, y_s, y_t


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_private_is_found(kind):
    private, y_s, y_t = found(kind)
    new = ~np.isin(y_t, y_s)
    assert ((private.groups >= 0) == new).mean() > 0.95
    lacking = np.setdiff1d(y_s, y_t)
    np.testing.assert_array_equal(np.flatnonzero(private.classes), lacking)
    if new.any():
        assert private.unlikeness[new].mean() > private.unlikeness[~new].mean() + 0.3


def test_new_classes_get_groups_of_their_own():
    private, _, y_t = found("open")
    for c in (4, 5):
        groups = private.groups[(y_t == c) & (private.groups >= 0)]
        assert (groups == np.bincount(groups).argmax()).mean() > 0.95
    assert len(np.unique(private.groups[private.groups >= 0])) == 2


def test_if_the_features_leave_it_open_the_bridge_shows_which_rows_are_new():
    centres = CENTRES.copy()
    centres[4:] = 0.55 * CENTRES[:2] + 0.84 * CENTRES[4:]  # partly a known class
    rng = np.random.default_rng(2)

    def draw(classes, seed):
        y = np.repeat(classes, 40)
        noise = np.random.default_rng(seed).normal(size=(len(y), 16))
        return centres[y] + 0.8 * noise, y

    def found(classes):
        (X_s, y_s), (X_t, y_t) = draw(np.arange(4), 0), draw(classes, 1)
        X_s, X_t = X_s - X_s.mean(axis=0), X_t - X_t.mean(axis=0)
        learned = [np.eye(6)[y] + 0.1 * rng.normal(size=(len(y), 6)) for y in (y_s, y_t)]
        there, here = Rows(X_s, y_s), Rows(X_t, None)
        space = Space(there.centred, y_s, here.centred, 4)
        groups = two_groups(space.best / space.own[space.label])
        assert groups.high - groups.low < 0.42  # too near to each other to tell by features

        def bridge(some_there, some_here, labelled):
            return learned if labelled else (X_s, X_t)

        return find_private(there, here, 4, bridge).groups >= 0, y_t

    new, y = found(np.arange(6))
    assert (new == (y >= 4)).mean() > 0.95
    new, _ = found(np.arange(4))
    assert not new.any()


def test_rows_of_new_classes_are_hardly_chosen_however_large_the_classes_are():
    y = np.repeat(np.arange(4), [20, 40, 60, 80])
    rng = np.random.default_rng(0)
    X_s = CENTRES[y] + rng.normal(size=(len(y), 16))
    X_t, y_t = clouds(range(6), seed=1, shift=0.0)
    chosen = Space(X_s, y, X_t, N_CLASSES).chosen
    np.testing.assert_allclose(chosen.mean(), 1.0)
    assert np.median(chosen[y_t >= 4]) < 0.2 < 0.5 < chosen[y_t < 4].min()
    by_class = [chosen[y_t == c].mean() for c in range(4)]
    np.testing.assert_allclose(by_class, np.mean(by_class), rtol=0.1)


def test_a_large_new_class_is_one_group():
    rng = np.random.default_rng(0)
    parts = CENTRES[[0] * 100 + [1] * 100] + 1.5 * np.eye(16)[10 + np.arange(200) % 2]
    groups = grouped(unit_rows(parts + 0.5 * rng.normal(size=(200, 16))), 12)
    assert len(np.unique(groups)) == 2


def test_a_sample_of_one_group_has_no_silhouette():
    """Few rows far from thousands: none of them is in the sample."""
    labels = (np.arange(4001) == 1).astype(int)
    assert _silhouette(np.eye(2)[labels], labels) == 0.0


def test_the_bridge_is_fitted_again_without_the_classes_that_seem_to_be_lacking():
    X_s, y_s, X_t, _ = task("partial")
    seen = []

    def bridge(there, here, labelled):
        seen.append(sorted(set(y_s[there].tolist())))
        return X_s, X_t

    find_private(Rows(X_s, y_s), Rows(X_t, None), N_CLASSES, bridge)
    assert seen == [[0, 1, 2, 3, 4, 5], [0, 1, 2]]


def spaces_of(classes, *, noise, source_noise=None):
    """Return rows of six classes, rows of the first few classes, and the space of both."""
    rng = np.random.default_rng(0)
    y, z = np.repeat(np.arange(6), 40), np.repeat(np.arange(classes), 40)
    X = CENTRES[y] + (source_noise or noise) * rng.normal(size=(len(y), 16))
    Y = CENTRES[z] + noise * rng.normal(size=(len(z), 16))
    there, here = Rows(X, y), Rows(Y, None)
    return there, here, Space(there.centred, y, here.centred, N_CLASSES)


@pytest.mark.parametrize("classes", [3, 6])
def test_a_set_of_classes_has_to_gain_more_if_all_classes_coincide(classes):
    there, here, space = spaces_of(classes, noise=2.0)
    assert not space.hardly_voted.any()
    score = coincidence(there, here, space).score
    assert (score < 0.4) == (classes == 3)

    def found(score):
        return np.flatnonzero(find_lacking(there, here, space, space, lambda _: space, score))

    np.testing.assert_array_equal(found(score), np.arange(classes, 6))
    assert not found(2.0).size


@pytest.mark.parametrize(("classes", "part"), [(3, 0.5), (6, 0.0)])
def test_classes_without_a_group_of_rows_are_counted(classes, part):
    assert lacking._without_group(spaces_of(classes, noise=1.0)[-1]) == part


def test_groups_are_not_counted_if_labelled_rows_form_none():
    assert lacking._without_group(spaces_of(3, noise=1.0, source_noise=20.0)[-1]) == 0.0


@pytest.mark.parametrize(("coincidence", "clear"), [(0.0, True), (0.0, False), (0.4, True)])
def test_a_set_has_to_gain_less_if_classes_find_no_group(monkeypatch, coincidence, clear):
    """The set gains 0.3: too little, unless the classes do not coincide and half find no group."""
    monkeypatch.setattr(lacking, "_GAINS", (0.35, 0.35))
    there, here, space = spaces_of(3, noise=2.0)
    found = find_lacking(there, here, space, space, lambda _: space, coincidence, clear)
    counted = clear and coincidence < 0.4
    np.testing.assert_array_equal(np.flatnonzero(found), [3, 4, 5] if counted else [])


def test_rows_of_a_group_are_about_equally_unlike():
    """One row of a new class looks like a known one, but not the rows around it."""
    values, groups = np.array([0.1, 0.1, 0.9, 0.9, 0.1, 0.9]), np.array([0, 0, 1, 1, 1, 1])
    np.testing.assert_allclose(_mean_with_group(values, groups), [0.1, 0.1, 0.8, 0.8, 0.4, 0.8])


@pytest.mark.slow
def test_digits_with_the_same_classes_raise_no_doubt(data_pack):
    """USPS -> MNIST: labels are hard to estimate, but no class is lacking."""
    data = data_pack("mnist_usps")
    X, y, Y = data["usps1800_x"], data["usps1800_y"], data["mnist2000_x"]
    model = ATH.propagated(64, random_state=0).fit(X, Y, y_source=y)
    assert len(model.shared_classes_) == 10
    assert model.private_classes_ == {"source": [], "target": []}
    assert model.doubtful_domains_ == []


def test_labelled_rows_and_their_classes_are_never_private():
    private, _, y_t = found("partial", known=60)
    assert not private.classes[np.unique(y_t[:60])].any()
    private, _, y_t = found("open", known=60)
    assert (private.groups[:60] < 0).all()


def test_too_few_rows_tell_nothing():
    X, y = clouds(range(3), n=8)
    private = find_private(Rows(X, y), Rows(X, None), 3, lambda *which: (X, X))
    assert not private.classes.any()
    assert (private.groups < 0).all()
    assert private.unlikeness is None


def test_two_groups_are_split_where_the_variance_is_least():
    rng = np.random.default_rng(0)
    low, high = rng.normal(0.0, 0.1, 40), rng.normal(1.0, 0.1, 60)
    groups = two_groups(np.r_[high, low])
    assert low.max() < groups.limit < high.min()
    np.testing.assert_allclose([groups.low, groups.high], [low.mean(), high.mean()])


@pytest.mark.parametrize("limit", [0.4, 0.0, -0.2])
def test_scaling_keeps_the_order_of_rows(limit):
    values = np.array([-0.5, -0.1, 0.3, 0.7])
    assert (np.diff(_scaled(values, limit)) > 0).all()


def test_modularity_is_best_for_the_true_classes():
    X, y = clouds(range(4))
    W = neighbour_graph(X, 5)
    merged, split = np.minimum(y, 2), y + 4 * (np.arange(len(y)) % 2)
    assert modularity(W, y) > modularity(W, merged)
    assert modularity(W, y) > modularity(W, split)


def fit(kind, **changes):
    X_s, y_s, X_t, _ = task(kind)
    return ATH.propagated(16, random_state=0, **changes).fit(X_s, X_t, y_source=y_s)


def test_a_closed_case_gives_the_same_codes_as_without_the_test():
    X_s, _, X_t, _ = task("closed")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tested = fit("closed")
    untested = fit("closed", completion=Propagation(private=False))
    for X, domain in ((X_s, "source"), (X_t, "target")):
        np.testing.assert_array_equal(tested.encode(X, domain), untested.encode(X, domain))
    assert tested.shared_classes_ == [*range(6)]
    assert tested.private_classes_ == {"source": [], "target": []}
    assert tested.new_share_ == {"source": 0.0, "target": 0.0}
    assert untested.rejectors_ is None


def test_new_rows_are_told_rejected_and_kept_apart(tmp_path):
    with pytest.warns(CounterpartWarning, match=r"33% of the rows of target .*private=False"):
        model = fit("open")
    assert model.new_share_["target"] == pytest.approx(1 / 3, abs=0.02)
    X, y = clouds(range(6), n=20, seed=2, shift=1.0)
    assert (model.rejects(X) == (y >= 4)).mean() > 0.95
    codes = model.transform(X, "target")
    distances = (codes[:, None] != codes[None]).mean(axis=2)
    same = y[:, None] == y[None]
    assert distances[same].mean() < 0.1 < 0.3 < distances[~same].mean()
    packed = model.encode(X, "target")
    assert (model.rejects_codes(packed) == (y >= 4)).mean() > 0.95
    model.save(tmp_path / "model.bh")
    again = load(tmp_path / "model.bh")
    np.testing.assert_array_equal(again.rejection_score(X), model.rejection_score(X))
    np.testing.assert_array_equal(
        again.code_rejection_score(packed), model.code_rejection_score(packed)
    )


def test_a_closed_case_rejects_one_code_in_a_hundred_at_most():
    model = fit("closed")
    _, _, X_t, _ = task("closed")
    assert model.rejects_codes(model.encode(X_t, "target")).sum() <= 3  # of 240


def test_lacking_classes_are_told():
    with pytest.warns(CounterpartWarning, match="3 of 6 classes seem to have no rows in target"):
        model = fit("partial")
    assert model.shared_classes_ == [0, 1, 2]
    assert model.private_classes_ == {"source": [3, 4, 5], "target": []}


def few(y, n, seed=0):
    """Keep n labels per class."""
    order = np.random.default_rng(seed).permutation(len(y))
    chosen = np.concatenate([order[y[order] == c][:n] for c in np.unique(y)])
    known = np.full(len(y), -1)
    known[chosen] = y[chosen]
    return known


def fit_few(kind, n=5, y_target=None, **changes):
    X_s, y_s, X_t, _ = task(kind)
    model = ATH.propagated(16, random_state=0, **changes)
    return model.fit(X_s, X_t, y_source=few(y_s, n), y_target=y_target)


def test_few_labels_are_completed_before_the_test():
    with pytest.warns(CounterpartWarning, match="3 of 6 classes seem to have no rows in target"):
        model = fit_few("partial")
    assert model.private_classes_ == {"source": [3, 4, 5], "target": []}
    with pytest.warns(CounterpartWarning, match="33% of the rows of target resemble no class"):
        model = fit_few("open")
    X, y = clouds(range(6), n=20, seed=2, shift=1.0)
    assert (model.rejects(X) == (y >= 4)).mean() > 0.95


def test_few_labels_of_the_target_are_completed_too():
    X_s, y_s, X_t, _ = task("partial")
    with pytest.warns(CounterpartWarning, match="3 of 6 classes seem to have no rows in source"):
        ATH.propagated(16, random_state=0).fit(X_t, X_s, y_target=few(y_s, 5))


@pytest.mark.parametrize("both", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_closed_case_of_few_labels_gives_the_same_codes_as_without_the_test(both):
    X_s, _, X_t, y_t = task("closed")
    y_target = few(y_t, 3, seed=1) if both else None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tested = fit_few("closed", y_target=y_target)
    assert tested.rejectors_ is not None
    untested = fit_few("closed", y_target=y_target, completion=Propagation(private=False))
    for X, domain in ((X_s, "source"), (X_t, "target")):
        np.testing.assert_array_equal(tested.encode(X, domain), untested.encode(X, domain))


def test_fewer_than_three_labels_per_class_test_nothing():
    assert fit_few("closed", n=3).rejectors_ is not None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fit_few("partial", n=2).rejectors_ is None


def test_labels_that_do_not_find_each_other_test_nothing():
    X_s, y_s, X_t, _ = task("partial")
    known = few(y_s, 5)
    some = np.flatnonzero(known >= 0)[::5]  # a fifth of the labels moves to another class
    known[some] = (known[some] + 1) % N_CLASSES
    with warnings.catch_warnings():
        warnings.simplefilter("error", CounterpartWarning)
        model = ATH.propagated(16, random_state=0).fit(X_s, X_t, y_source=known)
    assert model.rejectors_ is None


def test_classes_that_only_the_other_domain_has_labels_of_are_no_problem():
    _, _, _, y_t = task("universal")  # the source has 0 to 4, the target 0, 1, 2 and 5
    with pytest.warns(CounterpartWarning, match="2 of 6 classes seem to have no rows in target"):
        model = fit_few("universal", y_target=few(y_t, 2, seed=1))
    assert model.shared_classes_ == [0, 1, 2]
    assert model.private_classes_ == {"source": [3, 4], "target": [5]}


def distance_to_lacking(**parameters):
    """Return the mean Hamming distance of target rows to the nearest row of a lacking class."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CounterpartWarning)
        model = fit("partial", **parameters)
    X_s, y_s, X_t, _ = task("partial")
    source, target = model.transform(X_s[y_s >= 3], "source"), model.transform(X_t, "target")
    return (target[:, None] != source[None]).sum(axis=2).min(axis=1).mean()


@pytest.mark.slow
def test_lacking_classes_stay_away_from_the_codes_of_the_others():
    assert distance_to_lacking() > distance_to_lacking(codes=BalancedCodes()) + 0.5


def test_rows_of_a_lacking_class_weigh_more():
    y = (np.array([0, 1, 2, -1]), np.array([0, 0, 0]))
    found = Private(np.array([False, False, True]), np.full(3, -1), None)
    X = (np.zeros((4, 1)), np.zeros((3, 1)))
    data = Domains(("a", "b"), X, y, private={1: found})
    weights = BalancedCodes(lacking_weight=0.5).begin(data, 8, (0.1, 1.0), None).weights
    np.testing.assert_array_equal(weights[0], [1, 1, 5, 1])  # class 1 has no row, but may have
    assert weights[1] is None
    assert BalancedCodes().begin(data, 8, (0.1, 1.0), None).weights == [None, None]


def test_classes_known_by_labels_are_compared_without_a_warning():
    X_s, y_s, X_t, y_t = task("partial")
    names = np.array(list("abcdef"))
    model = ATH.supervised(16).fit(X_s, X_t, y_source=names[y_s], y_target=names[y_t])
    assert model.shared_classes_ == ["a", "b", "c"]
    assert model.private_classes_["source"] == ["d", "e", "f"]


def test_domains_without_labels_have_no_counterparts_to_compare():
    assert Counterparts.of(Domains(("a", "b"), (None, None), (None, None))) is None


def test_a_model_that_tested_nothing_names_the_remedy():
    X_s, _, X_t, _ = task("closed")
    model = ATH.unsupervised(8).fit(X_s, X_t)
    with pytest.raises(InputError, match=r"fit ATH\.propagated with labels of the other domain"):
        model.rejection_score(X_t, "target")
    with pytest.raises(InputError, match="'photos' is not allowed"):
        model.rejects(X_t, "photos")
    with pytest.raises(InputError, match=r"fit ATH\.propagated with labels of the other domain"):
        model.code_rejection_score(model.encode(X_t, "target"))
    with pytest.raises(InputError, match="'photos' is not allowed"):
        model.rejects_codes(model.encode(X_t, "target"), "photos")
