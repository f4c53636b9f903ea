"""Run the code on pages of the documentation and compare what it prints, or renew the outputs.

    python docs/_hooks/outputs.py [PAGE...]            # renew the outputs of pages
    python docs/_hooks/outputs.py --check [PAGE...]    # change nothing; fail if an output differs

A page with outputs says how it is run: `<!-- outputs: run -->`, `<!-- outputs: run, slow, needs
pacs.npz -->` or `<!-- outputs: not run, REASON -->`. All code of a page runs in one folder, in the
order of the page. Output is what stands in a `text` block right after a `python` block, and after a
line `$ command` in a `console` block; `...` stands for the rest. Lines that begin with `time` are
left out. Text has to be equal, except for spaces; numbers may differ by two per cent, or by one in
the last digit. `<!-- setup ... -->` is Python code that runs, but is not shown; a block after
`<!-- not run: REASON -->` is shown only. A page `tutorial.md` that shows the picture
`pictures/tutorial-NAME.png` writes NAME.png; renewing its outputs renews the picture.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("BRIDGEHASH_DATA") or ROOT.parent / "shared" / "data")
TOLERANCE = 0.02
REST = "..."

_HOW = re.compile(r"<!-- outputs: (run|not run)(.*?) -->")
_BLOCK = re.compile(
    r"^<!-- not run: [^\n]*-->\s*^```.*?^```$"
    r"|^<!-- setup\n(?P<setup>.*?)-->$"
    r"|^```python\n(?P<python>.*?)^```$(?:\s*^```text\n(?P<printed>.*?)^```$)?"
    r"|^```console\n(?P<console>\$ .*?)^```$"
    r"|^```.*?^```$",
    re.DOTALL | re.MULTILINE,
)
_COMMAND = re.compile(r"^\$ (?P<command>(?:.*\\\n)*.*)\n(?P<output>(?:(?!\$ ).*\n)*)", re.MULTILINE)
_NUMBER = re.compile(r"([+-]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?)")


class Page:
    """A page of the documentation: how it is run, and its text with new outputs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.text = path.read_text(encoding="utf-8")
        how = _HOW.search(self.text)
        self.is_declared = how is not None
        self.options = [part.strip() for part in how[2].split(",") if part.strip()] if how else []
        self.is_run = how is not None and how[1] == "run"
        self.drawn: dict[str, bytes] = {}  # pictures that its code wrote

    @property
    def name(self) -> str:
        folder = ROOT / "docs"
        return self.path.relative_to(folder if folder in self.path.parents else ROOT).as_posix()

    @property
    def has_outputs(self) -> bool:
        """Return whether the page shows what some of its code prints."""
        return any(
            block["printed"] or any(found["output"] for found in _commands(block["console"]))
            for block in _BLOCK.finditer(self.text)
        )

    @property
    def is_slow(self) -> bool:
        return "slow" in self.options

    @property
    def shown(self) -> set[str]:
        """Names of the pictures in `docs/pictures` that are of this page's code."""
        return set(re.findall(rf"pictures/({self.path.stem}-[\w-]+\.png)", self.text))

    def missing(self) -> list[str]:
        """Return the data files that the page needs and that are not there."""
        files = [option.removeprefix("needs ") for option in self.options if " " in option]
        return [name for name in files if not (DATA / name).is_file()]

    def rerun(self) -> tuple[str, list[str]]:
        """Run the page in a new folder; return its text with new outputs, and the differences."""
        module = ModuleType("page")  # classes of a page can be pickled
        problems: list[str] = []

        def replaced(block: re.Match[str]) -> str:
            if code := block["setup"] or block["python"]:
                printed = _run_python(code, module)
                if block["python"] is None or (not printed and block["printed"] is None):
                    return block[0]
                problems.extend(differences(block["printed"] or "", printed))
                shown = _like(block["printed"] or "", printed)
                return f"```python\n{code}```\n\n```text\n{shown}```"
            if block["console"] is None:
                return block[0]
            parts = []
            for found in _commands(block["console"]):
                output = _run_command(found["command"])
                problems.extend(differences(found["output"], output))
                parts.append(f"$ {found['command']}\n{_like(found['output'], output)}")
            return f"```console\n{''.join(parts)}```"

        with _new_folder():
            sys.modules["page"] = module
            try:
                text = _BLOCK.sub(replaced, self.text)
                for picture in Path().glob("*.png"):
                    self.drawn[f"{self.path.stem}-{picture.name}"] = picture.read_bytes()
            finally:
                del sys.modules["page"]
        return text, problems


def pages() -> Iterator[Page]:
    """Return README and all pages of the documentation."""
    return map(Page, [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))])


def differences(documented: str, printed: str) -> list[str]:
    """Return the lines that differ by more than spaces and the tolerance.

    >>> differences("map  50.1\\n...\\n", "map 50.4\\nmore\\n")
    []
    >>> differences("map 50.1\\n", "map 60.1\\n")
    ['"map 50.1" is now "map 60.1"']
    """
    old, new = documented.splitlines(), printed.splitlines()
    if old[-1:] == [REST]:
        old, new = old[:-1], new[: len(old) - 1]
    n = max(len(old), len(new))
    pairs = zip(old + [""] * (n - len(old)), new + [""] * (n - len(new)), strict=True)
    return [f'"{a}" is now "{b}"' for a, b in pairs if not _agree(a, b)]


def _agree(documented: str, printed: str) -> bool:
    old, new = (_NUMBER.split(" ".join(line.split())) for line in (documented, printed))
    return old[::2] == new[::2] and all(map(_near, old[1::2], new[1::2]))


def _near(old: str, new: str) -> bool:
    a, b = (float(text.replace(",", "")) for text in (old, new))
    digits = 10.0 ** -len(old.partition("e")[0].partition(".")[2])
    last = digits * 10.0 ** int(old.partition("e")[2] or 0)
    return abs(a - b) <= max(TOLERANCE * max(abs(a), abs(b)), 1.001 * last)


def _like(documented: str, printed: str) -> str:
    """Return an output with as many lines as the documented one shows."""
    lines = documented.splitlines()
    if lines[-1:] == [REST]:
        return "".join(f"{line}\n" for line in [*printed.splitlines()[: len(lines) - 1], REST])
    return printed


def _commands(console: str | None) -> Iterator[re.Match[str]]:
    return _COMMAND.finditer(console or "")


def _run_python(code: str, module: ModuleType) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(code, "page", "exec"), vars(module))
    return _tidy(printed.getvalue())


def _run_command(command: str) -> str:
    """Return the output of a command; those of bridgehash run in this process, which is faster."""
    words = shlex.split(command.replace("\\\n", " "))
    if words[0] == "bridgehash":
        from bridgehash.cli.main import main as bridgehash

        both = io.StringIO()
        with contextlib.redirect_stdout(both), contextlib.redirect_stderr(both):
            code = bridgehash(words[1:])
        output = both.getvalue()
    else:
        line = f"PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH; {command}"
        environment = os.environ | {"BRIDGEHASH_DATA": str(DATA)}
        done = subprocess.run(
            ["bash", "-c", line], capture_output=True, text=True, check=False, env=environment
        )
        code, output = done.returncode, done.stdout + done.stderr
    if code:
        raise RuntimeError(f"$ {command}\n{output}")
    return _tidy(output)


def _tidy(output: str) -> str:
    """Return an output without times, and without spaces at the ends of lines."""
    lines = (line.rstrip() for line in output.splitlines())
    return "".join(f"{line}\n" for line in lines if not line.startswith("time  "))


@contextlib.contextmanager
def _new_folder() -> Iterator[None]:
    """Work in a new folder, in which scripts are found as in the repository."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path("examples").symlink_to(ROOT / "examples")
        yield


def main(arguments: Iterable[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="change nothing, fail on differences")
    parser.add_argument("pages", nargs="*", type=Path, help="default: all that can be run")
    options = parser.parse_args(None if arguments is None else list(arguments))
    n_different = 0
    for page in [Page(path.resolve()) for path in options.pages] or pages():
        if not page.is_run:
            continue
        if missing := page.missing():
            print(f"{page.name}: skipped, {', '.join(missing)} not found in {DATA}")
            continue
        text, problems = page.rerun()
        for problem in problems:
            print(f"{page.name}: {problem}")
        n_different += len(problems)
        if not options.check and text != page.text:
            page.path.write_text(text, encoding="utf-8")
        for name in page.shown & page.drawn.keys() if not options.check else ():
            (ROOT / "docs" / "pictures" / name).write_bytes(page.drawn[name])
    return int(options.check and n_different > 0)


if __name__ == "__main__":
    sys.exit(main())
