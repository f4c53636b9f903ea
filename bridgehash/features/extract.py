"""From images or texts to one file of features, in batches that survive a kill.

Finished batches are kept in `OUT.part`. At the end they become one .npz file: `x` (float32, one row
per sample), `y` (names of classes), `ids` (paths in the folder, or rows of the file) and `header`
(JSON).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._core.errors import InputError, named
from .._core.files import StrPath, atomic_write
from .._core.journal import Journal, read_journal
from .._version import __version__
from .backbones import ExtractSettings, Reads
from .folder import Unreadable, why_unreadable
from .loaders import LoadedBackbone, check_name, load_backbone
from .samples import Samples, open_samples

_FLOAT = np.dtype("<f4")
_FROM_THE_START = "start from the beginning (--no-resume, resume=False)"


class Extraction(NamedTuple):
    """The result of an extraction."""

    path: Path
    shape: tuple[int, int]  # of `x`
    n_classes: int  # names in `y`, without the empty one
    n_resumed: int  # samples done by an earlier run
    unreadable: tuple[Unreadable, ...]
    kind: Reads  # of the samples


class SampleBatch(NamedTuple):
    """Rows of the readable samples of a batch, in order, and the other samples."""

    rows: NDArray[np.float32]
    unreadable: list[Unreadable]


def extract(
    source: StrPath,
    backbone: str,
    out: StrPath,
    *,
    batch_size: int = 32,
    resume: bool = True,
    device: str = "cpu",
    weights: StrPath | None = None,
    download: bool = False,
    labels_column: str = "",
    ids_column: str = "",
    on_progress: Callable[[int, int], object] | None = None,
) -> Extraction:
    """Write the features of all images in a folder, or all texts in a file, to one .npz file.

    Samples that cannot be read are left out and listed in the result. If none can be read,
    `InputError` is raised.

    Parameters
    ----------
    source : path
        A folder of images, at any depth; the first sub-folder is the class. Or a file of texts in
        UTF-8: `texts.txt` (one per line), `texts.csv:column` or `texts.jsonl:column`.
    backbone : str
        A key of `BACKBONES`, or a model of another library: a prefix of `LOADERS`, a colon and a
        name, such as "timm:resnet18" or "onnx:model.onnx".
    out : path
        The .npz file to write. Finished batches are kept in `out` with `.part` added, so that a
        stopped run can be continued.
    batch_size : int
        Samples per batch.
    resume : bool
        Continue an earlier run, if there is one; samples and backbone must be the same. False
        starts from the beginning.
    device, weights, download
        For networks: a torch device, a weight file, and whether weights may be downloaded.
    labels_column, ids_column : str, optional
        Columns of a file of texts. Without ids, the id of a text is its row number.
    on_progress : callable, optional
        Called with the number of samples done and the total number.
    """
    if batch_size < 1:
        raise InputError(f"batch_size={batch_size} is not allowed: give at least 1")
    source, out = os.fspath(source), Path(out)
    settings = ExtractSettings(device, None if weights is None else Path(weights), download)
    check_name(backbone)
    samples = open_samples(source, labels_column, ids_column)
    loaded = load_backbone(backbone, settings, samples.kind)
    ids, plural = samples.ids, f"{samples.kind}s"
    report = on_progress or (lambda done, total: None)
    file = settings.weights
    about = {
        "format": 2,
        "version": __version__,
        "backbone": backbone,
        "weights": file and [file.name, file.stat().st_size],
        plural: f"{len(ids)} {plural}, {samples.fingerprint}",
    }
    part = Path(f"{out}.part")
    journal, records = _open_journal(part, about, resume)
    with closing(journal):
        with named(part, _FROM_THE_START):
            batches = [_from_record(record, loaded.dimension) for record in records]
            _check_batches(batches, ids)
        n_done = n_resumed = sum(len(rows) + len(unreadable) for rows, unreadable in batches)
        report(n_done, len(ids))
        while n_done < len(ids):
            positions = range(n_done, min(n_done + batch_size, len(ids)))
            batch = _compute(samples, positions, loaded)
            journal.append([_as_record(batch)])
            batches.append(batch)
            n_done += len(positions)
            report(n_done, len(ids))
        unreadable = [sample for batch in batches for sample in batch.unreadable]
        lost = {sample.id for sample in unreadable}
        kept = [i for i, name in enumerate(ids) if name not in lost]
        if kept:
            x, y = np.concatenate([batch.rows for batch in batches]), np.array(samples.classes)
            header = {
                "kind": "bridgehash features",
                "backbone": backbone,
                "version": __version__,
                plural: len(kept),
                "dimension": loaded.dimension,
                "unreadable": unreadable,
            }
            _save(out, header, x=x, y=y[kept], ids=np.array(ids)[kept])
        journal.restart(b"")
    if not kept:
        raise InputError(
            f"none of the {len(ids)} {plural} can be read; the first: {unreadable[0].id}: "
            f"{unreadable[0].reason}",
            source,
        )
    n_classes = len(set(y[kept].tolist()) - {""})
    return Extraction(out, x.shape, n_classes, n_resumed, tuple(unreadable), samples.kind)


def read_header(path: StrPath) -> dict[str, Any]:
    """Return the JSON header of a file written by `extract`."""
    with named(path), np.load(path) as arrays:
        header: dict[str, Any] = json.loads(str(arrays["header"]))
    return header


def _open_journal(path: Path, about: dict[str, Any], resume: bool) -> tuple[Journal, list[bytes]]:
    """Open the file of finished batches, and return those of an earlier run.

    If the file belongs to another extraction, an `InputError` says what differs.
    """
    if not resume or (path.exists() and path.stat().st_size == 0):
        path.unlink(missing_ok=True)
    elif path.exists():
        remedy = f"{_FROM_THE_START}, or undo the change"
        with named(path, remedy):
            before = json.loads(read_journal(path).header or b"{}")
            for key, now in about.items():
                if before and before.get(key) != now:
                    raise InputError(
                        f"is an unfinished extraction with other {key}: {before.get(key)} before, "
                        f"{now} now; {remedy}"
                    )
    header = json.dumps(about).encode()
    journal = Journal.open(path, header)
    records, missing = journal.content.records(header), journal.content.missing(header)
    if missing:  # batches are in the order of the samples: continue before the first damaged one
        del records[missing[0] - 1 :]
        journal.restart(header)
        journal.append(records)
    return journal, records


def _as_record(batch: SampleBatch) -> bytes:
    """Return a batch as bytes: a line of JSON, then the rows."""
    head = json.dumps({"rows": len(batch.rows), "unreadable": batch.unreadable})
    return head.encode() + b"\n" + np.ascontiguousarray(batch.rows, dtype=_FLOAT).tobytes()


def _from_record(record: bytes, dimension: int) -> SampleBatch:
    head, _, data = record.partition(b"\n")
    fields = json.loads(head)
    rows = np.frombuffer(data, dtype=_FLOAT).reshape(-1, dimension)
    if len(rows) != fields["rows"]:
        raise InputError(f"a batch has {len(rows)} rows, not {fields['rows']}; {_FROM_THE_START}")
    return SampleBatch(rows, [Unreadable(*pair) for pair in fields["unreadable"]])


def _check_batches(batches: list[SampleBatch], ids: list[str]) -> None:
    """Refuse finished batches that are not those of the first samples."""
    n_done = 0
    for rows, unreadable in batches:
        names = set(ids[n_done : n_done + len(rows) + len(unreadable)])
        n_done += len(rows) + len(unreadable)
        if n_done > len(ids) or not names.issuperset(sample.id for sample in unreadable):
            raise InputError(f"holds batches of other samples; {_FROM_THE_START}")


def _compute(samples: Samples, positions: range, loaded: LoadedBackbone) -> SampleBatch:
    prepared, unreadable = [], []
    for i in positions:
        try:
            prepared.append(loaded.prepare(samples.read(i)))
        except MemoryError:
            raise
        except Exception as error:  # decoders raise many kinds of exceptions for broken files
            unreadable.append(Unreadable(samples.ids[i], why_unreadable(error)))
    none = np.empty((0, loaded.dimension), dtype=np.float32)
    return SampleBatch(loaded.features(prepared) if prepared else none, unreadable)


def _save(out: Path, header: dict[str, Any], **arrays: Any) -> None:
    with (
        named(out, "finished batches are kept; run again", writing=True),
        atomic_write(out) as temporary,
        open(temporary, "wb") as file,  # an open file: NumPy would add .npz to a path
    ):
        np.savez(file, **arrays, header=json.dumps(header))
