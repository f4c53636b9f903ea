"""Small catalogues for the page: digits, shapes with a backbone, and items without pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from bridgehash import ITQ, load, save
from bridgehash.cli.demo_serve import digits, make_catalogues
from bridgehash.datasets import digit_domains
from bridgehash.features.backbones import ExtractSettings, find_backbone
from bridgehash.index import HammingIndex
from bridgehash.models.provenance import origin
from bridgehash.service.catalogue import Files

SHAPES = ("disc", "bars", "box")


def make_places(folder: Path) -> list[Files]:
    """Digits in four codings, shapes in two that take pictures, and one that has none."""
    return [
        *make_catalogues(folder, [digits(folder / "digits", digit_domains(240, n_queries=30))]),
        *_shapes(folder),
    ]


def options(files: list[Files]) -> list[str]:
    """Return the options of `bridgehash serve`."""
    words = []
    for each in files:
        for name, value in zip(
            ("--model", "--index", "--queries", "--images", "--query-images", "--backbone"),
            (
                each.model,
                each.index,
                each.queries,
                each.images,
                each.query_images,
                each.backbone,
            ),
            strict=True,
        ):
            words += [name, str(value or "-")]
    return words


def draw(kind: str, rng: np.random.Generator) -> Image.Image:
    """Draw a shape at a random place."""
    image = Image.new("RGB", (64, 64), "white")
    pen = ImageDraw.Draw(image)
    x, y = (int(v) for v in rng.integers(4, 20, 2))
    if kind == "disc":
        pen.ellipse((x, y, x + 36, y + 36), fill="#0b63a5")
    elif kind == "box":
        pen.rectangle((x, y, x + 34, y + 34), outline="#a63d00", width=4)
    else:
        for step in range(0, 40, 10):
            pen.rectangle((x, y + step, x + 40, y + step + 4), fill="#00795c")
    return image


def _shapes(folder: Path) -> list[Files]:
    rng = np.random.default_rng(0)
    tags = [SHAPES[i % 3] for i in range(36)]
    drawn = [draw(tag, rng) for tag in tags]
    (folder / "shapes").mkdir()
    for i, image in enumerate(drawn):
        image.save(folder / "shapes" / f"{i}.png")
    drawn[1].save(folder / "bars.png")
    backbone = find_backbone("gist")
    X = backbone.load(ExtractSettings())(np.stack([backbone.prepare(image) for image in drawn]))
    made = []
    for name, n_bits, shown in (("shapes-16", 16, True), ("shapes-24", 24, True), ("bare", 12, 0)):
        model = ITQ(n_bits=n_bits, random_state=0).fit(X)
        save(model, folder / f"{name}.bh")
        index = HammingIndex(n_bits).add(model.encode(X), tags=tags if shown else None)
        index.about = origin(load(folder / f"{name}.bh"), None)
        index.save(folder / f"{name}.bhi")
        images, backbone_name = (folder / "shapes", "gist") if shown else (None, None)
        files = Files(folder / f"{name}.bh", folder / f"{name}.bhi", images=images)
        made.append(Files(files.model, files.index, None, images, None, backbone_name))
    return made
