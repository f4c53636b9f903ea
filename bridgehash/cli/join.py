"""`bridgehash join`: add a domain to a model; no existing code changes."""

from __future__ import annotations

import warnings
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer
from rich.filesize import decimal

from bridgehash._core.errors import BridgeWarning, InputError, named
from bridgehash.cli import options as opt
from bridgehash.cli.console import counted, may_animate, show_fields

NewDomain = Annotated[
    str, typer.Argument(metavar="NAME=SPEC", help="The new domain and its features.")
]
JoinedOut = Annotated[
    Path | None, typer.Option("--out", help="Model file to write; MODEL itself by default.")
]
To = Annotated[
    str | None,
    typer.Option(
        metavar="NAME[=SPEC]",
        help="Domain of the model whose codes the new ones have to match, and features of it. "
        "Default: the first domain.",
    ),
]
CodesTo = Annotated[
    str | None,
    typer.Option(
        "--codes", metavar="SPEC", help="Packed codes of that domain, in place of its features."
    ),
]
NewLabels = Annotated[
    str | None, typer.Option("--labels", metavar="SPEC", help="Labels of the new domain.")
]
LabelsTo = Annotated[
    str | None, typer.Option(metavar="SPEC", help="Labels of the rows given with --to or --codes.")
]
PairsTo = Annotated[
    str | None,
    typer.Option(
        metavar="SPEC",
        help="Two columns of row numbers from 0: a row given with --to or --codes, and the new row "
        "that matches it.",
    ),
]


def join(
    model: opt.Model,
    domain: NewDomain,
    to: To = None,
    codes: CodesTo = None,
    labels: NewLabels = None,
    labels_to: LabelsTo = None,
    pairs: PairsTo = None,
    out: JoinedOut = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show only errors.")] = False,
) -> None:
    """Add a domain to a model without changing the codes of the others.

    Labels alone are enough: a model keeps a code for each class that it has learned.

    \b
    Example:
      bridgehash join model.bh blurred=demo/digits.npz:target_pixels \\
        --labels demo/digits.npz:y_target
      bridgehash join model.bh again=demo/digits.npz:target_pixels \\
        --to target=demo/digits.npz:target --pairs demo/digits.npz:pairs
    """
    from bridgehash import ATH, load
    from bridgehash.cli.domains import MODEL_SUFFIXES, keys_in, read_pairs, split_name
    from bridgehash.cli.io import check_output, read_codes, read_labels, read_origin, read_table
    from bridgehash.models.provenance import check_same_space

    started = perf_counter()
    path = check_output(out or model, MODEL_SUFFIXES)
    loaded = load(model)
    if not isinstance(loaded, ATH):
        raise InputError(
            f"holds {type(loaded).__name__}, which no domain can join; freeze it with `bridgehash "
            "fit --frozen`",
            str(model),
        )
    name, spec = split_name(domain, "domain")
    unused = keys_in(spec, [each for each in (labels, labels_to) if each])
    given: dict[str, Any] = {"name": name, "X": read_table(spec, unused=unused)}
    files = {"X": spec, "name": domain, "to": "--to", "y": "--labels", "y_to": "--labels-to"}
    if to is not None:
        given["to"], _, rows = to.partition("=")
        if rows:
            wanted = loaded.encoder(given["to"]).feature_names_in_
            given["X_to"], files["X_to"] = read_table(rows, wanted=wanted), rows
    if codes is not None:
        check_same_space({"code_space": loaded.code_space()}, read_origin(codes), codes)
        given["codes_to"], files["codes_to"] = read_codes(codes), codes
    for key, labelled in (("y", labels), ("y_to", labels_to)):
        if labelled is not None:
            given[key], files[key] = read_labels(labelled), labelled
    if pairs is not None:
        given["pairs"] = read_pairs(pairs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if quiet else "always", BridgeWarning)
        try:
            loaded.join(**given, verbose=not quiet and may_animate())
        except InputError as error:
            argument = files.get(error.argument, error.argument)
            if error.argument == "X_to" and "X_to" not in given:
                argument = "--to"
            raise InputError(error.problem, argument) from error
    with named(path, writing=True):
        loaded.save(path)
    if not quiet:
        X = given["X"]
        size = f"{counted(X.shape[0], 'row')}, {counted(X.shape[1], 'column')}"
        show_fields(
            [
                ("joined", f"{name} ({size})"),
                ("domains", ", ".join(loaded.encoders_)),
                ("codes changed", "none"),
                ("written", f"{path} ({decimal(path.stat().st_size)})"),
                ("time", f"{perf_counter() - started:.1f} s"),
            ]
        )
