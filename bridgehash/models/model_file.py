"""Model files: one safetensors file per model or index.

A file holds named arrays, a JSON header and a checksum over both. Reading it executes no code. It
is written to a temporary file that then replaces the old one, so a failed write changes nothing.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._core.errors import BridgehashError, InputError, ModelFileError, named
from .._core.files import StrPath, atomic_write
from .._version import __version__

FORMAT = "bridgehash"
FORMAT_VERSION = 4  # earlier ones were never published
INDEX_KIND = "index"  # the kind of an index file; other kinds are names of classes
_ENTRIES = ("format", "format_version", "package_version", "kind", "header", "sha256")
_MAX_HEADER = 100_000_000  # bytes; safetensors refuses longer headers
_DTYPES = {
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "uint16": "U16",
    "int16": "I16",
    "float16": "F16",
    "uint32": "U32",
    "int32": "I32",
    "float32": "F32",
    "uint64": "U64",
    "int64": "I64",
    "float64": "F64",
}
_TYPES = {code: np.dtype(name).newbyteorder("<") for name, code in _DTYPES.items()}
_COPY_AGAIN = "copy the file again or save the model again"


@dataclass(frozen=True, eq=False)
class ModelFile:
    """The content of a model file: its kind, its JSON header and its arrays."""

    path: Path
    kind: str
    format_version: int
    package_version: str
    header: dict[str, Any]
    arrays: dict[str, NDArray[Any]]
    watch: FileWatch | None = None  # of memory-mapped arrays


def save_model(
    path: StrPath,
    kind: str,
    header: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    replace: Callable[[Path], object] | None = None,
) -> None:
    """Write a model to one file; equal models give equal bytes.

    `header` must be JSON (tuples are read back as lists); `arrays` must be booleans, integers or
    floats. `replace` is passed to `atomic_write`. The file is not written by safetensors itself,
    because that does not fix the order of the metadata and saves non-contiguous arrays wrongly.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(f"{folder}/m.safetensors", "encoder", {"n_bits": 2}, {"A": np.eye(2)})
    ...     model = load_model(f"{folder}/m.safetensors")
    >>> model.kind, model.header, model.arrays["A"].shape
    ('encoder', {'n_bits': 2}, (2, 2))
    """
    plain = {name: _plain(name, array) for name, array in arrays.items()}
    names = sorted(plain, key=lambda name: (-plain[name].itemsize, name))  # keeps data aligned
    metadata = {
        "format": FORMAT,
        "format_version": str(FORMAT_VERSION),
        "package_version": __version__,
        "kind": kind,
        "header": json.dumps(dict(header), allow_nan=False),
    }
    metadata["sha256"] = _digest(metadata, plain)
    preamble = _preamble(metadata, {name: plain[name] for name in names})
    with atomic_write(path, replace) as temporary, open(temporary, "wb") as file:
        file.write(preamble)
        for name in names:
            file.write(_bytes_of(plain[name]))


def load_model(path: StrPath) -> ModelFile:
    """Read a model file and check it. Raises `ModelFileError` if it is damaged."""
    path = Path(path)
    with _reading(path) as file:
        metadata, entries = _read_preamble(file)
        arrays = {name: _read_array(file, entry) for name, entry in entries.items()}
        return _checked(path, metadata, arrays)


def map_model(path: StrPath) -> ModelFile:
    """Open a model file with memory-mapped arrays, and check it.

    The file is read once, for its checksum, and takes no memory of its own after that. Ask `watch`
    before each use of the arrays: to read them after the file was shortened crashes the process.
    """
    path = Path(path)
    with _reading(path) as file:
        metadata, entries = _read_preamble(file)
        watch = FileWatch(os.dup(file.fileno()))
        raw = np.memmap(file, np.uint8, "r")
        arrays = {
            name: raw[entry.start : entry.stop].view(entry.dtype).reshape(entry.shape)
            for name, entry in entries.items()
        }
        return _checked(path, metadata, arrays, watch)


def read_header(path: StrPath) -> tuple[str, dict[str, Any]]:
    """Return the kind and the header of a model file without reading its arrays."""
    with _reading(Path(path)) as file:
        metadata, _ = _read_preamble(file)
        return metadata["kind"], _header(metadata)


class FileWatch:
    """Notices that the content of an open file was changed in place."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._before = self._fingerprint()

    def __del__(self) -> None:
        os.close(self._descriptor)

    def changed(self) -> bool:
        return self._fingerprint() != self._before

    def _fingerprint(self) -> tuple[int, int]:
        status = os.fstat(self._descriptor)
        return status.st_size, status.st_mtime_ns


class _Entry(NamedTuple):
    """Type, shape and place of an array in a file."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    start: int
    stop: int


def _read_preamble(file: BinaryIO) -> tuple[dict[str, str], dict[str, _Entry]]:
    """Return the metadata and the entries of a safetensors file.

    safetensors itself reads through a memory map, which crashes the process if another program
    shortens the file meanwhile.
    """
    size = os.fstat(file.fileno()).st_size
    length = int.from_bytes(file.read(8), "little")
    if length > min(_MAX_HEADER, size - 8):
        raise ValueError(f"a header of {length} bytes in a file of {size}")
    fields = json.loads(file.read(length))
    metadata = fields.pop("__metadata__", {})
    if not (isinstance(metadata, dict) and all(isinstance(v, str) for v in metadata.values())):
        raise ValueError("metadata must be text")
    _check_metadata(metadata)
    entries = {name: _entry(field, 8 + length) for name, field in fields.items()}
    at = 8 + length
    for entry in sorted(entries.values(), key=lambda entry: (entry.start, entry.stop)):
        if entry.start != at:
            raise ValueError("arrays overlap or leave a gap")
        at = entry.stop
    if at != size:
        raise ValueError(f"{size} bytes instead of {at}")
    return metadata, entries


def _entry(field: dict[str, Any], base: int) -> _Entry:
    dtype, shape = _TYPES[field["dtype"]], field["shape"]
    numbers = [*shape, *field["data_offsets"]]
    if not all(type(number) is int and 0 <= number < 2**62 for number in numbers):
        raise ValueError("shapes and offsets must be whole numbers")
    start, stop = field["data_offsets"]
    if stop - start != math.prod(shape) * dtype.itemsize:
        raise ValueError("the shape of an array does not match its bytes")
    return _Entry(dtype, tuple(shape), base + start, base + stop)


def _read_array(file: BinaryIO, entry: _Entry) -> NDArray[Any]:
    array = np.empty(entry.shape, entry.dtype)
    file.seek(entry.start)
    if file.readinto(_bytes_of(array)) != array.nbytes:  # type: ignore[attr-defined]
        raise ValueError("the file became shorter while it was read")
    return array


def _checked(
    path: Path,
    metadata: dict[str, str],
    arrays: dict[str, NDArray[Any]],
    watch: FileWatch | None = None,
) -> ModelFile:
    rest = {name: text for name, text in metadata.items() if name != "sha256"}
    if metadata["sha256"] != _digest(rest, arrays):
        raise ModelFileError(f"the file is damaged or was changed (wrong checksum); {_COPY_AGAIN}")
    version, package = int(metadata["format_version"]), metadata["package_version"]
    return ModelFile(path, metadata["kind"], version, package, _header(metadata), arrays, watch)


def _header(metadata: Mapping[str, str]) -> dict[str, Any]:
    try:
        header = json.loads(metadata["header"])
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"its header is not JSON ({error}); save the model again") from error
    if not isinstance(header, dict):
        raise ModelFileError("its header is not a JSON object; save the model again")
    return header


def _plain(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """Return the array in C order and little-endian, as in the file and the checksum."""
    array = np.asarray(array)
    if name == "__metadata__":
        raise InputError("an array cannot be named '__metadata__'; safetensors reserves the name")
    if array.dtype.name not in _DTYPES:
        raise InputError(f"array {name!r} has dtype {array.dtype}; use one of {', '.join(_DTYPES)}")
    return np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")


def _bytes_of(array: NDArray[Any]) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _digest(metadata: Mapping[str, str], arrays: Mapping[str, NDArray[Any]]) -> str:
    """Return the SHA-256 of one line of JSON and the bytes of all arrays, in the order of names.

    The line holds the metadata and the name, dtype and shape of each array, with sorted keys.
    """
    names = sorted(arrays)
    plain = [_plain(name, arrays[name]) for name in names]
    described = [[n, _DTYPES[a.dtype.name], a.shape] for n, a in zip(names, plain, strict=True)]
    line = json.dumps([dict(metadata), described], sort_keys=True) + "\n"
    digest = hashlib.sha256(line.encode("ascii"))
    for array in plain:
        digest.update(_bytes_of(array))
    return digest.hexdigest()


def _preamble(metadata: Mapping[str, str], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return the start of a safetensors file: the length of the JSON, then the JSON."""
    entries: dict[str, Any] = {"__metadata__": dict(metadata)}
    start = 0
    for name, array in arrays.items():
        entries[name] = {
            "dtype": _DTYPES[array.dtype.name],
            "shape": array.shape,
            "data_offsets": [start, start + array.nbytes],
        }
        start += array.nbytes
    text = json.dumps(entries, separators=(",", ":")).encode("ascii")
    text += b" " * (-len(text) % 8)
    if len(text) > _MAX_HEADER:
        raise InputError(f"the header takes {len(text)} bytes, more than {_MAX_HEADER}; use arrays")
    return len(text).to_bytes(8, "little") + text


@contextmanager
def _reading(path: Path) -> Iterator[BinaryIO]:
    """Open a file; raise a `ModelFileError` that names it if its content cannot be read."""
    with named(path, "check the permissions of the file"):
        if not path.exists():
            raise ModelFileError("file not found")
        if path.is_dir():
            raise ModelFileError("is a directory; name the model file in it")
        if not path.is_file():
            raise ModelFileError("is not a regular file; name a model file")
        with open(path, "rb") as file:
            start = file.read(9)
            file.seek(0)
            try:
                yield file
            except (BridgehashError, OSError, MemoryError):
                raise
            except Exception as error:
                raise ModelFileError(_explain(start, error)) from error


def _explain(start: bytes, error: Exception) -> str:
    """Return why a file was refused, by its first nine bytes: a length and a brace."""
    if not start:
        return f"is empty; {_COPY_AGAIN}"
    length = int.from_bytes(start[:8], "little")
    if len(start) == 9 and (start[8:] != b"{" or length > _MAX_HEADER):
        return "is not a safetensors file; name a model that bridgehash saved"
    return f"is truncated or damaged ({error}); {_COPY_AGAIN}"


def _check_metadata(metadata: Mapping[str, str]) -> None:
    """Refuse a file whose entries are not complete, or of a format that cannot be read."""
    if metadata.get("format") != FORMAT:
        raise ModelFileError("has no bridgehash header; name a model that bridgehash saved")
    missing = [entry for entry in _ENTRIES if entry not in metadata]
    if missing:
        raise ModelFileError(f"its bridgehash header lacks {', '.join(missing)}; {_COPY_AGAIN}")
    text = metadata["format_version"]
    if not (text.isascii() and text.isdigit() and 1 <= len(text) <= 9 and int(text) >= 1):
        raise ModelFileError(f"its format_version is {text[:20]!r}, not a number; {_COPY_AGAIN}")
    if int(text) != FORMAT_VERSION:
        remedy = (
            "upgrade bridgehash"
            if int(text) > FORMAT_VERSION
            else "fit or build it again and save it"
        )
        raise ModelFileError(
            f"written by bridgehash {metadata['package_version'][:40]} in format {text}, but this "
            f"version reads format {FORMAT_VERSION}; {remedy}"
        )
