"""`bridgehash info`: describe a saved model or index."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.filesize import decimal

from bridgehash.cli import options as opt
from bridgehash.cli.console import counted, show_fields

if TYPE_CHECKING:
    from bridgehash.models.encoder import LinearEncoder

SavedFile = Annotated[Path, typer.Argument(metavar="FILE", help="A model (*.bh) or index (*.bhi).")]


def info(file: SavedFile, as_json: opt.Json = False) -> None:
    """Describe a saved model: its method, parameters and fit. Also describes an index file.

    \b
    Example:
      bridgehash info model.bh
    """
    from bridgehash.cli.index import index_fields, index_record
    from bridgehash.models.model_file import INDEX_KIND, read_header

    if read_header(file)[0] == INDEX_KIND:
        record = index_record(str(file), None)
        lines = index_fields(record)
    else:
        record = describe(file)
        lines = _model_fields(record)
    if as_json:
        print(json.dumps(record, indent=2))
    else:
        show_fields(lines)


def describe(path: Path) -> dict[str, Any]:
    """Return everything known about the model in a file, as JSON values."""
    from bridgehash import load
    from bridgehash.baselines import Shared
    from bridgehash.models.base import BaseHasher, BaseTransferHasher
    from bridgehash.models.model_file import load_model
    from bridgehash.models.provenance import encoder_of

    file, model = load_model(path), load(path)
    if isinstance(model, BaseTransferHasher):
        kind = f"{counted(len(model.encoders_), 'domain')}"
        encoders = dict(model.encoders_)
    else:
        kind = "one-domain hasher" if isinstance(model, BaseHasher) else "encoder"
        encoders = {"encoder": encoder_of(model, path, None, "--domain")}
    method = type(model).__name__
    if isinstance(model, Shared):
        method = f"{method}({type(model.hasher).__name__})"
    return {
        "file": str(path),
        "file_size": path.stat().st_size,
        "kind": kind,
        "method": method,
        "n_bits": next(iter(encoders.values())).n_bits,
        "encoders": {name: _encoder(encoder) for name, encoder in encoders.items()},
        "parameters": _plain_all(model.get_params(deep=False)),
        **fit_record(model),
        "format_version": file.format_version,
        "package_version": file.package_version,
    }


def fit_record(model: Any) -> dict[str, Any]:
    """Return iterations and objective of a fit, if the method has them."""
    from bridgehash.bench.extras import objective_course

    fitted = getattr(model, "hasher_", model)  # inside `Shared`
    course = objective_course(fitted)
    if not course:
        return {}
    record: dict[str, Any] = {}
    if getattr(fitted, "agreement_", None) is not None:
        record["agreement"] = round(float(fitted.agreement_), 3)
    record["n_iter"] = int(fitted.n_iter_)
    if hasattr(fitted, "converged_") and fitted.tol > 0:  # else the number of iterations is fixed
        record["converged"] = bool(fitted.converged_)
    return record | {"objective": {"first": course[0], "last": course[-1]}}


def fit_fields(record: dict[str, Any]) -> list[tuple[str, str]]:
    """Return a `fit_record` as names and values to print."""
    if "objective" not in record:
        return []
    objective = record["objective"]
    converged = {True: ", converged", False: ", not converged", None: ""}[record.get("converged")]
    agreement = record.get("agreement")
    return [
        *([] if agreement is None else [("agreement", f"{agreement:.2f} (1: full, 0: chance)")]),
        ("iterations", f"{record['n_iter']}{converged}"),
        ("objective", f"{objective['first']:.6g} -> {objective['last']:.6g}"),
    ]


def _model_fields(record: dict[str, Any]) -> list[tuple[str, str]]:
    encoders = list(record["encoders"].items())
    return [
        ("file", f"{record['file']} ({decimal(record['file_size'])})"),
        ("kind", record["kind"]),
        ("method", record["method"]),
        ("bits", str(record["n_bits"])),
        *((name, _encoder_line(encoder)) for name, encoder in encoders),
        *fit_fields(record),
        ("format", f"{record['format_version']}, bridgehash {record['package_version']}"),
        ("parameters", ""),
        *((f"  {name}", _text(value)) for name, value in record["parameters"].items()),
    ]


def _encoder(encoder: LinearEncoder) -> dict[str, Any]:
    return {"n_features": encoder.n_features_in_, "maps": [_plain(m) for m in encoder.maps]}


def _encoder_line(encoder: dict[str, Any]) -> str:
    maps = ", then ".join(_text(m) for m in encoder["maps"])
    return f"{counted(encoder['n_features'], 'column')}; feature maps: {maps or 'none'}"


def _plain(value: Any) -> Any:
    """Return a parameter as a JSON value; an array is described by its shape."""
    import numpy as np
    from sklearn.base import BaseEstimator

    if isinstance(value, BaseEstimator):
        return {"class": type(value).__name__, **_plain_all(value.get_params(deep=False))}
    if isinstance(value, np.ndarray):
        return f"array of shape {value.shape}, {value.dtype}"
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _plain_all(values: dict[str, Any]) -> dict[str, Any]:
    return {name: _plain(value) for name, value in values.items()}


def _text(value: Any) -> str:
    """Return a JSON value as text.

    >>> _text({"class": "KNNGraph", "n_neighbors": 20, "mutual": True})
    'KNNGraph(n_neighbors=20, mutual=True)'
    """
    if isinstance(value, dict):
        inside = ", ".join(f"{k}={_text(v)}" for k, v in value.items() if k != "class")
        return f"{value['class']}({inside})"
    if isinstance(value, list):
        return ", ".join(map(_text, value)) or "none"
    return str(value)
