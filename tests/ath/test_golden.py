"""The authors' public code, rebuilt from the product's steps, gives their stored results.

Their loop differs from Algorithm 1 (B, W_st, A instead of A, B, W_st; ranks 2 to k + 1 and one
mean γ of the PCA start; rankings frozen for five rounds; two ridges), so the schedule is
written here; graphs, steps, objective, codes and scores are the product's.
"""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.sparse import coo_array, csr_array

from bridgehash._core.linalg import SPDSolver, row_space
from bridgehash.ath.steps import (
    Domain,
    code_step,
    graph_gamma,
    normal_matrix,
    objective,
    projection_step,
    simplex_projection,
)
from bridgehash.codes import pack
from bridgehash.metrics import distance_histogram, radius_pr_area
from bridgehash.neighbors.graphs import KNNGraph, SparseGraph
from bridgehash.neighbors.search import nearest

FROZEN = 5  # rounds that keep the ranking of the start
RELATIVE = 1e-6
BITS = pytest.mark.parametrize("n_bits", [16, 64])


@dataclass(frozen=True)
class Task:
    """Centred rows of a stored task, and the file with its results."""

    X_s: np.ndarray
    X_t: np.ndarray
    X_q: np.ndarray
    stored: object  # an npz file

    def graph(self, name):
        """A k-NN graph from its stored edges."""
        i, j = (self.stored[f"graph_{name}_{end}"] for end in "ij")
        n = len(self.X_s if name == "source" else self.X_t)
        W = coo_array((np.ones(2 * len(i)), (np.append(i, j), np.append(j, i))), shape=(n, n))
        return SparseGraph(W.tocsr())


@dataclass(frozen=True)
class Run:
    """The state after the last round."""

    A_s: np.ndarray
    A_t: np.ndarray
    B_s: np.ndarray
    B_t: np.ndarray
    W: SparseGraph
    gamma: float
    objectives: list


@pytest.fixture(scope="module")
def synthetic(golden):
    return raw_task(golden("ath_u_synthetic"))


@pytest.fixture(scope="module")
def synthetic_odd(golden):
    return raw_task(golden("ath_u_synthetic_odd"))


@pytest.fixture(scope="module")
def mnist_usps(golden, data_pack):
    stored, data = golden("ath_u_mnist_usps"), data_pack("mnist_usps")
    X_s, X_t = (
        rows / np.linalg.norm(rows, axis=1, keepdims=True)
        for rows in (data["mnist2000_x"], data["usps1800_x"])
    )
    X_t, X_q = X_t[stored["train_rows"]], X_t[stored["query_rows"]]
    mean = np.vstack([X_s, X_t]).mean(axis=0)
    np.testing.assert_allclose(mean, stored["mean"], atol=1e-12)
    return Task(X_s - mean, X_t - mean, X_q - mean, stored)


@pytest.fixture(scope="module")
def office(golden, data_pack):
    stored, data = golden("ath_u_office_surf_effnet"), data_pack("office_caltech10")
    X_s = data["caltech10_surf800"].astype(float)
    X_t = data["amazon_effnet_lite0"].astype(float)
    X_t, X_q = X_t[stored["train_rows"]], X_t[stored["query_rows"]]
    mean_s, mean_t = X_s.mean(axis=0), X_t.mean(axis=0)
    X_s, X_t, X_q = X_s - mean_s, X_t - mean_t, X_q - mean_t
    scale_s, scale_t = (np.sqrt((X**2).sum(axis=1).mean()) for X in (X_s, X_t))
    np.testing.assert_allclose([scale_s, scale_t], [stored["scale_s"], stored["scale_t"]])
    return Task(X_s / scale_s, X_t / scale_t, X_q / scale_t, stored)


def raw_task(stored):
    X_s, X_t, X_q = (stored[key] for key in ("Xs", "Xt", "Xq"))
    return Task(X_s - X_s.mean(axis=0), X_t - X_t.mean(axis=0), X_q - X_t.mean(axis=0), stored)


def authors_run(task, A_s, A_t, n_iter):
    """`ATH_U.m` with the settings of `demo_ATH.m`, from the stored PCA start."""
    stored = task.stored
    k, lam = int(stored["k"]), float(stored["lam"])
    (Z_s, back_s), (Z_t, back_t) = row_space(task.X_s), row_space(task.X_t)
    source = Domain(Z_s, task.graph("source"), stored["alpha_s"], stored["beta_s"])
    target = Domain(Z_t, task.graph("target"), stored["alpha_t"], stored["beta_t"])
    H_s, H_t = task.X_s @ A_s, task.X_t @ A_t
    F, ranked = nearest(H_s, H_t, k + 2)
    gamma = graph_gamma(F[:, 1:]).mean()
    objectives = []
    for iteration in range(n_iter):
        B_s, B_t = code_step(H_s), code_step(H_t)
        if iteration >= FROZEN:
            _, ranked = nearest(H_s, H_t, k + 2)
        W = bridge(H_s, H_t, ranked[:, 1 : k + 1], gamma)
        A_s = step(source, B_s, W, H_t, lam, stored["ridge_s"])
        H_s = source.X @ A_s
        A_t = step(target, B_t, W.T, H_s, lam, stored["ridge_t"])
        H_t = target.X @ A_t
        objectives.append(sum(objective(source, target, (H_s, H_t), (B_s, B_t), W, lam=lam)))
    return Run(back_s(A_s), back_t(A_t), B_s, B_t, W, gamma, objectives)


def bridge(H_s, H_t, columns, gamma):
    """Their W-step: current distances, given columns, one γ for all rows."""
    F = ((H_s[:, None] - H_t[columns]) ** 2).sum(axis=2)
    weights = simplex_projection(-F / (2 * gamma))
    starts = np.arange(0, columns.size + 1, columns.shape[1])
    W = csr_array((weights.ravel(), columns.ravel(), starts), shape=(len(H_s), len(H_t)))
    return SparseGraph(W, penalty=float(gamma * (weights**2).sum()))


def step(domain, B, W, H_other, lam, ridge):
    solver = SPDSolver(normal_matrix(domain, W.degrees, lam=lam), float(ridge))
    return projection_step(domain, solver, B, W, H_other, lam=lam)


def assert_equal(run, task, prefix, gamma):
    """All that the authors' code left behind."""
    stored = task.stored
    np.testing.assert_allclose(run.gamma, gamma, rtol=RELATIVE)
    for A, key in ((run.A_s, "As"), (run.A_t, "At")):
        expected = stored[prefix + key]
        np.testing.assert_allclose(A, expected, rtol=0, atol=RELATIVE * np.abs(expected).max())
    edges = (stored[f"{prefix}W_row"], stored[f"{prefix}W_col"])
    W = coo_array((stored[f"{prefix}W_val"], edges), shape=run.W.shape).toarray()
    np.testing.assert_allclose(run.W.matrix.toarray(), W, rtol=0, atol=RELATIVE)
    np.testing.assert_allclose(run.objectives, stored[f"{prefix}objective"], rtol=RELATIVE)
    for B, key in ((run.B_s, "Bs_train"), (run.B_t, "Bt_train")):
        np.testing.assert_array_equal(pack(B), stored[prefix + key])
    for name, codes in encoded(run, task).items():
        np.testing.assert_array_equal(codes, stored[f"{prefix}bits_{name}"])


def encoded(run, task):
    """The codes of each set, by the key under which they are stored."""
    codes = {
        "query_At": pack(task.X_q @ run.A_t),
        "target_At": pack(task.X_t @ run.A_t),
        "source_As": pack(task.X_s @ run.A_s),
    }
    if task.X_s.shape[1] == task.X_t.shape[1]:
        codes["source_At"] = pack(task.X_s @ run.A_t)
    return codes


def assert_equal_scores(run, task, prefix):
    """The areas by true Hamming distances, to the last digit but rounding."""
    stored, codes, n_bits = task.stored, encoded(run, task), run.A_t.shape[1]

    def area(database, y):
        sets = (codes["query_At"], codes[database], stored["y_query"], stored[y])
        return radius_pr_area(distance_histogram(*sets, n_bits=n_bits))

    scores = {
        "area_cross_As_At": area("source_As", "y_source"),
        "area_single": area("target_At", "y_target_train"),
    }
    if "source_At" in codes:
        scores["area_cross_At_At"] = area("source_At", "y_source")
    for name, score in scores.items():
        np.testing.assert_allclose(score, stored[f"{prefix}{name}_exact"], rtol=1e-12)


@pytest.mark.parametrize("n_iter", range(1, 11))
def test_every_iteration_is_the_authors(synthetic, n_iter):
    stored = synthetic.stored
    run = authors_run(synthetic, stored["As0"], stored["At0"], n_iter)
    assert_equal(run, synthetic, f"T{n_iter}_", stored["gamma"])
    assert_equal_scores(run, synthetic, f"T{n_iter}_")


def test_odd_numbers_of_samples_are_split_as_by_the_authors(synthetic_odd):
    stored = synthetic_odd.stored
    run = authors_run(synthetic_odd, stored["As0"], stored["At0"], int(stored["n_iter"]))
    assert_equal(run, synthetic_odd, "T10_", stored["gamma"])
    assert_equal_scores(run, synthetic_odd, "T10_")


@BITS
@pytest.mark.parametrize("name", ["mnist_usps", "office"])
def test_real_images_give_the_authors_codes_and_scores(request, name, n_bits):
    task, prefix = request.getfixturevalue(name), f"b{n_bits}_"
    start = (task.stored[f"{prefix}As0"], task.stored[f"{prefix}At0"])
    run = authors_run(task, *start, int(task.stored["n_iter"]))
    assert_equal(run, task, prefix, task.stored[f"{prefix}gamma"])
    assert_equal_scores(run, task, prefix)


@pytest.mark.parametrize("name", ["synthetic", "synthetic_odd", "mnist_usps"])
def test_knn_graphs_are_the_authors_where_nothing_is_tied(request, name):
    task = request.getfixturevalue(name)
    for domain, X in (("source", task.X_s), ("target", task.X_t)):
        ours, theirs = KNNGraph(n_neighbors=10).build(X), task.graph(domain)
        assert (ours.matrix != theirs.matrix).nnz == 0
        np.testing.assert_array_equal(ours.degrees, theirs.degrees)
