"""Change one choice at a time: what each choice that the paper leaves open is worth.

    python benchmarks/choices.py [--splits 3] [--jobs 2] [--record FILE]

The default setting of a variant, then one choice changed: radius_pr_area in per cent, cross /
single domain, mean over splits, 64 bits. The splits differ from those of benchmarks/levels.py:
settings are chosen on these splits and reported on those.
"""

from __future__ import annotations

import argparse
from typing import Any

import levels
import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from recorded import Recorder, add_option
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from bridgehash import ATH, AdaptiveBipartite, AnchorKernel, BalancedCodes, KNNGraph
from bridgehash.models.base import BaseTransferHasher

BITS, FIRST_SPLIT = 64, 100
UNION = {"source_graph": KNNGraph(10), "target_graph": KNNGraph(10)}
PAPER_U = {"alpha_source": 1e-2, "alpha_target": 1e-1, "lam": 1.0}
BALANCED = {"codes": "balanced", "center": "domain", "start": "labels"}
BALANCED_S = BALANCED | {  # the graphs of the paper need weights if there are no class words
    "alpha_source": 1e-3,
    "alpha_target": 1e-1,
    "beta_source": 1e-2,
    "beta_target": 1e-2,
    "lam": 1e-2,
    "ridge": 0.1,
}
BALANCED_K = BALANCED | {
    "alpha_source": 1e-2,
    "alpha_target": 1.0,
    "beta_source": 1e-3,
    "beta_target": 1e-3,
    "lam": 1e-2,
    "ridge": 1e-2,
    "feature_map": "anchors",
}


def bridge(n_neighbors: int = 10, **changes: Any) -> dict[str, Any]:
    """The learned graph of the default with some parameters changed."""
    return {"bipartite": AdaptiveBipartite(n_neighbors, **BRIDGE | changes)}


BRIDGE: dict[str, Any] = {"metric": "cosine", "both_ways": True}
CHOICES: dict[str, dict[str, dict[str, Any]]] = {
    "unsupervised": {
        "default": {},
        "codes of the paper": {"codes": "balanced"},
        "decorrelation 0.3": {"codes": BalancedCodes(decorrelation=0.3)},
        "lambda 0.2": {"lam": 0.2},
        "lambda 0.7": {"lam": 0.7},
        "lambda 2": {"lam": 2.0},
        "codes of the paper, lambda 0.2": {"codes": "balanced", "lam": 0.2},
        "graph of the paper": {"bipartite": "adaptive"},
        "only source rows choose": bridge(both_ways=False),
        "euclidean distances": bridge(metric="euclidean"),
        "mean gamma": bridge(gamma="mean"),
        "eta 3": bridge(3),
        "eta 30": bridge(30),
        "start: per-domain PCA": {"start": "pca"},
        "start: shared PCA": {"start": "shared_pca"},
        "start size 1": {"start_scale": 1.0},
        "joint mean": {"center": "joint"},
        "rows not normalised": {"unit_rows": False},
        "ridge 0.1": {"ridge": 0.1},
        "ridge 1.5": {"ridge": 1.5},
        "ridge 15": {"ridge": 15.0},
        "k-NN graph of the paper": UNION,
        "alpha, lambda of the paper": PAPER_U,
        "beta_target 0": {"beta_target": 0.0},
        "beta_target 1": {"beta_target": 1.0},
        "source encoded by the target's encoder": {"source_encoder": "target"},
        "10 iterations": {"max_iter": 10, "tol": 0.0},
    },
    "supervised": {
        "default": {},
        "balanced codes, weights of the paper": BALANCED_S,
        "words assigned without rotation": {"start": "labels"},
        "mean of all rows": {"center": "domain"},
        "lambda 0.01": {"lam": 1e-2},
        "beta 0.001": {"beta_source": 1e-3, "beta_target": 1e-3},
        "rows not normalised": {"unit_rows": False},
        "ridge 0.1": {"ridge": 0.1},
        "ridge 1": {"ridge": 1.0},
        "source encoded by the target's encoder": {"source_encoder": "target"},
    },
    "kernel": {
        "default": {},
        "balanced codes, weights of the paper": BALANCED_K,
        "mean of all rows": {"center": "domain"},
        "ridge 0.0001": {"ridge": 1e-4},
        "ridge 0.01": {"ridge": 1e-2},
        "1000 anchors": {"feature_map": AnchorKernel(1000, "half-median", root="auto")},
        "median bandwidth": {"feature_map": AnchorKernel("auto", root="auto")},
        "features, not their roots": {"feature_map": AnchorKernel("auto", "half-median")},
        "rows not normalised": {"unit_rows": False},
    },
}
TASKS = {
    "unsupervised": ("mnist-usps", "usps-mnist", "photo-cartoon", "mobilenet-effnet"),
    "supervised": ("mnist-usps", "photo-cartoon", "surf-effnet", "effnet-surf"),
    "kernel": ("mnist-usps", "photo-cartoon", "surf-effnet", "effnet-surf"),
}


def areas(
    variant: str, task: str, changes: dict[str, Any], seeds: range, jobs: int
) -> NDArray[np.float64] | None:
    """Return cross and single areas of one setting on one task; None if it is not possible."""

    def make(bits: int, seed: int) -> BaseTransferHasher:
        return getattr(ATH, variant)(bits, random_state=seed, **changes)

    label = {"unsupervised": "ATH_U", "supervised": "ATH_S", "kernel": "ATH_K"}[variant]
    work = (delayed(levels.scores)(task, label, BITS, seed, make) for seed in seeds)
    try:
        return np.array(Parallel(jobs)(work))[:, [0, 2]].T
    except ValueError:  # the choice needs one feature space
        return None


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    add_option(parser)
    options = parser.parse_args()
    seeds = range(FIRST_SPLIT, FIRST_SPLIT + options.splits)
    files = (levels.TASKS[task][0] for tasks in TASKS.values() for task in tasks)
    recorder = Recorder(options.record, seeds, files)
    for variant, choices in CHOICES.items():
        title = f"ATH.{variant}, cross / single area"
        table = Table("choice", *TASKS[variant], title=title, box=MARKDOWN)
        for name, changes in choices.items():
            cells = []
            for task in TASKS[variant]:
                found = areas(variant, task, changes, seeds, options.jobs)
                if found is None:
                    cells.append("-")
                    continue
                cells.append(" / ".join(f"{mean:.1f}" for mean in found.mean(axis=1)))
                for side, values in zip(("cross", "single"), found, strict=True):
                    recorder.add(values, variant, name, task, side)
            table.add_row(name, *cells)
        Console(width=110).print(table)
    recorder.write()


if __name__ == "__main__":
    main()
