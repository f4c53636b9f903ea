"""Names of columns are kept with a model, and rows with other columns are refused."""

import numpy as np
import pytest

from bridgehash import ATH, ITQ, InputError, RidgeMap, Shared, as_blocks, load

NAMES_S, NAMES_T = list("abcdef"), ["u", "v", "w", "x", "y"]


class Frame:
    """What is used of a DataFrame: its values, its shape, and the names of its columns."""

    def __init__(self, X, columns):
        self.X, self.columns, self.shape = X, columns, X.shape

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.X, dtype=dtype)

    def __len__(self):
        return len(self.X)

    def __getitem__(self, names):
        return Frame(self.X[:, [self.columns.index(name) for name in names]], list(names))


@pytest.fixture
def frames():
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    X, Z = (rng.normal(size=(40, d)) + 2.0 * y[:, None] for d in (6, 5))
    return Frame(X, NAMES_S), Frame(Z, NAMES_T), y


@pytest.fixture
def ath(frames):
    X, Z, y = frames
    return ATH.supervised(8, random_state=0).fit(X, Z, y_source=y, y_target=y)


def check(encode, X):
    """Rows with the right columns are encoded; others are not."""
    np.testing.assert_array_equal(encode(X), encode(X.X))
    with pytest.raises(InputError, match=r"another order; use X\[encoder.feature_names_in_\]"):
        encode(X[X.columns[::-1]])
    renamed = Frame(X.X, [*X.columns[:-1], "new"])
    with pytest.raises(InputError, match=f"it lacks '{X.columns[-1]}' and has also 'new'"):
        encode(renamed)
    with pytest.raises(InputError, match=f"it lacks '{X.columns[0]}'; give"):
        encode(X[X.columns[1:]])


def test_each_domain_checks_its_columns(ath, frames, tmp_path):
    ath.save(tmp_path / "model.bh")
    for model in (ath, load(tmp_path / "model.bh")):
        for X, domain in zip(frames[:2], ("source", "target"), strict=True):
            assert model.encoder(domain).feature_names_in_ == X.columns
            check(lambda rows: model.encode(rows, domain), X)  # noqa: B023
            check(lambda rows: model.decision_function(rows, domain), X)  # noqa: B023


def test_an_encoder_alone_checks_them_too(ath, frames, tmp_path):
    ath.source_encoder_.save(tmp_path / "encoder.bh")
    check(load(tmp_path / "encoder.bh").encode, frames[0])


@pytest.mark.parametrize("make", [lambda: Shared(ITQ(8)), lambda: RidgeMap(8)])
def test_baselines_keep_names(make, frames):
    X, Z, _ = frames
    model = make().fit(X, Z, pairs=np.column_stack([np.arange(40)] * 2))
    check(lambda rows: model.encode(rows, "target"), Z)


def test_rows_without_names_are_not_checked(frames):
    X, Z, _ = frames
    model = Shared(ITQ(8)).fit(X.X, Z.X)
    assert model.source_encoder_.feature_names_in_ is None
    assert model.encode(X[NAMES_S[::-1]], "source").shape == (40, 1)
    numbered = Shared(ITQ(8)).fit(Frame(X.X, range(6)), Z.X)
    assert numbered.source_encoder_.feature_names_in_ is None


def test_names_change_no_fingerprint(ath, frames):
    X, Z, y = frames
    plain = ATH.supervised(8, random_state=0).fit(X.X, Z.X, y_source=y, y_target=y)
    assert plain.code_space() == ath.code_space()


def test_later_fits_check_the_columns_of_earlier_ones(ath, frames):
    X, Z, y = frames
    given = {"y_source": y, "y_target": y}
    turned = X[NAMES_S[::-1]]
    with pytest.raises(InputError, match="X_source: has the columns of the fit in another order"):
        ATH.supervised(8).fit(turned, Z, **given, initial=ath)
    with pytest.raises(InputError, match="X_source: has the columns of the fit in another order"):
        ATH.supervised(8).fit(turned, Z, **given, frozen={"source": ath})
    with pytest.raises(InputError, match="X_to: has the columns of the fit in another order"):
        ath.join("third", Z, X_to=turned, y=y, y_to=y)
    ath.join("third", Z, X_to=X, y=y, y_to=y)
    check(lambda rows: ath.encode(rows, "third"), Z)


def test_partial_fits_check_and_keep_names(frames):
    X, Z, y = frames
    model = ATH.supervised(8, random_state=0).partial_fit(X, Z, y_source=y, y_target=y)
    with pytest.raises(InputError, match="another order"):
        model.partial_fit(X[NAMES_S[::-1]], y_source=y)
    model.partial_fit(X, y_source=y)
    check(lambda rows: model.encode(rows, "source"), X)


def test_parquet_columns_have_names(frames, tmp_path, monkeypatch):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    monkeypatch.chdir(tmp_path)
    X, Z, y = frames

    def write(name, frame):
        columns = {"photo_id": np.arange(len(frame)), "Label": y}
        columns |= dict(zip(frame.columns, frame.X.T, strict=True))
        pq.write_table(pa.table(columns), name)

    write("x.parquet", X)
    write("turned.parquet", X[NAMES_S[::-1]])
    assert as_blocks("x.parquet").columns == NAMES_S  # neither the id nor the label
    model = ATH.supervised(8, random_state=0).fit("x.parquet", Z, y_source=y, y_target=y)
    np.testing.assert_array_equal(model.encode("x.parquet", "source"), model.encode(X, "source"))
    with pytest.raises(InputError, match="another order"):
        model.encode("turned.parquet", "source")
    with pytest.raises(InputError, match=r"turned.parquet: its columns have other names, or"):
        as_blocks(["x.parquet", "turned.parquet"])


def test_a_file_with_too_few_names_is_refused(ath, tmp_path):
    ath.encoders_["source"].feature_names_in_ = ["a"]
    with pytest.raises(InputError, match="1 names for 6 columns"):
        ath.save(tmp_path / "model.bh")
