"""Print the declared minimum version of every dependency as a constraints file.

    python tests/oldest.py dev > oldest.txt    # of the package and of the named extras

`make test-oldest` installs exactly these versions and runs the tests.
"""

import re
import sys
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]


def requirements(extra):
    """Requirements of an extra, with those of the extras it names."""
    for requirement in project["optional-dependencies"][extra]:
        nested = re.fullmatch(r"bridgehash\[(.*)\]", requirement)
        if nested:
            for name in nested[1].split(","):
                yield from requirements(name)
        else:
            yield requirement


if __name__ == "__main__":
    listed = [*project["dependencies"], *(r for extra in sys.argv[1:] for r in requirements(extra))]
    for requirement in dict.fromkeys(listed):
        found = re.match(r"([\w.-]+)(?:\[.*?\])?>=([\w.]+)", requirement)
        if found:
            print(f"{found[1]}=={found[2]}")
