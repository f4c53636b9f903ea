"""Codes of a folder: the codes of its rows, made once, and never those of something else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
import pytest

from bridgehash import ATH, save
from bridgehash.cli.encode import MANIFEST
from bridgehash.cli.io import read_codes, read_labels
from tests.streaming.dask.conftest import Domains, wait_until, write_shards

Run = Callable[..., Any]
CUTS = [7, 20, 21, 50, 64, 90, 130, 133]  # of nine shards


class Case(NamedTuple):
    """A model, a folder to encode, and what must come of it."""

    model: Path
    shards: Path
    out: Path
    codes: Any

    def words(self, *more: object) -> tuple[object, ...]:
        target = ("--domain", "target", "--out", self.out)
        return ("encode", self.model, self.shards, *target, *more)

    def check(self) -> None:
        found = sorted(path.name for path in self.out.iterdir() if path.name[0] not in "._")
        assert found == sorted(path.name for path in self.shards.iterdir())
        parts = [read_codes(str(self.out / name)) for name in found]
        np.testing.assert_array_equal(np.concatenate(parts), self.codes)

    def times(self) -> dict[str, int]:
        return {path.name: path.stat().st_mtime_ns for path in self.out.glob("part-*")}


@pytest.fixture(scope="session")
def models(domains: Domains, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    for seed in (0, 1):
        ath = ATH.unsupervised(n_bits=12, random_state=seed, max_iter=2, tol=0.0)
        save(ath.fit(domains.X_source, domains.X_target), folder / f"{seed}.bh")
    return folder


@pytest.fixture
def make(domains: Domains, models: Path, tmp_path: Path) -> Callable[[str], Case]:
    """`make("npy")`: the target in shards of one kind."""

    def call(kind: str) -> Case:
        write_shards(tmp_path / "shards", domains.X_target, CUTS, kind, ids=True)
        codes = ATH.load(models / "0.bh").encode(domains.X_target, "target")
        return Case(models / "0.bh", tmp_path / "shards", tmp_path / "codes", codes)

    return call


@pytest.fixture(params=["npy", "parquet"])
def case(request: Any, make: Callable[[str], Case]) -> Case:
    return make(request.param)


@pytest.fixture
def in_files(make: Callable[[str], Case]) -> Case:
    """One kind, where one is enough."""
    return make("npy")


def refused(run: Run, *words: object) -> str:
    ended = run(*words)
    assert ended.code == 2, ended
    assert ended.err.startswith("error: ")
    assert ended.err.count("\n") == 1
    return str(ended.err)


def test_in_one_process(case: Case, run: Run) -> None:
    ended = run(*case.words())
    assert (ended.code, ended.err) == (0, "")
    assert "260 rows of 12 columns" in ended.out
    assert "9 encoded, 0 already done" in ended.out
    case.check()
    before = case.times()
    assert "0 encoded, 9 already done" in run(*case.words()).out
    assert case.times() == before
    assert "9 encoded, 0 already done" in run(*case.words("--replace")).out
    assert all(case.times()[name] > before[name] for name in before)
    case.check()


def test_ids_stay_with_their_codes(make: Callable[[str], Case], run: Run) -> None:
    case = make("parquet")
    run(*case.words())
    for path in case.out.glob("*.parquet"):
        table = pq.read_table(path)
        assert table.column_names == ["id", "code"]
        assert table.schema.field("id").type == "string"
        expected = read_labels(f"{case.shards / path.name}:id")
        np.testing.assert_array_equal(read_labels(f"{path}:id"), expected)


def test_on_a_cluster(case: Case, run: Run, client: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(case.out.parent)  # where the workers are not
    here = case._replace(shards=Path("shards"), out=Path("codes"))
    ended = run(*here.words("--scheduler", client.scheduler.address))
    assert (ended.code, ended.err) == (0, "")
    assert "9 encoded, 0 already done" in ended.out
    case.check()


def test_a_worker_killed_in_the_middle(
    in_files: Case, run: Run, client: Any, kill: Callable[[int], None]
) -> None:
    X = np.load(in_files.shards / "part-008.npy")
    for number in range(9, 60):  # enough to be in the middle of something
        np.save(in_files.shards / f"part-{number:03}.npy", X)
    codes = np.concatenate([in_files.codes, *[in_files.codes[CUTS[-1] :]] * 51])
    case = in_files._replace(codes=codes)

    def strike() -> None:
        wait_until(lambda: len(list(case.out.glob("part-*"))) >= 3)
        kill(2)

    striker = threading.Thread(target=strike)
    striker.start()
    ended = run(*case.words("--scheduler", client.scheduler.address))
    striker.join()
    assert (ended.code, ended.err) == (0, "")
    assert "60 encoded, 0 already done" in ended.out
    case.check()


STUCK = """
import bridgehash._core.files, os, sys, time
real, calls = os.fsync, []
def stuck(descriptor):  # after the manifest and four shards, two calls each
    calls.append(descriptor)
    while len(calls) > 10:
        print("stuck", file=sys.stderr, flush=True)
        time.sleep(0.05)
    real(descriptor)
bridgehash._core.files.os.fsync = stuck
from bridgehash.cli.main import main
sys.exit(main())
"""


@pytest.mark.parametrize(
    "end", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_a_stopped_run_goes_on(in_files: Case, run: Run, end: signal.Signals) -> None:
    entry = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n" + STUCK
    command = [sys.executable, "-c", entry, *map(str, in_files.words())]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert process.stderr.readline() == "stuck\n"
    process.send_signal(end)
    process.communicate(timeout=300)
    assert process.returncode == (-end if end == signal.SIGKILL else 130)
    before = in_files.times()
    assert len(before) == 4
    ended = run(*in_files.words())
    assert "5 encoded, 4 already done" in ended.out
    assert {name: in_files.times()[name] for name in before} == before
    in_files.check()


def test_codes_of_something_else_are_refused(in_files: Case, run: Run, models: Path) -> None:
    run(*in_files.words())
    before = in_files.times()
    other = in_files._replace(model=models / "1.bh")
    message = refused(run, *other.words())
    assert "codes: holds codes of another model; use another folder, or encode all again" in message
    source = [str(word).replace("target", "source") for word in in_files.words()]
    assert "holds codes of the target domain" in refused(run, *source)
    assert in_files.times() == before
    assert "9 encoded" in run(*other.words("--replace")).out
    assert "9 already done" in run(*other.words()).out


def test_inputs_that_changed(in_files: Case, run: Run) -> None:
    run(*in_files.words())
    shard, codes = in_files.shards / "part-002.npy", in_files.out / "part-002.npy"
    os.utime(shard, ns=(1, 1))
    assert f"{shard}: has changed since it was encoded" in refused(run, *in_files.words())
    codes.unlink()
    assert "1 encoded, 8 already done" in run(*in_files.words()).out
    in_files.check()
    shard.rename(in_files.shards / "part-100.npy")
    assert f"{codes}: its input is gone" in refused(run, *in_files.words())
    codes.unlink()
    assert "1 encoded, 8 already done" in run(*in_files.words()).out


def test_files_of_others_are_neither_taken_nor_replaced(in_files: Case, run: Run) -> None:
    in_files.out.mkdir()
    foreign = in_files.out / "part-004.npy"
    foreign.write_text("mine")
    for more in ((), ("--replace",)):
        message = refused(run, *in_files.words(*more))
        assert f"{foreign}: was not made by this command" in message
    assert foreign.read_text() == "mine"
    foreign.unlink()
    (in_files.out / MANIFEST).write_text('{"about": {}, "shards": {"../../model.bh": []}}')
    assert "is damaged" in refused(run, *in_files.words("--replace"))


@pytest.mark.parametrize("on_cluster", [False, True])
def test_a_bad_shard_is_named_and_the_others_are_made(
    in_files: Case, run: Run, request: Any, on_cluster: bool
) -> None:
    more: list[object] = []
    if on_cluster:
        more = ["--scheduler", request.getfixturevalue("client").scheduler.address]
    bad, good = in_files.shards / "part-003.npy", np.load(in_files.shards / "part-003.npy")
    X = good.copy()
    X[1, 2] = np.inf
    np.save(bad, X)
    np.save(in_files.shards / "part-200.npy", np.ones((4, 5)))
    (in_files.shards / "part-201.npy").write_bytes(b"\x93NUMPY")
    ended = run(*in_files.words(*more))
    notes = ended.err.splitlines()
    assert ended.code == 2
    assert notes[0].startswith(f"note: {bad}: 1 of 348 values are not finite")
    assert "part-200.npy: has 5 columns, but this encoder takes 12; check" in notes[1]
    assert "part-201.npy: cannot be read" in notes[2]
    assert "3 of 11 shards could not be encoded, the others are done" in notes[3]
    assert "8 encoded, 0 already done" in ended.out
    for name in ("part-200.npy", "part-201.npy"):
        (in_files.shards / name).unlink()
    np.save(bad, good)
    assert "1 encoded, 8 already done" in run(*in_files.words(*more)).out
    in_files.check()


def test_what_does_not_go_together(in_files: Case, run: Run, tmp_path: Path) -> None:
    case = in_files
    assert "--ids: works with one file" in refused(run, *case.words("--ids", "x.npy"))
    inside = case._replace(out=case.shards / "codes")
    assert "is inside the input" in refused(run, *inside.words())
    assert "does not exist" in refused(run, *case._replace(out=tmp_path / "a" / "b").words())
    one = case._replace(shards=case.shards / "part-000.npy", out=tmp_path / "one.npy")
    assert "--replace: works with a folder" in refused(run, *one.words("--replace"))
    assert "--scheduler: works with a folder" in refused(
        run, *one.words("--scheduler", "tcp://x:1")
    )
    assert "is a file" in refused(run, *case._replace(out=one.shards).words())
    (tmp_path / "empty").mkdir()
    assert "empty: the folder has no .npy" in refused(
        run, *case._replace(shards=tmp_path / "empty").words()
    )
    (case.shards / "read.me").touch()
    assert "read.me: only .npy and .parquet files" in refused(run, *case.words())
    assert not case.out.exists()


def test_the_manifest_can_be_read(in_files: Case, run: Run) -> None:
    run(*in_files.words())
    manifest = json.loads((in_files.out / MANIFEST).read_text())
    assert manifest["about"].keys() == {"code_space", "domain", "n_bits"}
    assert len(manifest["shards"]) == 9
