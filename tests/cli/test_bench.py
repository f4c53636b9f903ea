"""`bridgehash bench`: what it prints, what it leaves, and how it goes on after a stop."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bridgehash.bench.spec import load_suite, suite_names
from bridgehash.bench.store import ResultStore
from bridgehash.datasets.dataset import MEMORY
from tests.bench.conftest import ATH, TEXT, make_record

Run = Callable[..., Any]
Refused = Callable[..., str]

SUITE = """
title = "Tiny"
tasks = ["own/a.f-b.g"]
n_bits = [4, 8]
seeds = 2
sides = ["cross"]

[[method]]
label = "ITQ"
use = "itq"

[[method]]
label = "LSH"
use = "lsh"
"""
N_FITS = 8
RUN = "bench run tiny.toml --data data --jobs 1"

# Every fit takes long enough for a kill to come between two of them.
SLOW = """
import sys, time
from bridgehash.bench import runner
from bridgehash.cli.main import main
fit = runner.run_job
def slow(*arguments):
    time.sleep(0.3)
    return fit(*arguments)
runner.run_job = slow
sys.exit(main())
"""


@pytest.fixture(autouse=True)
def tiny(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A suite and its data in the current directory; nothing else is looked for elsewhere."""
    monkeypatch.delenv("BRIDGEHASH_DATA", raising=False)
    monkeypatch.setenv("BRIDGEHASH_CACHE", str(folder / "cache"))
    rng = np.random.default_rng(0)
    (folder / "data" / "own").mkdir(parents=True)
    for name, n, d in (("a.f", 40, 9), ("b.g", 50, 9)):
        y = np.arange(n) % 3
        x = 3 * rng.normal(size=(3, d))[y] + rng.normal(size=(n, d))
        np.savez(folder / "data" / "own" / f"{name}.npz", x=x, y=y)
    (folder / "tiny.toml").write_text(SUITE)
    MEMORY.clear()
    yield folder
    MEMORY.clear()


def records(out: str = "bench") -> list[dict[str, Any]]:
    lines = (Path(out) / "records.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def test_list_names_all_suites(run: Run) -> None:
    ended = run("bench list")
    assert ended.code == 0
    lines = [line.split() for line in ended.out.splitlines()]
    assert lines[0] == ["suite", "fits", "time", "data", "title"]
    assert [line[0] for line in lines[1:]] == suite_names()
    suite = load_suite("table5-twin")
    n_fits = len(suite.tasks) * len(suite.methods) * len(suite.n_bits) * suite.seeds
    shown = {line[0]: line for line in lines}["table5-twin"]
    assert shown[1] == str(n_fits)
    assert shown[2] == "about"
    assert shown[5:7] == [suite.tasks[0].dataset, "(missing),"]
    assert "times are of one core" in ended.err


def test_list_says_which_data_are_there(run: Run, folder: Path) -> None:
    one = folder / "data" / "office-home"
    one.mkdir()
    for view in ("art.vgg16", "clipart.vgg16", "product.vgg16", "real_world.vgg16"):
        np.savez(one / f"{view}.npz", x=np.zeros((4, 2)), y=np.arange(4))
    shown = {line.split()[0]: line for line in run("bench list --data data").out.splitlines()}
    assert re.search(r" not measured +office-home +Table II", shown["table2"])
    assert "office-home, office-caltech10 (missing), visda2017 (missing)" in shown["table6"]


def test_without_a_command_the_help_is_shown(run: Run) -> None:
    ended = run("bench")
    assert (ended.code, ended.err) == (0, "")
    assert "bridgehash bench run table5-twin --quick" in ended.out


def test_a_run_leaves_records_a_table_and_a_page(run: Run) -> None:
    ended = run(RUN)
    assert (ended.code, ended.err) == (0, "")
    assert len(records()) == N_FITS
    assert "radius_pr_area in per cent" in ended.out
    assert "mean_average_precision in per cent" in ended.out
    assert "±" in ended.out
    assert "records  bench/records.jsonl" in ended.out
    assert "report   bench/tiny.html" in ended.out
    assert "<title>bridgehash bench: tiny</title>" in Path("bench/tiny.html").read_text("utf-8")
    assert sorted(path.name for path in Path("bench").iterdir()) == ["records.jsonl", "tiny.html"]


def test_a_lead_that_is_no_chance_is_marked(run: Run) -> None:
    Path("clear.toml").write_text(TEXT.format(more="").replace("seeds = 3", "seeds = 6"))
    with ResultStore("bench/records.jsonl").writer() as append:
        for seed, (method, more) in product(range(6), (({}, 0.01), (ATH, 0.02))):
            made = make_record(0.2 + more * (1 + seed), seed=seed, **method)
            append(made | {"key": f"{seed} {more}"})
    ended = run("bench show clear.toml")
    assert (ended.code, ended.err) == (0, "")
    assert "27.0 ± 3.4 *" in ended.out
    assert "23.5 ± 1.7 *" not in ended.out
    assert "*: better than the second best on the same splits" in ended.out


def test_suites_in_a_row_share_fits_and_a_page(run: Run) -> None:
    Path("other.toml").write_text(SUITE.replace("[4, 8]", "[4]"))
    ended = run(RUN.replace("tiny.toml", "tiny.toml other.toml"))
    assert (ended.code, len(records())) == (0, N_FITS)
    assert "4 of 4 fits were finished before" in ended.err
    assert "report   bench/report.html" in ended.out


def test_a_suite_without_data_does_not_stop_the_others(run: Run) -> None:
    ended = run(RUN.replace("tiny.toml", "table2 tiny.toml"))
    assert (ended.code, len(records())) == (0, N_FITS)
    assert "table2 is skipped: office_home.npz" in ended.err
    assert "report   bench/tiny.html" in ended.out


def test_a_quick_look_is_one_split_of_16_bits(run: Run) -> None:
    ended = run(RUN + " --quick --out elsewhere")
    assert ended.code == 0
    assert {(record["n_bits"], record["seed"]) for record in records("elsewhere")} == {(16, 0)}
    assert "16 bits" in ended.out
    assert "±" not in ended.out


def test_show_and_report_need_no_data(run: Run, folder: Path) -> None:
    printed = run(RUN).out
    (folder / "data" / "own" / "a.f.npz").unlink()
    Path("bench/tiny.html").unlink()
    shown = run("bench show tiny.toml")
    assert (shown.code, shown.err) == (0, "")
    assert printed.startswith(shown.out)
    (folder / "more.toml").write_text(SUITE.replace('"Tiny"', '"More"'))
    ended = run("bench report tiny.toml more.toml")
    assert ended.code == 0
    page = Path("bench/report.html").read_text("utf-8")
    assert "Benchmark report" in page
    assert "bridgehash bench run tiny.toml more.toml" in page
    assert run("bench report tiny.toml").code == 0
    assert Path("bench/tiny.html").is_file()


def test_kept_records_are_enough_for_tables_and_pages(run: Run) -> None:
    printed = run(RUN).out
    refused = run("bench keep figure3-twin --records kept")
    assert (refused.code, "no records of these suites" in refused.err) == (2, True)
    kept = run("bench keep tiny.toml figure3-twin --records kept")
    assert kept.code == 0
    assert "records  8 kept" in kept.out
    assert [path.name for path in Path("kept").iterdir()] == ["tiny.jsonl.gz"]
    Path("bench/records.jsonl").unlink()
    assert printed.startswith(run("bench show tiny.toml --records kept").out)
    ended = run("bench report tiny.toml figure3-twin --records kept --out new/page")
    assert ended.code == 0
    assert "Not run yet." in Path("new/page/report.html").read_text("utf-8")
    assert "folder not found" in run("bench show tiny.toml --records nowhere").err


def test_a_second_run_goes_on(run: Run, folder: Path) -> None:
    run(RUN)
    before = records()
    (folder / "tiny.toml").write_text(SUITE.replace("seeds = 2", "seeds = 3"))
    ended = run(RUN)
    assert ended.code == 0
    assert ended.err == "8 of 12 fits were finished before\n"
    assert records()[:N_FITS] == before
    assert len(records()) == 12
    assert run(RUN).err == "12 of 12 fits were finished before\n"
    assert len(records()) == 12


@pytest.mark.parametrize(
    ("old", "new", "start", "reason"),
    [
        ("title", "titel", "suite tiny: ", "did you mean 'title'?"),
        ('"itq"', '"itk"', "suite tiny: ", "did you mean 'itq'?"),
        (
            'use = "itq"',
            'use = "itq"\nparams = { max_itr = 1 }',
            "suite tiny: ",
            "did you mean 'max_iter'?",
        ),
        ("a.f-b.g", "a.f-c.g", "", "own/c.g.npz"),
        ("own/a.f-b.g", "pacs/a.f-b.g", "suite tiny: ", "view of pacs"),
        ("[[method]]", "[[method]", "suite tiny: ", ""),
    ],
)
def test_mistakes_are_one_line(
    refused: Refused, folder: Path, old: str, new: str, start: str, reason: str
) -> None:
    (folder / "tiny.toml").write_text(SUITE.replace(old, new, 1))
    message = refused(RUN)
    assert message.startswith(start)
    assert reason in message


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("bench run table5twin", "'table5twin'; did you mean 'table5-twin'?"),
        ("bench run theirs.toml", "theirs.toml"),
        ("bench run table2", "office_home.npz"),
        ("bench run table4", "amazon_decaf.mat is not on this machine"),
        ("bench run", "Missing argument 'SUITE...'"),
        ("bench run tiny.toml --jobs 0", "--jobs"),
        ("bench show tiny.toml", "bench/records.jsonl: no records yet"),
        ("bench report tiny.toml", "bench/records.jsonl: no records yet"),
        ("bench walk", "No such command 'walk'"),
    ],
)
def test_other_mistakes_are_one_line_too(refused: Refused, line: str, reason: str) -> None:
    assert reason in refused(line)


def test_a_spoilt_store_is_named(refused: Refused, run: Run) -> None:
    run(RUN)
    with open("bench/records.jsonl", "a", encoding="utf-8") as file:
        file.write("nonsense\n")
    for line in (RUN, "bench show tiny.toml"):
        message = refused(line)
        assert message.startswith("bench/records.jsonl: ")
        assert str(N_FITS + 1) in message


def test_one_method_fails_and_the_others_go_on(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise FloatingPointError("the sky is falling")

    with monkeypatch.context() as patched:
        patched.setattr("bridgehash.baselines.itq.ITQ.fit", fail)
        ended = run(RUN)
    assert ended.code == 0
    notes = ended.err.splitlines()
    assert notes == ["note: ITQ on own/a.f-b.g failed: FloatingPointError: the sky is falling"] * (
        N_FITS // 2
    )
    lines = [line.split() for line in ended.out.splitlines()]
    assert ["ITQ", "failed", "failed"] in lines
    assert "the sky is falling" in Path("bench/tiny.html").read_text("utf-8")
    assert [record["label"] for record in records() if "scores" in record] == ["LSH"] * 4
    ended = run(RUN)
    assert ended.err == "4 of 8 fits were finished before\n"
    assert "failed" not in ended.out


def test_a_full_disk_keeps_what_is_finished(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    fsync, calls = os.fsync, iter(range(100))

    def full_after_three(descriptor: int) -> None:
        if next(calls) >= 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(descriptor)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full_after_three)
        ended = run(RUN)
    assert (ended.code, ended.out) == (2, "")
    assert "records.jsonl: cannot be written (No space left on device)" in ended.err
    assert ended.err.endswith("; finished fits are kept; run the same command to continue\n")
    assert len(records()) == 3
    assert run(RUN).err == "3 of 8 fits were finished before\n"
    assert len(records()) == N_FITS


def test_ctrl_c_keeps_what_is_finished(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from bridgehash.bench import runner

    fit, calls = runner.run_job, iter(range(100))

    def interrupted(*arguments: Any) -> Any:
        if next(calls) == 2:
            raise KeyboardInterrupt
        return fit(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(runner, "run_job", interrupted)
        ended = run(RUN)
    assert ended.code == 130
    assert ended.err.startswith(
        "note: finished fits are kept; run the same command to continue\nerror: interrupted"
    )
    assert len(records()) == 2


def test_the_bar_counts_fits_on_a_terminal(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridgehash.cli.bench.may_animate", lambda: True)
    ended = run(RUN)
    assert ended.code == 0
    assert f"{N_FITS}/{N_FITS}" in ended.err


def start(*options: str, code: str = SLOW) -> subprocess.Popen[str]:
    arguments = [*RUN.split(), *options]
    return subprocess.Popen([sys.executable, "-c", code, *arguments], stderr=subprocess.PIPE)


def wait_for_records(process: subprocess.Popen[str], n: int) -> None:
    """Until that many records are written."""
    path, end = Path("bench/records.jsonl"), time.monotonic() + 300
    while not path.exists() or path.read_bytes().count(b"\n") < n:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")
def test_a_killed_run_goes_on_where_it_was(run: Run) -> None:
    process = start()
    wait_for_records(process, 2)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    done = len(records())
    assert 2 <= done < N_FITS
    ended = run(RUN)
    assert (ended.code, ended.err) == (0, f"{done} of 8 fits were finished before\n")
    assert len(records()) == N_FITS
    assert len({record["key"] for record in records()}) == N_FITS


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for children in /proc")
def test_no_worker_outlives_a_killed_run() -> None:
    process = start("--jobs", "2", code="import sys; from bridgehash.cli.main import main; main()")
    wait_for_records(process, 1)
    children = [pid for pid in _processes() if _parent(pid) == process.pid]
    assert children
    process.kill()
    process.communicate()
    end = time.monotonic() + 300
    while any(_is_alive(pid) for pid in children):
        assert time.monotonic() < end
        time.sleep(0.05)


def _processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _stat(pid: int) -> list[str]:
    """State, parent and more; the name before them may hold blanks."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ["X", "0"]


def _parent(pid: int) -> int:
    return int(_stat(pid)[1])


def _is_alive(pid: int) -> bool:
    return _stat(pid)[0] not in ("X", "Z")
