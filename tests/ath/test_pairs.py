"""Known pairs: the map, partners of further rows, the start, one code per pair, `ATH.paired`."""

import numpy as np
import pytest
from scipy.stats import ortho_group

import bridgehash
from bridgehash import (
    ATH,
    GivenStart,
    PairCodes,
    PairStart,
    PartnerSearch,
    Procrustes,
    RidgeMap,
    RowsAndKernel,
    UnitRows,
)
from bridgehash._core.linalg import procrustes
from bridgehash.ath.memory import check_in_blocks
from bridgehash.ath.pairs import mutual_pairs, predictor, towards_procrustes
from bridgehash.ath.starts import StartContext
from bridgehash.codes import hamming
from bridgehash.models.training import Domains, TrainingData

SHAPES = pytest.mark.parametrize(("n", "d", "d_to"), [(40, 6, 9), (40, 9, 6), (7, 12, 10)])


def centred(rng, n, d):
    X = rng.normal(size=(n, d))
    return X - X.mean(axis=0)


def same(n):
    return np.column_stack([np.arange(n), np.arange(n)])


def two_views(n=700, n_query=150, seed=0):
    """Rows of one latent space seen by two models, noise of their own in each; queries of both.

    Variances fall as they do for embeddings of images, a few directions have most.
    """
    rng = np.random.default_rng(seed)
    sizes = 1.0 / np.arange(1, 31)
    latent = rng.normal(size=(n + n_query, 30))
    latent += 1.5 * rng.normal(size=(12, 30))[rng.integers(0, 12, n + n_query)]
    views = []
    for d in (60, 70):
        turn = ortho_group.rvs(d, random_state=d)[:30] * rng.uniform(0.6, 1.4, size=d)
        noise = 0.06 * rng.normal(size=(n + n_query, d))
        views.append((sizes * latent) @ turn + noise + 0.3 * rng.normal(size=d))
    (X_s, X_t) = views
    return X_s[:n], X_t[:n], X_s[n:], X_t[n:]


def recall(model, X_s, Q_s, Q_t):
    """Part of the ten nearest by the first model among the first ten by codes of the second."""
    U, V = UnitRows().fit_transform(X_s), UnitRows().fit_transform(Q_s)
    near = np.argsort(-V @ U.T, axis=1)[:, :10]
    D = hamming(model.encode(Q_t, "target"), model.encode(X_s, "source"))
    got = np.argsort(D, axis=1, kind="stable")[:, :10]
    return np.mean([len(set(a) & set(b)) for a, b in zip(near, got, strict=True)]) / 10


# --- the map


@SHAPES
@pytest.mark.parametrize("ridge", [0.01, 3.0])
def test_the_map_is_least_squares_with_rows_that_ask_for_the_rotation(n, d, d_to, ridge):
    rng = np.random.default_rng(0)
    X, Y = centred(rng, n, d), centred(rng, n, d_to)
    Q = procrustes(X.T @ Y, within_rank=True)
    both = np.vstack([X, np.sqrt(ridge) * np.eye(d)]), np.vstack([Y, np.sqrt(ridge) * Q])
    expected = np.linalg.lstsq(*both, rcond=None)[0]
    np.testing.assert_allclose(towards_procrustes(X, Y, ridge), expected, atol=1e-9)


@SHAPES
def test_a_large_ridge_gives_the_rotation_and_a_small_one_least_squares(n, d, d_to):
    rng = np.random.default_rng(1)
    X, Y = centred(rng, n, d), centred(rng, n, d_to)
    Q = procrustes(X.T @ Y, within_rank=True)
    np.testing.assert_allclose(towards_procrustes(X, Y, 1e12), Q, atol=1e-8)
    least = X @ np.linalg.lstsq(X, Y, rcond=None)[0]
    np.testing.assert_allclose(X @ towards_procrustes(X, Y, 1e-9), least, atol=1e-6)


@pytest.mark.parametrize("noise", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("n", [30, 9])
def test_the_ridge_of_the_prediction_is_the_best_for_rows_left_out(n, noise):
    """The twin leaves each row out, centres the others and solves again."""
    rng = np.random.default_rng(3)
    X = centred(rng, n, 12) / np.arange(1, 13)
    Y = X @ rng.normal(size=(12, 5)) + noise * centred(rng, n, 5)
    unit, errors = (X**2).sum() / n, {}
    for ridge in (0.03, 0.1, 0.3, 1.0, 3.0):
        left = [
            Y[i] - B.mean(axis=0) - (X[i] - A.mean(axis=0)) @ regression(A, B, ridge * unit)
            for i in range(n)
            for A, B in [(np.delete(X, i, 0), np.delete(Y, i, 0))]
        ]
        errors[ridge] = np.square(left).sum()
    best = min(errors, key=errors.get)
    turned = procrustes(X.T @ Y, within_rank=True) * np.linalg.norm(Y) / np.linalg.norm(X)
    expected = regression(X, Y, best * unit) + turned / 2
    np.testing.assert_allclose(predictor(X, Y), expected, atol=1e-12)


def regression(X, Y, ridge):
    X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    return np.linalg.solve(X.T @ X + ridge * np.eye(X.shape[1]), X.T @ Y)


def test_the_prediction_does_not_depend_on_the_scale_of_either_side():
    rng = np.random.default_rng(4)
    X, Y = centred(rng, 20, 6), centred(rng, 20, 4)
    np.testing.assert_allclose(predictor(3.0 * X, 5.0 * Y), predictor(X, Y) * 5.0 / 3.0)


# --- partners


@pytest.mark.parametrize(("n", "n_other"), [(25, 40), (40, 25), (6, 5)])
def test_partners_are_those_of_the_whole_table(n, n_other):
    rng = np.random.default_rng(n)
    X, Y = rng.normal(size=(n, 4)), rng.normal(size=(n_other, 4)) + 0.5
    G = UnitRows().fit_transform(X) @ UnitRows().fit_transform(Y).T
    k = min(3, n, n_other)
    crowd_x, crowd_y = np.sort(G, axis=1)[:, -k:].mean(axis=1), np.sort(G, axis=0)[-k:].mean(axis=0)
    C = 2 * G - crowd_x[:, None] - crowd_y
    expected = [(i, j) for i, j in enumerate(C.argmax(axis=1)) if C[:, j].argmax() == i]
    assert len(expected) > 1
    np.testing.assert_array_equal(mutual_pairs(X, Y, n_neighbors=k), expected)


def carried(X_s, X_t, pairs, **parameters):
    data = TrainingData(X_s, X_t, pairs=np.asarray(pairs))
    return PartnerSearch(**parameters).complete(data, rng=np.random.RandomState(0))


def test_partners_of_further_rows_are_found():
    X_s, X_t, *_ = two_views()
    order = np.random.default_rng(0).permutation(len(X_t))
    pairs = np.column_stack([order, np.arange(len(order))])  # row j shows what row order[j] shows
    found = carried(X_s, X_t[order], pairs[:100]).pairs
    np.testing.assert_array_equal(found[:100], pairs[:100])
    assert len(found) > 600
    assert (found[:, 0] == order[found[:, 1]]).mean() > 0.97
    assert len(carried(X_s, X_t[order], pairs[:100], max_rows=50).pairs) <= 150


def test_found_pairs_are_taken_only_where_held_out_ones_come_closer():
    X_s, X_t, *_ = two_views()
    pairs = same(150)
    assert len(carried(X_s, X_t, pairs).pairs) > 600
    noise = np.vstack([X_t[:150], np.random.default_rng(1).normal(size=(550, 70))])
    np.testing.assert_array_equal(carried(X_s, noise, pairs).pairs, pairs)


def test_without_further_rows_the_pairs_stay_as_they_are():
    X_s, X_t, *_ = two_views(n=50)
    np.testing.assert_array_equal(carried(X_s, X_t[:20], same(20)).pairs, same(20))


# --- the start


def context(X_s, X_t, pairs, n_bits=8):
    rng = np.random.RandomState(0)
    return StartContext(X_s, X_t, None, None, False, n_bits, 1.0, rng, pairs=pairs)


def test_directions_are_those_that_the_target_predicts():
    """Two directions of the source are seen by the target, two of larger variance are not."""
    rng = np.random.default_rng(5)
    X_s = rng.normal(size=(400, 4)) * [3.0, 3.0, 1.0, 1.0]
    X_t = X_s[:, 2:] @ ortho_group.rvs(2, random_state=0)
    start = PairStart(evenness=1e-3).begin(context(X_s, X_t, same(400), n_bits=2))
    energy = (start.A_s**2).sum(axis=1)
    assert energy[2:].sum() > 50 * energy[:2].sum()
    agree = np.sign(start.H_s) == np.sign(start.H_t)
    assert agree.mean() > 0.97


def test_large_directions_count_less_the_smaller_the_evenness():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(300, 5)) * [10.0, 1.0, 1.0, 1.0, 1.0]
    spread = [
        PairStart(evenness).begin(context(X, X, same(300), n_bits=16)).H_s
        for evenness in (1e-3, 10.0)
    ]
    ranks = [np.linalg.svd(H, compute_uv=False) for H in spread]
    assert ranks[0][1] / ranks[0][0] > 3 * ranks[1][1] / ranks[1][0]


def test_the_start_is_linear_and_of_size_one_in_the_source():
    X_s, X_t, *_ = two_views(n=80)
    start = PairStart().begin(context(X_s, X_t, same(40)))
    np.testing.assert_allclose(start.H_s, X_s @ start.A_s)
    np.testing.assert_allclose(start.H_t, X_t @ start.A_t)
    np.testing.assert_allclose(np.abs(start.H_s).mean(), 1.0)


# --- one code per pair


def test_rows_of_a_pair_share_the_code_nearest_to_both():
    """Against all codes of two bits; row 1 of the source has two partners, row 0 of either none."""
    rng = np.random.default_rng(7)
    H_s, H_t = rng.normal(size=(4, 2)), rng.normal(size=(5, 2))
    pairs = np.array([[1, 1], [1, 2], [3, 3]])
    data = Domains(("source", "target"), (H_s, H_t), (None, None), pairs)
    B_s, B_t = PairCodes().begin(data, 2, (0.5, 2.0), None).step([H_s, H_t])
    for rows, columns in (([1], [1, 2]), ([3], [3])):
        best = min(
            ([a, b] for a in (-1, 1) for b in (-1, 1)),
            key=lambda code: (
                0.5 * ((code - H_s[rows]) ** 2).sum() + 2.0 * ((code - H_t[columns]) ** 2).sum()
            ),
        )
        assert (B_s[rows] == best).all()
        assert (B_t[columns] == best).all()
    np.testing.assert_array_equal(B_s[[0, 2]], np.sign(H_s[[0, 2]]))
    np.testing.assert_array_equal(B_t[[0, 4]], np.sign(H_t[[0, 4]]))


# --- rows and kernel


def test_coordinates_of_the_kernel_have_its_inner_products():
    X = np.random.default_rng(8).normal(size=(60, 4))
    mapped = RowsAndKernel(60, random_state=0, weight=0.5).fit(X)
    Z = mapped.transform(X)
    np.testing.assert_array_equal(Z[:, :4], X)
    D = ((X[:, None] - X) ** 2).sum(axis=2)
    expected = 0.25 * np.exp(-D / mapped.kernel_.bandwidth_)
    np.testing.assert_allclose(Z[:, 4:] @ Z[:, 4:].T, expected, atol=1e-4)


def test_a_map_without_its_basis_gives_the_same_projections():
    X = np.random.default_rng(9).normal(size=(60, 4))
    mapped = RowsAndKernel(40, random_state=0).fit(X)
    A = np.random.default_rng(10).normal(size=(44, 3))
    plain, folded = mapped.folded(A)
    assert plain.basis_ is None
    np.testing.assert_allclose(plain.transform(X) @ folded, mapped.transform(X) @ A, atol=1e-9)


# --- ATH.paired


@pytest.mark.parametrize(
    ("n_pairs", "all_rows"),
    [
        (40, True),
        (500, False),
        pytest.param(40, False, marks=pytest.mark.slow),
        pytest.param(500, True, marks=pytest.mark.slow),
    ],
)
def test_it_finds_more_neighbours_than_a_ridge_map_or_a_rotation(n_pairs, all_rows):
    scores = np.zeros((2, 3))
    for seed in range(2):
        X_s, X_t, Q_s, Q_t = two_views(n=600, seed=seed)
        X_t = X_t if all_rows else X_t[:n_pairs]
        for i, make in enumerate((ATH.paired, RidgeMap, Procrustes)):
            model = make(32, random_state=0).fit(X_s, X_t, pairs=same(n_pairs))
            scores[seed, i] = recall(model, X_s, Q_s, Q_t)
    ours, *others = scores.mean(axis=0)
    assert ours > max(others) - (0.01 if n_pairs == 500 else 0.0)  # many pairs: nearly alike


def test_what_no_linear_map_predicts_is_learned():
    """The target sees the squares of what the source sees."""
    latent = np.random.default_rng(9).normal(size=(900, 3))
    X_s, X_t = latent**2, latent
    agree = []
    for feature_map in (None, "rows_and_anchors"):
        ath = ATH.paired(16, random_state=0, unit_rows=False, feature_map=feature_map)
        ath.fit(X_s[:700], X_t[:700], pairs=same(700))
        H_s, H_t = ath.transform(X_s[700:], "source"), ath.transform(X_t[700:], "target")
        agree.append((H_s == H_t).mean())
    assert agree[1] > 0.8 > agree[0] + 0.1


def test_it_stays_close_to_its_start():
    """Rounds without end or weight would shrink the codes to the few leading directions."""
    X_s, X_t, *_ = two_views()
    begun, gone = (
        ATH.paired(32, random_state=0, ridge=ridge).fit(X_s, X_t, pairs=same(200))
        for ridge in (1e9, 10.0)
    )
    changed = (begun.transform(X_s, "source") != gone.transform(X_s, "source")).mean()
    assert 0 < changed < 0.1


def test_some_wrong_pairs_and_pairs_named_twice_do_little_harm():
    X_s, X_t, Q_s, Q_t = two_views()
    pairs = same(200)
    right = recall(ATH.paired(32, random_state=0).fit(X_s, X_t, pairs=pairs), X_s, Q_s, Q_t)
    pairs[::20, 1] = np.roll(pairs[::20, 1], 1)
    pairs = np.vstack([pairs, pairs[:50]])
    spoilt = recall(ATH.paired(32, random_state=0).fit(X_s, X_t, pairs=pairs), X_s, Q_s, Q_t)
    assert spoilt > right - 0.03


def test_partners_do_not_depend_on_the_order_of_rows_and_pairs():
    X_s, X_t, _, Q_t = two_views(n=200)
    rng = np.random.default_rng(4)
    s, t, p = rng.permutation(200), rng.permutation(200), rng.permutation(60)
    place_s, place_t = np.argsort(s), np.argsort(t)
    moved = np.column_stack([place_s[p], place_t[p]])
    once = ATH.paired(16, random_state=0).fit(X_s, X_t, pairs=same(60))
    again = ATH.paired(16, random_state=0).fit(X_s[s], X_t[t], pairs=moved)
    np.testing.assert_allclose(
        again.decision_function(Q_t, "target"), once.decision_function(Q_t, "target"), atol=1e-6
    )


def test_classes_of_either_domain_play_no_part(tmp_path):
    X_s, X_t, _, Q_t = two_views(n=100)
    y = np.arange(100) % 3
    plain = ATH.paired(16, random_state=0).fit(X_s, X_t, pairs=same(40))
    named = ATH.paired(16, random_state=0).fit(X_s, X_t, pairs=same(40), y_source=y, y_target=y)
    np.testing.assert_array_equal(named.encode(Q_t, "target"), plain.encode(Q_t, "target"))
    plain.save(tmp_path / "model")
    loaded = bridgehash.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.encode(Q_t, "target"), plain.encode(Q_t, "target"))


# --- what is refused


@pytest.mark.parametrize("pairs", [None, np.empty((0, 2), dtype=int), [[0, 0]]])
def test_missing_pairs_are_asked_for(pairs):
    X_s, X_t, *_ = two_views(n=50)
    with pytest.raises(ValueError, match=r"pairs: [01] given; at least 2 are needed"):
        ATH.paired(8).fit(X_s, X_t, pairs=pairs)


@pytest.mark.parametrize(("column", "name"), [(0, "X_source"), (1, "X_target")])
def test_pairs_of_equal_rows_are_refused_by_name(column, name):
    X_s, X_t, *_ = two_views(n=50)
    pairs = same(10)
    pairs[:, column] = 3
    with pytest.raises(ValueError, match=f"pairs: all paired rows of {name} are equal"):
        ATH.paired(8).fit(X_s, X_t, pairs=pairs)


def test_centring_on_pairs_needs_all_rows_in_memory():
    with pytest.raises(ValueError, match="in blocks with center='pairs'"):
        check_in_blocks(ATH(8, center="pairs"))
    check_in_blocks(ATH(8))


@pytest.mark.filterwarnings("ignore::bridgehash.PairsWarning")
def test_pairs_that_become_equal_at_unit_norm_are_refused():
    X_s, X_t = np.array([[1.0], [2.0], [3.0], [-1.0]]), np.random.default_rng(0).normal(size=(3, 4))
    with pytest.raises(ValueError, match="pairs: no direction of the source follows the target"):
        ATH.paired(8).fit(X_s, X_t, pairs=same(3))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"start": GivenStart(np.ones((50, 50)))}, "ridge_towards: .start. needs a linear start"),
        ({"start": PairStart(evenness=0.0)}, "evenness"),
        ({"completion": PartnerSearch(n_rounds=0)}, "n_rounds"),
        ({"completion": "friends"}, "completion"),
    ],
)
def test_choices_that_do_not_go_together_are_refused(changes, message):
    X_s, X_t, *_ = two_views(n=50)
    with pytest.raises(ValueError, match=message):
        ATH.paired(8, **changes).fit(X_s, X_t, pairs=same(20))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bipartite": "pairs"}, "bipartite='pairs'"),
        ({"codes": "pairs"}, "codes='pairs'"),
        ({"center": "pairs"}, "center='pairs'"),
        ({"start": "pairs"}, "PairStart"),
    ],
)
def test_a_part_that_needs_pairs_asks_for_them(changes, message):
    X_s, X_t, *_ = two_views(n=50)
    with pytest.raises(ValueError, match=f"pairs: missing; {message}"):
        ATH(8, **changes).fit(X_s, X_t)


# --- real rows


@pytest.mark.slow
@pytest.mark.parametrize("all_rows", [False, True])
def test_on_photographs_it_beats_both_maps_by_neighbours(data_pack, all_rows):
    data = data_pack("pacs")
    order = np.random.default_rng(0).permutation(len(data["photo_y"]))
    old, new = (
        data[f"photo_{m}"].astype(np.float32)[order] for m in ("mobilenet_v1", "effnet_lite0")
    )
    n = 200
    X_t = new[300:] if all_rows else new[300 : 300 + n]
    scores = [
        recall(
            make(64, random_state=0).fit(old[300:], X_t, pairs=same(n)),
            old[300:],
            old[:300],
            new[:300],
        )
        for make in (ATH.paired, RidgeMap, Procrustes)
    ]
    assert scores[0] > max(scores[1:]) + (0.06 if all_rows else 0.02)


# --- items known in both views, codes of training rows


def test_an_item_known_in_both_views_gets_the_signs_of_the_sum():
    X_s, X_t, Q_s, Q_t = two_views(n=200)
    ath = ATH.paired(20, random_state=0).fit(X_s, X_t[:100], pairs=same(100))
    H = ath.decision_function(Q_s, "source") + ath.decision_function(Q_t, "target")
    np.testing.assert_array_equal(ath.encode_both(Q_s, Q_t), np.packbits(H > 0, axis=1))
    with pytest.raises(ValueError, match="X_target: 3 rows, but source has 5"):
        ath.encode_both(Q_s[:5], Q_t[:3])


def test_views_with_names_are_encoded_together():
    X_s, X_t, Q_s, Q_t = two_views(n=200)
    rows = {"pixels": X_s, "shapes": X_t, "mirrored": -X_t}
    ath = ATH.paired(20, random_state=0).fit(rows, pairs=np.repeat(np.arange(200)[:, None], 3, 1))
    given = {"pixels": Q_s, "shapes": Q_t, "mirrored": -Q_t}
    H = sum(ath.decision_function(Q, name) for name, Q in given.items())
    np.testing.assert_array_equal(ath.encode_both(given), np.packbits(H > 0, axis=1))


def test_codes_of_training_rows_are_those_of_the_fit():
    """One code per pair, and per class if labels are used, in both domains."""
    X_s, X_t, *_ = two_views(n=120)
    paired = ATH.paired(16, random_state=0).fit(X_s, X_t, pairs=same(120))
    np.testing.assert_array_equal(*paired.training_codes_.values())
    y = np.arange(120) % 4
    words = ATH.supervised(16, random_state=0).fit(X_s, X_t, y_source=y, y_target=y)
    np.testing.assert_array_equal(
        words.training_codes_["source"][:60], words.training_codes_["target"][60:]
    )
    assert len(np.unique(words.training_codes_["source"], axis=0)) == 4
