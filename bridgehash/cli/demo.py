"""`bridgehash demo`: try the package on handwritten digits."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.filesize import decimal

from bridgehash._core.errors import InputError
from bridgehash.cli import options as opt
from bridgehash.cli.console import results, show_fields

DemoOut = Annotated[Path, typer.Option("--out", help="Folder to write to.")]
DemoServe = Annotated[
    bool, typer.Option("--serve", help="Serve a page to compare methods, until Ctrl-C.")
]
DemoWrite = Annotated[
    bool, typer.Option("--write", help="Write the data to OUT/digits.npz and nothing else.")
]
DemoPort = Annotated[
    int | None,
    typer.Option(
        parser=opt.whole(0, 65535),
        metavar="N",
        show_default="8000",
        help="Port of --serve; 0: any free port.",
    ),
]


def demo(
    out: DemoOut = Path("demo"),
    write: DemoWrite = False,
    serve: DemoServe = False,
    port: DemoPort = None,
) -> None:
    """Compare methods on handwritten digits in two feature spaces.

    Prints a table of scores and one example query. Writes a model, codes, data, pictures and a
    page to OUT, and prints commands to try next. Pictures need matplotlib. The examples of the
    other commands use the data that `bridgehash demo --write` writes.

    \b
    Example:
      bridgehash demo
      bridgehash demo --write
      bridgehash demo --serve --port 8000
    """
    if write and serve:
        raise InputError("give either --write or --serve")
    if port is not None and not serve:
        raise InputError("needs --serve", "--port")
    if out.exists() and not out.is_dir():
        raise InputError("is a file, but the demo writes a folder; choose another place", str(out))
    if write:
        from bridgehash.cli.demo_report import write_data

        path = write_data(out)
        show_fields([("written", f"{path} ({decimal(path.stat().st_size)})")])
    elif serve:
        from bridgehash.cli.demo_serve import serve_demo

        serve_demo(out, 8000 if port is None else port)
    else:
        from bridgehash.cli.demo_report import run_demo

        run_demo(out, results())
