"""`bridgehash extract`: turn a folder of images or a file of texts into a file of features."""

from __future__ import annotations

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
    from bridgehash.features import Extraction

_MAX_LISTED = 20  # unreadable samples


def _print_backbones(wanted: bool) -> None:
    from bridgehash.features import BACKBONES, LOADERS

    if wanted:
        columns = ("backbone", "reads", "features", "pixels", "needs")
        rows = [
            (b.name, f"{b.reads}s", str(b.dimension), str(b.input_size or "-"), b.needs)
            for b in BACKBONES.values()
        ]
        rows += [
            (
                loader.pattern,
                " or ".join(f"{each}s" for each in loader.reads),
                "-",
                "-",
                loader.needs,
            )
            for loader in LOADERS.values()
        ]
        show_table(columns, rows)
        raise typer.Exit


Source = Annotated[
    str,
    typer.Argument(
        metavar="INPUT",
        help="Folder of images, whose first subfolder is the class; or texts: texts.txt (one per "
        "line), texts.csv:COLUMN, texts.jsonl:COLUMN.",
    ),
]
BackboneName = Annotated[
    str,
    typer.Option("--backbone", metavar="NAME", help="A name or PREFIX:NAME from `extract --list`."),
]
FeaturesOut = Annotated[Path, typer.Option("--out", help="File to write: *.npz")]
BatchSize = Annotated[
    int,
    typer.Option(
        parser=opt.whole(1), metavar="N", help="Samples per batch; finished batches are saved."
    ),
]
Resume = Annotated[
    bool,
    typer.Option("--resume/--no-resume", help="Continue a stopped run, or start again."),
]
Device = Annotated[str, typer.Option(help="Torch device for networks: cpu, cuda.")]
Weights = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Weights of vgg16, resnet50, timm:NAME or open_clip:NAME."),
]
Download = Annotated[bool, typer.Option("--download", help="Download weights that are missing.")]
LabelsColumn = Annotated[
    str, typer.Option(metavar="COLUMN", help="Column of labels in a file of texts.")
]
IdsColumn = Annotated[str, typer.Option(metavar="COLUMN", help="Column of ids in a file of texts.")]
ListBackbones = Annotated[
    bool,
    typer.Option(
        "--list", callback=_print_backbones, is_eager=True, help="List the backbones and exit."
    ),
]


def extract(
    source: Source,
    backbone: BackboneName,
    out: FeaturesOut,
    batch_size: BatchSize = 32,
    resume: Resume = True,
    device: Device = "cpu",
    weights: Weights = None,
    download: Download = False,
    labels_column: LabelsColumn = "",
    ids_column: IdsColumn = "",
    list_backbones: ListBackbones = False,
) -> None:
    """Turn a folder of images or a file of texts into features, ready for `fit`.

    The file holds x (one row per image or text), y (the class or label), ids (the path or row)
    and a header. A stopped run is continued by the same command. Images and texts that cannot be
    read are skipped and listed.

    \b
    Example:
      bridgehash extract --list
      bridgehash extract photos --backbone efficientnet-lite0 --out photos.npz
      bridgehash extract sketches --backbone gist --out sketches.npz
      bridgehash extract items.csv:title --backbone wordllama --out titles.npz
      bridgehash fit photos.npz:x sketches.npz:x --labels-source photos.npz:y --out model.bh
    """
    from bridgehash.cli.io import check_output
    from bridgehash.features import extract as extract_features

    started = perf_counter()
    path = check_output(out, (".npz",))
    try:
        with countdown("extract", visible=may_animate()) as reach:
            done = extract_features(
                source,
                backbone,
                path,
                batch_size=batch_size,
                resume=resume,
                device=device,
                weights=weights,
                download=download,
                labels_column=labels_column,
                ids_column=ids_column,
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
    _list_unreadable(done, path)


def _fields(done: Extraction, backbone: str, seconds: float) -> list[tuple[str, str]]:
    n, dimension = done.shape
    computed = n + len(done.unreadable) - done.n_resumed
    resumed = [("resumed", f"{counted(done.n_resumed, done.kind)} already done")]
    classes = {0: "without classes", 1: "of 1 class"}.get(
        done.n_classes, f"of {done.n_classes} classes"
    )
    return [
        ("backbone", f"{backbone}, {dimension} features per {done.kind}"),
        (f"{done.kind}s", f"{counted(n, done.kind)} {classes}, {len(done.unreadable)} unreadable"),
        *(resumed if done.n_resumed else []),
        ("written", f"{done.path} ({decimal(done.path.stat().st_size)})"),
        ("time", f"{seconds:.1f} s, {computed / max(seconds, 1e-9):.1f} {done.kind}s/s"),
    ]


def _list_unreadable(done: Extraction, path: Path) -> None:
    name = "row " if done.kind == "text" else ""
    for sample in done.unreadable[:_MAX_LISTED]:
        note(f"{name}{sample.id}: skipped, cannot be read ({sample.reason})")
    if len(done.unreadable) > _MAX_LISTED:
        more = counted(len(done.unreadable) - _MAX_LISTED, f"more {done.kind}")
        note(f"{more} could not be read; the header of {path} lists all")
