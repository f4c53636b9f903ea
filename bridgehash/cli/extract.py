"""`bridgehash extract`: a folder of images to one file of features."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer
from rich.filesize import decimal

from bridgehash._core.errors import InputError
from bridgehash._core.progress import countdown
from bridgehash.cli.console import counted, may_animate, note, show_fields, show_table
from bridgehash.cli.io import check_output
from bridgehash.features import BACKBONES, Extraction, Unreadable
from bridgehash.features import extract as extract_features

_MAX_LISTED = 20  # unreadable images


def _print_backbones(wanted: bool) -> None:
    if wanted:
        columns = ("backbone", "numbers", "pixels", "needs")
        show_table(
            columns,
            [(b.name, str(b.dimension), str(b.input_size), b.needs) for b in BACKBONES.values()],
        )
        raise typer.Exit


Folder = Annotated[
    Path, typer.Argument(metavar="FOLDER", help="Images; the first sub-folder is the class.")
]
BackboneName = Annotated[
    str, typer.Option("--backbone", metavar="NAME", help=f"One of {', '.join(BACKBONES)}.")
]
FeaturesOut = Annotated[Path, typer.Option("--out", help="File to write: *.npz.")]
BatchSize = Annotated[int, typer.Option(min=1, help="Images computed and kept at a time.")]
Resume = Annotated[
    bool,
    typer.Option("--resume/--no-resume", help="Go on where a stopped run was, or start anew."),
]
Device = Annotated[str, typer.Option(help="Where networks run, as torch names it: cpu, cuda.")]
Weights = Annotated[Path | None, typer.Option(metavar="FILE", help="Weights of vgg16 or resnet50.")]
Download = Annotated[
    bool, typer.Option("--download", help="Let vgg16 or resnet50 fetch missing weights.")
]
ListBackbones = Annotated[
    bool,
    typer.Option(
        "--list", callback=_print_backbones, is_eager=True, help="List the backbones and exit."
    ),
]


def extract(
    folder: Folder,
    backbone: BackboneName,
    out: FeaturesOut,
    batch_size: BatchSize = 32,
    resume: Resume = True,
    device: Device = "cpu",
    weights: Weights = None,
    download: Download = False,
    list_backbones: ListBackbones = False,
) -> None:
    """Turn a folder of images into features, ready for `fit`.

    The file holds x (a row an image), y (the class), ids (the path) and a header. A run that was
    stopped goes on where it was; images that cannot be read are left out and listed.

    \b
    Example:
      bridgehash extract photos --backbone efficientnet-lite0 --out photos.npz
      bridgehash extract sketches --backbone gist --out sketches.npz
      bridgehash fit photos.npz:x sketches.npz:x --labels-source photos.npz:y --out model.bh
    """
    started = perf_counter()
    path = check_output(out, (".npz",))
    try:
        with countdown("extract", visible=may_animate()) as reach:
            done = extract_features(
                folder,
                backbone,
                path,
                batch_size=batch_size,
                resume=resume,
                device=device,
                weights=weights,
                download=download,
                on_progress=reach,
            )
    except ImportError as error:  # an extra that is not installed
        raise InputError(str(error)) from error
    except KeyboardInterrupt:
        if Path(f"{path}.part").exists():
            note(f"finished batches are kept in {path}.part; the same command goes on from there")
        raise
    show_fields(_fields(done, backbone, perf_counter() - started))
    _list_unreadable(done.unreadable, path)


def _fields(done: Extraction, backbone: str, seconds: float) -> list[tuple[str, str]]:
    n, dimension = done.shape
    computed = n + len(done.unreadable) - done.n_resumed
    resumed = [("resumed", f"{counted(done.n_resumed, 'image')} done before")]
    classes = {0: "without classes", 1: "of 1 class"}.get(
        done.n_classes, f"of {done.n_classes} classes"
    )
    return [
        ("backbone", f"{backbone}, {dimension} numbers an image"),
        ("images", f"{counted(n, 'image')} {classes}, {len(done.unreadable)} unreadable"),
        *(resumed if done.n_resumed else []),
        ("written", f"{done.path} ({decimal(done.path.stat().st_size)})"),
        ("time", f"{seconds:.1f} s, {computed / max(seconds, 1e-9):.1f} images/s"),
    ]


def _list_unreadable(images: Sequence[Unreadable], path: Path) -> None:
    for image in images[:_MAX_LISTED]:
        note(f"{image.id}: left out, cannot be read ({image.reason})")
    if len(images) > _MAX_LISTED:
        more = counted(len(images) - _MAX_LISTED, "more image")
        note(f"{more} could not be read; the header of {path} names all")
