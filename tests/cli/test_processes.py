"""The command as a process of its own: exit codes, signals, pipes, full disks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bridgehash import __version__, load

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and limits are POSIX")

# Ctrl-C must count even where the test job itself was started with SIGINT ignored.
ENTRY = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
{before}
from bridgehash.cli.main import main
sys.exit(main())
"""
STUCK_WRITE = """
import bridgehash._core.files, os, time
def stuck(descriptor):
    print("writing", file=sys.stderr, flush=True)
    while True:  # a signal that another thread took is seen between two sleeps
        time.sleep(0.05)
bridgehash._core.files.os.fsync = stuck
"""
SMALL_DISK = """
import resource
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
"""
FIT = "fit source.npy target.npy --out new.bh --bits 64 --preset unsupervised"
NOTED = "note: source and target have different feature spaces"  # what FIT prints
ENCODE = "encode model.bh source.npy --domain source --out new.npy"
ENDLESS = " --verbose --set max_iter=100000000 --set tol=0"
LIMIT = 300  # seconds; a busy machine is not a failure

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(folder: Path) -> Start:
    """`start(line, before)`: the command in a process, some Python run before it."""

    def call(line: str, before: str = "") -> subprocess.Popen[str]:
        command = [sys.executable, "-c", ENTRY.format(before=before), *line.split()]
        pipe = subprocess.PIPE
        env = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        env.pop("BRIDGEHASH_DEBUG", None)
        return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=env)

    return call


def wait_for(process: subprocess.Popen[str], line: str) -> None:
    """Read stderr until this line has come."""
    assert process.stderr is not None
    for read in process.stderr:
        if read == f"{line}\n":
            return
    raise AssertionError(f"{line!r} never came")


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_the_installed_command_runs() -> None:
    command = Path(sys.executable).with_name("bridgehash")
    if not command.exists():
        pytest.skip("the package is not installed")
    done = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"bridgehash {__version__}\n"
    assert done.stderr == ""


def test_exit_code_of_an_error(start: Start) -> None:
    process = start("info source.npy")
    out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 2
    assert out == ""
    assert err.startswith("error: source.npy: ")
    assert err.count("\n") == 1


def test_ctrl_c_in_the_fit(folder: Path, start: Start) -> None:
    before = files(folder)
    process = start(FIT + ENDLESS)
    wait_for(process, "fitting")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 130
    assert out == ""
    assert err.splitlines()[-1].startswith("error: interrupted")
    assert "Traceback" not in err
    assert files(folder) == before


@pytest.mark.parametrize("line", [FIT, pytest.param(ENCODE, marks=pytest.mark.slow)])
def test_ctrl_c_in_the_write(folder: Path, start: Start, line: str) -> None:
    before = files(folder)
    process = start(line, STUCK_WRITE)
    wait_for(process, "writing")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 130
    assert err.startswith("error: interrupted")
    assert err.count("\n") == 1
    assert files(folder) == before


@pytest.mark.parametrize(
    ("line", "name"),
    [(FIT, "new.bh"), pytest.param(ENCODE, "new.npy", marks=pytest.mark.slow)],
)
def test_kill_leaves_the_old_output(folder: Path, start: Start, line: str, name: str) -> None:
    Path(name).write_text("old")
    before = files(folder)
    process = start(line, STUCK_WRITE)
    wait_for(process, "writing")
    process.kill()
    process.communicate(timeout=LIMIT)
    assert process.returncode == -signal.SIGKILL
    assert Path(name).read_text() == "old"
    assert all(left.startswith(".bridgehash-") for left in files(folder) - before)


@pytest.mark.parametrize(
    ("line", "name"),
    [(FIT, "new.bh"), pytest.param(ENCODE, "new.npy", marks=pytest.mark.slow)],
)
def test_full_disk(folder: Path, start: Start, line: str, name: str) -> None:
    before = files(folder)
    process = start(line, SMALL_DISK if line == FIT else SMALL_DISK.replace("1000", "100"))
    out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 2
    assert out == ""
    *notes, error = err.splitlines()
    assert error.startswith(f"error: {name}: cannot be written (")
    assert [note.startswith(NOTED) for note in notes] == [True] * (line == FIT)
    assert files(folder) == before


@pytest.mark.parametrize("line", ["info model.bh --json", "--help"])
def test_closed_pipe_is_silent(start: Start, line: str) -> None:
    process = start(line)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(timeout=LIMIT) == 141


def test_full_output_is_an_error(start: Start) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full")
    redirect = "import os; os.dup2(os.open('/dev/full', os.O_WRONLY), 1)"
    process = start("info model.bh", redirect)
    _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 2
    assert err.startswith("error: the output: No space left on device")
    assert err.count("\n") == 1


def test_model_survives_a_closed_pipe(start: Start) -> None:
    process = start(FIT)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    (note,) = process.stderr.read().splitlines()
    assert note.startswith(NOTED)
    process.stderr.close()
    assert process.wait(timeout=LIMIT) == 141
    assert load("new.bh").n_bits == 64
