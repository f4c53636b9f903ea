"""A fit on a cluster equals the fit of one process, even if workers are killed."""

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

ours = pytest.importorskip("bridgehash.streaming.dask", reason=WITHOUT_DASK, exc_type=ImportError)

LABELS = {
    "unsupervised": (),
    "semi_supervised": ("y_source",),
    "supervised": ("y_source", "y_target"),
}


def made(preset: str, domains: Domains, X_source: Any, X_target: Any) -> ATH:
    labels = {name: getattr(domains, name) for name in LABELS[preset]}
    ath = getattr(ATH, preset)(n_bits=12, random_state=0, max_iter=4, tol=0.0)
    return ath.fit(X_source, X_target, **labels)


def check_same(result: Any, expected: Any, domains: Domains) -> None:
    for domain, X in (("source", domains.X_source), ("target", domains.X_target)):
        H, H_expected = (each.decision_function(X, domain) for each in (result, expected))
        np.testing.assert_allclose(H, H_expected, rtol=0, atol=1e-6)
        np.testing.assert_array_equal(result.encode(X, domain), expected.encode(X, domain))
    np.testing.assert_allclose(result.objective_["total"], expected.objective_["total"], rtol=1e-6)


@pytest.mark.parametrize(
    "preset",
    ["unsupervised", "supervised", pytest.param("semi_supervised", marks=pytest.mark.slow)],
)
def test_equal_to_one_process(client: Any, domains: Domains, preset: str) -> None:
    kind = "parquet" if preset == "unsupervised" else "npy"
    expected = made(preset, domains, domains.X_source, domains.X_target)
    with ours.cluster(client):
        result = made(preset, domains, *domains.paths(kind))
    check_same(result, expected, domains)


class Killing(ours.DaskMapper):
    """Kills some workers in the middle of the call with the given number."""

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


@pytest.mark.slow
def test_all_workers_killed_in_the_middle(
    client: Any, kill: Callable[[int], None], domains: Domains
) -> None:
    expected = made("unsupervised", domains, domains.X_source, domains.X_target)
    mapper = Killing(client, lambda: kill(N_WORKERS), number=20)
    with use_mapper(mapper):
        result = made("unsupervised", domains, *domains.paths("parquet"))
    assert mapper.calls > 20
    check_same(result, expected, domains)


def test_nan_in_a_shard_raises_the_same_error_as_in_one_process(
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


def test_what_the_command_refuses(
    domains: Domains, run: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr("bridgehash.streaming.dask._CONNECT", 0.3)
    for words, reason in (
        ("--preset structural", "needs all rows in one memory"),
        ("--method gth-g", "--scheduler"),
        ("--memory-limit 4GiB", "--memory-limit"),
        ("--device cuda", "--device"),
        ("", "no scheduler answers"),
    ):
        line = ["fit", *domains.paths("npy"), "--out", tmp_path / "model.bh", *words.split()]
        ended = run(*line, "--scheduler", "tcp://127.0.0.1:9")
        assert ended.code == 2
        assert reason in ended.err
        assert ended.err.count("\n") == 1
        assert not (tmp_path / "model.bh").exists()
