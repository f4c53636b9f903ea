"""A fit that stays close to an earlier model."""

import numpy as np
import pytest

from bridgehash import ATH, ITQ, InputError
from tests.ath.test_frozen import BITS, drawn, precision, same

PRESETS = {  # largest share of bits that may change with a tenth more rows
    "kernel": 0.03,
    "supervised": 0.03,
    "unsupervised": 0.15,
    "paired": 0.05,
}


def given(preset, y, n):
    if preset == "paired":
        return {"pairs": same(np.arange(n), np.arange(n))}
    return {} if preset == "unsupervised" else {"y_source": y[:n], "y_target": y[:n]}


@pytest.mark.parametrize("preset", PRESETS)
def test_more_rows_change_few_bits(preset):
    (X, Z, _), y = drawn(3, n=400)
    if preset == "unsupervised":
        Z = X + 1.0
    make = getattr(ATH, preset)
    old = make(BITS, random_state=0).fit(X[:360], Z[:360], **given(preset, y, 360))
    new = make(BITS, random_state=1).fit(X, Z, initial=old, **given(preset, y, 400))
    again = make(BITS, random_state=1).fit(X, Z, **given(preset, y, 400))
    for name, rows in (("source", X), ("target", Z)):
        share = (new.transform(rows, name) != old.transform(rows, name)).mean()
        assert share == pytest.approx(new.changed_bits_[name])
        assert share < PRESETS[preset]
        assert (again.transform(rows, name) != old.transform(rows, name)).mean() > 0.2
    found = [precision(m.encode(Z, "target"), m.encode(X, "source"), y, y) for m in (new, again)]
    assert found[0] > found[1] - 0.03


def test_a_new_class_changes_only_itself():
    (X, Z, _), y = drawn(4, n=400)
    known = y < 3
    old = ATH.kernel(BITS, random_state=0)
    old.fit(X[known], Z[known], y_source=y[known], y_target=y[known])
    new = ATH.kernel(BITS, random_state=0).fit(X, Z, y_source=y, y_target=y, initial=old)
    share = (new.transform(X[known], "source") != old.transform(X[known], "source")).mean()
    assert share < 0.02
    np.testing.assert_array_equal(new.class_codes_[:3], old.class_codes_)
    assert precision(new.encode(Z, "target"), new.encode(X, "source"), y, y) > 0.95


def test_wrong_labels_that_are_corrected_do_change_codes():
    """Close to the earlier model means as close as the data allow."""
    (X, Z, _), y = drawn(5, n=400)
    wrong = np.where(y == 0, 1, y)
    old = ATH.kernel(BITS, random_state=0).fit(X, Z, y_source=wrong, y_target=wrong)
    new = ATH.kernel(BITS, random_state=0).fit(X, Z, y_source=y, y_target=y, initial=old)
    moved = (new.encode(X, "source") != old.encode(X, "source")).any(axis=1)
    assert max(moved[y == 0].mean(), moved[y == 1].mean()) > 0.95  # one keeps the common word
    assert moved[y > 1].mean() < 0.2
    assert precision(new.encode(Z, "target"), new.encode(X, "source"), y, y) > 0.95


def test_a_third_domain_begins_beside_an_earlier_model():
    (X, Z, V), y = drawn(6)
    labels = {"a": y, "b": y}
    old = ATH.kernel(BITS, random_state=0).fit({"a": X, "b": Z}, y=labels)
    new = ATH.kernel(BITS, random_state=0)
    new.fit({"a": X, "b": Z, "c": V}, y=labels | {"c": y}, initial=old)
    assert list(new.changed_bits_) == ["a", "b"]
    assert max(new.changed_bits_.values()) < 0.02
    assert precision(new.encode(V, "c"), old.encode(X, "a"), y, y) > 0.95


@pytest.mark.parametrize(
    ("initial", "message"),
    [
        (lambda X, y: ITQ(BITS).fit(X), "is no fitted model"),
        (lambda X, y: ATH.kernel(8).fit(X, X, y_source=y, y_target=y), "has 8 bits"),
        (
            lambda X, y: ATH.kernel(BITS).fit({"a": X, "b": X}, y={"a": y, "b": y}),
            "has none of these domains, but a, b",
        ),
    ],
)
def test_a_model_that_does_not_fit_is_refused(initial, message):
    (X, Z, _), y = drawn()
    with pytest.raises(InputError, match=f"initial: .*{message}"):
        ATH.kernel(BITS).fit(X, Z, y_source=y, y_target=y, initial=initial(X, y))
