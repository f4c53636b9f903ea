"""`bridgehash extract`: turn a folder of images into a file of features."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer
from rich.filesize import decimal

from bridgehash._core.errors import InputError, JournalError
from bridgehash._core.progress import countdown
from bridgehash.cli import options as opt
from bridgehash.cli.console import counted, may_animate, note, show_fields, show_table

if TYPE_CHECKING:
    from bridgehash.features import Extraction, Unreadable

_MAX_LISTED = 20  # unreadable images


def _print_backbones(wanted: bool) -> None:
    from bridgehash.features import BACKBONES

    if wanted:
        columns = ("backbone", "features", "pixels", "needs")
        show_table(
            columns,
            [(b.name, str(b.dimension), str(b.input_size), b.needs) for b in BACKBONES.values()],
        )
        raise typer.Exit


Folder = Annotated[
    Path,
    typer.Argument(metavar="FOLDER", help="Folder of images; the first subfolder is the class."),
]
BackboneName = Annotated[
    str, typer.Option("--backbone", metavar="NAME", help="A name from `extract --list`.")
]
FeaturesOut = Annotated[Path, typer.Option("--out", help="File to write: *.npz")]
BatchSize = Annotated[
    int,
    typer.Option(
        parser=opt.whole(1), metavar="N", help="Images per batch; finished batches are saved."
    ),
]
Resume = Annotated[
    bool,
    typer.Option("--resume/--no-resume", help="Continue a stopped run, or start again."),
]
Device = Annotated[str, typer.Option(help="Torch device for networks: cpu, cuda.")]
Weights = Annotated[Path | None, typer.Option(metavar="FILE", help="Weights of vgg16 or resnet50.")]
Download = Annotated[
    bool, typer.Option("--download", help="Download missing weights of vgg16 or resnet50.")
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

    The file holds x (one row per image), y (the class), ids (the path) and a header. A stopped
    run is continued by the same command. Images that cannot be read are skipped and listed.

    \b
    Example:
      bridgehash extract photos --backbone efficientnet-lite0 --out photos.npz
      bridgehash extract sketches --backbone gist --out sketches.npz
      bridgehash fit photos.npz:x sketches.npz:x --labels-source photos.npz:y --out model.bh
    """
    from bridgehash.cli.io import check_output
    from bridgehash.features import extract as extract_features

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
    except JournalError as error:
        raise InputError(
            f"{error}; finished batches are kept; run the same command to continue"
        ) from error
    except KeyboardInterrupt:
        if Path(f"{path}.part").exists():
            note(f"finished batches are kept in {path}.part; run the same command to continue")
        raise
    show_fields(_fields(done, backbone, perf_counter() - started))
    _list_unreadable(done.unreadable, path)


def _fields(done: Extraction, backbone: str, seconds: float) -> list[tuple[str, str]]:
    n, dimension = done.shape
    computed = n + len(done.unreadable) - done.n_resumed
    resumed = [("resumed", f"{counted(done.n_resumed, 'image')} already done")]
    classes = {0: "without classes", 1: "of 1 class"}.get(
        done.n_classes, f"of {done.n_classes} classes"
    )
    return [
        ("backbone", f"{backbone}, {dimension} features per image"),
        ("images", f"{counted(n, 'image')} {classes}, {len(done.unreadable)} unreadable"),
        *(resumed if done.n_resumed else []),
        ("written", f"{done.path} ({decimal(done.path.stat().st_size)})"),
        ("time", f"{seconds:.1f} s, {computed / max(seconds, 1e-9):.1f} images/s"),
    ]


def _list_unreadable(images: Sequence[Unreadable], path: Path) -> None:
    for image in images[:_MAX_LISTED]:
        note(f"{image.id}: skipped, cannot be read ({image.reason})")
    if len(images) > _MAX_LISTED:
        more = counted(len(images) - _MAX_LISTED, "more image")
        note(f"{more} could not be read; the header of {path} lists all")
