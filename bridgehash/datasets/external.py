"""Public sets with results that others published: rows are described in several feature spaces.

Row i of every feature of a domain is the same item, so rows are true pairs; see
`TaskSpec.load_pairs`. Sets with an official split have the domains `train` and `test`, the others
`all`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .dataset import ALONE, DataSet, DataView, Rows, views
from .files import DataFile

_SPLIT = ("train", "test")
_DIGITS = ("fourier76", "karhunen64", "pixels240")
_DIGITS_ALL = (*_DIGITS, "morphological6", "profile216", "zernike47")


def masked_rows(arrays: Mapping[str, NDArray[Any]], view: DataView) -> Rows:
    """Return the rows and labels of `train` or `test`, which `is_test` tells apart."""
    chosen = arrays["is_test"] == (view.domain == "test")
    return arrays[view.feature][chosen].astype(np.float64), arrays["y"][chosen]


_WIKI = DataSet(
    name="wiki",
    title="Wikipedia, ten classes of articles with a picture: SIFT histograms and topics",
    citation=(
        "Rasiwasia, Costa Pereira, Coviello, Doyle, Lanckriet, Levy and Vasconcelos, A new "
        "approach to cross-modal multimedia retrieval, ACM MM 2010"
    ),
    licence="released for research; no licence stated",
    views=views(_SPLIT, ("sift128", "lda10")),
    file=DataFile(
        "external/wiki.npz",
        "39a8cbbcb385886bdb7add41024b90f4860e389c141c4838278f40cd3bd2f1e8",
        size=756_872,
        hint=(
            "It holds train_sift128, train_lda10 (2,173 rows), train_y, and the same with test_ "
            "(693 rows), from data/wikiData.mat of starxliu/MTFH on GitHub."
        ),
    ),
)
_MFEAT = DataSet(
    name="mfeat",
    title="UCI multiple features, handwritten digits described in six ways",
    citation=(
        "Duin, Multiple features, UCI machine learning repository, 1998; Liu, Ji, Wu, Huang and "
        "Zhang, Cross-modality binary code learning via fusion similarity hashing, CVPR 2017"
    ),
    licence="CC BY 4.0",
    views=(*views(_SPLIT, _DIGITS), *views((ALONE,), _DIGITS_ALL)),
    file=DataFile(
        "external/uci_digits.npz",
        "0ed6acff03d0685bb498e4ed9d6a8e1dea10941d84c169f6a7b7a458c0909a1f",
        size=5_717_483,
        hint=(
            "It holds arrays such as train_fourier76 (1,500 rows) and test_fourier76 (500 rows), "
            "from uci_all.mat of LynnHongLiu/FSH on GitHub, and all_fourier76 (2,000 rows in "
            "another order), from data/UCI_Digits.mat of youweiliang/Multi-view_Clustering."
        ),
    ),
)
_SNARE = DataSet(
    name="snare",
    title="SNARE-seq, cells of four kinds: chromatin accessibility and gene expression",
    citation=(
        "Chen, Lake and Zhang, High-throughput sequencing of the transcriptome and chromatin "
        "accessibility in the same cell, Nature Biotechnology 2019"
    ),
    licence="released for research; no licence stated",
    views=views((ALONE,), ("atac19", "rna10")),
    file=DataFile(
        "external/snare_seq.npz",
        "b2db447b69b58de8c9e8e2a85ed75ba78e76a146beac462d918f17187c795e06",
        size=138_783,
        hint="It holds atac19, rna10 (1,047 rows) and y, from data/SNARE of rsinghlab/SCOT on "
        "GitHub.",
    ),
    n_queries=None,
)
_SCGEM = DataSet(
    name="scgem",
    title="scGEM, cells of five kinds: gene expression and DNA methylation",
    citation=(
        "Cheow et al., Single-cell multimodal profiling reveals cellular epigenetic heterogeneity, "
        "Nature Methods 2016"
    ),
    licence="released for research; no licence stated",
    views=views((ALONE,), ("expression34", "methylation27")),
    file=DataFile(
        "external/scgem.npz",
        "fafbaacafb61dd43ce404aea0040b5036a610e843f45ba92b9bb5529f0ed860e",
        size=20_945,
        hint="It holds expression34, methylation27 (177 rows) and y, from data of "
        "pinardemetci/AGW on GitHub.",
    ),
    n_queries=None,
)
_BANKING77 = DataSet(
    name="banking77",
    title="BANKING77, customer questions of 77 kinds, embedded by three text models",
    citation=(
        "Casanueva, Temcinas, Gerz, Henderson and Vulic, Efficient intent detection with dual "
        "sentence encoders, 2020"
    ),
    licence="CC BY 4.0",
    views=views(_SPLIT, ("use512", "wordllama256", "wink_glove100")),
    file=DataFile(
        "external/banking77.npz",
        "2c5b2ca5e0f3180e1a07b2fa4201f4a0b36d25e0c75e252046b74672377863c9",
        size=20_527_280,
        hint=(
            "It holds use512, wordllama256, wink_glove100 (13,083 rows), y and is_test. The texts "
            "are those of PolyAI-LDN/task-specific-datasets on GitHub."
        ),
    ),
    read=masked_rows,
)

EXTERNAL = (_WIKI, _MFEAT, _SNARE, _SCGEM, _BANKING77)
