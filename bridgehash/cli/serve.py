"""`bridgehash serve`: serve models and indexes over HTTP."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from bridgehash._core.errors import InputError
from bridgehash.cli import options as opt
from bridgehash.cli.console import counted, note

if TYPE_CHECKING:
    from bridgehash.service.catalogue import Files

Models = Annotated[
    list[Path], typer.Option("--model", metavar="FILE", help="Model file; repeatable.")
]
Indexes = Annotated[
    list[Path],
    typer.Option(
        "--index", metavar="FILE", help="Index file (*.bhi) of each model, in that order."
    ),
]
QueriesOf = Annotated[
    list[Path] | None,
    typer.Option(
        "--queries", metavar="FILE", help="Index of another domain, to pick queries from."
    ),
]
Images = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FOLDER",
        help="Folder of images of the items; one for all models, or one per model.",
    ),
]
QueryImages = Annotated[
    list[Path] | None, typer.Option(metavar="FOLDER", help="Folder of images of the queries.")
]
Backbones = Annotated[
    list[str] | None,
    typer.Option(
        "--backbone", metavar="NAME", help="How uploaded images are turned into query features."
    ),
]
Host = Annotated[str, typer.Option(help="Address to listen on; other than loopback needs a key.")]
Port = Annotated[
    int,
    typer.Option(
        parser=opt.whole(0, 65535), metavar="N", help="Port to listen on; 0: any free port."
    ),
]
KeyFile = Annotated[
    Path | None,
    typer.Option(help="File with the API key for changes. Default: BRIDGEHASH_API_KEY."),
]
MemoryLimit = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Memory of the service, child processes included; such as 2GB. "
        "Default: what is loaded plus 512 MiB for requests and 1.5 GiB for the rest.",
    ),
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
    memory_limit: MemoryLimit = None,
) -> None:
    """Serve models and their indexes over HTTP.

    Repeated options are matched by order: the first --index belongs to the first --model. An
    option given once holds for all models; - means none.

    \b
    Example:
      bridgehash serve --model model.bh --index digits.bhi
      bridgehash serve --model ath.bh --index ath.bhi --model itq.bh --index itq.bhi \\
        --images photos/
    """
    require_service("serve")
    from bridgehash.service.catalogue import Files
    from bridgehash.service.settings import KEY_VARIABLE, read_key

    n = len(model)
    if len(index) != n:
        raise InputError(
            f"given {len(index)} times for {counted(n, 'model')}; one per --model", "--index"
        )
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
    read_only = f"read-only: to allow changes, set {KEY_VARIABLE} or --key-file"
    size = _size(memory_limit)
    run_service(files, host, port, key, "" if key else read_only, memory_limit=size)


def _size(memory_limit: str | None) -> int | None:
    if memory_limit is None:
        return None
    from bridgehash._core.validation import Size

    rule = Size()
    if not rule.admits(memory_limit):
        raise InputError(f"{memory_limit!r} is not allowed; use {rule}", "--memory-limit")
    return rule.n_bytes(memory_limit)


def require_service(command: str) -> None:
    """Raise an error that names the extra to install, before any work."""
    try:
        from bridgehash.service import app, server  # noqa: F401
    except ImportError as error:
        raise InputError(
            f"{command} needs {error.name}; pip install 'bridgehash[serve]'"
        ) from error


def check_free(host: str, port: int) -> None:
    """Refuse a port that is in use, before any work."""
    from bridgehash.service.server import listen

    listen(host, port).close()


def run_service(
    files: Sequence[Files],
    host: str,
    port: int,
    key: str | None,
    remark: str = "",
    memory_limit: int | None = None,
    ready: str = "listening at {address}",
) -> None:
    """Serve until SIGINT or SIGTERM; print a remark if given, and last the address."""
    from bridgehash.service import app, catalogue, memory, server, settings

    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    chosen = settings.make_settings(host, key)
    listener = server.listen(host, port)
    with listener:
        catalogues = catalogue.open_catalogues(files, chosen)
        try:
            limits = memory.plan(chosen.limits, memory_limit)
            chosen = replace(chosen, limits=limits)
            names, size = ", ".join(catalogues), limits.memory_bytes >> 20
            note(f"serving {names} in at most {size} MiB")
            if remark:
                note(remark)
            line = ready.format(address=server.address_of(listener))
            server.serve(app.create_app(catalogues, chosen), listener, lambda: note(line))
        finally:
            catalogue.close_catalogues(catalogues)


def _each(given: Sequence[T] | None, n: int, option: str) -> list[T | None]:
    """Return one value per model; a single value holds for all, and - means none."""
    values: list[Any] = [*given] if given else ["-"]
    if len(values) not in (1, n):
        raise InputError(
            f"given {len(values)} times for {counted(n, 'model')}; one, or one per --model", option
        )
    chosen = values * n if len(values) == 1 else values
    return [None if str(value) == "-" else value for value in chosen]
