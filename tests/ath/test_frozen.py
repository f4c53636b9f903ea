"""Codes that stay: frozen domains, domains that join, several domains in one model."""

import numpy as np
import pytest

from bridgehash import ATH, ITQ, InputError, LinearEncoder, StructuralStart, load
from bridgehash.ath.class_codes import BalancedCodes, ClassCodes, PairCodes
from bridgehash.codes import hamming, pack, unpack
from bridgehash.models.training import Domains

N_CLASSES = 4
BITS = 24


def drawn(seed=0, n=160, widths=(12, 9, 15)):
    """Rows of several feature spaces that show the same items, and their classes."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % N_CLASSES
    items = 3.0 * rng.normal(size=(N_CLASSES, 6))[y] + rng.normal(size=(n, 6))
    views = [items @ rng.normal(size=(6, d)) + 0.1 * rng.normal(size=(n, d)) for d in widths]
    return views, y


def same(*rows):
    return np.column_stack(rows)


def precision(queries, codes, y_query, y):
    """Share of the five nearest codes that have the class of the query."""
    nearest = np.argsort(hamming(queries, codes), axis=1, kind="stable")[:, :5]
    return float((y[nearest] == y_query[:, None]).mean())


@pytest.fixture(scope="module")
def itq():
    (X, *_), _ = drawn()
    return ITQ(BITS, random_state=0).fit(X)


# --- a frozen side


SUPERVISION = {  # what connects the new domain with the frozen one
    "paired": {"pairs": same(np.arange(60), np.arange(60))},
    "kernel": {"y_source": True, "y_target": True},
    "adopted": {"y_source": True, "y_target": "few"},
    "propagated": {"y_source": True, "y_target": "few"},
}


def supervision(preset, y):
    given = {}
    for name, what in SUPERVISION[preset].items():
        few = np.where(np.arange(len(y)) < 5 * N_CLASSES, y, -1)
        given[name] = y if what is True else few if isinstance(what, str) else what
    return given


@pytest.mark.parametrize("frozen", ["encoder", "model", "codes", "codes without rows", "both"])
@pytest.mark.parametrize("preset", SUPERVISION)
def test_new_rows_find_frozen_codes(itq, preset, frozen):
    (X, Z, _), y = drawn()
    codes = itq.encode(X)
    given = {
        "encoder": itq.encoder_,
        "model": itq,
        "codes": codes,
        "codes without rows": codes,
        "both": (itq, codes),
    }[frozen]
    rows = None if frozen == "codes without rows" else X
    ath = getattr(ATH, preset)(BITS, random_state=0)
    ath.fit(rows, Z, frozen={"source": given}, **supervision(preset, y))
    found = precision(ath.encode(Z, "target"), codes, y, y)
    assert found > 0.85
    if frozen in ("encoder", "model", "both"):
        np.testing.assert_array_equal(ath.encode(X, "source"), codes)
        np.testing.assert_array_equal(itq.encode(X), codes)
    else:
        assert list(ath.encoders_) == ["target"]
        with pytest.raises(InputError, match="'source' is not allowed; use 'target'"):
            ath.encode(X, "source")
    np.testing.assert_array_equal(ath.training_codes_["source"], codes)


@pytest.mark.filterwarnings("ignore:the two domains could not be matched")
def test_a_match_by_structure_serves_frozen_codes_as_well_as_new_ones():
    (X, Z, _), y = drawn(1, n=100)
    itq, start = ITQ(BITS, random_state=0).fit(X), StructuralStart(n_starts=4)
    found = []
    for frozen in (None, {"source": itq}, {"source": itq.encode(X)}):
        ath = ATH.structural(BITS, random_state=0, start=start).fit(X, Z, frozen=frozen)
        codes = itq.encode(X) if frozen else ath.encode(X, "source")
        found.append(precision(ath.encode(Z, "target"), codes, y, y))
    assert min(found[1:]) > found[0] - 0.1 > 0.4


def test_rows_of_the_same_features_need_no_labels(itq):
    """Without supervision the new domain begins at the frozen hash function, about its own mean."""
    (X, *_), y = drawn()
    moved = X[:80] + 10.0
    ath = ATH.unsupervised(BITS, random_state=0).fit(X, moved, frozen={"source": itq})
    codes = itq.encode(X)
    assert precision(ath.encode(moved, "target"), codes, y[:80], y) > 0.9
    assert precision(itq.encode(moved), codes, y[:80], y) < 0.9


def test_either_domain_can_be_frozen(itq):
    (X, Z, _), y = drawn()
    ath = ATH.kernel(BITS, random_state=0).fit(Z, X, y_source=y, y_target=y, frozen={"target": itq})
    assert precision(ath.encode(Z, "source"), itq.encode(X), y, y) > 0.9
    np.testing.assert_array_equal(ath.encode(X, "target"), itq.encode(X))


@pytest.mark.parametrize("n_bits", [1, 7, 64, 1024])
def test_codes_of_any_length_can_be_followed(n_bits):
    (_, Z, _), y = drawn()
    rng = np.random.default_rng(n_bits)
    words = rng.choice([-1, 1], size=(N_CLASSES, n_bits))
    words[0] = -words[1]
    codes = pack(words[y])
    ath = ATH.kernel(n_bits, random_state=0)
    ath.fit(None, Z, y_source=y, y_target=y, frozen={"source": codes})
    wrong = hamming(ath.encode(Z, "target"), codes).diagonal() / n_bits
    assert wrong.mean() < 0.02


def test_unbalanced_bits_keep_their_share():
    """A bit that is +1 for nine of ten frozen rows is so for nine of ten new rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5))
    encoder = LinearEncoder(np.eye(5), np.quantile(X, 0.1, axis=0))
    ath = ATH.unsupervised(5, random_state=0).fit(X, X[::-1].copy(), frozen={"source": encoder})
    shares = (ath.transform(X, "target") > 0).mean(axis=0)
    np.testing.assert_allclose(shares, 0.9, atol=0.05)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"frozen": ITQ(8)}, "frozen: is a mapping"),
        ({"frozen": {"photo": None}}, "frozen: unknown domain 'photo'"),
        ({"frozen": {"source": np.zeros((160, 4), np.uint8)}}, "packed codes of 24 bits"),
        ({"frozen": {"source": np.zeros((160, 3))}}, "packed codes of 24 bits"),
        ({"frozen": {"source": np.zeros((5, 3), np.uint8)}}, "160 rows, but 5 frozen codes"),
        ({"frozen": {"source": LinearEncoder(np.eye(12), np.zeros(12))}}, "has 12 bits"),
        ({"frozen": {"source": LinearEncoder(np.ones((3, 24)), np.zeros(3))}}, "encoder takes 3"),
        ({"frozen": {"source": "itq", "target": "itq"}}, "frozen.'source'.: type"),
        ({"X_source": None, "frozen": {"source": LinearEncoder(np.ones((12, 24)), np.zeros(12))}},
         "rows of source are needed"),
        ({"frozen": {"source": np.zeros((160, 3), np.uint8)}, "memory_limit": "9GiB"},
         "cannot be used with memory_limit"),
    ],
)  # fmt: skip
def test_what_cannot_be_frozen_is_refused(changes, message):
    (X, Z, _), y = drawn()
    given = {"X_source": X, "X_target": Z, "y_source": y, "y_target": y} | changes
    with pytest.raises(InputError, match=message):
        ATH.supervised(BITS, random_state=0).fit(**given)


def test_spare_bits_of_given_codes_must_be_zero():
    (_, Z, _), y = drawn()
    codes = np.full((160, 1), 255, np.uint8)
    with pytest.raises(InputError, match="more than 7 bits"):
        ATH.supervised(7).fit(None, Z, y_source=y, y_target=y, frozen={"source": codes})


def test_nothing_connects_two_spaces_without_supervision(itq):
    (X, Z, _), _ = drawn()
    with pytest.raises(InputError, match=r"give labels or pairs, or use ATH.structural"):
        ATH.unsupervised(BITS).fit(X, Z, frozen={"source": itq})


def test_labels_without_a_common_class_are_refused(itq):
    (X, Z, _), y = drawn()
    with pytest.raises(InputError, match="no class in common"):
        ATH.kernel(BITS).fit(X, Z, y_source=y, y_target=y + 10, frozen={"source": itq})


# --- rules of the codes


def three(y, codes=()):
    rows = tuple(np.zeros((len(y), 2)) for _ in range(3))
    return Domains(("a", "b", "c"), rows, (y, y, y), None, None, codes)


def test_a_class_keeps_the_majority_of_its_given_codes():
    y = np.array([0, 0, 0, 1, 1, 2])
    B = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1], [-1, -1], [1, 1]], dtype=float)
    given = three(np.where(y < 2, y, -1), (B, None, None))
    y_new = np.array([0, 1, 2, 2, 0, 1])
    data = Domains(given.names, given.X, (given.y[0], y_new, y_new), None, None, given.codes)
    codes = ClassCodes().begin(data, 2, (1.0, 1.0, 1.0), np.random.RandomState(0))
    rng = np.random.default_rng(0)
    for _ in range(3):
        B_new = codes.step([rng.normal(size=(6, 2)) for _ in range(3)])[1]
        np.testing.assert_array_equal(B_new[y_new == 0], [[1, 1]] * 2)
        np.testing.assert_array_equal(B_new[y_new == 1], [[-1, -1]] * 2)


def test_rows_of_a_group_of_three_share_the_code_nearest_to_all():
    rng = np.random.default_rng(1)
    H = [rng.normal(size=(4, 3)) for _ in range(3)]
    table = np.array([[0, 1, 2], [3, -1, 0], [-1, 1, 3]])  # rows 2 and 3 of c share 1 of b
    data = Domains(("a", "b", "c"), tuple(H), (None,) * 3, table)
    codes = PairCodes().begin(data, 3, (1.0, 2.0, 0.5), None)
    B = codes.step(H)
    group = H[0][0] + 2.0 * H[1][1] + 0.5 * (H[2][2] + H[2][3])
    for row in (B[0][0], B[1][1], B[2][2], B[2][3]):
        np.testing.assert_array_equal(row, np.sign(group))
    np.testing.assert_array_equal(B[0][3], np.sign(H[0][3] + 0.5 * H[2][0]))
    np.testing.assert_array_equal(B[1][0], np.sign(H[1][0]))


def test_signs_have_the_shares_of_given_codes():
    rng = np.random.default_rng(2)
    B = np.where(rng.random((400, 3)) < [0.1, 0.5, 0.8], 1.0, -1.0)
    data = Domains(("a", "b"), (B, B), (None, None), codes=(B, None))
    H = rng.normal(size=(1000, 3)) + 7.0
    found = BalancedCodes(0.15).begin(data, 3, (1.0, 1.0), None).step([B, H])[1]
    np.testing.assert_allclose((found > 0).mean(axis=0), (B > 0).mean(axis=0), atol=2e-3)


# --- several domains in one model


@pytest.mark.parametrize("hub", [None, "second"])
@pytest.mark.parametrize("preset", ["kernel", "supervised", "propagated", "semi_supervised"])
def test_three_domains_with_labels(preset, hub):
    views, y = drawn(widths=(8, 8, 8) if preset == "semi_supervised" else (12, 9, 15))
    if preset == "semi_supervised":
        views = [views[0] + shift for shift in (0.0, 3.0, -3.0)]
    names = ("first", "second", "third")
    labels = dict.fromkeys(names, y)
    model = getattr(ATH, preset)(BITS, random_state=0)
    model.fit(dict(zip(names, views, strict=True)), y=labels, hub=hub)
    codes = [model.encode(X, name) for name, X in zip(names, views, strict=True)]
    for i in range(3):
        for j in range(3):
            assert precision(codes[i], codes[j], y, y) > 0.9, (i, j)


def test_three_domains_by_pairs_given_as_table_or_by_two():
    views, y = drawn()
    names = ("first", "second", "third")
    X = dict(zip(names, views, strict=True))
    rows = np.arange(100)
    table = ATH.paired(BITS, random_state=0).fit(X, pairs=same(rows, rows, rows))
    partly = np.column_stack(
        [np.r_[rows, rows], np.r_[rows, 0 * rows - 1], np.r_[0 * rows - 1, rows]]
    )
    two = {("first", "second"): same(rows, rows), ("first", "third"): same(rows, rows)}
    by_two = ATH.paired(BITS, random_state=0).fit(X, pairs=two)
    whole = ATH.paired(BITS, random_state=0).fit(X, pairs=partly)
    for name in names:
        np.testing.assert_array_equal(by_two.encode(X[name], name), whole.encode(X[name], name))
        assert precision(table.encode(X[name], name), table.encode(X["third"], "third"), y, y) > 0.8


def test_two_named_domains_are_source_and_target():
    (X, Z, _), y = drawn()
    named = ATH.kernel(BITS, random_state=0).fit({"old": X, "new": Z}, y={"old": y, "new": y})
    plain = ATH.kernel(BITS, random_state=0).fit(X, Z, y_source=y, y_target=y)
    np.testing.assert_array_equal(named.encode(X, "old"), plain.encode(X, "source"))
    np.testing.assert_array_equal(named.encode(Z, "new"), plain.encode(Z, "target"))


@pytest.mark.parametrize(
    ("X", "changes", "message"),
    [
        ({"a": 0}, {}, "1 domain; at least two"),
        ({"a": 0, "": 1}, {}, "'' cannot name a domain"),
        ({"a": 0, "b/c": 1}, {}, "'b/c' cannot name a domain"),
        ({"a": 0, "b": 1}, {"y_source": True}, "y_source: goes with X_source alone"),
        ({"a": 0, "b": 1}, {"y": {"c": True}}, "y: unknown domain 'c'"),
        ({"a": 0, "b": 1}, {"hub": "c"}, "hub: unknown domain 'c'"),
        ({"a": 0, "b": 1}, {"pairs": {("a", "c"): [[0, 0]]}}, "not a pair of domains"),
        ({"a": 0, "b": 1, "c": 2}, {"pairs": [[0, 0]]}, "3 whole numbers"),
        ({"a": 0, "b": 1, "c": 2}, {"pairs": [[0, 0, 999]]}, "rows of the c outside"),
    ],
)
def test_domains_that_cannot_be_used_are_refused(X, changes, message):
    views, y = drawn()
    rows = {name: views[number] for name, number in X.items()}
    given = {key: y if value is True else value for key, value in changes.items()}
    if given.get("y") == {"c": True}:
        given["y"] = {"c": y}
    with pytest.raises(InputError, match=message):
        ATH.paired(BITS).fit(rows, **given)


# --- domains that join


@pytest.fixture(scope="module")
def model():
    (X, Z, _), y = drawn()
    return ATH.kernel(BITS, random_state=0).fit(
        {"photo": X, "sketch": Z}, y={"photo": y, "sketch": y}
    )


def copied(model, tmp_path):
    model.save(tmp_path / "model.bh")
    return load(tmp_path / "model.bh")


@pytest.mark.parametrize("case", ["classes", "labels", "few", "none of its own", "pairs", "codes"])
def test_a_domain_joins_without_changing_codes(model, tmp_path, case):
    (X, Z, V), y = drawn()
    joined = copied(model, tmp_path)
    before = joined.encode(X, "photo"), joined.encode(Z, "sketch")
    few = np.where(np.arange(len(y)) < 5 * N_CLASSES, y, -1)
    rows = np.arange(80)
    given = {
        "classes": {"y": y},
        "labels": {"X_to": X, "y": y, "y_to": y},
        "few": {"X_to": X, "y": few, "y_to": y},
        "none of its own": {"X_to": X, "y_to": y},
        "pairs": {"to": "sketch", "X_to": Z, "pairs": same(rows, rows)},
        "codes": {"codes_to": before[0], "pairs": same(rows, rows)},
    }[case]
    V = X + 1.0 if case == "none of its own" else V
    joined.join("art", V, **given)
    joined = copied(joined, tmp_path)
    assert list(joined.encoders_) == ["photo", "sketch", "art"]
    np.testing.assert_array_equal(joined.encode(X, "photo"), before[0])
    np.testing.assert_array_equal(joined.encode(Z, "sketch"), before[1])
    assert joined.code_space() == model.code_space()
    assert precision(joined.encode(V, "art"), before[0], y, y) > 0.9


def test_a_new_class_gets_a_code_of_its_own(model, tmp_path):
    (*_, V), y = drawn()
    names = np.where(y == 3, 7, y)  # class 7 is unknown to the model
    joined = copied(model, tmp_path).join("art", V, y=names)
    assert joined.classes_ == [0, 1, 2, 3, 7]
    distances = hamming(joined.class_codes_, joined.class_codes_)
    assert (distances[~np.eye(5, dtype=bool)] > BITS // 5).all()
    nearest = hamming(joined.encode(V, "art"), joined.class_codes_).argmin(axis=1)
    assert (np.array(joined.classes_)[nearest] == names).mean() > 0.95


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "photo"}, "'photo' is a domain of this model"),
        ({"name": "a=b"}, "cannot name a domain"),
        ({"to": "music"}, "to: unknown domain 'music'"),
        ({"y": None}, "X_to: missing; no labels of art need rows or codes of photo"),
        ({"pairs": [[0, 0]]}, "X_to: missing; pairs of art"),
        ({"method": ATH.kernel(8)}, "method: has 8 bits, the model 24"),
    ],
)
def test_what_cannot_join_is_refused(model, changes, message):
    (*_, V), y = drawn()
    with pytest.raises(InputError, match=message):
        model.join(**{"name": "art", "X": V, "y": y} | changes)
    assert list(model.encoders_) == ["photo", "sketch"]


def test_a_model_without_classes_asks_for_rows(itq):
    (X, Z, V), y = drawn()
    rows = np.arange(60)
    model = ATH.paired(BITS, random_state=0).fit(X, Z, pairs=same(rows, rows))
    with pytest.raises(InputError, match="has learned no classes: give rows of source"):
        model.join("art", V, y=y)


# --- whose codes can be compared


def test_the_code_space_is_that_of_what_was_frozen(itq, model):
    (X, Z, _), y = drawn()
    frozen = ATH.kernel(BITS, random_state=0).fit(
        X, Z, y_source=y, y_target=y, frozen={"source": itq}
    )
    assert frozen.code_space() == itq.encoder_.fingerprint()
    again = ATH.kernel(BITS, random_state=0).fit(
        {"photo": X, "sketch": Z}, y={"photo": y, "sketch": y}
    )
    assert again.code_space() == model.code_space()
    other = ATH.kernel(BITS, random_state=1).fit(
        {"photo": X, "sketch": Z}, y={"photo": y, "sketch": y}
    )
    assert other.code_space() != model.code_space()


def test_class_codes_are_majorities():
    (X, Z, _), y = drawn()
    ath = ATH.unsupervised(BITS, random_state=0, feature_space="separate").fit(X, Z, y_source=y)
    B = unpack(ath.training_codes_["source"], BITS)
    sums = np.array([B[y == c].astype(int).sum(axis=0) for c in range(N_CLASSES)])
    np.testing.assert_array_equal(unpack(ath.class_codes_, BITS), np.where(sums > 0, 1, -1))
