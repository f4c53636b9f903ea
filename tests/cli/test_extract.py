"""`bridgehash extract`: what it prints, what it leaves, and how it ends."""

from __future__ import annotations

import builtins
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from bridgehash import features
from bridgehash.cli import extract as command
from bridgehash.features import BACKBONES, LOADERS
from bridgehash.features import extract as extract_features

Run = Callable[..., Any]
Refused = Callable[..., str]

EXTRACT = "extract pics --backbone gist --out new.npz"
SMALL_DISK = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
from bridgehash.cli.main import main
sys.exit(main())
"""


@pytest.fixture
def pics(folder: Path) -> Path:
    """Six images of two classes in the current directory, and a file that is none."""
    rng = np.random.default_rng(0)
    for name in ("ant/0.png", "ant/1.png", "ant/2.png", "bee/0.png", "bee/1.png", "bee/2.png"):
        path = folder / "pics" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (20, 30, 3), dtype=np.uint8)).save(path)
    (folder / "pics" / "readme.txt").write_text("not an image")
    return folder / "pics"


def spoil(folder: Path, n: int) -> None:
    for i in range(n):
        (folder / "ant" / f"bad{i:02d}.jpg").write_text("once upon a time")


def test_extract_tells_what_it_did(pics: Path, run: Run) -> None:
    ended = run(EXTRACT)
    assert (ended.code, ended.err) == (0, "")
    lines = [line.split(maxsplit=1) for line in ended.out.splitlines()]
    assert [name for name, _ in lines] == ["backbone", "images", "written", "time"]
    told = dict(lines)
    assert told["backbone"] == "gist, 512 features per image"
    assert told["images"] == "6 images of 2 classes, 0 unreadable"
    assert told["written"].startswith("new.npz (")
    assert told["time"].endswith(" images/s")


def test_the_features_fit(pics: Path, run: Run) -> None:
    assert run(EXTRACT).code == 0
    labels = "--labels-source new.npz:y --preset semi_supervised"
    line = f"fit new.npz new.npz:x {labels} --bits 2 --out new.bh --quiet"
    assert run(line).code == 0
    assert run("encode new.bh new.npz --domain source --out codes.npy").code == 0


def test_unreadable_images_are_listed_at_the_end(pics: Path, run: Run) -> None:
    spoil(pics, 2)
    ended = run(EXTRACT)
    assert ended.code == 0
    assert "6 images of 2 classes, 2 unreadable" in ended.out
    reason = "skipped, cannot be read ("
    lines = ended.err.splitlines()
    assert len(lines) == 2
    for i, line in enumerate(lines):
        assert line.startswith(f"note: ant/bad{i:02d}.jpg: {reason}")


def test_a_long_list_is_cut(pics: Path, run: Run) -> None:
    spoil(pics, 25)
    lines = run(EXTRACT).err.splitlines()
    assert len(lines) == 21
    assert lines[-1] == "note: 5 more images could not be read; the header of new.npz lists all"


def test_the_backbones_are_listed(run: Run) -> None:
    ended = run("extract --list")
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert lines[0].split() == ["backbone", "reads", "features", "pixels", "needs"]
    patterns = [loader.pattern for loader in LOADERS.values()]
    assert [line.split()[0] for line in lines[1:]] == [*BACKBONES, *patterns]
    assert "1280" in lines[1]


def test_mistakes_are_one_line(pics: Path, refused: Refused) -> None:
    (pics / "none").mkdir()
    Path("bad").mkdir()
    for name in ("a.png", "b.png"):
        (Path("bad") / name).touch()
    for line, reason in [
        ("extract", "Missing argument 'INPUT'"),
        ("extract pics --out new.npz", "Missing option '--backbone'"),
        (EXTRACT.replace("pics", "nowhere"), "nowhere: "),
        (EXTRACT.replace("pics", "source.npy"), "source.npy: "),
        (EXTRACT.replace("pics", "pics/none"), "pics/none: "),
        (EXTRACT.replace("pics", "bad"), "2 images can be read; the first: a.png: "),
        (EXTRACT.replace("gist", "gits"), "'gits'; did you mean 'gist'?"),
        (EXTRACT.replace(".npz", ".npy"), "new.npy: must end in .npz"),
        (EXTRACT.replace("new", "nowhere/new"), "nowhere does not exist; create it"),
        (EXTRACT + " --batch-size 0", "--batch-size"),
        (EXTRACT + " --device cuda", "gist"),
        (EXTRACT + " --weights vgg.pth", "gist"),
    ]:
        assert reason in refused(line)


def test_texts_are_counted_and_skipped_rows_listed(folder: Path, run: Run) -> None:
    if find_spec("wordllama") is None:  # importing it would configure logging
        pytest.skip("no model: pip install 'bridgehash[text]'")
    Path("t.csv").write_text("title,kind\na shirt,clothes\n,clothes\na car,cars\n")
    ended = run("extract t.csv:title --backbone wordllama --labels-column kind --out new.npz")
    assert ended.code == 0
    assert "texts     2 texts of 2 classes, 1 unreadable" in ended.out
    assert "wordllama, 256 features per text" in ended.out
    assert ended.err == "note: row 1: skipped, cannot be read (empty, or not a text)\n"


def test_mistakes_about_texts_are_one_line(pics: Path, refused: Refused) -> None:
    Path("t.csv").write_text("title\na shirt\n")
    line = "extract t.csv:title --backbone wordllama --out new.npz"
    for wrong, reason in [
        (line.replace(":title", ""), "t.csv: which column holds the texts?"),
        (line.replace(":title", ":name"), "t.csv: has no column 'name'; its columns are title"),
        (line.replace("t.csv:title", "pics"), "wordllama reads texts, not images; give a file of"),
        (line.replace("wordllama", "gist"), "gist reads images, not texts; give a folder of im"),
        (line.replace("wordllama", "tim:x"), "unknown prefix 'tim'; did you mean 'timm'?"),
        (line + " --device cuda", "wordllama includes its weights and runs on the CPU"),
        (EXTRACT + " --labels-column kind", "--labels-column: is for a file of texts"),
    ]:
        assert reason in refused(wrong)


@pytest.mark.parametrize("package", ["PIL", "skimage", "torch"])
def test_a_missing_extra_is_named(
    pics: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    backbone = {"PIL": "gist", "skimage": "hog", "torch": "vgg16"}[package]
    real_import = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.split(".")[0] == package:
            raise ImportError(name)
        return real_import(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    message = refused(EXTRACT.replace("gist", backbone))
    assert message.endswith("; pip install 'bridgehash[images]'")


def test_a_closed_place_is_refused(
    pics: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda _, mode: not mode & os.W_OK)
    assert "is not writable" in refused(EXTRACT)


def interrupted(*arguments: Any, **options: Any) -> None:
    """An extraction that ends after its second image."""

    def report(done: int, _: int) -> None:
        if done >= 2:
            raise KeyboardInterrupt

    options |= {"batch_size": 1, "on_progress": report}
    extract_features(*arguments, **options)


def test_ctrl_c_says_how_to_go_on(pics: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(features, "extract", interrupted)
        ended = run(EXTRACT)
    assert (ended.code, ended.out) == (130, "")
    first, second = ended.err.splitlines()
    assert first.startswith("note: finished batches are kept in new.npz.part; run the same command")
    assert second.startswith("error: interrupted")
    ended = run(EXTRACT)
    assert "resumed   2 images already done\n" in ended.out
    assert not Path("new.npz.part").exists()


def test_another_backbone_or_a_fresh_start(
    pics: Path, run: Run, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(features, "extract", interrupted)
        run(EXTRACT)
    message = refused(EXTRACT.replace("gist", "hog"))
    assert message.startswith("new.npz.part: ")
    assert "--no-resume" in message
    ended = run(EXTRACT + " --no-resume")
    assert ended.code == 0
    assert "resumed" not in ended.out


@pytest.mark.skipif(os.name != "posix", reason="limits are POSIX")
def test_a_full_disk_is_one_line(pics: Path) -> None:
    command = [sys.executable, "-c", SMALL_DISK, *EXTRACT.split()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: new.npz.part: cannot be written (")
    assert "finished batches are kept" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not Path("new.npz").exists()


def test_the_bar_counts_down_on_a_terminal(
    pics: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "may_animate", lambda: True)
    ended = run(EXTRACT + " --batch-size 2")
    assert ended.code == 0
    assert "6/6" in ended.err
    assert "left" in ended.err
    assert ended.out.startswith("backbone ")
