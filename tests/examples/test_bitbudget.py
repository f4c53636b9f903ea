"""The compressor does what it says on small data; BitBudget scores it where it is installed."""

from __future__ import annotations

import runpy
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "bitbudget_compressor.py"
Rows = NDArray[np.float64]


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    """The names of the example, which is no part of the package."""
    return runpy.run_path(str(SCRIPT), run_name="script")


@pytest.fixture(scope="module")
def rows() -> Rows:
    """Unit rows around a mean, with a few directions of large variance."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 32)) * 0.85 ** np.arange(32) + rng.normal(size=32)
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def recall(scores: Rows, exact: Rows, k: int = 10) -> float:
    """Return the share of the nearest among the first results."""
    found, wanted = (np.argsort(-each, axis=1)[:, :k] for each in (scores, exact))
    return float((found[:, :, None] == wanted[:, None, :]).any(axis=2).mean())


def error(codes: Any, X: Rows) -> float:
    """Return the squared error of the rows that the bits decode to."""
    bits = 2.0 * np.unpackbits(codes.encode(X)[:, :-2], axis=1) - 1
    return float(np.sum((X - codes.center_ - bits @ codes.decoder_) ** 2))


def test_an_item_takes_the_bytes_that_are_reported(script: dict[str, Any], rows: Rows) -> None:
    codes = script["ResidualCodes"](n_bytes=9, stage_bits=16)
    scores, n_bytes = codes(rows[:500], rows[500:])
    stored = codes.encode(rows[:500])
    assert (stored.dtype, stored.shape, n_bytes) == (np.uint8, (500, 9), 9)
    assert [stage.n_bits for stage in codes.stages_] == [16, 16, 16, 8]
    np.testing.assert_array_equal(codes.scores(rows[500:], stored), scores)
    new = codes.encode(rows[500:])  # rows that were not seen in training
    assert recall(codes.scores(rows[:100], new), rows[:100] @ rows[500:].T) > 0.7


def test_the_estimate_is_exact_for_a_query_at_the_item(script: dict[str, Any], rows: Rows) -> None:
    codes = script["ResidualCodes"](n_bytes=6, stage_bits=16, norm_weight=1)
    scores, _ = codes(rows, rows)
    norms = np.sum((rows - codes.center_) ** 2, axis=1)
    np.testing.assert_allclose(np.diag(scores), norms, rtol=0.05)  # two numbers in 8 bits each


def test_stages_code_what_the_stages_before_have_missed(script: dict[str, Any], rows: Rows) -> None:
    by_bytes = [
        error(script["ResidualCodes"](n, stage_bits=16).fit(rows), rows) for n in (4, 6, 8, 10)
    ]
    assert all(after < 0.8 * before for before, after in pairwise(by_bytes))
    one_stage = script["ResidualCodes"](10, stage_bits=64).fit(rows)
    assert by_bytes[-1] < 0.8 * error(one_stage, rows)


def test_the_same_bytes_find_more_neighbours_than_itq(script: dict[str, Any]) -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(900, 64)) * 0.9 ** np.arange(64) + rng.normal(size=64)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    database, queries = X[:700], X[700:]
    found = {
        name: recall(compressor(database, queries)[0], queries @ database.T)
        for name, compressor in (
            ("hamming", script["itq_hamming"]),
            ("projections", script["itq_projections"]),
            ("ours", script["ResidualCodes"](n_bytes=8, stage_bits=16, norm_weight=1)),
        )
    }
    assert found["hamming"] < found["projections"] < found["ours"] - 0.05


def test_an_item_at_the_mean_has_finite_scores(script: dict[str, Any]) -> None:
    X = np.vstack([np.eye(4), -np.eye(4), np.zeros((1, 4))])
    scores, _ = script["ResidualCodes"](n_bytes=4, stage_bits=8)(X, X)
    assert np.isfinite(scores).all()


def test_bitbudget_scores_the_compressor(script: dict[str, Any], rows: Rows) -> None:
    bitbudget = pytest.importorskip("bitbudget", reason="pip install bitbudget")
    bitbudget.method("ours")(script["ResidualCodes"](n_bytes=10, stage_bits=16))
    database, queries = (part.astype(np.float32) for part in (rows[:500], rows[500:]))
    relevant = {str(i): {str(np.argmax(database @ q)): 1} for i, q in enumerate(queries)}
    ids = [str(i) for i in range(500)]
    try:
        found = bitbudget.evaluate(database, queries, ids, list(relevant), relevant, ["ours"])
    finally:
        del bitbudget.METHODS["ours"]
    assert found[0]["bytes"] == 10
    assert found[0]["recall"] > 0.7


@pytest.mark.parametrize(
    ("has_data", "message"),
    [
        (False, "banking77.npz: file not found; set BRIDGEHASH_DATA"),
        (True, "run: pip install bitbudget"),
    ],
)
def test_one_line_says_what_is_missing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    has_data: bool,
    message: str,
) -> None:
    if has_data:
        (tmp_path / "external").mkdir()
        (tmp_path / "external" / "banking77.npz").touch()
    monkeypatch.setenv("BRIDGEHASH_DATA", str(tmp_path))
    monkeypatch.setattr("sys.argv", ["bitbudget_compressor"])
    monkeypatch.setitem(sys.modules, "bitbudget", None)  # as if it were not installed
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(SCRIPT), run_name="__main__")
    printed = capsys.readouterr()
    assert (ended.value.code, printed.out, printed.err.count("\n")) == (2, "", 1)
    assert message in printed.err
