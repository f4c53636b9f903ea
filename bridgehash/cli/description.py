"""What `bridgehash info` tells of a saved model: a record for JSON, and lines for people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from rich.filesize import decimal
from sklearn.base import BaseEstimator

from bridgehash import load
from bridgehash.baselines.shared import Shared
from bridgehash.bench.extras import objective_course
from bridgehash.cli.console import counted
from bridgehash.cli.models import Domain
from bridgehash.models.base import BaseHasher, BaseTransferHasher
from bridgehash.models.encoder import LinearEncoder
from bridgehash.models.model_file import load_model
from bridgehash.models.provenance import encoder_of


def describe(path: Path) -> dict[str, Any]:
    """All that is known of the model in a file, as JSON can hold it."""
    file, model = load_model(path), load(path)
    two = isinstance(model, BaseTransferHasher)
    encoders = {
        domain or "encoder": encoder_of(model, path, domain, "--domain")
        for domain in (tuple(map(str, Domain)) if two else (None,))
    }
    return {
        "file": str(path),
        "file_size": path.stat().st_size,
        "kind": _kind(model),
        "method": _method(model),
        "n_bits": next(iter(encoders.values())).n_bits,
        **{name: _encoder(encoder) for name, encoder in encoders.items()},
        "parameters": _plain_all(model.get_params(deep=False)),
        **fit_record(model),
        "format_version": file.format_version,
        "package_version": file.package_version,
    }


def fit_record(model: Any) -> dict[str, Any]:
    """Rounds and objective of a fit, where the method leaves any."""
    fitted = getattr(model, "hasher_", model)  # inside `Shared`
    course = objective_course(fitted)
    if not course:
        return {}
    agreement = getattr(fitted, "agreement_", None)
    return {
        **({} if agreement is None else {"agreement": round(float(agreement), 3)}),
        "n_iter": int(fitted.n_iter_),
        **({"converged": bool(fitted.converged_)} if _stops_by_itself(fitted) else {}),
        "objective": {"first": course[0], "last": course[-1]},
    }


def _stops_by_itself(fitted: Any) -> bool:
    """Does it tell whether it settled? Not where the number of rounds is fixed."""
    return hasattr(fitted, "converged_") and fitted.tol > 0


def fit_fields(record: dict[str, Any]) -> list[tuple[str, str]]:
    """The lines of a `fit_record`."""
    if "objective" not in record:
        return []
    objective = record["objective"]
    converged = {True: ", converged", False: ", not converged", None: ""}[record.get("converged")]
    agreement = record.get("agreement")
    searched = [] if agreement is None else [("bridge", f"searches agree by {agreement:.2f}")]
    return [
        *searched,
        ("iterations", f"{record['n_iter']}{converged}"),
        ("objective", f"{objective['first']:.6g} -> {objective['last']:.6g}"),
    ]


def described_fields(record: dict[str, Any]) -> list[tuple[str, str]]:
    """The lines of `describe`."""
    encoders = [(name, record[name]) for name in ("source", "target", "encoder") if name in record]
    versions = f"{record['format_version']}, written by bridgehash {record['package_version']}"
    return [
        ("file", f"{record['file']} ({decimal(record['file_size'])})"),
        ("kind", record["kind"]),
        ("method", record["method"]),
        ("bits", str(record["n_bits"])),
        *((name, _encoder_line(encoder)) for name, encoder in encoders),
        *fit_fields(record),
        ("format", versions),
        ("parameters", ""),
        *((f"  {name}", _text(value)) for name, value in record["parameters"].items()),
    ]


def _kind(model: Any) -> str:
    if isinstance(model, BaseTransferHasher):
        return "hasher of two domains"
    return "hasher of one domain" if isinstance(model, BaseHasher) else "encoder"


def _method(model: Any) -> str:
    name = type(model).__name__
    return f"{name}({type(model.hasher).__name__})" if isinstance(model, Shared) else name


def _encoder(encoder: LinearEncoder) -> dict[str, Any]:
    return {"n_features": encoder.n_features_in_, "maps": [_plain(m) for m in encoder.maps]}


def _encoder_line(encoder: dict[str, Any]) -> str:
    maps = ", then ".join(_text(m) for m in encoder["maps"])
    return f"{counted(encoder['n_features'], 'column')}; feature maps: {maps or 'none'}"


def _plain(value: Any) -> Any:
    """A parameter as JSON can hold it; an array is told by its shape."""
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
    """A plain value in words.

    >>> _text({"class": "KNNGraph", "n_neighbors": 20, "mutual": True})
    'KNNGraph(n_neighbors=20, mutual=True)'
    """
    if isinstance(value, dict):
        inside = ", ".join(f"{k}={_text(v)}" for k, v in value.items() if k != "class")
        return f"{value['class']}({inside})"
    if isinstance(value, list):
        return ", ".join(map(_text, value)) or "none"
    return str(value)
