"""Which files are images, their classes and their pixels."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from bridgehash.features import list_images, read_image
from bridgehash.features.folder import class_of, why_unreadable

IDS = ["ant/0.png", "ant/1.jpg", "ant/deep/2.png", "bee/0.png", "bee/1.png", "cat/0.bmp", "top.png"]
COLOURS = np.arange(24, dtype=np.uint8).reshape(2, 4, 3) * 10  # two rows, four columns


def pixels(path: Path) -> Any:
    image = read_image(path)
    assert image.mode == "RGB"
    return np.asarray(image)


def saved(path: Path, array: Any, mode: str | None = None, **options: Any) -> Path:
    image = Image.fromarray(array)
    (image if mode is None else image.convert(mode)).save(path, **options)
    return path


# --- which


def test_images_are_listed_in_order(images: Path) -> None:
    assert list_images(images) == IDS
    assert list_images(str(images)) == IDS
    assert [class_of(name) for name in IDS] == ["ant"] * 3 + ["bee"] * 2 + ["cat", ""]


def test_endings_count_in_any_case_and_hidden_files_do_not(tmp_path: Path) -> None:
    for name in ("B.JPG", "a.TifF", "._a.png", ".hidden.png", "a.png.txt", "png", "c.jpg~"):
        (tmp_path / name).touch()
    (tmp_path / ".thumbnails").mkdir()
    (tmp_path / ".thumbnails" / "a.png").touch()
    (tmp_path / "folder.png").mkdir()
    assert list_images(tmp_path) == ["B.JPG", "a.TifF"]


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights")
def test_links_are_followed_but_not_in_circles(images: Path, tmp_path: Path) -> None:
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "dog").symlink_to(images / "ant")
    (images / "ant" / "again").symlink_to(images)
    (tmp_path / "linked" / "gone.png").symlink_to(tmp_path / "nowhere.png")
    assert list_images(images) == IDS
    assert list_images(tmp_path / "linked")[:2] == ["dog/0.png", "dog/1.jpg"]
    assert list_images(tmp_path / "linked")[-1] == "gone.png"


def test_no_folder_a_file_and_an_empty_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"nowhere: folder not found; give a folder"):
        list_images(tmp_path / "nowhere")
    (tmp_path / "a.txt").touch()
    with pytest.raises(ValueError, match="is a file, not a folder"):
        list_images(tmp_path / "a.txt")
    with pytest.raises(ValueError, match=r"no images; file names must end in \.bmp"):
        list_images(tmp_path)


def test_without_pillow_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(ImportError, match=r"pip install 'bridgehash\[images\]'"):
        read_image("a.png")


def test_a_closed_sub_folder_is_an_error(images: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.scandir

    def scandir(path: Any) -> Any:
        if str(path).endswith("bee"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(PermissionError, match="bee"):
        list_images(images)


# --- how


def test_colours_come_back(tmp_path: Path) -> None:
    for name in ("a.png", "a.bmp", "a.tif", "a.ppm", "lossless.webp"):
        options = {"lossless": True} if name.endswith("webp") else {}
        np.testing.assert_array_equal(pixels(saved(tmp_path / name, COLOURS, **options)), COLOURS)
    large = np.kron(COLOURS, np.ones((16, 16, 1), dtype=np.uint8))
    jpeg = pixels(saved(tmp_path / "a.jpg", large, quality=95))
    assert np.abs(jpeg.astype(int) - large).mean() < 8


def test_grey_has_three_equal_channels_of_eight_bits(tmp_path: Path) -> None:
    grey = np.array([[0, 100], [200, 255]], dtype=np.uint8)
    levels = np.array([[0, 257], [32896, 65535]], dtype=np.uint16)
    for name in ("g.png", "g.pgm", "g.tif"):
        read = pixels(saved(tmp_path / name, grey))
        np.testing.assert_array_equal(read, grey[..., None] + [0] * 3)
        read = pixels(saved(tmp_path / name, levels))
        np.testing.assert_array_equal(read, np.array([[0, 1], [128, 255]])[..., None] + [0] * 3)


def test_transparent_is_white(tmp_path: Path) -> None:
    rgba = np.zeros((1, 3, 4), dtype=np.uint8)
    rgba[0, :, 3] = [0, 128, 255]  # black behind nothing, half of it, all of it
    expected = np.repeat([[[255], [127], [0]]], 3, axis=2)
    np.testing.assert_array_equal(pixels(saved(tmp_path / "rgba.png", rgba)), expected)
    grey = rgba[..., [0, 3]]
    Image.frombytes("LA", (3, 1), grey.tobytes()).save(tmp_path / "la.png")
    np.testing.assert_array_equal(pixels(tmp_path / "la.png"), expected)
    palette = Image.new("P", (2, 1))
    palette.putpalette([9, 8, 7, 200, 100, 50])
    palette.putdata([0, 1])
    palette.save(tmp_path / "p.png", transparency=0)
    assert pixels(tmp_path / "p.png").tolist() == [[[255, 255, 255], [200, 100, 50]]]
    palette.save(tmp_path / "p.gif")
    assert pixels(tmp_path / "p.gif").tolist() == [[[9, 8, 7], [200, 100, 50]]]


def test_cmyk_becomes_rgb(tmp_path: Path) -> None:
    ink = np.zeros((16, 16, 4), dtype=np.uint8)
    ink[:, 8:] = 255
    for name in ("c.jpg", "c.tif"):
        Image.frombytes("CMYK", (16, 16), ink.tobytes()).save(tmp_path / name)
        read = pixels(tmp_path / name)
        assert (read[:, 0] > 250).all()
        assert (read[:, -1] < 5).all()


def test_bits_are_black_and_white(tmp_path: Path) -> None:
    bits = np.array([[0, 255]], dtype=np.uint8)
    assert pixels(saved(tmp_path / "b.png", bits, "1")).tolist() == [[[0] * 3, [255] * 3]]


def test_of_several_frames_the_first_is_read(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (4, 4), colour) for colour in ("red", "blue")]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    assert pixels(tmp_path / "a.gif")[0, 0].tolist() == [255, 0, 0]


def test_exif_gives_the_orientation(tmp_path: Path) -> None:
    turns = {
        1: lambda x: x,
        2: lambda x: x[:, ::-1],
        3: lambda x: x[::-1, ::-1],
        4: lambda x: x[::-1],
        5: lambda x: x.swapaxes(0, 1),
        6: lambda x: np.rot90(x, -1),
        7: lambda x: x[::-1, ::-1].swapaxes(0, 1),
        8: lambda x: np.rot90(x),
    }
    for orientation, turn in turns.items():
        exif = Image.Exif()
        exif[0x0112] = orientation
        read = pixels(saved(tmp_path / "a.png", COLOURS, exif=exif))
        np.testing.assert_array_equal(read, turn(COLOURS))


def test_damaged_exif_is_no_obstacle(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.jpg", COLOURS, exif=b"Exif\0\0II*\0\x08\0\0\0\x05\0\x12\x01")
    assert pixels(path).shape == (2, 4, 3)


# --- what cannot be read


def reason(path: Path) -> str:
    with pytest.raises(Exception) as caught:  # noqa: PT011
        read_image(path)
    why = why_unreadable(caught.value)
    assert str(path.parent) not in why
    assert "\n" not in why
    return why


def test_reasons_are_one_line(tmp_path: Path) -> None:
    whole = saved(tmp_path / "whole.jpg", np.kron(COLOURS, np.ones((20, 20, 1), np.uint8)))
    cut = tmp_path / "cut.jpg"
    cut.write_bytes(whole.read_bytes()[:-200])
    assert "truncated" in reason(cut)
    (tmp_path / "text.png").write_text("once upon a time")
    (tmp_path / "empty.png").touch()
    for name in ("text.png", "empty.png"):
        assert reason(tmp_path / name) == "not an image, or an unknown format"
    assert reason(tmp_path / "gone.png") == "file not found"
    assert reason(saved(tmp_path / "f.tif", np.ones((2, 2), np.float32))).startswith("grey levels")
    assert reason(saved(tmp_path / "i.tif", np.full((2, 2), -5, np.int32))).startswith(
        "grey levels"
    )


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes")
def test_a_pipe_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    assert reason(tmp_path / "pipe.png") == "is not a regular file"


def test_an_image_that_is_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 3)
    assert "exceeds limit" in reason(saved(tmp_path / "a.png", COLOURS))
