"""Corrected codes: the decoder, the choice of codes and the estimate of distances."""

import itertools

import numpy as np
import pytest

from bridgehash import ATH, ITQ, SDH, LinearEncoder, Shared, load
from bridgehash._core.errors import InputError
from bridgehash.codes import pack, unpack
from bridgehash.models.decoder import CodeDecoder, with_decoders


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def rows(rng):
    return (rng.normal(size=(400, 12)) * np.linspace(3, 0.3, 12)).astype(np.float32)


def estimates(encoder, X, queries, codes=None):
    """Distances from the definition: the decoded direction at the length of the row."""
    decoder, found = encoder.decoder_, encoder.encode_corrected(X, codes=codes)
    B = unpack(found.codes, encoder.n_bits).astype(float)
    Z = (X - encoder.mean) / decoder.unit
    Q = encoder.decision_function(queries) / decoder.unit
    D = np.empty((len(queries), len(X)))
    for i, j in itertools.product(range(len(queries)), range(len(X))):
        decoded, length = B[j] @ decoder.matrix, np.linalg.norm(Z[j])
        D[i, j] = length**2 - 2 * length * (Q[i] @ decoded) / np.linalg.norm(decoded)
    return D


@pytest.mark.parametrize("keep", [False, True])
def test_offset_slope_and_weights_give_the_estimate_of_the_definition(rows, keep):
    encoder = ITQ(8, random_state=0).fit(rows).encoder_
    codes = encoder.encode(rows[:50]) if keep else None
    found = encoder.encode_corrected(rows[:50], codes=codes)
    W, B = encoder.query_weights(rows[50:60]), unpack(found.codes, 8)
    offset, slope = found.corrections.astype(float).T
    scores = offset - slope * (W @ B.T)
    expected = estimates(encoder, rows[:50], rows[50:60], codes)
    assert scores == pytest.approx(expected, rel=5e-3, abs=5e-3)  # float16
    assert found.corrections.dtype == np.float16
    if keep:
        assert (found.codes == codes).all()


def test_no_single_flip_brings_a_chosen_code_nearer_to_its_projections(rng):
    H = rng.normal(size=(30, 6)).astype(np.float32)
    D = (np.eye(6) + 0.4 * rng.normal(size=(6, 6))).astype(np.float32)
    B = CodeDecoder(D).codes(H)
    error = np.square(H - B @ D).sum(1)
    plain = np.square(H - np.where(H > 0, 1, -1) @ D).sum(1)
    assert (error <= plain + 1e-5).all()
    assert (error < plain - 1e-3).any()
    for j in range(6):
        flipped = B.copy()
        flipped[:, j] *= -1
        assert (np.square(H - flipped @ D).sum(1) >= error - 1e-5).all()


def test_the_decoder_predicts_projections_by_least_squares(rows):
    itq = ITQ(8, random_state=0).fit(rows)
    H = itq.decision_function(rows) / itq.encoder_.decoder_.unit
    B = np.where(H > 0, 1.0, -1.0)
    best = np.linalg.lstsq(B, H, rcond=None)[0]
    assert itq.encoder_.decoder_.matrix == pytest.approx(best, abs=0.02)
    assert np.square(H).sum(1).mean() == pytest.approx(1, rel=1e-4)


def test_estimates_find_more_neighbours_than_codes(rows):
    X, queries = rows[:300], rows[300:]
    itq = ITQ(12, random_state=0).fit(X)
    near = np.argsort(np.square(queries[:, None] - X).sum(2), axis=1)[:, :10]

    def recall(scores):
        found = np.argsort(scores, axis=1, kind="stable")[:, :10]
        return np.mean([len({*a} & {*b}) / 10 for a, b in zip(found, near, strict=True)])

    codes, corrections = itq.encode_corrected(X)
    offset, slope = corrections.astype(float).T
    corrected = offset - slope * (itq.query_weights(queries) @ unpack(codes, 12).T)
    plain = -(itq.transform(queries).astype(int) @ unpack(itq.encode(X), 12).T)
    assert recall(corrected) > recall(plain) + 0.2


def test_all_domains_share_one_matrix_and_have_the_same_size(rng):
    X, Y = rng.normal(size=(80, 9)), 50 * rng.normal(size=(60, 7))
    ath = ATH.unsupervised(8, random_state=0).fit(X, Y)
    first, second = (ath.encoder(name).decoder_ for name in ("source", "target"))
    assert first.matrix is second.matrix
    for domain, rows in (("source", X), ("target", Y)):
        H = ath.decision_function(rows, domain) / ath.encoder(domain).decoder_.unit
        assert np.square(H).sum(1).mean() == pytest.approx(1, rel=1e-6)
        offset = ath.encode_corrected(rows, domain).corrections[:, 0].astype(float)
        assert offset.mean() == pytest.approx(first.length**2, rel=0.01)


@pytest.mark.filterwarnings("ignore::bridgehash.PairsWarning")
def test_frozen_codes_keep_their_decoder(rng):
    X, Y = rng.normal(size=(80, 9)), rng.normal(size=(80, 7))
    itq = ITQ(8, random_state=0).fit(X)
    same = np.column_stack([np.arange(40)] * 2)
    ath = ATH.paired(8, random_state=0).fit(X, Y, pairs=same, frozen={"source": itq})
    before = itq.encode_corrected(X)
    after = ath.encode_corrected(X, "source")
    assert all((a == b).all() for a, b in zip(before, after, strict=True))
    assert ath.encoder("target").decoder_.decodes_as(itq.encoder_.decoder_)
    assert ath.code_space() == itq.encoder_.fingerprint()
    ath.join("third", Y, codes_to=before.codes, pairs=same)
    assert ath.encoder("third").decoder_.decodes_as(itq.encoder_.decoder_)


def test_a_decoder_survives_files_and_changes_no_fingerprint(rows, tmp_path):
    itq = ITQ(8, random_state=0).fit(rows)
    itq.save(tmp_path / "a.bh")
    again = load(tmp_path / "a.bh")
    pairs = zip(itq.encode_corrected(rows), again.encode_corrected(rows), strict=True)
    assert all((a == b).all() for a, b in pairs)
    encoder = itq.encoder_
    plain = LinearEncoder(encoder.projection, encoder.mean)
    assert plain.fingerprint() == encoder.fingerprint()
    assert (again.encode(rows) == pack(itq.decision_function(rows))).all()


def test_blocks_of_rows_give_the_same_codes(rows, tmp_path):
    itq = ITQ(8, random_state=0).fit(rows)
    np.save(tmp_path / "rows.npy", rows)
    whole, read = itq.encode_corrected(rows), itq.encode_corrected(str(tmp_path / "rows.npy"))
    assert all((a == b).all() for a, b in zip(whole, read, strict=True))


def test_wrong_calls_are_refused_with_a_remedy(rows):
    plain = LinearEncoder(np.eye(12), np.zeros(12))
    with pytest.raises(InputError, match=r"has no decoder.*fit the model again"):
        plain.encode_corrected(rows)
    with pytest.raises(InputError, match="has no decoder"):
        plain.query_weights(rows)
    (encoder,) = with_decoders([plain], [rows])
    with pytest.raises(InputError, match="3 codes for 5 rows"):
        encoder.encode_corrected(rows[:5], codes=encoder.encode(rows[:3]))
    with pytest.raises(ValueError, match="NaN"):
        encoder.encode_corrected(np.full((2, 12), np.nan))
    zero = encoder.encode_corrected(np.zeros((1, 12), np.float32)).corrections
    assert (zero == 0).all()


def test_corrections_are_stored_unless_codes_were_learned_from_labels(rows, tmp_path):
    y = np.arange(len(rows)) % 3
    itq, sdh = ITQ(8, random_state=0), SDH(8, random_state=0)
    assert itq.fit(rows).stores_corrections
    assert not sdh.fit(rows, y).stores_corrections
    assert Shared(itq).fit(rows, rows).stores_corrections
    assert not Shared(sdh).fit(rows, rows, y_source=y).stores_corrections
    ath = ATH.unsupervised(8, random_state=0).fit(rows, rows)
    assert ath.stores_corrections
    ath.save(tmp_path / "a.bh")
    assert load(tmp_path / "a.bh").stores_corrections
    assert not ATH.supervised(8).fit(rows, rows, y_source=y, y_target=y).stores_corrections
    assert not itq.encoder_.stores_corrections  # it does not know


def test_models_of_earlier_versions_store_no_corrections(rows):
    ath = ATH.unsupervised(8, random_state=0).fit(rows, rows)
    ath.encoders_["target"].decoder_ = None
    assert not ath.stores_corrections


def test_partial_fit_keeps_the_decoder(rows):
    y = np.arange(len(rows)) % 3
    ath = ATH.supervised(8).partial_fit(rows, rows, y_source=y, y_target=y)
    before = ath.source_encoder_.decoder_
    ath.partial_fit(rows[:9], y_source=y[:9])
    assert before is not None
    after = ath.source_encoder_.decoder_
    assert (after.unit, after.decodes_as(before)) == (before.unit, True)


def test_queries_lean_to_the_expected_class_word(rows, tmp_path):
    y = np.arange(len(rows)) % 3
    ath = ATH.supervised(8).fit(rows + y[:, None], rows - y[:, None], y_source=y, y_target=y)
    ath.save(tmp_path / "a.bh")
    words = unpack(ath.class_codes_, 8)
    for model in (ath, load(tmp_path / "a.bh")):
        decoder = model.target_encoder_.decoder_
        np.testing.assert_array_equal(decoder.words, words)
        Q = model.decision_function(rows, "target") / decoder.unit
        expected = []
        for q in Q:
            shares = [np.exp(10 * (q @ word) / np.sqrt(8)) for word in words]
            word = sum(s / sum(shares) * v for s, v in zip(shares, words, strict=True))
            expected.append(decoder.matrix @ (q + 0.25 * word / np.sqrt(8)))
        assert model.query_weights(rows, "target") == pytest.approx(np.array(expected), abs=1e-4)


def test_decoders_know_the_words_of_all_classes(rows):
    y = np.arange(len(rows)) % 3
    ath = ATH.supervised(8).partial_fit(rows, rows, y_source=y, y_target=y)
    ath.partial_fit(rows[:9], y_source=np.arange(9) % 4)
    ath.join("third", rows, y=np.arange(len(rows)) % 5)
    assert len(ath.classes_) == 5
    for encoder in ath.encoders_.values():
        np.testing.assert_array_equal(encoder.decoder_.words, unpack(ath.class_codes_, 8))
    free = ATH.unsupervised(8, random_state=0).fit(rows, rows)
    assert free.source_encoder_.decoder_.words is None


def test_a_row_has_the_same_weights_and_corrections_alone_and_in_a_batch(rng):
    X = rng.normal(size=(700, 40)).astype(np.float32)
    encoder = ITQ(32, random_state=0).fit(X).encoder_
    W, found = encoder.query_weights(X), encoder.encode_corrected(X)
    labelled = ATH.supervised(32).fit(X, X, y_source=(y := np.arange(700) % 5), y_target=y)
    V = labelled.query_weights(X, "source")
    for i in range(0, 700, 23):
        np.testing.assert_array_equal(labelled.query_weights(X[i : i + 1], "source")[0], V[i])
        alone = encoder.encode_corrected(X[i : i + 1])
        np.testing.assert_array_equal(encoder.query_weights(X[i : i + 1])[0], W[i])
        np.testing.assert_array_equal(alone.codes[0], found.codes[i])
        np.testing.assert_array_equal(alone.corrections[0], found.corrections[i])
