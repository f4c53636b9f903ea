"""The child process of `sandbox.py`: parse one large JSON body or decode one image at a time.

It reads jobs from its standard input and writes results to its standard output: lengths, a JSON
object, and arrays in the .npy format. Its memory and CPU time are limited, it runs at a low
priority, and it ends when its parent does.
"""

from __future__ import annotations

import io
import json
import os
import signal
import struct
import sys
import time
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from . import schemas
from .bodies import parse_json
from .errors import RequestError
from .images import decode
from .memory import DECODER_BYTES

JOB = struct.Struct("<II")  # length of the JSON object, length of the data
RESULT = struct.Struct("<I")  # length of the JSON object
CPU_SECONDS = 10  # per job
_NICENESS = 10  # searches go first


def main() -> None:
    """Work until the standard input ends."""
    jobs, results = sys.stdin.buffer, sys.stdout.buffer
    for kind in (signal.SIGINT, signal.SIGTERM):
        signal.signal(kind, signal.SIG_IGN)  # the parent finishes its requests first
    _limit_memory()
    while head := jobs.read(JOB.size):
        _limit_time()
        lengths = JOB.unpack(head)
        job, data = (jobs.read(n) for n in lengths)
        if len(data) < lengths[1]:
            return
        _write(results, *_result(json.loads(job), data))


def _result(job: dict[str, Any], data: bytes) -> tuple[dict[str, Any], list[NDArray[Any]]]:
    """Return the result of a job, or the error to send to the client."""
    try:
        if job["kind"] == "image":
            return {}, [decode(data, job["backbone"], job["pixels"])]
        form = parse_json(data, getattr(schemas, job["schema"]))
        given = {name: getattr(form, name) for name in type(form).model_fields}
        arrays = {name: each for name, each in given.items() if isinstance(each, np.ndarray)}
        plain = {name: each for name, each in given.items() if name not in arrays}
        return {"form": plain, "names": list(arrays)}, list(arrays.values())
    except RequestError as error:
        return {"error": [error.status, error.problem, error.field]}, []
    except MemoryError:
        field = "image" if job["kind"] == "image" else "body"
        return {"error": [422, f"needs more than {DECODER_BYTES >> 20} MiB to read", field]}, []


def _write(file: BinaryIO, head: dict[str, Any], arrays: list[NDArray[Any]]) -> None:
    files = []
    for array in arrays:
        files.append(io.BytesIO())
        np.save(files[-1], array, allow_pickle=False)
    head["lengths"] = [each.getbuffer().nbytes for each in files]
    text = json.dumps(head, ensure_ascii=False).encode("utf-8", "surrogatepass")
    file.write(RESULT.pack(len(text)) + text)
    for each in files:
        file.write(each.getbuffer())
    file.flush()


def _limit_memory() -> None:
    if os.name != "posix":
        return
    import resource

    os.nice(_NICENESS)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:  # no way to know what the libraries use
        return
    most = pages * resource.getpagesize() + DECODER_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _limit_time() -> None:
    if os.name == "posix":
        import resource

        most = int(time.process_time()) + CPU_SECONDS + 1
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        soft = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


if __name__ == "__main__":
    main()
