"""Model files that somebody else wrote: valid files with changed contents and a right checksum.

    python -m tests.faults.crafted SEED N    # prints how many were refused, loaded, wrong

The program is a process of its own in the tests, so that a crash does not end them.
"""

import faulthandler
import json
import sys
import tempfile
import warnings
from collections import Counter
from copy import deepcopy
from pathlib import Path

import numpy as np
from sklearn.decomposition import PCA, FastICA, IncrementalPCA, TruncatedSVD
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.random_projection import GaussianRandomProjection

import bridgehash
from bridgehash import AnchorKernel, LinearEncoder, ModelFileError, PrincipalMap, UnitRows, save
from bridgehash.baselines import AnchorGraphMap, SpectralModes
from bridgehash.cli.info import _model_fields, describe
from bridgehash.models.base import BaseHasher, BaseTransferHasher
from bridgehash.models.feature_maps import BaseFeatureMap
from bridgehash.models.model_file import load_model, save_model
from tests.cases import METHODS, two_domains

MAPS = (
    UnitRows(),
    PrincipalMap(4),
    AnchorKernel(6, random_state=0),
    AnchorKernel(6, random_state=0, kernel="exponential"),
    AnchorGraphMap(6, random_state=0),
    SpectralModes(9),
    StandardScaler(),
    StandardScaler(with_std=False),
    MinMaxScaler(clip=True),
    MaxAbsScaler(),
    RobustScaler(),
    Normalizer(),
    QuantileTransformer(n_quantiles=9),
    PCA(4, whiten=True),
    IncrementalPCA(3),
    TruncatedSVD(3, random_state=0),
    FastICA(3, random_state=0, whiten="unit-variance"),
    Nystroem(n_components=5, random_state=0),
    Nystroem(kernel="poly", degree=2, n_components=5, random_state=0),
    RBFSampler(n_components=8, random_state=0),
    GaussianRandomProjection(4, random_state=0),
)
VALUES = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2,
    3,
    7,
    64,
    2**31,
    2**63,
    10**9,
    10**400,
    0.5,
    -0.0,
    1e-320,
    1e308,
    -1e308,
    "",
    "nan",
    "1_0",
    "٣",
    "source",
    "\x1b[2J\n",
    "x" * 5000,
    [],
    [1, 2],
    {},
    {"not saved": "KNNGraph"},
    {"not saved": ["\x1b[2J"]},
    {"array": "projection", "fields": []},
    {"array": "gone", "fields": []},
    {"array": ["a"], "fields": None},
    {"class": "UnitRows", "parameters": {}, "learned": {}},
    {"class": "UnitRows", "parameters": {}, "learned": {"n_features_in_": 2**62}},
    {"class": "KNNGraph", "parameters": {"n_neighbors": 0}, "learned": {}},
    {"class": "LabelStart", "parameters": {}, "learned": {"begin": 1}},
)
DTYPES = (np.bool_, np.uint8, np.int8, np.int16, np.float16, np.float32, np.int64, np.uint64)
NUMBERS = (np.nan, np.inf, -np.inf, 1e308, -1e308, 1e160, 1e-320, 0.0, -1.0)


def valid_models():
    """One fitted model per kind that can be saved."""
    data = two_domains()
    models = {name: method.fit(data) for name, method in METHODS.items()}
    models["one domain"] = models["itq"].hasher_
    X = np.abs(data.X_source)
    for i, each in enumerate(MAPS):
        fitted = each.fit(X)
        if isinstance(fitted, BaseFeatureMap):
            models[f"map {i}"] = fitted
        Z = np.asarray(fitted.transform(X))
        projection = np.random.default_rng(i).normal(size=(Z.shape[1], 11))
        maps, intercept = [UnitRows().fit(X), fitted], np.linspace(-1, 1, 11)
        models[f"encoder {i}"] = LinearEncoder(projection, Z.mean(axis=0), 0.7, maps, intercept)
    return models


def valid_contents(folder):
    """Kind, header and arrays of the valid files."""
    contents = []
    for name, model in valid_models().items():
        path = Path(folder, f"{name.replace(' ', '-')}.bh")
        save(model, path)
        file = load_model(path)
        assert outcome(path) == "right", name
        contents.append((file.kind, file.header, file.arrays))
    return contents


def nodes(tree, path=()):
    """Paths of all values in a tree of JSON."""
    yield path
    if isinstance(tree, dict | list):
        for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from nodes(value, (*path, key))


def at(tree, path):
    for key in path:
        tree = tree[key]
    return tree


def crafted(rng, kind, header, arrays):
    """Change one to three things of a valid file."""
    header, arrays = deepcopy(header), dict(arrays)
    for _ in range(rng.integers(1, 4)):
        what = rng.integers(10)
        if what == 0:
            kind = str(rng.choice(["ATH", "index", "LinearEncoder", "x\n\x1b[31m", ""]))
        elif what < 6:
            header = with_changed_header(rng, header)
        else:
            change_arrays(rng, arrays)
    return kind, header, arrays


def with_changed_header(rng, header):
    paths = list(nodes(header))
    path = paths[rng.integers(len(paths))]
    what = rng.integers(6)
    if not path:
        return {"class": "UnitRows"} if what == 0 else header
    parent, key = at(header, path[:-1]), path[-1]
    value = parent[key]
    if what == 0:
        del parent[key]
    elif what == 1 and isinstance(parent, dict):
        names = ("n_features_in_", "encoder_", "transform", "__class__", "n_bits", "mean_", "é")
        parent[str(rng.choice(names))] = deepcopy(VALUES[rng.integers(len(VALUES))])
    elif what == 2 and isinstance(value, int | float) and abs(value) < 2**60:
        parent[key] = value + int(rng.choice([-1, 1, 100, -value, -2 * value]))
    elif what == 3:
        parent[key] = deepcopy(at(header, paths[rng.integers(len(paths))]))
    elif what == 4 and key == "class":
        parent[key] = str(rng.choice([*bridgehash.__all__, "sklearn.decomposition.PCA", "os"]))
    elif what == 5 and rng.random() < 0.1:
        for _ in range(int(rng.choice([20, 400]))):
            value = [value]
        parent[key] = value
    else:
        parent[key] = deepcopy(VALUES[rng.integers(len(VALUES))])
    return header


def change_arrays(rng, arrays):
    if not arrays:
        arrays["more"] = np.ones(3)
        return
    names = sorted(arrays)
    name, other = names[rng.integers(len(names))], names[rng.integers(len(names))]
    array, what = arrays[name], rng.integers(9)
    if what == 0:
        del arrays[name]
    elif what == 1:
        arrays["more"] = np.ones((2, 2))
    elif what == 2:
        arrays[name], arrays[other] = arrays[other], array
    elif what == 3:
        with np.errstate(all="ignore"):
            arrays[name] = array.astype(DTYPES[rng.integers(len(DTYPES))])
    elif what == 4:
        shapes = ((-1,), (1, -1), (-1, 1), (*array.shape, 1), array.T.shape)
        arrays[name] = array.reshape(shapes[rng.integers(len(shapes))])
    elif what == 5:
        cuts = (array[:-1], array[:0], array[..., :-1], array[..., :0], np.vstack([array, array]))
        arrays[name] = cuts[rng.integers(len(cuts))]
    elif what == 6 and array.size:
        arrays[name] = array = np.array(array)
        value = NUMBERS[rng.integers(len(NUMBERS))]
        if array.dtype.kind != "f":
            value = int(rng.choice([-(2**31), -1, 0, 5, 100, 2**31]))
        places = slice(None) if rng.random() < 0.3 else rng.integers(array.size)
        with np.errstate(all="ignore"):
            array.reshape(-1)[places] = np.array(value).astype(array.dtype)
    elif what == 7:
        arrays[name] = np.frombuffer(rng.bytes(array.nbytes), array.dtype).reshape(array.shape)
    else:
        with np.errstate(all="ignore"):
            arrays[name] = array * array.dtype.type(rng.choice([0, 1, 3]))


def outcome(path):
    """Load a file and use the model: `refused`, `right`, or what went wrong."""
    try:
        model = bridgehash.load(path)
    except ModelFileError:
        return "refused"
    except Exception as error:
        return f"raw {type(error).__name__} at load: {error}"
    try:
        json.dumps([fields[1] for fields in _model_fields(describe(path))])
    except bridgehash.InputError as error:
        if "makes no codes" not in str(error):
            return f"info: {error}"
    except Exception as error:
        return f"raw {type(error).__name__} in info: {error}"
    try:
        return used(model)
    except bridgehash.InputError as error:
        return "too large" if "too large to encode" in str(error) else f"wrong refusal: {error}"
    except Exception as error:
        return f"raw {type(error).__name__} in use: {error}"


def used(model):
    rng = np.random.default_rng(0)
    if isinstance(model, BaseTransferHasher):
        encoders = [
            (encoder, lambda X, d=d: model.encode(X, d)) for d, encoder in model.encoders_.items()
        ]
    elif isinstance(model, BaseHasher):
        encoders = [(model.encoder_, model.encode)]
    elif isinstance(model, LinearEncoder):
        encoders = [(model, model.encode)]
    else:
        Z = np.asarray(model.transform(np.abs(rng.normal(size=(5, model.n_features_in_)))))
        return "right" if len(Z) == 5 and np.isfinite(Z).all() else "wrong values of a map"
    for encoder, encode in encoders:
        n_bits = getattr(model, "n_bits", encoder.n_bits)
        X = np.abs(rng.normal(size=(5, encoder.n_features_in_)))
        codes = encode(X)
        if codes.dtype != np.uint8 or codes.shape != (5, -(-n_bits // 8)):
            return f"wrong codes: {codes.dtype} {codes.shape}"
        H = formula(encoder, X)
        if not np.isfinite(H).all():
            return "wrong: not finite"
        bits = np.unpackbits(codes, axis=1)
        clear = np.abs(H) > 1e-6 * np.abs(H).max()
        if bits[:, n_bits:].any() or (bits[:, :n_bits] != (H > 0))[clear].any():
            return "wrong bits"
    return "right"


def formula(encoder, X):
    """Maps, then ((φ(x) - mean) / scale) @ projection + intercept, in float64."""
    for each in encoder.maps:
        with np.errstate(over="ignore"):  # exp(-inf) is 0
            X = np.asarray(each.transform(X), dtype=np.float64)
    P = np.asarray(encoder.projection, dtype=np.float64)
    H = X @ (P / encoder.scale) - encoder.mean.astype(np.float64) @ (P / encoder.scale)
    return H if encoder.intercept is None else H + encoder.intercept


def main(seed, n):
    faulthandler.enable()
    warnings.simplefilter("error")
    counts, examples = Counter(), {}
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        contents = valid_contents(folder)
        warnings.simplefilter("error")
        path = Path(folder, "crafted.bh")
        for i in range(n):
            save_model(path, *crafted(rng, *contents[i % len(contents)]))
            result = outcome(path)
            kind = " ".join(result.split()[:2])
            counts[kind] += 1
            examples.setdefault(kind, f"file {i} of seed {seed}, {contents[i % len(contents)][0]}")
            examples[kind] += f": {result}"[:200] if counts[kind] == 1 else ""
    print(json.dumps({"counts": counts, "examples": examples}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
