"""Imports point one way, files stay short, and every module says what it is for."""

import ast
from pathlib import Path

import pytest

import bridgehash

ROOT = Path(bridgehash.__file__).parent
MAX_LINES = 400
ORDER = [  # a module may import from those before it
    "_threads",
    "_threaded",
    "_xp",
    "_version",
    "_progress",
    "_files",
    "_formats",
    "codes",
    "linalg",
    "cuda",
    "sparse",
    "codewords",
    "clusters",
    "stiefel",
    "_validation",
    "_sources",
    "_iterables",
    "blocks",
    "mappers",
    "neighbors",
    "inverted",
    "near",
    "graphs",
    "feature_maps",
    "row_tasks",
    "rows",
    "anchor_graphs",
    "persistence",
    "encoder",
    "base",
    "kernel_hashing",
    "common_space",
    "pseudo_labels",
    "matching",
    "memberships",
    "paired",
    "pairing",
    "ath.steps",
    "ath.bipartite",
    "ath.starts",
    "ath.local_start",
    "ath.structural",
    "ath.features",
    "ath.memory",
    "ath.parts",
    "ath.presets",
    "ath.solver",
    "ath.learning",
    "ath.estimator",
    "ath",
    "distributed",
    "baselines",
    "index",
    "engines",
    "origins",
    "methods",
    "metrics",
    "datasets",
    "features",
    "bench",
    "service",
    "cli",
    "__main__",
]
FORBIDDEN = {"baselines": {"ath", "baselines"}}  # though they come before, or are siblings
ONLY = {  # these and nothing else
    "metrics": {"codes"},
    "datasets": {"_files", "_validation", "feature_maps", "linalg"},
    "features": {"_files", "_progress", "_version"},
}
LOOKS_UP_CLASSES = "persistence"  # may ask the package itself for a class, inside a function

FILES = sorted(ROOT.rglob("*.py"))
MODULES = [path for path in FILES if path.name != "__init__.py"]


def dotted(path):
    """`ath.steps` for bridgehash/ath/steps.py, `ath` for its package, "" for the top."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def tree(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def imported(path):
    """Names of ours that a file imports, at the top or inside a function."""
    package = dotted(path) if path.name == "__init__.py" else dotted(path).rpartition(".")[0]
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
            yield from (name.partition(".")[2] for name in names if is_ours(name))
        elif isinstance(node, ast.ImportFrom) and (node.level or is_ours(node.module)):
            base = resolved(node, package)
            for alias in node.names:
                deeper = f"{base}.{alias.name}".strip(".")
                yield deeper if is_module(deeper) else base


def is_ours(name):
    return name is not None and name.split(".")[0] == "bridgehash"


def resolved(node, package):
    """The dotted name, below bridgehash, that `from ... import` starts from."""
    if not node.level:
        return node.module.partition(".")[2]
    parts = package.split(".") if package else []
    parts = parts[: len(parts) - (node.level - 1)]
    return ".".join([*parts, *([node.module] if node.module else [])])


def is_module(name):
    path = ROOT.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def layer(name):
    """Position in ORDER of a module, or of the package that it belongs to."""
    while name and name not in ORDER:
        name = name.rpartition(".")[0]
    assert name, "a module without a place in ORDER: give it one"
    return ORDER.index(name)


def family(name):
    return name.split(".")[0]


@pytest.mark.parametrize("path", MODULES, ids=dotted)
def test_imports_point_to_lower_layers_only(path):
    name = dotted(path)
    for other in imported(path):
        if not other:
            assert name == LOOKS_UP_CLASSES or family(name) == "cli", "imports the whole package"
        elif family(other) != family(name) or family(name) == "ath":
            assert layer(other) < layer(name), f"{name} imports {other}, which lies above it"


@pytest.mark.parametrize("path", MODULES, ids=dotted)
def test_what_must_stay_apart_does(path):
    name = dotted(path)
    others = {other for other in imported(path) if other}
    families = {family(other) for other in others}
    if family(name) in FORBIDDEN:
        assert not families & FORBIDDEN[family(name)]
    if family(name) in ONLY:
        assert families <= ONLY[family(name)] | {family(name)}


def test_the_lookup_of_classes_is_inside_a_function():
    assert not [
        alias.name
        for node in tree(ROOT / f"{LOOKS_UP_CLASSES}.py").body
        if isinstance(node, ast.Import)
        for alias in node.names
        if is_ours(alias.name)
    ]


@pytest.mark.parametrize("path", MODULES, ids=dotted)
def test_every_module_has_a_place(path):
    layer(dotted(path))


@pytest.mark.parametrize("name", ORDER)
def test_every_place_has_a_module(name):
    assert is_module(name)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_is_short_and_says_what_it_is_for(path):
    assert ast.get_docstring(tree(path)), "no docstring"
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_LINES


PACKAGES = [path for path in FILES if path.name == "__init__.py"]


@pytest.mark.parametrize("path", PACKAGES, ids=lambda path: dotted(path) or "bridgehash")
def test_a_package_file_only_lists_names(path):
    statements = tree(path).body[1:]  # after the docstring
    for node in statements:
        is_all = isinstance(node, ast.Assign) and [t.id for t in node.targets] == ["__all__"]
        assert is_all or isinstance(node, ast.Import | ast.ImportFrom), ast.unparse(node)


@pytest.mark.parametrize("path", PACKAGES, ids=lambda path: dotted(path) or "bridgehash")
def test_a_package_lists_what_it_imports_in_order(path):
    names = [node for node in tree(path).body if isinstance(node, ast.Assign)]
    if not names:
        return
    listed = ast.literal_eval(names[0].value)
    brought = [
        alias.asname or alias.name
        for node in tree(path).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]
    brought = [name for name in brought if name == "__version__" or not name.startswith("_")]
    assert sorted(listed) == sorted(brought)
    assert len(set(listed)) == len(listed)


def test_the_checks_see_a_violation(tmp_path, monkeypatch):
    """A package made up for the purpose, with one sin of each kind."""
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    for folder in ("ath", "baselines"):
        (tmp_path / folder).mkdir()
    sins = {
        "codes": "def f():\n    from .graphs import laplacian",
        "graphs": "from bridgehash.models.base import Shared",
        "linalg": "import bridgehash.ath.steps",
        "ath.steps": "from .solver import solve",
        "ath.solver": "from .. import cli",
        "baselines.itq": "from ..ath import ATH",
    }
    apart, downward = {"baselines.itq"}, test_imports_point_to_lower_layers_only
    for name, text in sins.items():
        path = tmp_path.joinpath(*name.split(".")).with_suffix(".py")
        path.write_text(text)
    for name in sins:
        path = tmp_path.joinpath(*name.split(".")).with_suffix(".py")
        check = test_what_must_stay_apart_does if name in apart else downward
        with pytest.raises(AssertionError):
            check(path)
