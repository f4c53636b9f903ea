"""`bridgehash demo --serve`: serve a page on which methods and code lengths can be compared.

Digits are always served; sketches that find photos are served first if the data pack is present.
What fits the models is imported only if there are models to fit: a second start is quick.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import bridgehash
from bridgehash import __version__
from bridgehash._core.files import atomic_write
from bridgehash.cli.console import counted, note
from bridgehash.cli.serve import check_free, require_service, run_service
from bridgehash.datasets.files import data_places

require_service("demo --serve")

from bridgehash.service.catalogue import Files  # noqa: E402

_DATA_PACK = Path("..", "shared", "data")  # searched after $BRIDGEHASH_DATA


def serve_demo(out: Path, port: int) -> None:
    """Write models, indexes and pictures to a folder, and serve them until SIGINT or SIGTERM.

    Sets that the same version has written before, from the same data, are served as they are.
    """
    check_free("127.0.0.1", port)
    folder = out / "service"
    folder.mkdir(parents=True, exist_ok=True)
    files = find_catalogues(folder)
    note(f"files are in {folder}")
    run_service(files, "127.0.0.1", port, None, ready="open the page at {address}; Ctrl-C stops it")


def find_catalogues(folder: Path) -> list[Files]:
    """Return the catalogues of all sets on this machine; make those that are missing or old."""
    sets: dict[str, Sequence[Path]] = {"digits": ()}
    if (pacs := pacs_files()) is not None:
        sets = {"sketches": pacs} | sets
    else:
        note("sketches and photos are not served: set BRIDGEHASH_DATA to the data pack")
    found = []
    for name, files in sets.items():
        key, path = _key(name, files), folder / f"{name}.json"
        catalogues = _stored(path, key)
        if not catalogues:
            catalogues = _make(name, files, folder)
            _store(path, key, catalogues)
        found += catalogues
    return found


def _make(name: str, files: Sequence[Path], folder: Path) -> list[Files]:
    """Fit the models of a set, and write them with their indexes and pictures."""
    from bridgehash.cli import demo_catalogues as made

    data = made.sketches_and_photos(*files) if files else made.digits(folder / name)
    note(f"fitting {counted(len(made.CODINGS), 'model')} of {name}, the first time only")
    return made.make_catalogues(folder, [data])


def _key(name: str, data_files: Sequence[Path]) -> str:
    """Return what the catalogues of a set depend on: the package and the data."""
    text = hashlib.sha256(f"{__version__} {name}".encode())
    package = Path(bridgehash.__file__).parent
    for source in sorted(package.rglob("*.py")):  # an editable install changes between versions
        text.update(source.read_bytes())
    for file in data_files:
        about = file.stat()
        text.update(f"{file.resolve()} {about.st_size} {about.st_mtime_ns}".encode())
    return f"{__version__} {text.hexdigest()}"


def _stored(path: Path, key: str) -> list[Files]:
    """Return the catalogues that were written with a key; none if any file is missing."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        catalogues = [
            Files(backbone=each.pop("backbone"), **{name: Path(x) for name, x in each.items()})
            for each in stored["catalogues"]
        ]
    except (OSError, ValueError, KeyError, TypeError):
        return []  # made again
    places = [place for each in catalogues for place in vars(each).values()]
    complete = all(place.exists() for place in places if isinstance(place, Path))
    return catalogues if stored["key"] == key and complete else []


def _store(path: Path, key: str, catalogues: Sequence[Files]) -> None:
    rows = [{name: x and str(x) for name, x in vars(each).items()} for each in catalogues]
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps({"key": key, "catalogues": rows}), encoding="utf-8")


def pacs_files() -> tuple[Path, Path] | None:
    """Return the features of PACS and the folder of its images, if both are there."""
    for place in (*data_places(), _DATA_PACK):
        files = place / "pacs.npz", place / "images"
        if files[0].is_file() and (files[1] / "index.csv").is_file():
            return files
    return None
