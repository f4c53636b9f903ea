"""A damaged model file is refused, and a failed write leaves the old file unchanged."""

from __future__ import annotations

import errno
import json
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from bridgehash._core.errors import InputError, ModelFileError
from bridgehash._core.files import atomic_write
from bridgehash._version import __version__
from bridgehash.models import model_file as _files
from bridgehash.models.model_file import load_model, map_model, save_model

HEADER = {"n_bits": 16, "params": {"lam": 0.5, "graph": None}, "classes": ["é", "b"]}
ROOT = Path(_files.__file__).parents[1]  # where a child process finds the package


def small_arrays(seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "mean": rng.normal(size=3).astype(np.float32),
        "projection": rng.normal(size=(3, 2)),
        "codes": rng.integers(0, 256, size=(2, 1), dtype=np.uint8),
    }


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    save_model(path, "encoder", HEADER, small_arrays())
    return path


def assert_same(arrays: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert arrays.keys() == expected.keys()
    for name, array in arrays.items():
        assert array.dtype == expected[name].dtype
        np.testing.assert_array_equal(array, expected[name])


def refused(path: Path) -> str:
    """The message of the error, which begins with the name of the file."""
    with pytest.raises(ModelFileError) as caught:
        load_model(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    return message


def rewrite(path: Path, **changes: str | None) -> None:
    """Write the file again with changed metadata and a matching checksum."""
    with safetensors.safe_open(path, "numpy") as file:
        metadata = {**file.metadata(), **changes}
    arrays = safetensors.numpy.load_file(path)
    metadata = {key: value for key, value in metadata.items() if value is not None}
    if "sha256" not in changes:
        metadata.pop("sha256")
        metadata["sha256"] = _files._digest(metadata, arrays)
    safetensors.numpy.save_file(arrays, path, metadata)


# --- atomic_write


def test_atomic_write_replaces_the_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with atomic_write(path) as temporary:
        assert temporary.parent == tmp_path
        assert temporary.name.startswith(".")
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_atomic_write_keeps_the_old_file_on_any_exception(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")

    def interrupted(error: type[BaseException]) -> None:
        with atomic_write(path) as temporary:
            temporary.write_text("half")
            raise error

    for error in (ValueError, KeyboardInterrupt, SystemExit):
        with pytest.raises(error):
            interrupted(error)
        assert path.read_text() == "old"
        assert os.listdir(tmp_path) == ["a.txt"]


def test_atomic_write_names_the_missing_directory(tmp_path: Path) -> None:
    missing = tmp_path / "nowhere"
    with (
        pytest.raises(FileNotFoundError, match="nowhere does not exist"),
        atomic_write(missing / "a"),
    ):
        pass
    with pytest.raises(IsADirectoryError, match="is a directory"), atomic_write(tmp_path):
        pass


@pytest.mark.skipif(os.name == "nt", reason="no umask")
def test_permissions_follow_the_umask(tmp_path: Path) -> None:
    for umask, mode in [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)]:
        before = os.umask(umask)
        try:
            save_model(tmp_path / "m", "encoder", {}, small_arrays())
        finally:
            os.umask(before)
        assert (tmp_path / "m").stat().st_mode & 0o777 == mode


@pytest.mark.skipif(os.name == "nt", reason="symbolic links need rights")
def test_atomic_write_follows_a_symbolic_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "real" / "a.txt")
    with atomic_write(link) as temporary:
        temporary.write_text("new")
    assert link.is_symlink()
    assert (tmp_path / "real" / "a.txt").read_text() == "new"


def test_two_writers_never_share_a_temporary(tmp_path: Path) -> None:
    with atomic_write(tmp_path / "a") as first, atomic_write(tmp_path / "a") as second:
        assert first != second


def test_file_and_directory_reach_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[bool] = []
    fsync = os.fsync

    def record(descriptor: int) -> None:
        synced.append(os.path.isdir(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", record)
    save_model(tmp_path / "m", "encoder", {}, small_arrays())
    assert len(synced) == 1 + hasattr(os, "O_DIRECTORY")
    if sys.platform == "linux":
        assert synced == [False, True]


# --- saving


def test_what_is_saved_is_what_is_loaded(model: Path) -> None:
    loaded = load_model(str(model))
    assert (loaded.path, loaded.kind, loaded.format_version) == (model, "encoder", 4)
    assert loaded.package_version == __version__
    assert loaded.header == HEADER
    assert_same(loaded.arrays, small_arrays())


def test_every_dtype_and_shape_is_read_back(tmp_path: Path) -> None:
    for shape in [(), (0,), (0, 3), (4, 3)]:
        arrays = {dtype: np.ones(shape, dtype=dtype) for dtype in _files._DTYPES}
        save_model(tmp_path / "m", "encoder", {}, arrays)
        assert_same(load_model(tmp_path / "m").arrays, arrays)
        assert_same(map_model(tmp_path / "m").arrays, arrays)


def test_memory_layout_does_not_matter(tmp_path: Path) -> None:
    A = np.arange(12.0).reshape(3, 4)
    for i, form in enumerate(
        [A, np.asfortranarray(A), A.astype(">f8"), np.repeat(A, 2, 1)[:, ::2]]
    ):
        save_model(tmp_path / str(i), "encoder", {}, {"A": form})
        np.testing.assert_array_equal(load_model(tmp_path / str(i)).arrays["A"], A)
    assert len({(tmp_path / str(i)).read_bytes() for i in range(4)}) == 1


def test_order_of_arrays_does_not_change_the_file(model: Path, tmp_path: Path) -> None:
    save_model(tmp_path / "m", "encoder", HEADER, dict(reversed(small_arrays().items())))
    assert (tmp_path / "m").read_bytes() == model.read_bytes()


def test_safetensors_reads_our_files(model: Path) -> None:
    assert_same(safetensors.numpy.load_file(model), small_arrays())
    length = int.from_bytes(model.read_bytes()[:8], "little")
    assert length % 8 == 0
    assert json.loads(model.read_bytes()[8 : 8 + length])["projection"]["data_offsets"] == [0, 48]


def test_a_model_without_arrays_is_a_model(tmp_path: Path) -> None:
    save_model(tmp_path / "m", "empty", {}, {})
    assert load_model(tmp_path / "m").arrays == {}


def test_data_that_cannot_be_saved_changes_nothing(model: Path) -> None:
    cases: list[tuple[dict[str, Any], dict[str, np.ndarray]]] = [
        ({"a": object()}, {}),
        ({"a": float("nan")}, {}),
        ({}, {"a": np.array(["text"])}),
        ({}, {"a": np.array([object()])}),
        ({}, {"__metadata__": np.ones(1)}),
    ]
    for header, arrays in cases:
        with pytest.raises((TypeError, ValueError)):
            save_model(model, "encoder", header, arrays)
    assert load_model(model).header == HEADER
    assert os.listdir(model.parent) == [model.name]


@pytest.mark.parametrize("n_writes", [0, 1, 2])
def test_a_full_disk_leaves_the_old_file(
    model: Path, monkeypatch: pytest.MonkeyPatch, n_writes: int
) -> None:
    class FullDisk:
        """A file that takes `n_writes` writes, half of the next, and then no more."""

        def __init__(self, file: Any) -> None:
            self.file, self.left = file, n_writes

        def __enter__(self) -> FullDisk:
            return self

        def __exit__(self, *_: object) -> None:
            self.file.close()

        def write(self, data: Any) -> None:
            self.left -= 1
            if self.left < 0:
                self.file.write(bytes(data)[: len(data) // 2])
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self.file.write(data)

    monkeypatch.setattr(_files, "open", lambda *a: FullDisk(open(*a)), raising=False)  # noqa: SIM115
    with pytest.raises(OSError, match="No space left"):
        save_model(model, "encoder", {}, small_arrays(seed=1))
    monkeypatch.undo()
    assert_same(load_model(model).arrays, small_arrays())
    assert os.listdir(model.parent) == [model.name]


def test_a_failed_fsync_leaves_the_old_file(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="put/output"):
        save_model(model, "encoder", {}, small_arrays(seed=1))
    assert_same(load_model(model).arrays, small_arrays())
    assert os.listdir(model.parent) == [model.name]


SAVE_FOR_EVER = """
import itertools, sys
import numpy as np
from bridgehash.models.model_file import save_model
for i in itertools.count():
    save_model(sys.argv[1], "loop", {"i": i}, {"A": np.full(200_000, i)})
    print(i, flush=True)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL")
def test_kill_9_in_the_middle_leaves_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "model"
    rng = np.random.default_rng(0)
    command = [sys.executable, "-c", SAVE_FOR_EVER, str(path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"0\n"
        for _ in range(20):  # read while it writes
            time.sleep(rng.uniform(0, 0.01))
            load_model(path)
        child.send_signal(signal.SIGKILL)
    loaded = load_model(path)
    assert (loaded.arrays["A"] == loaded.header["i"]).all()


# --- refusing


def test_a_flipped_byte_is_noticed_or_harmless(model: Path) -> None:
    data = model.read_bytes()
    damaged = model.with_name("damaged")
    rng = np.random.default_rng(0)
    n_loaded = 0
    for i in [*range(100), *range(100, len(data), 3)]:
        flipped = data[i] ^ int(rng.integers(1, 256))
        damaged.write_bytes(data[:i] + bytes([flipped]) + data[i + 1 :])
        try:
            loaded = load_model(damaged)
        except ModelFileError:
            continue
        n_loaded += 1
        assert loaded.header == HEADER
        assert_same(loaded.arrays, small_arrays())
    assert n_loaded < 8  # at most the padding


def test_truncated_files_are_refused(model: Path) -> None:
    data = model.read_bytes()
    short = model.with_name("short")
    for length in [*range(20), *range(20, len(data), 13), len(data) - 1]:
        short.write_bytes(data[:length])
        assert ("truncated" if length else "is empty") in refused(short)


def test_bytes_after_the_end_are_refused(model: Path) -> None:
    with open(model, "ab") as file:
        file.write(b"\0")
    refused(model)


def test_missing_files_directories_and_pipes_have_their_own_message(tmp_path: Path) -> None:
    assert "file not found" in refused(tmp_path / "nothing")
    assert "is a directory" in refused(tmp_path)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        assert "not a regular file" in refused(tmp_path / "pipe")


def test_an_unreadable_file_is_refused(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def deny(*_: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(_files, "open", deny, raising=False)
    with pytest.raises(InputError, match=r"cannot be read .Permission denied.; check the perm"):
        load_model(model)


class Bomb:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return (pytest.fail, ("the file was executed",))


def test_other_formats_are_not_safetensors(tmp_path: Path) -> None:
    path = tmp_path / "other"
    with open(path, "wb") as file:
        np.savez(file, A=np.ones(3))
    assert "not a safetensors file" in refused(path)
    for data in (pickle.dumps(Bomb()), b"once upon a time", b"\x93NUMPY\x01\x00v\x00{'descr'"):
        path.write_bytes(data)
        assert "not a safetensors file" in refused(path)


def test_a_foreign_safetensors_file_has_no_bridgehash_header(tmp_path: Path) -> None:
    path = tmp_path / "foreign"
    for metadata in (None, {"format": "pt"}):
        safetensors.numpy.save_file(small_arrays(), path, metadata)
        assert "no bridgehash header" in refused(path)


def test_a_newer_format_asks_for_an_upgrade(model: Path) -> None:
    rewrite(model, format_version="7", package_version="9.1")
    assert refused(model).endswith(
        "written by bridgehash 9.1 in format 7, but this version reads format 4; upgrade bridgehash"
    )


def test_a_file_of_an_older_format_is_refused_with_a_remedy(model: Path) -> None:
    rewrite(model, format_version="1", package_version="0.1.0")
    assert "fit or build it again" in refused(model)


def test_a_format_version_must_be_a_number(model: Path) -> None:
    for version in ("", "one", "-1", "0", "1.5", "²", "9" * 5000):
        rewrite(model, format_version=version)
        assert "format_version" in refused(model)


def test_a_missing_entry_is_named(model: Path) -> None:
    data = model.read_bytes()
    for entry in ("kind", "header", "sha256", "package_version", "format_version"):
        model.write_bytes(data)
        rewrite(model, **{entry: None})
        assert f"lacks {entry}" in refused(model)


def test_changed_metadata_fails_the_checksum(model: Path) -> None:
    data = model.read_bytes()
    with safetensors.safe_open(model, "numpy") as file:
        sha256 = file.metadata()["sha256"]
    for change in (
        {"kind": "other"},
        {"header": "{}"},
        {"package_version": "0"},
        {"extra": "entry"},
    ):
        model.write_bytes(data)
        rewrite(model, **change, sha256=sha256)
        assert "the file is damaged or was changed" in refused(model)


def test_a_header_must_be_a_json_object(model: Path) -> None:
    for header in ("", "{", "nonsense", "[" * 100_000):
        rewrite(model, header=header)
        assert "its header is not JSON" in refused(model)
    rewrite(model, header="[1]")
    assert "its header is not a JSON object" in refused(model)


def test_an_array_of_unknown_dtype_is_refused(model: Path) -> None:
    data = model.read_bytes()
    model.write_bytes(data.replace(b'"F32"', b'"X32"'))
    assert "damaged" in refused(model)


LOAD_IN_LITTLE_MEMORY = """
import resource, sys
from bridgehash.models.model_file import ModelFileError, load_model
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (32 << 20), used + (32 << 20)))
for length in (99_999_999, 2**31, 2**40, 2**63, 2**64 - 1):
    with open(sys.argv[1], "r+b") as file:
        file.write(length.to_bytes(8, "little"))
    try:
        load_model(sys.argv[1])
    except ModelFileError:
        continue
    sys.exit(f"{length} was accepted")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and RLIMIT_AS")
def test_a_bogus_header_length_allocates_nothing(model: Path) -> None:
    command = [sys.executable, "-c", LOAD_IN_LITTLE_MEMORY, str(model)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=300)
