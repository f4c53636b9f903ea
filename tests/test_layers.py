"""Every folder of the package is a room that imports only what it may; names are unique."""

import ast
from collections import defaultdict
from pathlib import Path

import bridgehash

ROOT = Path(bridgehash.__file__).parent
TOP_LEVEL = {"__init__", "__main__", "_version", "codes", "registry"}
MAY_IMPORT = {  # a room and what it may import, besides itself
    "_core": set(),
    "codes": {"_core"},
    "streaming": {"_core"},
    "neighbors": {"_core", "streaming"},
    "models": {"codes", "_core", "streaming", "_version"},
    "ath": {"models", "neighbors", "streaming", "codes", "_core"},
    "baselines": {"models", "neighbors", "codes", "_core"},
    "registry": {"ath", "baselines", "models", "_core"},
    "index": {"codes", "_core", "models"},
    "datasets": {"_core", "models"},
    "metrics": {"codes", "models", "datasets", "_core"},
    "tuning": {"registry", "metrics", "models", "_core"},
    "features": {"_core", "_version"},
    "export": {"codes", "models", "baselines", "_core", "_version"},
}
MAY_IMPORT["bench"] = {*MAY_IMPORT, "_version"} - {"index", "streaming"}
MAY_IMPORT["service"] = {"models", "index", "metrics", "features", "codes", "_core", "_version"}
MAY_IMPORT["cli"] = {*MAY_IMPORT, "_version", ""}
MAY_IMPORT["__main__"] = {"cli"}
ONLY_FILES = {  # of a room that may be imported in part
    ("index", "models"): {"models.model_file", "models.provenance"},
    ("datasets", "models"): {"models.feature_maps"},
}
LOOKS_UP_CLASSES = "models.persistence"  # asks the package itself for a class, inside a function


def modules(root):
    """Dotted name below the package, and file, of every module."""
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def imported(name, path, root):
    """Modules of the package that a file imports, at the top or inside a function."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "bridgehash":
                    yield alias.name.partition(".")[2]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = [part for part in package if part][: len(package) - node.level + 1]
                base = ".".join([*above, *([base] if base else [])])
            elif base.split(".")[0] == "bridgehash":
                base = base.partition(".")[2]
            else:
                continue
            for alias in node.names:
                deeper = f"{base}.{alias.name}".strip(".")
                file = root.joinpath(*deeper.split("."))
                is_module = file.is_dir() or file.with_suffix(".py").is_file()
                yield deeper if is_module else base


def violations(root):
    """Every import that crosses from a room into one it may not use."""
    for name, path in modules(root):
        room = name.split(".")[0]
        if not name or name == "_version":
            continue
        for other in imported(name, path, root):
            target = other.split(".")[0]
            allowed = MAY_IMPORT.get(room, set()) | {room}
            if not target and name == LOOKS_UP_CLASSES:
                continue
            files = ONLY_FILES.get((room, target))
            if target not in allowed or (files and other not in files):
                yield f"{name} imports {other or 'the whole package'}"


def test_rooms_import_only_what_they_may():
    assert list(violations(ROOT)) == []


def test_the_check_sees_violations(tmp_path):
    sins = {
        "codes.py": "def f():\n    from .neighbors.graphs import laplacian",
        "_core/linalg.py": "import bridgehash.ath.steps",
        "baselines/itq.py": "from ..ath import ATH",
        "datasets/task.py": "from ..models.base import BaseHasher",
        "models/base.py": "import bridgehash",
    }
    for file, text in sins.items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(text)
    for room in ("neighbors", "ath", "models"):
        (tmp_path / room).mkdir(exist_ok=True)
    assert len(list(violations(tmp_path))) == len(sins)


def test_the_top_level_has_few_files_and_every_folder_is_a_room():
    assert {path.stem for path in ROOT.glob("*.py")} <= TOP_LEVEL
    folders = {path.name for path in ROOT.iterdir() if any(path.glob("*.py"))}
    assert folders == set(MAY_IMPORT) - TOP_LEVEL


def test_every_module_says_what_it_is_for():
    missing = [
        name
        for name, path in modules(ROOT)
        if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert missing == []


def test_no_class_name_means_two_things():
    homes = defaultdict(list)
    for name, path in modules(ROOT):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(name)
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}


def test_every_public_name_can_be_loaded_and_is_documented():
    for name in bridgehash.__all__:
        assert getattr(bridgehash, name).__doc__, name
