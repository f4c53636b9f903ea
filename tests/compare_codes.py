"""Check that a change of the code leaves every code as it was: all methods, three tasks, one seed.

Run it on the old commit and on the new one, then compare the two files:

    python tests/compare_codes.py write old.json     # in a checkout of the old commit
    python tests/compare_codes.py write new.json     # in the new one
    python tests/compare_codes.py compare old.json new.json

The data pack is needed for two of the tasks; BRIDGEHASH_DATA names its folder. The list of methods
is found in `bridgehash.registry`, or in the module that REGISTRY names for older commits. A method
that was renamed is compared under its new name.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import sys
import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

RENAMED = {
    "ath-u": "ath-unsupervised",
    "ath-m": "ath-semi-supervised",
    "ath-s": "ath-supervised",
    "ath-k": "ath-kernel",
    "ath-p": "ath-propagated",
    "ath-pairs": "ath-paired",
}
N_BITS, SEED = 32, 7


def tasks():
    """Name, source, target, labels of both: one feature space twice, two feature spaces once."""
    X, y = load_digits(return_X_y=True)
    yield "digits", X[:500] / 16, X[500:900] / 16 + 0.1, y[:500], y[500:900]
    folder = Path(os.environ.get("BRIDGEHASH_DATA", "../shared/data"))
    with np.load(folder / "mnist_usps.npz") as pack:
        X_s, y_s = pack["mnist2000_x"][:600].astype(np.float64), pack["mnist2000_y"][:600]
        X_t, y_t = pack["usps1800_x"][:500].astype(np.float64), pack["usps1800_y"][:500]
        yield "mnist-usps", X_s, X_t, y_s, y_t
    with np.load(folder / "office_caltech10.npz") as pack:
        rows = np.random.default_rng(0).permutation(900)[:400]
        yield (
            "mobilenet-effnet",
            pack["caltech10_mobilenet_v1"][rows].astype(np.float32),
            pack["amazon_effnet_lite0"][rows].astype(np.float32),
            pack["caltech10_y"][rows],
            pack["amazon_y"][rows],
        )


def digests():
    """SHA-256 of the codes of both domains, by task and method."""
    registry = importlib.import_module(os.environ.get("REGISTRY", "bridgehash.registry"))
    found = {}
    for task, X_s, X_t, y_s, y_t in tasks():
        pairs = np.column_stack([np.arange(100), np.arange(100)])
        for name, entry in registry.METHODS.items():
            needs = set(entry.about.needs)
            given = {"y_source": y_s, "y_target": y_t} if "y" in needs else {}
            given |= {key: y for key, y in (("y_source", y_s), ("y_target", y_t)) if key in needs}
            given |= {"pairs": pairs} if "pairs" in needs else {}
            hasher = entry.prepared(N_BITS, SEED)
            try:
                hasher.fit(X_s, X_t, **given)
                codes = [hasher.encode(X_s, "source"), hasher.encode(X_t, "target")]
                digest = hashlib.sha256(b"".join(c.tobytes() for c in codes)).hexdigest()
            except ValueError as error:
                digest = f"refused: {type(error).__name__}"
            family, _, _ = name.partition("-published")
            name = RENAMED.get(family, family) + ("-published" if "published" in name else "")
            found[f"{task} {name}"] = digest
            print(task, name, digest[:16], flush=True)
    return found


def compare(old, new):
    """Print what differs; the number of differences."""
    wrong = [key for key in sorted({*old, *new}) if old.get(key) != new.get(key)]
    for key in wrong:
        print(f"{key}: {old.get(key)} before, {new.get(key)} now")
    print(f"{len(old)} before, {len(new)} now, {len(wrong)} differ")
    return len(wrong)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if sys.argv[1:2] == ["write"]:
        Path(sys.argv[2]).write_text(json.dumps(digests(), indent=1))
    elif sys.argv[1:2] == ["compare"]:
        old, new = (json.loads(Path(name).read_text()) for name in sys.argv[2:4])
        sys.exit(1 if compare(old, new) else 0)
    else:
        sys.exit(__doc__)
