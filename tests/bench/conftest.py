"""Hand-made suites and records: no fit is needed to look at tables, figures and pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bridgehash.bench.spec import MethodSpec, Suite, parse_suite

TEXT = """
title = "Two <methods> & one task"
note = "A note with <b>marks</b>."
tasks = ["pacs/photo.gist512-sketch.effnet_lite0", "cifar10/all.gist512"]
n_bits = [16, 32]
seeds = 3
{more}

[[method]]
label = "ITQ <one>"
use = "itq"

[[method]]
label = "ATH"
use = "ath-unsupervised"
params = {{ lam = 1, start = "pca" }}
"""
TASK = "pacs/photo.gist512-sketch.effnet_lite0"
ALONE = "cifar10/all.gist512"

Make = Callable[..., Any]


@pytest.fixture
def suite() -> Suite:
    """Two methods, two tasks, two lengths."""
    return parse_suite("toy", TEXT.format(more=""))


@pytest.fixture
def record() -> Make:
    """`record(area=0.5, n_bits=32)`: a finished record; `error="..."` makes it a failed one."""
    return make_record


def make_record(area: float = 0.5, **changes: Any) -> dict[str, Any]:
    scores = {
        "radius_pr_area": area,
        "mean_average_precision": area / 2,
        "pairs": [2, 4, 14],
        "relevant": [2, 1, 2],
    }
    made = {
        "task": TASK,
        "use": "itq",
        "labels": "none",
        "params": {},
        "n_bits": 16,
        "seed": 0,
        "extras": [],
        "data": {"pacs.npz": "5" * 64},
        "label": "whatever",
        "versions": {"numpy": "2.0"},
        "device": "a machine",
        "finished": "2020-01-01T00:00:00Z",
        "scores": {"cross": scores, "single": scores | {"radius_pr_area": area / 4}},
        "seconds": {"fit": 1.0, "score": 0.5},
        "rows": {"source": 30, "target": 20},
    }
    if "error" in changes:
        del made["scores"], made["seconds"], made["rows"]
    made |= changes
    method = MethodSpec("", made["use"], made["labels"], made["params"])
    return {"settings": method.settings} | made


ATH = {"use": "ath-unsupervised", "params": {"lam": 1.0, "start": "pca"}}
