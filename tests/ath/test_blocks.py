"""Rows that are read in blocks give the fit that rows in memory give, within a limit."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from bridgehash import ATH, InputError, as_blocks
from bridgehash._core.validation import Size
from bridgehash.ath import memory
from bridgehash.ath.memory import plan_memory

PRESETS = {
    "unsupervised": (),
    "semi_supervised": ("y_source",),
    "supervised": ("y_source", "y_target"),
}


@pytest.fixture
def small(monkeypatch):
    """Limits that rows of a test reach: nothing counted for libraries, small blocks allowed."""
    monkeypatch.setattr(memory, "_LIBRARIES", 0)
    monkeypatch.setattr(memory, "_SEARCH", 0)
    monkeypatch.setattr(memory, "_EDGES", 0)
    monkeypatch.setattr(memory, "_SEARCHED", 0)
    monkeypatch.setattr(memory, "_LEAST_BLOCK", 1 << 11)


def domains(dtype=np.float64):
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(8, 20))
    y_s, y_t = rng.integers(8, size=350), rng.integers(8, size=250)
    X_s, X_t = (centres[y] + 0.5 * rng.normal(size=(len(y), 20)) + 1.0 for y in (y_s, y_t))
    return X_s.astype(dtype), X_t.astype(dtype), {"y_source": y_s, "y_target": y_t}


def limited(X_s, X_t, extra, variant, **settings):
    """A fit whose limit leaves no room for the rows."""
    item = X_s.itemsize
    n = len(X_s) + len(X_t)
    always = n * 16 * item * memory._STATE + 4 * 20**2 * 8
    limit = always + 2 * memory._WORK * (1 << 12)
    assert plan_memory(limit, (as_blocks(X_s), as_blocks(X_t)), 16) is not None
    settings = {"random_state": 0, "max_iter": 4, "tol": 0.0} | settings
    device = {"device": settings.pop("device", None)}
    hasher = getattr(ATH, variant)(16, **settings)
    return hasher.fit(X_s, X_t, **extra, memory_limit=limit, **device)


def in_memory(X_s, X_t, extra, variant, **settings):
    settings = {"random_state": 0, "max_iter": 4, "tol": 0.0} | settings
    return getattr(ATH, variant)(16, **settings).fit(X_s, X_t, **extra)


@pytest.mark.parametrize("variant", PRESETS)
@pytest.mark.parametrize("center", ["domain", "joint"])
def test_blocks_give_the_projections_of_a_fit_in_memory(small, variant, center):
    X_s, X_t, labels = domains()
    extra = {name: labels[name] for name in PRESETS[variant]}
    ours = limited(X_s, X_t, extra, variant, center=center)
    whole = in_memory(X_s, X_t, extra, variant, center=center)
    for domain in ("source", "target"):
        one, other = ours.encoder(domain), whole.encoder(domain)
        np.testing.assert_allclose(one.projection, other.projection, atol=1e-10)
        np.testing.assert_allclose(one.mean, other.mean, atol=1e-12)
    np.testing.assert_allclose(ours.objective_["total"], whole.objective_["total"])


def test_blocks_of_unscaled_rows_give_the_fit_of_the_authors_script(small):
    X_s, X_t, _ = domains()
    ours, whole = (
        fit(X_s, X_t, {}, "unsupervised", published="authors") for fit in (limited, in_memory)
    )
    assert ours.target_encoder_.scale == whole.target_encoder_.scale == 1.0
    np.testing.assert_allclose(
        ours.target_encoder_.projection, whole.target_encoder_.projection, atol=1e-10
    )


def test_float32_blocks_give_the_same_bits(small):
    X_s, X_t, _ = domains(np.float32)
    ours, whole = (fit(X_s, X_t, {}, "unsupervised") for fit in (limited, in_memory))
    assert ours.encoder("source").projection.dtype == np.float32
    for X, domain in ((X_s, "source"), (X_t, "target")):
        np.testing.assert_array_equal(ours.encode(X, domain), whole.encode(X, domain))


def test_files_are_as_good_as_arrays(tmp_path):
    X_s, X_t, _ = domains()
    (tmp_path / "source").mkdir()
    for i, part in enumerate(np.array_split(X_s, 3)):
        np.save(tmp_path / "source" / f"{i}.npy", part)
    np.save(tmp_path / "target.npy", X_t)
    ours = in_memory(tmp_path / "source", tmp_path / "target.npy", {}, "unsupervised")
    whole = in_memory(X_s, X_t, {}, "unsupervised")
    np.testing.assert_array_equal(ours.encode(X_t, "target"), whole.encode(X_t, "target"))


def test_an_iterator_of_blocks_is_as_good_as_an_array():
    X_s, X_t, _ = domains()
    ours = in_memory(iter(np.array_split(X_s, 5)), X_t, {}, "unsupervised")
    whole = in_memory(X_s, X_t, {}, "unsupervised")
    np.testing.assert_array_equal(ours.encode(X_t, "target"), whole.encode(X_t, "target"))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"feature_map": "anchors"}, "feature_map='anchors'"),
        ({"start": "structural"}, "start='structural'"),
        ({"device": "cpu"}, "device='cpu'"),
    ],
)
def test_parts_that_need_all_rows_are_named(small, settings, words):
    X_s, X_t, _ = domains()
    with pytest.raises(ValueError, match=words):
        limited(X_s, X_t, {}, "unsupervised", **settings)


def test_a_limit_that_is_too_small_says_what_is_needed():
    X_s, X_t, _ = domains()
    with pytest.raises(InputError, match=r"^memory_limit: '1MiB' is too small .* GiB are needed"):
        ATH.unsupervised(16).fit(X_s, X_t, memory_limit="1MiB")


def test_a_large_limit_changes_nothing():
    X_s, X_t, _ = domains()
    ours = in_memory(X_s, X_t, {"memory_limit": "8GiB"}, "unsupervised")
    whole = in_memory(X_s, X_t, {}, "unsupervised")
    np.testing.assert_array_equal(
        ours.encoder("target").projection, whole.encoder("target").projection
    )


@pytest.mark.parametrize(
    ("text", "n"), [("1KiB", 1024), ("2 mb", 2 << 20), ("0.5G", 1 << 29), ("7", 7), (9, 9)]
)
def test_sizes_are_read(text, n):
    assert Size.n_bytes(text) == n


FIT = """
import resource, sys, warnings
import numpy as np
from bridgehash import ATH
warnings.simplefilter("ignore")
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
rng = np.random.default_rng(0)
ATH.unsupervised(16, max_iter=1).fit(rng.normal(size=(60, 8)), rng.normal(size=(60, 8)))
before = peak()
settings = dict(max_iter=2, tol=0.0, random_state=0)
ATH.unsupervised(32, **settings).fit(sys.argv[1], sys.argv[2], memory_limit=sys.argv[3])
print(peak() - before)
"""


@pytest.mark.slow
@pytest.mark.parametrize("limit", ["650MiB", "900MiB"])
def test_a_limit_is_kept(tmp_path, limit):
    rng = np.random.default_rng(0)
    for name, n in (("source", 60_000), ("target", 30_000)):
        X = rng.normal(size=(n, 16)).astype(np.float32) @ rng.normal(size=(16, 512))
        np.save(tmp_path / f"{name}.npy", (X + 0.1 * rng.normal(size=X.shape)).astype(np.float32))
    files = [str(tmp_path / f"{name}.npy") for name in ("source", "target")]
    line = [sys.executable, "-c", FIT, *files, limit]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    assert int(done.stdout) <= Size.n_bytes(limit)
