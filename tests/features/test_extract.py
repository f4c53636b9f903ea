"""A folder of images becomes one file, even if the run is stopped and continued."""

from __future__ import annotations

import errno
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from bridgehash import InputError, JournalError, __version__
from bridgehash._core.journal import Journal, read_journal
from bridgehash.features import BACKBONES, extract, gist, list_images, read_header, read_image
from bridgehash.features.backbones import ExtractSettings

module = importlib.import_module("bridgehash.features.samples")

STOPPED = """
import sys, time
from bridgehash.features import extract

def report(done, total):
    print(done, flush=True)
    if done == 4:
        time.sleep(60)

extract(sys.argv[1], "gist", sys.argv[2], batch_size=2, on_progress=report)
"""


@pytest.fixture
def out(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    return tmp_path / "out" / "x.npz"


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the images that were read."""
    names: list[str] = []

    def read(path: Path) -> Any:
        names.append(path.name)
        return read_image(path)

    monkeypatch.setattr(module, "read_image", read)
    return names


def left(out: Path) -> list[str]:
    return sorted(os.listdir(out.parent))


def test_the_file_holds_rows_classes_and_ids(images: Path, out: Path) -> None:
    done = extract(images, "gist", out)
    ids = list_images(images)
    prepared = np.stack([BACKBONES["gist"].prepare(read_image(images / name)) for name in ids])
    with np.load(out) as arrays:
        assert sorted(arrays) == ["header", "ids", "x", "y"]
        assert arrays["x"].dtype == np.float32
        np.testing.assert_allclose(arrays["x"], gist(prepared.mean(axis=3)), atol=1e-6)
        assert arrays["y"].tolist() == ["ant", "ant", "ant", "bee", "bee", "cat", ""]
        assert arrays["ids"].tolist() == ids
    assert read_header(out) == {
        "kind": "bridgehash features",
        "backbone": "gist",
        "version": __version__,
        "images": 7,
        "dimension": 512,
        "unreadable": [],
    }
    assert done == (out, (7, 512), 3, 0, (), "image")
    assert left(out) == ["x.npz"]


def test_batches_do_not_matter(images: Path, out: Path) -> None:
    prepared = [
        BACKBONES["gist"].prepare(read_image(images / name)) for name in list_images(images)
    ]
    run = BACKBONES["gist"].load(ExtractSettings())
    singly = np.concatenate([run(image[None]) for image in prepared])
    for batch_size in (2, 7, 100):
        steps: list[tuple[int, int]] = []
        report = steps.append
        extract(images, "gist", out, batch_size=batch_size, on_progress=lambda *s, r=report: r(s))
        assert steps == [(min(n, 7), 7) for n in range(0, 7 + batch_size, batch_size)]
        np.testing.assert_allclose(np.load(out)["x"], singly, atol=1e-6)


def test_unreadable_images_are_left_out_and_named(images: Path, out: Path) -> None:
    (images / "bee" / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n not an image at all")
    whole = (images / "ant" / "1.jpg").read_bytes()
    (images / "ant" / "1.jpg").write_bytes(whole[: len(whole) // 2])
    (images / "ant" / "empty.gif").touch()
    done = extract(images, "gist", out, batch_size=2)
    assert [image.id for image in done.unreadable] == [
        "ant/1.jpg",
        "ant/empty.gif",
        "bee/broken.png",
    ]
    assert all(image.reason for image in done.unreadable)
    with np.load(out) as arrays:
        assert len(arrays["x"]) == len(arrays["y"]) == 6
        assert not {image.id for image in done.unreadable} & set(arrays["ids"])
    assert read_header(out)["unreadable"] == [list(image) for image in done.unreadable]


def test_images_of_all_modes_become_one_matrix(tmp_path: Path, out: Path) -> None:
    (tmp_path / "kinds").mkdir()
    plain = Image.fromarray(np.random.default_rng(0).integers(0, 256, (9, 8, 3), dtype=np.uint8))
    for mode, name in (("L", "l.png"), ("RGBA", "rgba.png"), ("CMYK", "cmyk.jpg"), ("1", "1.png")):
        plain.convert(mode).save(tmp_path / "kinds" / name)
    Image.fromarray(np.arange(72, dtype=np.uint16).reshape(9, 8) * 900).save(
        tmp_path / "kinds" / "16.png"
    )
    done = extract(tmp_path / "kinds", "gist", out)
    assert done.shape == (5, 512)
    assert done.n_classes == 0
    assert np.isfinite(np.load(out)["x"]).all()


def test_if_none_can_be_read_there_is_no_file(tmp_path: Path, out: Path) -> None:
    (tmp_path / "bad").mkdir()
    for i in range(3):
        (tmp_path / "bad" / f"{i}.png").write_text("not an image at all")
    with pytest.raises(
        ValueError, match=r"none of the 3 images can be read; the first: 0\.png: not an"
    ):
        extract(tmp_path / "bad", "gist", out, batch_size=2)
    assert left(out) == []


def test_wrong_calls_leave_nothing(images: Path, tmp_path: Path, out: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="no images; file names"):
        extract(tmp_path / "empty", "gist", out)
    with pytest.raises(ValueError, match="did you mean 'gist'"):
        extract(images, "gits", out)
    with pytest.raises(ValueError, match="batch_size=0 is not allowed"):
        extract(images, "gist", out, batch_size=0)
    assert left(out) == []
    with pytest.raises(InputError, match=r"x\.npz\.part: cannot be written \(No such file"):
        extract(images, "gist", tmp_path / "nowhere" / "x.npz")


# --- stopped and resumed


def stop(folder: Path, out: Path, batch_size: int = 2, after: int = 4) -> None:
    """An extraction that ends, as by Ctrl-C, when so many images are done."""

    def report(done: int, _: int) -> None:
        if done >= after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        extract(folder, "gist", out, batch_size=batch_size, on_progress=report)


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")
def test_a_kill_loses_one_batch_at_most(images: Path, out: Path, computed: list[str]) -> None:
    command = [sys.executable, "-c", STOPPED, str(images), str(out)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert [next(process.stdout) for _ in range(3)] == ["0\n", "2\n", "4\n"]
    process.kill()
    process.communicate(timeout=300)
    assert process.returncode == -signal.SIGKILL
    assert left(out) == ["x.npz.part"]

    done = extract(images, "gist", out, batch_size=2)
    assert done.n_resumed == 4
    assert computed == ["1.png", "0.bmp", "top.png"]
    assert left(out) == ["x.npz"]
    extract(images, "gist", out.with_name("whole.npz"))
    with np.load(out) as resumed, np.load(out.with_name("whole.npz")) as whole:
        for key in whole:
            np.testing.assert_array_equal(resumed[key], whole[key])


def test_unreadable_images_are_remembered(images: Path, out: Path, computed: list[str]) -> None:
    (images / "ant" / "0.png").write_text("not an image at all")
    stop(images, out)
    computed.clear()
    done = extract(images, "gist", out, batch_size=100)
    assert computed == ["1.png", "0.bmp", "top.png"]
    assert [image.id for image in done.unreadable] == ["ant/0.png"]
    assert np.load(out)["ids"].tolist() == list_images(images)[1:]


def test_no_resume_starts_from_the_beginning(images: Path, out: Path, computed: list[str]) -> None:
    stop(images, out)
    computed.clear()
    assert extract(images, "gist", out, resume=False).n_resumed == 0
    assert len(computed) == 7
    assert left(out) == ["x.npz"]


def test_a_changed_folder_is_refused(images: Path, out: Path) -> None:
    top, zoo, other = images / "top.png", images / "zoo.png", images / "bee" / "0.png"
    stop(images, out)
    part = (out.parent / "x.npz.part").read_bytes()
    for change, undo in (
        (lambda: shutil.copy(top, zoo), zoo.unlink),
        (lambda: top.rename(zoo), lambda: zoo.rename(top)),
        (lambda: top.write_bytes(other.read_bytes()), lambda: None),
        (top.unlink, lambda: None),
    ):
        change()
        message = r"with other images: 7 images, .*; start from the beginning \(--no-resu"
        with pytest.raises(InputError, match=message):
            extract(images, "gist", out)
        undo()
    assert (out.parent / "x.npz.part").read_bytes() == part
    extract(images, "gist", out, resume=False)
    assert np.load(out)["ids"].tolist() == list_images(images)


def test_another_kind_of_file_is_not_overwritten(images: Path, out: Path) -> None:
    part = out.parent / "x.npz.part"
    contents = [b"not an image at all"]
    for header in (b"[1]", b"\xff"):
        journal = Journal.open(out.parent / "other", header)
        journal.append([b"record"])
        contents.append(journal.path.read_bytes())
        journal.restart(header)
        journal.close()
    for content in contents:
        part.write_bytes(content)
        with pytest.raises(InputError, match=r"x\.npz\.part: "):
            extract(images, "gist", out)
        assert part.read_bytes() == content
    part.write_bytes(b"")  # a run that was killed at once
    assert extract(images, "gist", out).n_resumed == 0


def test_a_torn_batch_is_computed_again(images: Path, out: Path) -> None:
    (images / "ant" / "0.png").write_text("not an image")
    whole = extract(images, "gist", out)
    stop(images, out)
    part = out.parent / "x.npz.part"
    data = part.read_bytes()
    for end in range(len(data) - 1, len(data) // 2, -701):
        part.write_bytes(data[:end])
        resumed = extract(images, "gist", out, batch_size=2)
        assert resumed.n_resumed == 2
        assert resumed[1:3] == whole[1:3]
        assert resumed.unreadable == whole.unreadable


def test_two_runs_may_not_write_one_file(images: Path, out: Path) -> None:
    def report(done: int, _: int) -> None:
        if done == 4:
            with pytest.raises(InputError, match="in use by another process"):
                extract(images, "gist", out)

    assert extract(images, "gist", out, batch_size=2, on_progress=report).shape == (7, 512)


def test_another_backbone_is_refused(images: Path, out: Path) -> None:
    pytest.importorskip("skimage", reason="scikit-image is not installed")
    stop(images, out)
    with pytest.raises(ValueError, match="with other backbone: gist before, hog now; start from"):
        extract(images, "hog", out)


def test_a_moved_folder_is_the_same(images: Path, out: Path) -> None:
    stop(images, out)
    moved = images.rename(images.with_name("moved"))
    assert extract(moved, "gist", out).n_resumed == 4


# --- disks


def full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_keeps_what_is_done(
    images: Path, out: Path, computed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def report(done: int, _: int) -> None:
        if done == 4:
            monkeypatch.setattr(os, "fsync", full)

    message = r"x\.npz\.part: cannot be written \(No space left on device"
    with pytest.raises(JournalError, match=message):
        extract(images, "gist", out, batch_size=2, on_progress=report)
    monkeypatch.undo()
    assert left(out) == ["x.npz.part"]
    assert extract(images, "gist", out).n_resumed == 4


def test_a_failed_last_write_loses_nothing(
    images: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out.write_text("old")
    monkeypatch.setattr(np, "savez", full)
    message = r"x\.npz: cannot be written \(No space left on device\); finished batches are kept"
    with pytest.raises(InputError, match=message):
        extract(images, "gist", out)
    assert out.read_text() == "old"
    assert left(out) == ["x.npz", "x.npz.part"]
    monkeypatch.undo()
    assert extract(images, "gist", out).n_resumed == 7
    assert json.loads(str(np.load(out)["header"]))["images"] == 7
    assert left(out) == ["x.npz"]


def test_a_folder_without_write_permission_is_reported_at_once(
    images: Path, out: Path, computed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, "open", denied)
    with pytest.raises(InputError, match=r"x\.npz\.part: cannot be written \(Permission denied\)"):
        extract(images, "gist", out)
    assert computed == []


RECORDS = {
    "deep JSON": b"[" * 100_000,
    "no JSON": b"once upon a time",
    "a negative number": b'{"rows": -1, "unreadable": []}\n',
    "too few rows": b'{"rows": 9, "unreadable": []}\n',
    "another image": b'{"rows": 0, "unreadable": [["top.gif", "why"]]}\n',
    "text for a number": b'{"rows": "2", "unreadable": []}\n',
    "more images than there are": b'{"rows": 4, "unreadable": []}\n' + bytes(4 * 4 * 512),
}


@pytest.mark.parametrize("record", RECORDS.values(), ids=list(RECORDS))
def test_batches_that_were_made_up_are_refused(images: Path, out: Path, record: bytes) -> None:
    stop(images, out)
    part = out.parent / "x.npz.part"
    journal = Journal.open(part, read_journal(part).header)
    with closing(journal):
        journal.append([record])
    with pytest.raises(InputError, match=r"x\.npz\.part: .*start from the beginning"):
        extract(images, "gist", out, batch_size=2)
    assert extract(images, "gist", out, batch_size=2, resume=False).shape[0] == 7
