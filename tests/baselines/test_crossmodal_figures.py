"""Scores of public code on real cross-modal data are reached, within the spread of the seeds."""

import numpy as np
import pytest

from bridgehash import FSH, SCRATCH
from bridgehash.codes import hamming
from bridgehash.metrics import distance_histogram, mean_average_precision

TOLERANCE = 0.02


def rows_of(data, name):
    return data[f"train_{name}"].astype(float), data[f"test_{name}"].astype(float)


def fit(make, data, first, second):
    """Return a model of 64 bits, and the codes of both query sets and of both databases."""
    (X, X_query), (Y, Y_query) = rows_of(data, first), rows_of(data, second)
    pairs = np.column_stack([np.arange(len(X)), np.arange(len(X))])
    model = make(64, random_state=0).fit(X, Y, y_source=data["train_y"], pairs=pairs)
    queries = model.encode(X_query, "source"), model.encode(Y_query, "target")
    return model, queries, (model.encode(Y, "target"), model.encode(X, "source"))


@pytest.mark.slow
def test_scratch_reaches_the_scores_of_its_authors_on_wiki(data_pack):
    data = data_pack("external/wiki")
    model, queries, encoded = fit(SCRATCH, data, "sift128", "lda10")

    def score(queries, database):
        given = queries, database, data["test_y"], data["train_y"]
        return mean_average_precision(distance_histogram(*given, n_bits=64))

    found = [score(*given) for given in zip(queries, encoded, strict=True)]
    assert found == pytest.approx([0.301, 0.387], abs=TOLERANCE)
    learned = [score(codes, model.codes_) for codes in queries]
    assert learned == pytest.approx([0.379, 0.763], abs=TOLERANCE)


@pytest.mark.slow
def test_fsh_reaches_the_scores_of_its_authors_on_digits(data_pack):
    data = data_pack("external/uci_digits")
    _, queries, encoded = fit(FSH, data, "fourier76", "karhunen64")

    def score(queries, database):
        """Mean precision at the ranks of relevant items among the first 100."""
        first = np.argsort(hamming(queries, database), axis=1, kind="stable")[:, :100]
        precisions = []
        for order, y in zip(first, data["test_y"], strict=True):
            ranks = np.flatnonzero(data["train_y"][order] == y) + 1
            precisions.append((np.arange(1, len(ranks) + 1) / ranks).mean() if len(ranks) else 0.0)
        return np.mean(precisions)

    found = [score(*given) for given in zip(queries, encoded, strict=True)]
    assert found == pytest.approx([0.745, 0.794], abs=TOLERANCE)
