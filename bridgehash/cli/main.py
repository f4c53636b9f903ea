"""The command `bridgehash`: parse, call, print.

`main` is the console entry point. Commands raise; `failures.guarded` alone turns what they raise
into one line and an exit code.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer
from rich.filesize import decimal

from bridgehash import __version__, load, save
from bridgehash._core.errors import InputError
from bridgehash.cli import bench as benching
from bridgehash.cli import index as searching
from bridgehash.cli import options as opt
from bridgehash.cli import serve as serving
from bridgehash.cli.console import counted, note, results, show_fields, show_table
from bridgehash.cli.description import describe, described_fields
from bridgehash.cli.extract import extract
from bridgehash.cli.failures import guarded, writing
from bridgehash.cli.fitting import Means, at_work, fitted_fields, learn, read_domains
from bridgehash.cli.io import check_output, write_codes
from bridgehash.cli.methods import apply_settings, build, ignored, method_records
from bridgehash.cli.models import check_not_an_input, encode_rows, read_row_labels, read_rows
from bridgehash.cli.scoring import join_labels, score, score_rows
from bridgehash.cli.sharding import check_folders, encode_folder
from bridgehash.models.base import BaseTransferHasher
from bridgehash.models.provenance import encoder_of, origin

MODEL_SUFFIXES = (".bh", ".safetensors")

app = typer.Typer(add_completion=False, rich_markup_mode=None)
app.command()(extract)
app.add_typer(benching.app, name="bench")
app.add_typer(searching.app, name="index")
app.command()(searching.search)
app.command()(serving.serve)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line with these arguments (default: those of the process)."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a name that the terminal cannot show is no failure
            stream.reconfigure(errors="backslashreplace")
    return guarded(partial(_invoke, sys.argv[1:] if argv is None else list(argv)))


def _invoke(arguments: list[str]) -> int:
    """Below typer's own entry, which prints errors and exits in ways of its own."""
    command = typer.main.get_command(app)
    try:
        with command.make_context("bridgehash", arguments) as context:
            command.invoke(context)
    except typer.Exit as done:
        return int(done.exit_code)
    return 0


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"bridgehash {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def bridgehash(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Binary codes that are comparable across two domains and two feature spaces.

    Learn two hash functions from a source and a target (`fit`), turn rows into codes (`encode`),
    and measure how well they retrieve (`evaluate`). `demo` tries all of it.

    \b
    Example:
      bridgehash demo
      bridgehash fit source.npy target.npy --out model.bh
    """
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command()
def fit(
    source: opt.Source,
    target: opt.Target,
    out: opt.ModelOut,
    method: opt.Method = "ath",
    preset: opt.Preset = None,
    published: opt.Published = False,
    labels_source: opt.LabelsSource = None,
    labels_target: opt.LabelsTarget = None,
    pairs: opt.Pairs = None,
    bits: opt.Bits = 64,
    settings: opt.Settings = None,
    scheduler: opt.Scheduler = None,
    memory_limit: opt.MemoryLimit = None,
    device: opt.Device = None,
    seed: opt.Seed = 0,
    verbose: opt.Verbose = None,
) -> None:
    """Learn hash functions for two domains and save them.

    A matrix has one row a sample and is named FILE.npy, FILE.npz:KEY, FILE.parquet:COLUMN,
    FILE.csv, FOLDER.zarr or a folder of .npy or .parquet files, read in the order of their names.
    The two domains may differ in rows and in columns.

    \b
    Example:
      bridgehash fit photos.npy sketches.npy --out model.bh --bits 32 \\
        --labels-source photos.csv:class --set max_iter=100
    """
    started = perf_counter()
    path = check_output(out, MODEL_SUFFIXES)
    labels = {"source": labels_source, "target": labels_target}
    specs = {"source": source, "target": target}
    means = Means(scheduler, memory_limit, device)
    in_blocks = bool(scheduler or memory_limit)
    data = read_domains(specs, labels, pairs, verbose, in_blocks=in_blocks)
    hasher, title = build(method, data, preset=preset, published=published, n_bits=bits, seed=seed)
    apply_settings(hasher, settings or [])
    for word in ignored(hasher, data) if verbose is not False else ():
        note(f"{title} does not use {word}; they are ignored")
    means.check(hasher, title)
    learn(hasher, data, specs, verbose, means)
    with writing(path):
        save(hasher, path)
    if verbose is not False:
        show_fields(
            [
                ("method", title),
                *fitted_fields(hasher, data),
                ("written", f"{path} ({decimal(path.stat().st_size)})"),
                ("time", f"{perf_counter() - started:.1f} s"),
            ]
        )


@app.command()
def encode(
    model: opt.Model,
    data: opt.Data,
    out: opt.CodesOut,
    domain: opt.OneDomain = None,
    ids: opt.Ids = None,
    scheduler: opt.Scheduler = None,
    replace: opt.Replace = False,
) -> None:
    """Turn rows of features into packed binary codes.

    The codes are bytes, eight bits each: an array of shape (rows, bytes) in a .npy file, a column
    `code` (beside a column `id`) in a .parquet file. For a folder of .npy or .parquet files, OUT is
    a folder of as many; what is there is not made again, so a stopped run goes on.

    \b
    Example:
      bridgehash encode model.bh sketches.npy --domain target --out codes.npy
      bridgehash encode model.bh shards/ --domain target --out codes/ --scheduler tcp://host:8786
    """
    if Path(data).is_dir() and Path(data).suffix.lower() != ".zarr":
        if ids is not None:
            raise InputError(
                "--ids is for one file; ids of a folder are a column `id` in its files"
            )
        check_folders(Path(data), out)
        encoder = encoder_of(load(model), model, domain, "--domain")
        about = origin(model, domain) | {"n_bits": str(encoder.n_bits)}
        with at_work(scheduler):
            encode_folder(encoder, about, Path(data), out, replace=replace)
        return
    if scheduler or replace:
        option = "--scheduler" if scheduler else "--replace"
        raise InputError(f"{option} is for a folder of files, and {data} is none; drop it")
    if ids is not None and out.suffix.lower() != ".parquet":
        raise InputError(f"{out}: has no place for --ids; name a .parquet file")
    path = check_output(out)
    check_not_an_input(path, data, ids or "")
    encoder = encoder_of(load(model), model, domain, "--domain")
    X = read_rows(data, encoder, model)
    names = None if ids is None else read_row_labels(ids, len(X), data, "id")
    started = perf_counter()
    codes = encode_rows(encoder, X, "encode")
    seconds = perf_counter() - started
    with writing(path):
        write_codes(path, codes, names)
    show_fields(
        [
            ("encoded", f"{counted(len(X), 'row')} of {counted(X.shape[1], 'column')}"),
            ("codes", f"{counted(encoder.n_bits, 'bit')}, {counted(codes.shape[1], 'byte')} a row"),
            ("written", f"{path} ({decimal(path.stat().st_size)})"),
            ("time", f"{seconds:.2f} s, {len(X) / max(seconds, 1e-9):.0f} rows/s"),
        ]
    )


@app.command()
def evaluate(
    model: opt.Model,
    queries: opt.Queries,
    labels_queries: opt.LabelsQueries,
    database: opt.Database,
    labels_database: opt.LabelsDatabase,
    domain_queries: opt.DomainQueries = None,
    domain_database: opt.DomainDatabase = None,
    as_json: opt.Json = False,
) -> None:
    """Measure how well queries find rows of their own class.

    Two scores are called MAP in the literature; both are shown, each by its own name: the area
    under the precision-recall curve pooled over Hamming radii (radius_pr_area) and the mean
    average precision of the ranked lists (mean_average_precision).

    \b
    Example:
      bridgehash evaluate model.bh \\
        --queries sketches.npy --labels-queries sketches.csv:class \\
        --database photos.npy --labels-database photos.csv:class
    """
    loaded = load(model)
    two = isinstance(loaded, BaseTransferHasher)
    sides = {
        "queries": (queries, labels_queries, domain_queries or ("target" if two else None)),
        "database": (database, labels_database, domain_database or ("source" if two else None)),
    }
    encoders, rows, labels = {}, {}, {}
    for name, (spec, y, domain) in sides.items():
        encoders[name] = encoder_of(loaded, model, domain, f"--domain-{name}")
        rows[name] = read_rows(spec, encoders[name], model)
        labels[name] = read_row_labels(y, len(rows[name]), spec)
    ids = join_labels(labels_queries, labels["queries"], labels_database, labels["database"])
    codes = [encode_rows(encoders[name], rows[name], name) for name in sides]
    record = score((codes[0], codes[1]), ids, encoders["queries"].n_bits)
    if as_json:
        print(json.dumps(record, indent=2))
        return
    domains = [f"{domain} " if domain else "" for _, _, domain in sides.values()]
    results().print(
        f"{record['n_queries']} {domains[0]}queries, {record['n_database']} {domains[1]}rows "
        f"to find, {record['n_bits']} bits"
    )
    show_table(("score", "per cent", "meaning"), score_rows(record), numbers="per cent")


@app.command()
def info(model: opt.Model, as_json: opt.Json = False) -> None:
    """Tell what a saved model is and how it was learned.

    \b
    Example:
      bridgehash info model.bh
    """
    record = describe(model)
    if as_json:
        print(json.dumps(record, indent=2))
    else:
        show_fields(described_fields(record))


@app.command()
def methods(as_json: opt.Json = False) -> None:
    """List all methods: what each learns from, and where it comes from.

    \b
    Example:
      bridgehash methods
      bridgehash fit photos.npy sketches.npy --method gth-g --out model.bh
    """
    if as_json:
        print(json.dumps(method_records(), indent=2, ensure_ascii=False))
    else:
        columns = ("method", "kind", "inputs", "citation")
        show_table(columns, [tuple(record[c] for c in columns) for record in method_records()])


@app.command()
def demo(
    out: opt.DemoOut = Path("demo"), serve: opt.DemoServe = False, port: opt.DemoPort = None
) -> None:
    """Try everything on handwritten digits seen in two feature spaces.

    \b
    Example:
      bridgehash demo --out demo
      bridgehash demo --serve --port 8000
    """
    if serve:
        from bridgehash.cli.demo_service import serve_demo

        serve_demo(out, 8000 if port is None else port)
        return
    if port is not None:
        raise InputError("--port belongs to --serve")
    from bridgehash.cli.demo import run_demo

    run_demo(out, results())


if __name__ == "__main__":
    sys.exit(main())
