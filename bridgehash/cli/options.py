"""Arguments and options of the commands, each with its help text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bridgehash.ath.presets import PRESETS
from bridgehash.cli.methods import NAMES
from bridgehash.cli.models import Domain
from bridgehash.codes import MAX_BITS

Source = Annotated[str, typer.Argument(metavar="SOURCE", help="Features of the source.")]
Target = Annotated[str, typer.Argument(metavar="TARGET", help="Features of the target.")]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A file that `fit` wrote.")]
Data = Annotated[
    str, typer.Argument(metavar="DATA", help="Features to encode, or a folder of such files.")
]

ModelOut = Annotated[Path, typer.Option("--out", help="Model file to write: *.bh.")]
CodesOut = Annotated[
    Path, typer.Option("--out", help="File to write: *.npy or *.parquet; for a folder, a folder.")
]
DemoOut = Annotated[Path, typer.Option("--out", help="Folder to write to.")]
DemoServe = Annotated[
    bool, typer.Option("--serve", help="Serve catalogues to compare on a page, until Ctrl-C.")
]
DemoPort = Annotated[
    int | None,
    typer.Option(
        min=0, max=65535, show_default=False, help="Where --serve listens: 8000; 0: a free one."
    ),
]

Method = Annotated[
    str, typer.Option(help=f"One of {', '.join(NAMES)}; `bridgehash methods` tells what they are.")
]
Preset = Annotated[
    str | None,
    typer.Option(
        help=f"Realisation of ath: {', '.join(PRESETS)}. Without it, what is given decides: pairs, "
        "labels of all rows or of some, else the numbers of columns."
    ),
]
Published = Annotated[
    bool,
    typer.Option(
        "--published",
        help="Constants and start of the paper, not the tuned ones; its four realisations only.",
    ),
]
LabelsSource = Annotated[
    str | None,
    typer.Option(
        metavar="SPEC", help="Labels of the source: whole numbers, -1 where unknown, or text."
    ),
]
LabelsTarget = Annotated[
    str | None, typer.Option(metavar="SPEC", help="Labels of the target, of the same kind.")
]
Pairs = Annotated[
    str | None,
    typer.Option(
        metavar="SPEC",
        help="Two columns of row numbers from 0: a row of the source, its partner in the target.",
    ),
]
Bits = Annotated[int, typer.Option(min=1, max=MAX_BITS, help="Length of the codes.")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Any parameter of the method; repeat for more. An unknown key lists them all.",
    ),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS", help="Let the workers of a Dask scheduler do it: tcp://host:8786."
    ),
]
MemoryLimit = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE", help="What the fit may take on top of its inputs (ath only): 4GiB."
    ),
]
Device = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Where to compute (ath only): auto, cuda, cuda:1."),
]
Seed = Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of all random draws.")]
Verbose = Annotated[
    bool | None,
    typer.Option(
        "--verbose/--quiet",
        "-v/-q",
        show_default=False,
        help="Tell each step, or nothing but errors. Neither: a progress bar on a terminal.",
    ),
]

OneDomain = Annotated[
    Domain | None,
    typer.Option(help="Domain of DATA; not for a model that is a single encoder."),
]
Ids = Annotated[
    str | None,
    typer.Option(metavar="SPEC", help="Ids to write beside the codes (*.parquet only)."),
]
Replace = Annotated[
    bool, typer.Option("--replace", help="Make all codes of a folder again, not the missing ones.")
]

Queries = Annotated[str, typer.Option(metavar="SPEC", help="Features of the queries.")]
LabelsQueries = Annotated[str, typer.Option(metavar="SPEC", help="Their labels.")]
Database = Annotated[str, typer.Option(metavar="SPEC", help="Features of the database.")]
LabelsDatabase = Annotated[str, typer.Option(metavar="SPEC", help="Their labels.")]
DomainQueries = Annotated[
    Domain | None, typer.Option(help="Domain of the queries: target, unless given.")
]
DomainDatabase = Annotated[
    Domain | None, typer.Option(help="Domain of the database: source, unless given.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
