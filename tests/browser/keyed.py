"""A service on loopback that requires its key for everything, as on a public address."""

from __future__ import annotations

import sys
from pathlib import Path

from bridgehash.service import app, catalogue, server, settings
from tests.service.process import KEY


def main(*words: str) -> None:
    """Serve the digits of a folder."""
    folder, names = Path(words[0]), words[1:]
    chosen = settings.make_settings("0.0.0.0", KEY)  # the settings only: it listens on loopback
    files = [
        catalogue.Files(
            folder / f"{name}.bh",
            folder / f"{name}.bhi",
            folder / f"{name}-queries.bhi",
            folder / "digits" / "source",
            folder / "digits" / "queries",
        )
        for name in names
    ]
    with server.listen("127.0.0.1", 0) as listener:
        catalogues = catalogue.open_catalogues(files, chosen)
        print(f"at {server.address_of(listener)}", file=sys.stderr, flush=True)
        try:
            server.serve(app.create_app(catalogues, chosen), listener)
        finally:
            catalogue.close_catalogues(catalogues)


if __name__ == "__main__":
    main(*sys.argv[1:])
