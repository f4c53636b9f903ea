"""Classes of rows by the directions of class means, in whitened features.

A second way to estimate labels, beside votes of the nearest labelled rows: it sees means, not
neighbours, so its mistakes are others.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.special import softmax

from .._core.linalg import Array, principal, unit_rows
from ..models.training import Ids
from ..neighbors.graphs import one_hot
from .likeness import N_NEIGHBORS, averaged
from .spreading import Rows, most_certain

_DIRECTIONS, _SHRUNK = 200, 0.1  # principal ones; part of the mean variance added to all
_ROUNDS, _MEANS = 10, 20  # of selecting rows; of k-means, at most
_WARMTH = 0.1  # of the softmax over cosines
_SMALLEST = 5  # rows that stand for a class
_TINY = 1e-12


def centred_parts(there: Rows, here: Rows) -> tuple[Array, Array]:
    """Return unit rows of both domains, each about its mean, in common principal directions."""
    X, Y = (rows.unit - rows.unit.mean(axis=0) for rows in (there, here))
    P = principal(X, min(_DIRECTIONS, X.shape[1]), Y)
    return X @ P, Y @ P


def class_means(X: Array, y: Ids, n_classes: int) -> Array:
    """Return the mean of each class; 0 for those without rows."""
    counts = np.maximum(np.bincount(y, minlength=n_classes), 1)
    return np.asarray(one_hot(y, n_classes).T @ X) / counts[:, None]


def whitening(*residuals: Array) -> Array:
    """Return directions in which the residuals together have variance one, shrunk."""
    C = sum(R.T @ R / len(R) for R in residuals)
    values, vectors = np.linalg.eigh(C)
    return np.asarray(vectors / np.sqrt(np.maximum(values + _SHRUNK * values.mean(), _TINY)))


def by_directions(there: Rows, here: Rows, n_classes: int) -> Array:
    """Return the memberships of the rows here in the classes of the rows there.

    Rows, averaged over their neighbourhood, are compared with the class means there, and with the
    means that k-means finds from these. The surest rows of each class, more of them in each round,
    renew the whitening and the centre of the classes (selective pseudo-labelling, Wang and
    Breckon, 2020).
    """
    present = np.flatnonzero(there.present(n_classes))
    y, n = np.searchsorted(present, there.y), len(present)
    X, Y = centred_parts(there, here)
    means, smooth = class_means(X, y, n), averaged(here.graph(N_NEIGHBORS), Y)
    R, origin, centre = whitening(X - means[y], Y - smooth), means.mean(axis=0), Y.mean(axis=0)
    for part in np.linspace(0.0, 1.0, _ROUNDS + 1)[1:]:
        M = _memberships((means - origin) @ R, (smooth - centre) @ R)
        sure, label = most_certain(M, part), M.argmax(axis=1)
        found, seen = class_means(Y[sure], label[sure], n), np.isin(np.arange(n), label)
        centre, origin = found[seen].mean(axis=0), means[seen].mean(axis=0)
        if sure.sum() > _SMALLEST * n:
            R = whitening(X - means[y], Y[sure] - found[label[sure]])
    M = np.zeros((len(Y), n_classes))
    M[:, present] = _memberships((means - origin) @ R, (smooth - centre) @ R)
    return here.with_known(M)


def _memberships(means: Array, rows: Array) -> Array:
    """Return the shares of the classes: by their means, and by those of k-means from there."""
    rows, near = unit_rows(rows), unit_rows(means)
    cosines = [rows @ near.T]
    label = cosines[0].argmax(axis=1)
    for _ in range(_MEANS):
        found = class_means(rows, label, len(near))
        near = np.where(
            np.bincount(label, minlength=len(near))[:, None] > 0, unit_rows(found), near
        )
        before, label = label, (rows @ near.T).argmax(axis=1)
        if (before == label).all():
            break
    cosines.append(rows @ near.T)
    return np.asarray(sum(softmax(each / _WARMTH, axis=1) for each in cosines) / 2.0)


def cosines_of_means(X: Array, y: Ids, Y: Array, labels: Ids, n_classes: int) -> Iterator[Array]:
    """Yield the cosines between the means of each class in both domains: plain, and whitened.

    They are relative to the centre of the classes; 0 for classes that hardly any row has.
    """
    seen = np.minimum(*(np.bincount(ids, minlength=n_classes) for ids in (y, labels))) >= _SMALLEST
    if not seen.any():
        yield from np.zeros((2, n_classes))
        return
    here = [
        (rows[seen[ids]], ids[seen[ids]], class_means(rows, ids, n_classes))
        for rows, ids in ((X, y), (Y, labels))
    ]
    R = whitening(*(rows - means[ids] for rows, ids, means in here))
    A, B = (np.where(seen[:, None], means - means[seen].mean(axis=0), 0.0) for *_, means in here)
    for directions in (np.eye(X.shape[1]), R):
        yield (unit_rows(A @ directions) * unit_rows(B @ directions)).sum(axis=1)
