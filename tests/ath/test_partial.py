"""Further labelled rows, learned without the earlier ones."""

import pickle

import numpy as np
import pytest

from bridgehash import ATH, InputError, load
from tests.ath.test_frozen import BITS, drawn, precision


@pytest.fixture
def rows():
    (X, Z, _), y = drawn(11, n=300)
    return X, Z, y


@pytest.mark.parametrize("preset", ["supervised", "kernel"])
def test_the_sums_of_one_batch_give_the_fit_of_that_batch(rows, preset):
    X, Z, y = rows
    model = getattr(ATH, preset)(BITS, random_state=0)
    model.partial_fit(X, Z, y_source=y, y_target=y)
    for name, encoder in model.encoders_.items():
        again = model._sums[name].encoder(encoder)
        np.testing.assert_allclose(again.mean, encoder.mean, atol=1e-9)
        np.testing.assert_allclose(again.projection, encoder.projection, atol=1e-6)


def test_batches_give_the_fit_of_all_rows(rows):
    """The same words, ridge and scale: only the weights of classes come from fewer rows."""
    X, Z, y = rows
    model = ATH.supervised(BITS, random_state=0)
    model.partial_fit(X[:150], Z[:150], y_source=y[:150], y_target=y[:150])
    model.partial_fit(X[150:220], Z[150:], y_source=y[150:220], y_target=y[150:])
    model.partial_fit({"source": X[220:]}, y={"source": y[220:]})
    whole = ATH.supervised(BITS, random_state=0, ridge=model.ridges_["source"])
    whole.fit(X, Z, y_source=y, y_target=y, initial=model)
    np.testing.assert_array_equal(whole.class_codes_, model.class_codes_)
    for name, each in (("source", X), ("target", Z)):
        assert (whole.transform(each, name) != model.transform(each, name)).mean() < 0.01


def test_more_rows_improve_the_search(rows):
    X, Z, y = rows
    model = ATH.supervised(BITS, random_state=0)
    model.partial_fit(X[:12], Z[:12], y_source=y[:12], y_target=y[:12])
    before = precision(model.encode(Z, "target"), model.encode(X, "source"), y, y)
    model.partial_fit(X[12:], Z[12:], y_source=y[12:], y_target=y[12:])
    after = precision(model.encode(Z, "target"), model.encode(X, "source"), y, y)
    assert after > before
    assert 0 < model.changed_bits_["source"] < 0.5


def test_a_domain_without_new_rows_does_not_change(rows):
    X, Z, y = rows
    model = ATH.kernel(BITS, random_state=0)
    model.partial_fit(X, Z[:100], y_source=y, y_target=y[:100])
    codes, space = model.encode(X, "source"), model.code_space()
    model.partial_fit(X_target=Z[100:], y_target=y[100:])
    np.testing.assert_array_equal(model.encode(X, "source"), codes)
    assert model.code_space() == space


@pytest.mark.parametrize("text", [False, True])
def test_a_new_class_gets_a_word_of_its_own(rows, text):
    X, Z, y = rows
    known = y != 1
    y = np.array(["a", "b", "c", "d", "e", "f"])[y] if text else y
    model = ATH.supervised(BITS, random_state=0)
    model.partial_fit(X[known], Z[known], y_source=y[known], y_target=y[known])
    words = dict(zip(model.classes_, model.class_codes_.tolist(), strict=True))
    model.partial_fit(X[~known], Z[~known], y_source=y[~known], y_target=y[~known])
    assert model.classes_ == np.unique(y).tolist()
    after = dict(zip(model.classes_, model.class_codes_.tolist(), strict=True))
    assert words.items() <= after.items()
    assert precision(model.encode(Z, "target"), model.encode(X, "source"), y, y) > 0.9


def test_rows_come_in_any_form_that_fit_takes(rows, tmp_path):
    X, Z, y = rows
    np.save(tmp_path / "rows.npy", X)
    labels, codes = {"y_source": y, "y_target": y}, []
    for form in (X, X.tolist(), tmp_path / "rows.npy"):
        model = ATH.supervised(BITS, random_state=0).partial_fit(form, Z, **labels)
        model.partial_fit(form, y_source=y)
        codes.append(model.join("more", form, y=y).encode(X, "more"))
    for other in codes[1:]:
        np.testing.assert_array_equal(other, codes[0])


def test_rows_without_a_label_do_not_count(rows):
    X, Z, y = rows
    one, other = (ATH.supervised(BITS, random_state=0) for _ in range(2))
    for model in (one, other):
        model.partial_fit(X[:200], Z[:200], y_source=y[:200], y_target=y[:200])
    partly = np.where(np.arange(100) < 60, y[200:], -1)
    one.partial_fit(X[200:], y_source=partly)
    other.partial_fit(X[200:260], y_source=y[200:260])
    np.testing.assert_array_equal(one.encode(X, "source"), other.encode(X, "source"))


def test_what_cannot_be_continued_is_refused(rows, tmp_path):
    X, Z, y = rows
    labels = {"y_source": y, "y_target": y}
    unfitted = ATH.unsupervised(BITS, random_state=0)
    with pytest.raises(InputError, match=r"class words alone.*initial=model"):
        unfitted.partial_fit(X, X + 1.0, **labels)
    assert not hasattr(unfitted, "encoders_")
    with pytest.raises(InputError, match="RowsAndKernel cannot be used"):
        ATH.kernel(BITS, feature_map="rows_and_anchors").partial_fit(X, Z, **labels)
    fitted = ATH.supervised(BITS, random_state=0).fit(X, Z, **labels)
    with pytest.raises(InputError, match=r"initial=model\) with all rows"):
        fitted.partial_fit(X, y_source=y)
    model = ATH.supervised(BITS, random_state=0).partial_fit(X, Z, **labels)
    model.save(tmp_path / "model.bh")
    with pytest.raises(InputError, match="it was loaded"):
        load(tmp_path / "model.bh").partial_fit(X, y_source=y)
    pickle.loads(pickle.dumps(model)).partial_fit(X, y_source=y)
    before = model.encode(X, "source")
    for wrong, message in (
        ({"X_source": X}, "needs labels of source"),
        ({"X_source": {"photo": X}, "y": {"photo": y}}, "unknown domain"),
        ({"X_source": X, "y_source": np.array(["a"] * len(X))}, "is no class like"),
        ({"X_source": X, "y_source": np.full(len(X), -1)}, "no row has a label"),
        (
            {"X_source": X, "y_source": y, "X_target": Z[:, 1:], "y_target": y + 9},
            "columns; target",
        ),
    ):
        with pytest.raises(InputError, match=message):
            model.partial_fit(**wrong)
    np.testing.assert_array_equal(model.encode(X, "source"), before)
    assert model.classes_ == np.unique(y).tolist()
