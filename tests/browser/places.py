"""Small catalogues for the page: digits, shapes with a backbone, and items without pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from bridgehash import ATH, ITQ, load, save
from bridgehash.cli.demo_catalogues import digits, make_catalogues
from bridgehash.datasets import digit_domains
from bridgehash.features.backbones import ExtractSettings, find_backbone
from bridgehash.index import HammingIndex
from bridgehash.models.provenance import origin
from bridgehash.service.catalogue import Files

SHAPES = ("disc", "bars", "box")
LONG = "a" * 64, "b" * 64  # the longest names of domains


def make_places(folder: Path) -> list[Files]:
    """Digits and shapes in several codings, and items without pictures, with all kinds of names."""
    return [
        *make_catalogues(folder, [digits(folder / "digits", digit_domains(240, n_queries=30))]),
        *_shapes(folder),
        _two_domains(folder, "generic", ("source", "target")),
        _two_domains(folder, "long", LONG),
        _two_domains(folder, "mixed", ("photos", "sketches"), n_others=5),
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
    draw("box", rng).save(folder / "other.png")
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


def _two_domains(folder: Path, name: str, domains: tuple[str, str], n_others: int = 0) -> Files:
    """Return 40 items of one domain and 20 queries of another; the index also has some of those."""
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    X = 3.0 * y[:, None] + rng.normal(size=(40, 6))
    Z = X[:20, :4] + rng.normal(size=(20, 4))
    tags = np.array(["even", "odd"], dtype=object)[y]
    model = ATH.supervised(n_bits=8, random_state=0)
    model.fit(
        dict(zip(domains, (X, Z), strict=True)), y=dict(zip(domains, (y, y[:20]), strict=True))
    )
    save(model, folder / f"{name}.bh")
    paths = folder / f"{name}.bhi", folder / f"{name}-queries.bhi"
    for domain, rows, path in zip(domains, (X, Z), paths, strict=True):
        index = HammingIndex(8).add(
            model.encode(rows, domain), tags=tags[: len(rows)], domain=domain
        )
        if path == paths[0] and n_others:
            codes = model.encode(Z[:n_others], domains[1])
            index.add(codes, tags=tags[:n_others], domain=domains[1])
        index.about = origin(model, domain)
        index.save(path)
    return Files(folder / f"{name}.bh", *paths)
