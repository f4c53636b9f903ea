"""Search coloured pictures with line drawings; both are drawn by this script.

    python examples/drawing_finds_picture.py [--bits 64] [--picture FILE.png]

Needs Pillow and scikit-image, but no data pack and no weights. Seven kinds of things are drawn many
times, each at another size, place and angle: as an outline in black on white, and as a coloured
picture with light, shadow and a background. Drawings are described by GIST, pictures by HOG, which
have no column in common. `precision@10` is the share of the first ten pictures that show the same
kind of thing as the drawing; the queries are not part of the training data.
"""

from __future__ import annotations

import argparse
import colorsys
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter

from bridgehash import ATH, ITQ, HammingIndex, Shared
from bridgehash.features.backbones import ExtractSettings, find_backbone

K = 10
SIDE, FINE = 96, 3  # pixels of an image; it is drawn three times as large
SHOWN, ROWS = 4, 4  # pictures per method and row of the figure, and its rows
RIGHT, WRONG, INK, EDGE = "#0b7a5b", "#c2500a", "#1c2430", "#9aa3b0"


class Part(NamedTuple):
    """A filled shape."""

    corners: NDArray[np.float64]  # in the unit square
    colour: tuple[float, float, float]  # hue, saturation, value


def box(x: float, y: float, width: float, height: float) -> NDArray[np.float64]:
    """Corners of a rectangle."""
    return np.array([(x, y), (x + width, y), (x + width, y + height), (x, y + height)])


def disc(x: float, y: float, a: float, b: float | None = None) -> NDArray[np.float64]:
    """Corners of an ellipse with half-axes a and b."""
    t = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    return np.column_stack([x + a * np.cos(t), y + (a if b is None else b) * np.sin(t)])


def petals() -> list[NDArray[np.float64]]:
    """Seven discs in a circle."""
    return [
        disc(0.5 + 0.17 * np.cos(t), 0.34 + 0.17 * np.sin(t), 0.1)
        for t in np.arange(7) * 2 * np.pi / 7
    ]


THINGS: dict[str, list[Part]] = {
    "house": [
        Part(box(0.22, 0.45, 0.56, 0.42), (0.09, 0.25, 0.9)),
        Part(np.array([(0.14, 0.47), (0.5, 0.13), (0.86, 0.47)]), (0.02, 0.65, 0.65)),
        Part(box(0.56, 0.6, 0.14, 0.27), (0.07, 0.6, 0.4)),
        Part(box(0.3, 0.56, 0.15, 0.14), (0.55, 0.4, 0.85)),
    ],
    "tree": [
        Part(box(0.44, 0.55, 0.12, 0.36), (0.07, 0.6, 0.42)),
        Part(disc(0.34, 0.45, 0.19), (0.33, 0.6, 0.55)),
        Part(disc(0.66, 0.45, 0.19), (0.33, 0.6, 0.55)),
        Part(disc(0.5, 0.27, 0.21), (0.33, 0.6, 0.55)),
    ],
    "fish": [
        Part(np.array([(0.68, 0.5), (0.93, 0.3), (0.88, 0.5), (0.93, 0.7)]), (0.06, 0.75, 0.85)),
        Part(disc(0.44, 0.5, 0.34, 0.19), (0.09, 0.8, 0.95)),
        Part(disc(0.24, 0.45, 0.035), (0.6, 0.3, 0.15)),
    ],
    "boat": [
        Part(box(0.485, 0.12, 0.03, 0.52), (0.07, 0.5, 0.35)),
        Part(np.array([(0.54, 0.14), (0.84, 0.58), (0.54, 0.58)]), (0.15, 0.1, 0.97)),
        Part(np.array([(0.46, 0.22), (0.22, 0.58), (0.46, 0.58)]), (0.15, 0.18, 0.9)),
        Part(np.array([(0.1, 0.64), (0.9, 0.64), (0.76, 0.86), (0.24, 0.86)]), (0.6, 0.7, 0.5)),
    ],
    "car": [
        Part(np.array([(0.28, 0.46), (0.38, 0.28), (0.64, 0.28), (0.76, 0.46)]), (0.56, 0.3, 0.75)),
        Part(np.array([(0.08, 0.46), (0.9, 0.46), (0.93, 0.68), (0.07, 0.68)]), (0.0, 0.75, 0.75)),
        Part(disc(0.27, 0.69, 0.1), (0.6, 0.2, 0.2)),
        Part(disc(0.73, 0.69, 0.1), (0.6, 0.2, 0.2)),
    ],
    "flower": [
        Part(box(0.48, 0.4, 0.04, 0.5), (0.33, 0.7, 0.45)),
        Part(disc(0.62, 0.72, 0.12, 0.05), (0.33, 0.65, 0.5)),
        *(Part(petal, (0.93, 0.5, 0.9)) for petal in petals()),
        Part(disc(0.5, 0.34, 0.1), (0.13, 0.8, 0.95)),
    ],
    "cup": [
        Part(disc(0.72, 0.5, 0.16, 0.17), (0.58, 0.45, 0.75)),
        Part(disc(0.72, 0.5, 0.09, 0.1), (0.58, 0.1, 0.95)),
        Part(np.array([(0.2, 0.27), (0.72, 0.27), (0.66, 0.82), (0.26, 0.82)]), (0.58, 0.5, 0.8)),
        Part(disc(0.46, 0.27, 0.26, 0.06), (0.07, 0.6, 0.35)),
    ],
}
KINDS = tuple(THINGS)


def placed(parts: list[Part], rng: np.random.Generator) -> list[Part]:
    """Parts at another size, place and angle, in pixels."""
    angle = rng.normal(0, 0.09)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    turn = turn * rng.uniform(0.72, 1.0) @ np.diag(rng.uniform(0.88, 1.12, 2))
    flip = np.array([rng.choice([-1, 1]), 1])
    shift = 0.5 + rng.uniform(-0.07, 0.07, 2)
    return [
        Part(SIDE * FINE * (((part.corners - 0.5) * flip) @ turn + shift), part.colour)
        for part in parts
    ]


def drawing(kind: str, rng: np.random.Generator) -> Image.Image:
    """A black outline on white, by a hand that is not quite steady."""
    image = Image.new("L", (SIDE * FINE, SIDE * FINE), 255)
    pen, width = ImageDraw.Draw(image), int(rng.integers(4, 8))
    for part in placed(THINGS[kind], rng):
        ends = np.roll(part.corners, -1, axis=0)
        steps = np.linspace(0, 1, 8, endpoint=False)[:, None, None]
        line = (part.corners + steps * (ends - part.corners)).swapaxes(0, 1).reshape(-1, 2)
        t = np.arange(len(line))[:, None] / len(line) * 2 * np.pi
        for wave in (2, 3, 5):
            line = line + rng.normal(0, 1.6, 2) * np.sin(wave * t + rng.uniform(0, 6, 2))
        points = [tuple(point) for point in line]
        pen.polygon(points, fill=255)
        pen.line([*points, *points[:2]], fill=20, width=width, joint="curve")
    return image.resize((SIDE, SIDE), Image.Resampling.LANCZOS).convert("RGB")


def rgb(colour: tuple[float, float, float], rng: np.random.Generator) -> tuple[int, int, int]:
    """A colour near the given one."""
    h, s, v = np.array(colour) + rng.normal(0, (0.03, 0.08, 0.06))
    r, g, b = colorsys.hsv_to_rgb(h % 1, float(np.clip(s, 0, 1)), float(np.clip(v, 0.1, 1)))
    return int(255 * r), int(255 * g), int(255 * b)


def picture(kind: str, rng: np.random.Generator) -> Image.Image:
    """A coloured picture with a background, light from one side, a shadow and noise."""
    size = SIDE * FINE
    ramp = np.linspace(0, 1, size)[:, None, None]
    hue = rng.uniform(0, 1)
    top, bottom = (np.array(rgb((hue, s, v), rng)) for s, v in ((0.12, 0.95), (0.22, 0.75)))
    image = Image.fromarray(np.uint8(top + ramp * (bottom - top) + np.zeros((size, size, 3))))
    parts = placed(THINGS[kind], rng)
    side = rng.choice([-1, 1])
    shadow = Image.new("L", (size, size), 0)
    for part in parts:
        ImageDraw.Draw(shadow).polygon([(x - 12 * side, y + 10) for x, y in part.corners], fill=120)
    image.paste((25, 25, 35), mask=shadow.filter(ImageFilter.GaussianBlur(9)))
    for part in parts:
        mask = Image.new("L", (size, size), 0)
        ImageDraw.Draw(mask).polygon([tuple(point) for point in part.corners], fill=255)
        x, y = part.corners.T
        light = (np.arange(size)[None] - x.min()) / np.ptp(x) * side - (
            np.arange(size)[:, None] - y.min()
        ) / np.ptp(y)
        shade = np.clip(1.0 + 0.22 * light[..., None], 0.55, 1.3)
        filled = np.clip(np.array(rgb(part.colour, rng)) * shade, 0, 255)
        image.paste(Image.fromarray(np.uint8(filled)), mask=mask)
    image = image.resize((SIDE, SIDE), Image.Resampling.LANCZOS)
    noisy = np.asarray(image) + rng.normal(0, 5, (SIDE, SIDE, 1))
    return Image.fromarray(np.uint8(np.clip(noisy, 0, 255)))


def features(images: list[Image.Image], backbone: str) -> NDArray[np.float64]:
    """One row per image."""
    chosen = find_backbone(backbone)
    rows = chosen.load(ExtractSettings())(np.stack([chosen.prepare(image) for image in images]))
    return np.asarray(rows, dtype=np.float64)


def draw_figure(
    queries: list[Image.Image], found: dict[str, list[tuple[Image.Image, bool]]], path: Path
) -> None:
    """Draw one query per row, with the pictures that each method finds and whether they are right.

    `found` has all rows of a method one after the other. A long line marks a right picture.
    """
    gap, head, step, line = 34, 40, SIDE + 8, SIDE + 14
    block = gap + SHOWN * step
    size = (step + block * len(found) + 8, head + len(queries) * line)
    sheet = Image.new("RGB", size, "white")
    pen = ImageDraw.Draw(sheet)
    pen.text((8, 10), "Drawing", INK, font_size=17)
    for row, query in enumerate(queries):
        sheet.paste(query, (8, head + row * line))
        pen.rectangle((8, head + row * line, 7 + SIDE, head + row * line + SIDE - 1), outline=EDGE)
    for column, (title, items) in enumerate(found.items()):
        left = 8 + step + gap + column * block
        pen.text((left, 10), title, INK, font_size=17)
        for i, (image, is_right) in enumerate(items):
            x, y = left + i % SHOWN * step, head + i // SHOWN * line
            sheet.paste(image, (x, y))
            length = SIDE if is_right else SIDE // 3
            pen.rectangle(
                (x, y + SIDE + 2, x + length - 1, y + SIDE + 5), RIGHT if is_right else WRONG
            )
    sheet.save(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bits", type=int, default=64)
    parser.add_argument("--each", type=int, default=60, help="pictures, and drawings, of each kind")
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    y = np.tile(np.arange(len(KINDS)), options.each)
    pictures = [picture(KINDS[kind], rng) for kind in y]
    drawings = [drawing(KINDS[kind], rng) for kind in y]
    y_query = np.tile(np.arange(len(KINDS)), options.each // 4)
    queries = [drawing(KINDS[kind], rng) for kind in y_query]
    X, Z, Z_query = features(pictures, "hog"), features(drawings, "gist"), features(queries, "gist")
    print(f"{len(X)} pictures, {len(Z)} training drawings, {len(Z_query)} queries\n")
    print(f"{'':28} precision@10")
    found = {}
    for title, model in {
        "Bridged codes (ATH.kernel)": ATH.kernel(options.bits, random_state=0),
        "Ordinary codes (ITQ)": Shared(ITQ(options.bits, random_state=0)),
    }.items():
        labels = {} if isinstance(model, Shared) else {"y_source": y, "y_target": y}
        model.fit(X, Z, **labels)
        index = HammingIndex(options.bits).add(model.encode(X, domain="source"))
        ids = index.search(model.encode(Z_query, domain="target"), k=K)[1]
        found[title] = ids
        print(f"{title:28} {np.mean(y[ids] == y_query[:, None]):.3f}")
    if options.picture is not None:
        shown = {
            title: [
                (pictures[item], bool(y[item] == y_query[row]))
                for row in range(ROWS)
                for item in ids[row, :SHOWN]
            ]
            for title, ids in found.items()
        }
        draw_figure(queries[:ROWS], shown, options.picture)


if __name__ == "__main__":
    main()
