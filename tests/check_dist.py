"""Check a wheel and a source archive: `python tests/check_dist.py dist`.

Both must hold every file of the package, the archive also all that `make test` needs. The wheel is
installed without its dependencies beside those of this environment, and has to work there.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BESIDE = ("README.md", "LICENSE", "CITATION.cff", "SECURITY.md", "Makefile", "constraints.txt")

DEMO = ["demo", "--write"]


def files(folder: str) -> set[str]:
    """Files under version control below a folder."""
    line = ["git", "-C", str(ROOT), "ls-files", folder]
    return set(subprocess.run(line, capture_output=True, text=True, check=True).stdout.split())


def check(name: str, missing: set[str]) -> None:
    if missing:
        sys.exit(f"{name} lacks {', '.join(sorted(missing))}")
    print(f"{name}: complete")


def main(folder: Path) -> None:
    [wheel], [archive] = folder.glob("*.whl"), folder.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as content:
        check(wheel.name, files("bridgehash") - set(content.namelist()))
    with tarfile.open(archive) as content:
        names = {name.partition("/")[2] for name in content.getnames()}
    wanted = {name for part in ("bridgehash", "tests", "docs", "examples") for name in files(part)}
    check(archive.name, (wanted | set(BESIDE)) - names)
    with tempfile.TemporaryDirectory() as place:
        venv.create(f"{place}/venv", with_pip=True)
        python = f"{place}/venv/bin/python"
        line = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", str(wheel)]
        subprocess.run(line, check=True, env={"PIP_DISABLE_PIP_VERSION_CHECK": "1"})
        environment = {"PYTHONPATH": ":".join(path for path in sys.path if "-packages" in path)}
        code = "import bridgehash; print(bridgehash.__file__)"
        for words in (
            ["-c", code],
            *(["-m", "bridgehash", *w] for w in (["info", "--help"], DEMO)),
        ):
            done = subprocess.run(
                [python, *words], capture_output=True, text=True, cwd=place, env=environment
            )
            if done.returncode or (code in words and place not in done.stdout):
                sys.exit(f"the wheel does not work: {' '.join(words)}\n{done.stdout}{done.stderr}")
    print(f"{wheel.name}: works")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
