"""The fits of `estimate.py`: tasks of the data pack, methods, and the labels or pairs they see."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import permutations

PACS, OFFICE = ("photo", "cartoon", "sketch"), ("amazon", "caltech10")
DEEP, OTHERS = "effnet_lite0", ("mobilenet_v1", "gist512")
ONE_SPACE = [
    *(f"pacs/{a}.{f}-{b}.{f}@500" for f in (DEEP, *OTHERS) for a, b in permutations(PACS, 2)),
    *(
        f"office-caltech10/{a}.{f}-{b}.{f}"
        for f in (DEEP, "mobilenet_v1", "surf800")
        for a, b in permutations(OFFICE, 2)
    ),
    "mnist-usps/mnist2000.pixels-usps1800.pixels@500",
    "mnist-usps/usps1800.pixels-mnist2000.pixels@500",
    "wiki/train.sift128-test.sift128@500",
    "wiki/train.lda10-test.lda10@500",
    "mfeat/test.fourier76-train.fourier76",
    "mfeat/test.karhunen64-train.karhunen64",
    "banking77/train.wordllama256-test.wordllama256@700",
    "banking77/train.wink_glove100-test.wink_glove100@700",
]
SMALL = [
    "pacs/photo.effnet_lite0-cartoon.effnet_lite0@100",
    "pacs/cartoon.effnet_lite0-photo.effnet_lite0@100",
    "pacs/photo.mobilenet_v1-sketch.mobilenet_v1@300",
    "office-caltech10/amazon.effnet_lite0-caltech10.effnet_lite0@100",
    "office-caltech10/caltech10.surf800-amazon.surf800@300",
    "mnist-usps/mnist2000.pixels-usps1800.pixels@300",
]
TWO_SPACES = [
    "office-caltech10/caltech10.mobilenet_v1-amazon.effnet_lite0",
    "office-caltech10/amazon.mobilenet_v1-caltech10.effnet_lite0",
    "office-caltech10/amazon.mobilenet_v1-amazon.effnet_lite0",
    "pacs/photo.mobilenet_v1-cartoon.effnet_lite0@500",
    "office-caltech10/amazon.effnet_lite0-caltech10.surf800",
    "pacs/cartoon.effnet_lite0-photo.mobilenet_v1@500",
    "pacs/photo.effnet_lite0-photo.mobilenet_v1@500",
    "pacs/sketch.mobilenet_v1-photo.effnet_lite0@500",
    "office-caltech10/amazon.effnet_lite0-caltech10.effnet_lite2",
    "office-caltech10/caltech10.mobilenet_v1-amazon.googlenet1024",
    "pacs/photo.gist512-cartoon.effnet_lite0@500",
    "pacs/photo.mobilenet_v1-cartoon.effnet_lite0@200",
    "office-caltech10/amazon.mobilenet_v1-amazon.effnet_lite0@150",
    "snare/all.atac19-all.rna10@500",
    "scgem/all.expression34-all.methylation27",
    "mfeat/test.fourier76-train.karhunen64",
    "mfeat/all.profile216-all.zernike47@500",
    "wiki/train.sift128-test.lda10@500",
    "banking77/train.wordllama256-test.wink_glove100@700",
]
PAIRED = [
    *(f"pacs/{a}.mobilenet_v1-{a}.effnet_lite0" for a in PACS),
    "pacs/photo.gist512-photo.effnet_lite0",
    "office-caltech10/caltech10.mobilenet_v1-caltech10.effnet_lite2",
    "office-caltech10/caltech10.surf800-caltech10.effnet_lite0",
    "mfeat/train.fourier76-train.karhunen64",
    "mfeat/all.profile216-all.zernike47",
    "wiki/train.sift128-train.lda10",
    "snare/all.atac19-all.rna10",
    "banking77/train.wordllama256-train.wink_glove100",
]


@dataclass(frozen=True)
class Job:
    """One fit; `labels` are "none", "source", "both", "one", "three" or a number of pairs."""

    task: str
    method: str
    labels: str
    n_bits: int
    seed: int

    @property
    def key(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)


def jobs(seed: int) -> Iterator[tuple[int, Job]]:
    """Yield all jobs of a split, each with its order: important ones have small numbers."""
    for task in (*ONE_SPACE, *SMALL):
        for labels, method in (
            ("none", "ath-unsupervised"),
            ("none", "itq"),
            ("source", "ath-propagated"),
            ("source", "ath-semi-supervised"),
            ("both", "ath-supervised"),
            ("both", "ath-kernel"),
            ("three", "ath-propagated"),
            ("three", "ath-supervised"),
        ):
            yield 0, Job(task, method, labels, 64, seed)
            if method != "itq":
                yield 2, Job(task, method, labels, 16, seed)
        yield 3, Job(task, "sdh", "both", 64, seed)
    for task in TWO_SPACES:
        yield 0, Job(task, "ath-structural", "none", 64, seed)
        for labels, method in (
            ("none", "ath-unsupervised"),
            ("both", "ath-supervised"),
            ("both", "ath-kernel"),
            ("three", "ath-propagated"),
            ("one", "ath-propagated"),
            ("three", "ath-supervised"),
        ):
            yield 1, Job(task, method, labels, 64, seed)
            if labels in ("both", "three"):
                yield 2, Job(task, method, labels, 16, seed)
    for task in TWO_SPACES[:8]:
        yield 1, Job(task, "ath-propagated", "source", 64, seed)
    for task in ONE_SPACE[:24:3]:
        yield 1, Job(task, "ath-structural", "none", 64, seed)
    for task in PAIRED:
        for n in ("50", "200", "800"):
            for method in ("ath-paired", "ridge-map"):
                yield 1, Job(task, method, n, 64, seed)
            yield 2, Job(task, "ath-paired", n, 16, seed)
