"""`fit` warns about inputs that cannot connect the domains, names the remedy, and not otherwise."""

import warnings

import numpy as np
import pytest

from bridgehash import (
    ATH,
    ClassesWarning,
    FeatureSpaceWarning,
    FewLabelsWarning,
    PairsWarning,
    as_blocks,
)
from bridgehash.ath.checks import checked_inputs, feature_spaces
from bridgehash.ath.pair_checks import above_chance, left_out_ranks, trusted
from bridgehash.ath.presets import choose_preset
from bridgehash.models.columns import columns_correspond
from bridgehash.models.training import Inputs, check_rows

N_COLUMNS = 60


def model_rows(n, seed, model=0, moved=0.0):
    """Rows of one embedding model: its columns are correlated in a way of their own."""
    rng, of_model = np.random.default_rng(seed), np.random.default_rng(1000 + model)
    mixing = of_model.normal(size=(12, N_COLUMNS)) / 3.0
    latent = rng.normal(size=(n, 12)) + moved * rng.normal(size=12)
    return np.maximum(latent @ mixing + 0.3 * rng.normal(size=(n, N_COLUMNS)), 0.0)


def two_views(n=300, seed=0, noise=0.05):
    """Two views of the same items, in rows that follow each other slowly, as in sorted files."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(2.0 * rng.normal(size=(6, 15)), -(-n // 6), axis=0)[:n]
    latent = rng.normal(size=(n, 15)) + groups
    return [latent @ rng.normal(size=(15, d)) + noise * rng.normal(size=(n, d)) for d in (40, 30)]


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def same(n):
    return np.column_stack([np.arange(n)] * 2)


def found(ath, X_source, X_target, **given):
    """Return the checked data and the warnings about it, without a fit."""
    inputs = Inputs.of(
        X_source, X_target, given.get("y_source"), given.get("y_target"), None, given.get("pairs")
    )
    data = inputs.checked(check_rows(inputs.X, inputs.arguments("X")))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        data = checked_inputs(ath, data)
    return data, [each.message for each in caught]


# --- labels


def labelled(seed=0):
    y = np.arange(40) % 4
    return model_rows(40, seed), model_rows(40, seed + 1), y


def fit_names(names_s, names_t):
    X_s, X_t, y = labelled()
    y_s, y_t = np.array(names_s)[y], np.array(names_t)[y]
    return ATH.supervised(8, random_state=0).fit(X_s, X_t, y_source=y_s, y_target=y_t)


@pytest.mark.parametrize(
    "names", [["Dog", "Cat", "Emu", "Polar_bear"], ["DOG ", "cAT", "EMU", "polar-BEAR"]]
)
def test_classes_in_another_spelling(names):
    with pytest.warns(ClassesWarning, match=r"no class in common.*4 differ only in case.*alike"):
        fit_names(names, ["dog", "cat", "emu", "polar bear"])


def test_one_class_in_another_spelling_is_enough():
    with pytest.warns(ClassesWarning, match="'Dog' and 'dog': write them alike"):
        fit_names(["Dog", "cat", "emu", "bear"], ["dog", "cat", "emu", "bear"])


def test_no_common_class():
    with pytest.warns(ClassesWarning, match=r"source has 'a', 'b', 'c', 'd' \(4\).*same names"):
        fit_names(["a", "b", "c", "d"], ["e", "f", "g", "h"])


def test_few_common_classes():
    X_s, X_t, _ = labelled()
    y = np.arange(40) % 10
    _, caught = found(ATH.kernel(), X_s, X_t, y_source=y, y_target=y + 8)
    assert [type(each) for each in caught] == [ClassesWarning]
    assert "only 2 of 10 classes" in str(caught[0])


@pytest.mark.parametrize("shift", [0, 1, 2])
def test_classes_that_one_domain_lacks_are_sound(shift):
    X_s, X_t, y = labelled()
    assert found(ATH.kernel(), X_s, X_t, y_source=y, y_target=y + shift)[1] == []


def test_classes_of_a_third_domain_are_compared_too():
    X_s, X_t, y = labelled()
    rows = {"photo": X_s, "sketch": X_t, "art": X_t}
    labels = {"photo": y, "sketch": y, "art": y + 10}
    data = Inputs.of(rows, None, None, None, labels, None).checked(list(rows.values()))
    with pytest.warns(ClassesWarning, match="labels of photo and sketch and art have no class"):
        checked_inputs(ATH.supervised(), data)


@pytest.mark.parametrize("preset", ["supervised", "kernel", "semi_supervised"])
def test_few_labels(preset):
    X_s, X_t, y = model_rows(300, 0), model_rows(300, 1), np.arange(300) % 4
    few = np.where(np.arange(300) < 21, y, -1)
    _, caught = found(getattr(ATH, preset)(), X_s, X_t, y_source=few, y_target=y)
    assert [type(each) for each in caught] == [FewLabelsWarning]
    assert "only 21 of 300 rows of the source are labelled" in str(caught[0])
    assert "ATH.propagated (--preset propagated)" in str(caught[0])
    assert found(ATH.propagated(), X_s, X_t, y_source=few, y_target=few)[1] == []


def test_most_labels_are_enough():
    X_s, X_t, y = labelled()
    most = np.where(np.arange(40) < 12, -1, y)
    assert found(ATH.supervised(), X_s, X_t, y_source=most, y_target=most)[1] == []


# --- feature spaces


@pytest.mark.parametrize("moved", [0.0, 1.0, 2.0])
def test_columns_of_one_model_correspond(moved):
    for seed in range(5):
        X, Y = model_rows(200, seed), model_rows(150, seed + 50, moved=moved)
        assert columns_correspond(X, Y)


def test_columns_of_two_models_do_not():
    for seed in range(5):
        X, Y = model_rows(200, seed), model_rows(150, seed + 50, model=1)
        assert not columns_correspond(X, Y)
        shuffled = np.random.default_rng(seed).permutation(N_COLUMNS)
        assert not columns_correspond(X, model_rows(150, seed + 50)[:, shuffled])


def test_rows_that_cannot_tell_are_taken_for_one_space(rng):
    few, other = model_rows(60, 0), model_rows(60, 1, model=1)
    assert columns_correspond(few, other)
    assert columns_correspond(rng.normal(size=(300, 40)), rng.normal(size=(300, 40)))
    assert columns_correspond(model_rows(300, 0)[:, :4], model_rows(300, 1, model=1)[:, :4])


def test_rows_in_blocks_are_looked_at_too():
    X, Y = (as_blocks(model_rows(200, k, model=k), 4096) for k in (0, 1))
    assert not columns_correspond(X, Y)


def test_two_models_of_equal_width_are_separate_spaces():
    X, Y = model_rows(200, 0), model_rows(150, 1, model=1)
    with pytest.warns(FeatureSpaceWarning, match="ATH.structural") as caught:
        auto = ATH.unsupervised(8, random_state=0).fit(X, Y)
    assert "60 columns each, but these do not correspond" in str(caught[0].message)
    assert "feature_space='same'" in str(caught[0].message)
    with pytest.warns(FeatureSpaceWarning, match="have different feature spaces"):
        separate = ATH.unsupervised(8, random_state=0, feature_space="separate").fit(X, Y)
    np.testing.assert_array_equal(auto.encode(X, "source"), separate.encode(X, "source"))
    with warnings.catch_warnings():
        warnings.simplefilter("error", FeatureSpaceWarning)
        ATH.unsupervised(8, random_state=0, feature_space="same").fit(X, Y)


def test_the_automatic_choice_looks_at_the_columns():
    X, Y, Z = model_rows(200, 0), model_rows(150, 1, model=1), model_rows(150, 2)
    assert choose_preset({"source": X, "target": Z})[0] == "unsupervised"
    chosen, reason = choose_preset({"source": X, "target": Y})
    assert (chosen, reason) == ("structural", "no labels, columns that do not correspond")


def test_propagation_across_two_models_is_told_and_structural_is_not():
    X, Y, y = model_rows(200, 0), model_rows(150, 1, model=1), np.arange(200) % 4
    data, caught = found(ATH.propagated(), X, Y, y_source=y)
    assert data.spaces == (0, 1)
    assert [type(each) for each in caught] == [FeatureSpaceWarning]
    data, caught = found(ATH.structural(), X, Y)
    assert (data.spaces, caught) == ((0, 1), [])


@pytest.mark.parametrize("preset", ["supervised", "kernel"])
def test_methods_that_compare_no_columns_are_not_checked(preset):
    X, Y = model_rows(200, 0), model_rows(150, 1, model=1)
    ath, labels = getattr(ATH, preset)(), (np.arange(200) % 4, np.arange(150) % 4)
    data, caught = found(ath, X, Y, y_source=labels[0], y_target=labels[1])
    assert (data.spaces, caught) == ((), [])


def test_a_third_domain_joins_the_space_it_has():
    rows = [model_rows(150, 0), model_rows(150, 1, model=1), model_rows(150, 2, moved=1.0)]
    inputs = Inputs.of(dict(zip("abc", rows, strict=True)), None, None, None, None, None)
    assert feature_spaces(inputs.checked(rows)) == (0, 1, 0)


@pytest.mark.parametrize("preset", ["unsupervised", "semi_supervised"])
def test_nothing_connects_two_widths(preset):
    X, Y, y = model_rows(90, 0), model_rows(90, 1)[:, :50], np.arange(90) % 3
    _, caught = found(getattr(ATH, preset)(), X, Y, y_source=y)
    assert [type(each) for each in caught] == [FeatureSpaceWarning]
    assert "use ATH.structural (--preset structural)" in str(caught[0])


# --- pairs


def test_right_pairs_are_silent_and_all_are_used():
    X_s, X_t = two_views()
    for n in (50, 200, 300):
        data, caught = found(ATH.paired(), X_s, X_t, pairs=same(n))
        assert (len(data.pairs), caught) == (n, [])


def test_shuffled_pairs():
    X_s, X_t = two_views()
    pairs = same(300)
    pairs[:, 1] = np.random.default_rng(0).permutation(300)
    with pytest.warns(PairsWarning, match=r"the 300 pairs of source and target are wrong.*Check"):
        ATH.paired(16, random_state=0).fit(X_s, X_t, pairs=pairs)


def test_few_pairs():
    X_s, X_t = two_views(noise=2.0)
    with pytest.warns(PairsWarning, match=r"the 6 pairs .* too few, or wrong.*give more pairs"):
        ATH.paired(16, random_state=0).fit(X_s, X_t, pairs=same(6))


@pytest.mark.parametrize(
    ("shift", "words"),
    [
        ([0, 1], "(target rows were one before|source rows were one further)"),
        ([0, -1], "(target rows were one further|source rows were one before)"),
    ],
)
def test_shifted_pairs(shift, words):
    X_s, X_t = two_views()
    with pytest.warns(PairsWarning, match=rf"are shifted: .* {words}. Correct the row numbers"):
        ATH.paired(16, random_state=0).fit(X_s, X_t, pairs=same(299)[1:] + shift)


def test_pairs_that_are_right_when_shifted_too_are_sound():
    """Rows i and i are pairs, and so are rows i - 1 and i - 1: which agree better is chance."""
    for seed in range(4):
        X_s, X_t = two_views(seed=seed)
        rows = 1 + np.random.default_rng(seed).permutation(299)[:200]
        assert found(ATH.paired(), X_s, X_t, pairs=np.column_stack([rows, rows]))[1] == []


def test_pairs_counted_from_one():
    X_s, X_t = two_views()
    order = np.random.default_rng(1).permutation(300)
    pairs = np.column_stack([order, np.arange(300)])  # row order[i] of the source is row i
    pairs = pairs[(pairs < 299).all(axis=1)] + 1
    _, caught = found(ATH.paired(), X_s, X_t[order], pairs=pairs)
    assert len(caught) == 1
    assert "both rows were one before, as if they were counted from 1" in str(caught[0])


def test_wrong_pairs_are_left_out():
    X_s, X_t = two_views()
    pairs, spoiled = same(300), np.arange(0, 300, 5)
    pairs[spoiled, 1] = np.roll(spoiled, 17)
    data, caught = found(ATH.paired(), X_s, X_t, pairs=pairs)
    assert [type(each) for each in caught] == [PairsWarning]
    assert "pairs that the others contradict are left out" in str(caught[0])
    right = data.pairs[:, 0] == data.pairs[:, 1]
    assert right.sum() > 0.9 * 240
    assert (~right).sum() < 0.2 * 60


def test_pairs_that_tell_little_are_all_kept():
    X_s, X_t = two_views(noise=25.0)
    data, caught = found(ATH.paired(), X_s, X_t, pairs=same(300))
    ranks = left_out_ranks(X_t - X_t.mean(axis=0), X_s - X_s.mean(axis=0))
    assert (ranks > 0.5).mean() > 0.04  # as if some were wrong
    assert (len(data.pairs), caught) == (300, [])


def test_ranks_of_unrelated_rows_are_those_of_chance(rng):
    z = [above_chance(left_out_ranks(*rng.normal(size=(2, 60, 10)))) for _ in range(40)]
    assert abs(np.mean(z)) < 0.7
    assert max(z) < 4.0


def test_pairs_in_a_periodic_order_are_judged_alike(rng):
    """Classes that follow each other in turn: no part of the pairs lacks one."""
    y = np.arange(90) % 3
    X, Y = (4.0 * rng.normal(size=(3, d))[y] + rng.normal(size=(90, d)) for d in (8, 6))
    assert left_out_ranks(X, Y).mean() < 0.25


def test_ranks_of_rows_that_follow_from_each_other_are_zero(rng):
    X = rng.normal(size=(60, 5))
    ranks = left_out_ranks(X, X @ rng.normal(size=(5, 8)))
    assert ranks.max() < 0.1
    assert trusted(X, X, ranks).all()
