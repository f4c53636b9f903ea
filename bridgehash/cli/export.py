"""`bridgehash export`: write the encoder of a domain for other languages."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.filesize import decimal

from bridgehash.cli import options as opt
from bridgehash.cli.console import show_fields


class InputType(StrEnum):
    """Type of the features that an exported encoder reads."""

    float32 = "float32"
    float64 = "float64"


OnnxFile = Annotated[Path, typer.Option("--onnx", help="ONNX file to write.")]
Input = Annotated[InputType, typer.Option("--input", help="Type of the features it reads.")]


def export(
    model: opt.Model,
    onnx: OnnxFile,
    domain: opt.OneDomain = None,
    input_type: Input = InputType.float32,
) -> None:
    """Write the encoder of a domain as an ONNX model.

    Services in other languages and browsers can run it. It reads `features`, an array of shape
    (rows, columns), and returns `codes`, packed as `encode` packs them. It computes in float64,
    whatever the type of the features is.

    \b
    Example:
      bridgehash export model.bh --domain target --onnx encoder.onnx
    """
    from bridgehash import load
    from bridgehash.cli.io import check_not_an_input, check_output
    from bridgehash.export import to_onnx
    from bridgehash.models.provenance import encoder_of, origin

    path = check_output(onnx, (".onnx",))
    check_not_an_input(path, str(model))
    loaded = load(model)
    encoder = encoder_of(loaded, model, domain, "--domain")
    to_onnx(encoder, path, dtype=input_type.value, about=origin(loaded, domain))
    show_fields(
        [
            ("reads", f"features, {input_type.value}, {encoder.n_features_in_} columns"),
            ("returns", f"codes, uint8, {-(-encoder.n_bits // 8)} bytes per row"),
            ("bits", str(encoder.n_bits)),
            ("written", f"{path} ({decimal(path.stat().st_size)})"),
        ]
    )
