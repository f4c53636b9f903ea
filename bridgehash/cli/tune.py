"""`bridgehash tune`: choose a method, code length and parameters, and save the best model."""

from __future__ import annotations

import json
from time import perf_counter
from typing import Annotated, Any

import typer
from rich.filesize import decimal

from bridgehash._core.errors import InputError, named
from bridgehash.cli import options as opt
from bridgehash.cli.console import may_animate, show_fields, show_table, show_verdict
from bridgehash.cli.domains import MODEL_SUFFIXES
from bridgehash.cli.fit import LabelsSource, LabelsTarget, ModelOut, Pairs, Seed, Strict, Verbose

Source = Annotated[str, typer.Argument(metavar="SOURCE", help="Features of the source.")]
Target = Annotated[str, typer.Argument(metavar="TARGET", help="Features of the target.")]
Methods = Annotated[
    list[str] | None,
    typer.Option(
        "--method",
        metavar="NAME",
        help="A name from `bridgehash methods`; repeatable. Default: those that suit the data.",
    ),
]
BitsToTry = Annotated[
    list[int],
    typer.Option(
        "--bits",
        parser=opt.whole(1, opt.MAX_BITS),
        metavar="N",
        help="Code length to try; repeatable.",
    ),
]
Grid = Annotated[
    list[str] | None,
    typer.Option(
        "--try",
        metavar="KEY=[VALUES]",
        help="Values of a parameter of the best method, such as lam=[0.2,1]; repeatable.",
    ),
]


def tune(
    source: Source,
    target: Target,
    out: ModelOut,
    method: Methods = None,
    labels_source: LabelsSource = None,
    labels_target: LabelsTarget = None,
    pairs: Pairs = None,
    bits: BitsToTry = [64],  # noqa: B006 (typer reads it, and copies it)
    values: Grid = None,
    seed: Seed = 0,
    strict: Strict = False,
    verbose: Verbose = None,
) -> None:
    """Choose a method, code length and parameters, and save the best model.

    Without labels of the target, candidates are compared by how good each is expected to be. With
    labels of at least 30 target rows, they are cross-validated.

    \\b
    Example:
      bridgehash demo --write
      bridgehash tune demo/digits.npz:source demo/digits.npz:target_pixels --out best.bh \\\\
        --labels-source demo/digits.npz:y_source --bits 32 --bits 64
    """
    from bridgehash import save
    from bridgehash import tune as tune_models
    from bridgehash.cli.domains import label_specs, read_data
    from bridgehash.cli.io import check_output

    started = perf_counter()
    path = check_output(out, MODEL_SUFFIXES)
    specs = {"source": source, "target": target}
    data = read_data(specs, label_specs(specs, labels_source, labels_target, None), pairs)
    rows, labels = data["X_source"], data.get("y", {})
    result = tune_models(
        rows["source"],
        rows["target"],
        y_source=labels.get("source"),
        y_target=labels.get("target"),
        pairs=data.get("pairs"),
        methods=method,
        n_bits=bits,
        grid=dict(map(_values, values or [])),
        random_state=seed,
        verbose=may_animate() if verbose is None else verbose,
    )
    report = result.model.bridge_report_
    if strict and report is not None and report.verdict == "red":
        raise InputError(f"the best model is not good enough: {report}", "--strict")
    with named(path, writing=True):
        save(result.model, path)
    if verbose is False:
        return
    show_table(
        ("method", "bits", "settings", "expected", "seconds"),
        [
            (
                each.method,
                str(each.n_bits),
                each.settings,
                f"{100 * each.expected:.0f} % ({100 * each.low:.0f}-{100 * each.high:.0f})",
                f"{each.seconds:.1f}",
            )
            for each in result.candidates
        ],
    )
    judged = "cross-validated labels" if result.by == "labels" else "estimate without labels"
    show_fields(
        [
            ("method", result.best.method),
            ("bits", str(result.best.n_bits)),
            ("judged by", judged),
            ("written", f"{path} ({decimal(path.stat().st_size)})"),
            ("time", f"{perf_counter() - started:.1f} s"),
        ]
    )
    show_verdict(report)


def _values(text: str) -> tuple[str, list[Any]]:
    """Return a parameter and its values.

    >>> _values("lam=[0.2, 1]")
    ('lam', [0.2, 1])
    """
    key, equals, values = (part.strip() for part in text.partition("="))
    try:
        found = json.loads(values)
    except ValueError:
        found = None
    if not (key and equals and isinstance(found, list) and found):
        raise InputError(f"{text!r} is not of the form key=[values]; write lam=[0.2,1]", "--try")
    return key, found
