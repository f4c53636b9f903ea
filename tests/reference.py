"""Slow, obvious twins of the product, written from the paper.

Everything here follows the paper's convention, not the product's: samples are *columns*, X is
(d, n), B is (r, n), A is (d, r), and matrices that the product never forms are formed. Loops stay
loops, so that each line can be held against its equation.
"""

from itertools import combinations

import numpy as np


def squared_distance(x, z):
    return sum((a - b) ** 2 for a, b in zip(x, z, strict=True))


def distances(H_s, H_t):
    """F_st of Eq. 6 for mapped samples in columns, of shape (n_s, n_t)."""
    return np.array([[squared_distance(x, z) for z in H_t.T] for x in H_s.T])


def neighbours(X, i, k):
    """N_k(i) of Eq. 7: all other samples no farther than the k-th nearest one."""
    others = [j for j in range(X.shape[1]) if j != i]
    far = {j: squared_distance(X[:, i], X[:, j]) for j in others}
    cut = sorted(far.values())[k - 1]
    return {j for j in others if far[j] <= cut}


def knn_graph(X, k, mutual=False):
    """W_k of Eqs. 7-8: 1 where either sample (both, if mutual) is a neighbour of the other."""
    n = X.shape[1]
    near = [neighbours(X, i, k) for i in range(n)]
    W = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            both = [j in near[i], i in near[j]]
            W[i, j] = all(both) if mutual else any(both)
    return W


def label_graph(y_rows, y_columns):
    """Eqs. 11-13: 1 where the classes are known and the same."""
    return np.array([[float(a == b and a >= 0) for b in y_columns] for a in y_rows])


def laplacian(W):
    """L = D - W as a matrix."""
    return np.diag(W.sum(axis=1)) - W


def quantisation(alpha, B, A, X):
    """One domain's part of T1, Eq. 4."""
    return alpha * np.linalg.norm(B - A.T @ X) ** 2


def bridge(lam, W_st, gamma, A_s, X_s, A_t, X_t):
    """T2, Eq. 6, with one γ_i a row."""
    F = distances(A_s.T @ X_s, A_t.T @ X_t)
    total = 0.0
    for i in range(F.shape[0]):
        for j in range(F.shape[1]):
            total += lam * F[i, j] * W_st[i, j] + gamma[i] * W_st[i, j] ** 2
    return total


def structure(beta, W, A, X):
    """One domain's part of T3, Eq. 9."""
    H = A.T @ X
    n = H.shape[1]
    pairs = ((i, j) for i in range(n) for j in range(n))
    return beta / 2 * sum(squared_distance(H[:, i], H[:, j]) * W[i, j] for i, j in pairs)


def row_gamma(F_row, eta, lam):
    """γ_i of Eq. 28."""
    ordered = sorted(F_row)
    return lam * eta / 2 * ordered[eta] - lam / 2 * sum(ordered[:eta])


def graph_row(F_row, gamma, eta, lam):
    """A row of W_st by Eq. 21."""
    ordered = sorted(F_row)
    level = (1 + sum(lam / (2 * gamma) * ordered[j] for j in range(eta))) / eta
    return np.array([max(level - lam / (2 * gamma) * f, 0.0) for f in F_row])


def simplex_point(v):
    """The point of the probability simplex closest to v (Eq. 20), by bisection on the level."""
    low, high = min(v) - 1.0, max(v)
    for _ in range(200):
        level = (low + high) / 2
        if sum(max(x - level, 0.0) for x in v) > 1.0:
            low = level
        else:
            high = level
    return np.array([max(x - high, 0.0) for x in v])


def projection(X, W, B, W_st, H_other, *, alpha, beta, lam, ridge):
    """A_k of Eq. 17 with the ridge of its footnote; `W_st` as seen from the domain at hand."""
    D = np.diag(W_st.sum(axis=1))
    Phi = X @ (alpha * np.eye(X.shape[1]) + beta * laplacian(W) + lam * D) @ X.T
    Phi = Phi + ridge * np.eye(X.shape[0])
    return np.linalg.inv(Phi) @ (alpha * X @ B.T + lam * X @ W_st @ H_other.T)


def balanced_patterns(n):
    """All sign patterns of n samples with n // 2 of them positive."""
    for chosen in combinations(range(n), n // 2):
        pattern = -np.ones(n)
        pattern[list(chosen)] = 1.0
        yield pattern


def best_codes(H):
    """B_k of Eq. 18, by trying every balanced pattern for every bit."""
    return np.array([max(balanced_patterns(len(h)), key=lambda b: b @ h) for h in H])
