"""Measure how far the published method depends on the signs of its principal directions.

    python benchmarks/pca_signs.py [--tasks mnist-usps,surf-effnet] [--bits 16,64] [--draws 20]

Algorithm 1 starts from one PCA per domain. The sign of a principal direction is arbitrary, and
nothing fixes the signs of one domain relative to those of the other. Each draw flips random
directions of the source; flipping the same direction of both domains changes no distance. `rule`:
the signs of this package, by the third moment. Other columns: mean ± standard deviation, smallest
and largest over the draws. radius_pr_area in per cent, one split. Needs the data pack.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from levels import DATA, scores
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from bridgehash import ATH, PCAStart, Start, StartContext

SCRIPT = {"published": "authors", "unit_rows": True}
VARIANTS: dict[str, dict[str, Any]] = {
    "as printed": {"published": True},
    "script of the authors": SCRIPT,
    "the same, own encoders": SCRIPT | {"source_encoder": "own"},
}


@dataclass(frozen=True)
class RandomSigns:
    """One PCA per domain, with random signs in the source."""

    draw: int

    def begin(self, context: StartContext) -> Start:
        """Flip about half of the directions of the source."""
        start = PCAStart("domain", None).begin(context)
        signs = np.random.default_rng(self.draw).choice([-1.0, 1.0], size=start.H_s.shape[1])
        return replace(start, H_s=start.H_s * signs)


def areas(task: str, variant: str, bits: int, draw: int | None, split: int) -> list[float]:
    """Return the cross and the single area of one fit; draw None: the signs of this package."""
    start = "pca" if draw is None else RandomSigns(draw)

    def make(n_bits: int, seed: int) -> ATH:
        return ATH.unsupervised(n_bits, start=start, random_state=seed, **VARIANTS[variant])

    cross, _, single, _ = scores(task, "ATH_U", bits, split, make)
    return [cross, single]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", default="mnist-usps,surf-effnet")
    parser.add_argument("--bits", default="16,64")
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--split", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    if not DATA.is_dir():
        parser.exit(2, f"Data pack not found: {DATA}; set BRIDGEHASH_DATA\n")
    columns = ("cross, rule", "cross, random signs", "single, rule", "single, random signs")
    table = Table("task", "variant", "bits", *columns, box=MARKDOWN)
    for task in options.tasks.split(","):
        for variant in VARIANTS:
            for bits in map(int, options.bits.split(",")):
                rule, *runs = Parallel(options.jobs)(
                    delayed(areas)(task, variant, bits, draw, options.split)
                    for draw in (None, *range(options.draws))
                )
                cells = [f"{value:.1f}" for value in rule]
                for i, values in enumerate(np.array(runs).T):
                    spread = f"{values.mean():.1f} ± {values.std():.1f}"
                    cells.insert(2 * i + 1, f"{spread}, {values.min():.1f} to {values.max():.1f}")
                table.add_row(task, variant, str(bits), *cells)
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
