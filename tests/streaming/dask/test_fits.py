"""A fit on a cluster is the fit of one process, whatever becomes of the workers."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bridgehash import ATH, load
from bridgehash.streaming.mappers import use_mapper
from tests.streaming.dask.conftest import N_WORKERS, WITHOUT_DASK, Domains

ours = pytest.importorskip("bridgehash.distributed", reason=WITHOUT_DASK, exc_type=ImportError)

LABELS = {
    "unsupervised": (),
    "semi_supervised": ("y_source",),
    "supervised": ("y_source", "y_target"),
}


def made(preset: str, domains: Domains, X_source: Any, X_target: Any) -> ATH:
    labels = {name: getattr(domains, name) for name in LABELS[preset]}
    ath = getattr(ATH, preset)(n_bits=12, random_state=0, max_iter=4, tol=0.0)
    return ath.fit(X_source, X_target, **labels)


def check_same(found: Any, expected: Any, domains: Domains) -> None:
    for domain, X in (("source", domains.X_source), ("target", domains.X_target)):
        H, H_expected = (each.decision_function(X, domain) for each in (found, expected))
        np.testing.assert_allclose(H, H_expected, rtol=0, atol=1e-6)
        np.testing.assert_array_equal(found.encode(X, domain), expected.encode(X, domain))
    np.testing.assert_allclose(found.objective_["total"], expected.objective_["total"], rtol=1e-6)


@pytest.mark.parametrize("kind", ["npy", "parquet"])
@pytest.mark.parametrize("preset", LABELS)
def test_equal_to_one_process(client: Any, domains: Domains, preset: str, kind: str) -> None:
    expected = made(preset, domains, domains.X_source, domains.X_target)
    with ours.cluster(client):
        found = made(preset, domains, *domains.paths(kind))
    check_same(found, expected, domains)


class Killing(ours.DaskMapper):
    """Ends some workers in the middle of the call of a given number."""

    def __init__(self, client: Any, kill: Callable[[], None], number: int) -> None:
        super().__init__(client)
        self.kill, self.number, self.calls = kill, number, 0

    def __call__(self, function: Any, arguments: Iterable[Any], shared: Any = ()) -> Iterator[Any]:
        self.calls += 1
        now = self.calls == self.number
        for result in super().__call__(function, arguments, shared):
            if now:
                self.kill()
                now = False
            yield result


@pytest.mark.parametrize("n", [1, N_WORKERS])
def test_workers_killed_in_the_middle(
    client: Any, kill: Callable[[int], None], domains: Domains, n: int
) -> None:
    expected = made("unsupervised", domains, domains.X_source, domains.X_target)
    mapper = Killing(client, lambda: kill(n), number=20)
    with use_mapper(mapper):
        found = made("unsupervised", domains, *domains.paths("parquet"))
    assert mapper.calls > 20
    check_same(found, expected, domains)


def test_nan_in_a_shard_is_told_as_in_one_process(
    client: Any, domains: Domains, tmp_path: Path
) -> None:
    source, target = domains.paths("npy")
    shutil.copytree(target, tmp_path / "target")
    bad = tmp_path / "target" / "part-001.npy"
    X = np.load(bad)
    X[2, 5] = np.nan
    np.save(bad, X)
    messages = []
    with pytest.raises(ValueError, match="not finite") as told:
        made("unsupervised", domains, source, tmp_path / "target")
    messages.append(str(told.value))
    with ours.cluster(client), pytest.raises(ValueError, match="not finite") as told:
        made("unsupervised", domains, source, tmp_path / "target")
    assert messages == [str(told.value)]
    assert str(told.value).startswith(f"{bad}: ")


def test_the_command(
    client: Any, domains: Domains, run: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(domains.folder)  # where the workers are not
    out, labels = tmp_path / "model.bh", tmp_path / "labels.npz"
    np.savez(labels, source=domains.y_source, target=domains.y_target)
    words = [
        "fit",
        "parquet/source",
        "parquet/target",
        "--out",
        out,
        "--bits",
        12,
        "--set",
        "max_iter=4",
    ]
    words += ["--set", "tol=0", "--labels-source", f"{labels}:source"]
    words += ["--labels-target", f"{labels}:target"]
    ended = run(*words, "--scheduler", client.scheduler.address)
    assert (ended.code, ended.err) == (0, "")
    assert "300 rows, 12 columns, labelled" in ended.out
    expected = made("supervised", domains, domains.X_source, domains.X_target)
    check_same(load(out), expected, domains)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("--preset structural", "ath, structural needs all rows in one memory; choose --preset"),
        ("--method itq", "--scheduler belongs to --method ath"),
        ("--memory-limit 4GiB", "--scheduler does not go with --memory-limit"),
        ("--device cuda", "--scheduler does not go with --device"),
        ("", "no scheduler answers there"),
    ],
)
def test_what_the_command_refuses(
    domains: Domains, run: Any, tmp_path: Path, monkeypatch: Any, words: str, reason: str
) -> None:
    monkeypatch.setattr("bridgehash.streaming.dask._ANSWER", 0.3)
    line = ["fit", *domains.paths("npy"), "--out", tmp_path / "model.bh", *words.split()]
    ended = run(*line, "--scheduler", "tcp://127.0.0.1:9")
    assert ended.code == 2
    assert reason in ended.err
    assert ended.err.count("\n") == 1
    assert not (tmp_path / "model.bh").exists()
