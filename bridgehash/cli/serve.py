"""`bridgehash serve`: models and indexes over HTTP."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from bridgehash._core.errors import InputError
from bridgehash.cli.console import note

if TYPE_CHECKING:
    from bridgehash.service.catalogue import Files

Models = Annotated[list[Path], typer.Option("--model", help="A model; repeat for more.")]
Indexes = Annotated[
    list[Path], typer.Option("--index", help="Its index (*.bhi), in the order of the models.")
]
QueriesOf = Annotated[
    list[Path] | None,
    typer.Option("--queries", help="An index of the other domain, to pick queries from."),
]
Images = Annotated[
    list[Path] | None, typer.Option(help="Folder of pictures of the items; once, or once a model.")
]
QueryImages = Annotated[list[Path] | None, typer.Option(help="Folder of pictures of the queries.")]
Backbones = Annotated[
    list[str] | None,
    typer.Option("--backbone", help="How uploaded images become features of the queries' domain."),
]
Host = Annotated[str, typer.Option(help="Address to listen at; any but loopback needs a key.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="0: a free one.")]
KeyFile = Annotated[
    Path | None,
    typer.Option(help="File with the key that changes need; else BRIDGEHASH_API_KEY."),
]

T = TypeVar("T")


def serve(
    model: Models,
    index: Indexes,
    queries: QueriesOf = None,
    images: Images = None,
    query_images: QueryImages = None,
    backbone: Backbones = None,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    key_file: KeyFile = None,
) -> None:
    """Serve models and their indexes over HTTP.

    Options that are repeated go by order: the first --index belongs to the first --model. One
    that is given once holds for all models; - stands for none.

    \b
    Example:
      bridgehash serve --model model.bh --index photos.bhi
      bridgehash serve --model ath.bh --index ath.bhi --model itq.bh --index itq.bhi \\
        --images photos/
    """
    require_service("serve")
    from bridgehash.service.catalogue import Files
    from bridgehash.service.settings import KEY_VARIABLE, read_key

    n = len(model)
    if len(index) != n:
        raise InputError(f"--index: {len(index)} for {n} of --model; give one each, in order")
    files = [
        Files(*each)
        for each in zip(
            model,
            index,
            _each(queries, n, "--queries"),
            _each(images, n, "--images"),
            _each(query_images, n, "--query-images"),
            _each(backbone, n, "--backbone"),
            strict=True,
        )
    ]
    key = read_key(os.environ, key_file)
    read_only = f"read-only: changes need a key, in {KEY_VARIABLE} or --key-file"
    run_service(files, host, port, key, "" if key else read_only)


def require_service(command: str) -> None:
    """Say what to install before anything is done."""
    try:
        from bridgehash.service import app, server  # noqa: F401
    except ImportError as error:
        raise InputError(
            f"{command} needs {error.name}; pip install 'bridgehash[serve]'"
        ) from error


def check_free(host: str, port: int) -> None:
    """Refuse a port that is taken before anything takes time."""
    from bridgehash.service.server import listen

    listen(host, port).close()


def run_service(
    files: Sequence[Files], host: str, port: int, key: str | None, remark: str = ""
) -> None:
    """Serve until SIGINT or SIGTERM; tell the address, and a remark if there is one."""
    from bridgehash.service import app, catalogue, server, settings

    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    chosen = settings.make_settings(host, key)
    listener = server.listen(host, port)
    with listener:
        catalogues = catalogue.open_catalogues(files, chosen)
        try:
            names = ", ".join(catalogues)
            note(f"serving {names} at {server.address_of(listener)}")
            if remark:
                note(remark)
            server.serve(app.create_app(catalogues, chosen), listener)
        finally:
            catalogue.close_catalogues(catalogues)


def _each(given: Sequence[T] | None, n: int, option: str) -> list[T | None]:
    """One for each model: as many as there are, one for all, or none; - leaves a model out."""
    values: list[Any] = [*given] if given else ["-"]
    if len(values) not in (1, n):
        raise InputError(f"{option}: {len(values)} for {n} of --model; give one each, or one")
    chosen = values * n if len(values) == 1 else values
    return [None if str(value) == "-" else value for value in chosen]
