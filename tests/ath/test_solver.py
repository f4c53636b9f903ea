"""Algorithm 1 as a whole against a plain loop over the paper's equations."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from bridgehash import TrainingData
from bridgehash.ath.bipartite import AdaptiveBipartite, LabelBipartite
from bridgehash.ath.class_codes import BalancedCodes
from bridgehash.ath.solver import Bridge, solve
from bridgehash.ath.steps import Domain, Objective
from bridgehash.models.training import Domains
from bridgehash.neighbors.graphs import KNNGraph, SparseGraph, label_graph
from tests import reference

R, ETA, LAM, RIDGE = 3, 4, 0.7, 0.2
WEIGHTS = {"source": (0.5, 0.02), "target": (1.5, 0.3)}  # α, β


class Twin:
    """Algorithm 1 on columns and full matrices, a line of the paper at a time."""

    def __init__(self, X, W, H, labels=None, W_st=None):
        self.X, self.W, self.labels = X, W, labels
        self.H = dict(H)
        self.B = {k: np.where(H[k] > 0, 1.0, -1.0) for k in H}  # line 3
        self.W_st, self.gamma = self.graph_step() if W_st is None else (W_st, None)

    def round(self):
        W_seen = {"source": self.W_st, "target": self.W_st.T}
        self.A = {}
        for k, other in (("source", "target"), ("target", "source")):  # line 5
            alpha, beta = WEIGHTS[k]
            self.A[k] = reference.projection(
                self.X[k],
                self.W[k],
                self.B[k],
                W_seen[k],
                self.H[other],
                alpha=alpha,
                beta=beta,
                lam=LAM,
                ridge=RIDGE,
            )
            self.H[k] = self.A[k].T @ self.X[k]
        self.B = {k: reference.best_codes(self.H[k]) for k in self.H}  # lines 6-9
        self.W_st, self.gamma = self.graph_step()  # lines 10-12

    def graph_step(self):
        if self.labels is not None:
            W_st = reference.label_graph(*self.labels)
            return W_st, np.zeros(len(W_st))
        F = reference.distances(self.H["source"], self.H["target"])
        gamma = np.array([reference.row_gamma(row, ETA, LAM) for row in F])
        rows = [reference.graph_row(row, g, ETA, LAM) for row, g in zip(F, gamma, strict=True)]
        return np.array(rows), gamma

    def objective(self):
        s, t = "source", "target"
        return Objective(
            sum(
                reference.quantisation(WEIGHTS[k][0], self.B[k], self.A[k], self.X[k])
                for k in self.X
            ),
            reference.bridge(
                LAM, self.W_st, self.gamma, self.A[s], self.X[s], self.A[t], self.X[t]
            ),
            sum(
                reference.structure(WEIGHTS[k][1], self.W[k], self.A[k], self.X[k]) for k in self.X
            ),
            RIDGE * sum((A**2).sum() for A in self.A.values()),
        )


def problem(n_s, n_t, labelled):
    """Both forms of one problem: keyword arguments of `solve`, and the twin."""
    rng = np.random.default_rng(n_s)
    X = {"source": rng.normal(size=(n_s, 4)), "target": rng.normal(size=(n_t, 5))}
    X = {k: rows - rows.mean(axis=0) for k, rows in X.items()}
    y = {"source": rng.integers(-1, 3, n_s), "target": rng.integers(-1, 3, n_t)}
    H = {k: rng.normal(size=(len(rows), R)) for k, rows in X.items()}
    domains, W = {}, {}
    for k, rows in X.items():
        graph = label_graph(y[k], y[k]) if labelled else KNNGraph(3).build(rows)
        W[k] = graph @ np.eye(len(rows))
        domains[k] = Domain(rows, graph, *WEIGHTS[k])
    labels = (y["source"], y["target"]) if labelled else None
    bipartite = LabelBipartite() if labelled else AdaptiveBipartite(n_neighbors=ETA)
    rule = bipartite.rule(TrainingData(X["source"], X["target"], *y.values()))
    data = Domains(tuple(X), tuple(X.values()), tuple(y.values()))
    arguments = {
        "domains": list(domains.values()),
        "bridges": [Bridge(0, 1, rule)],
        "codes": BalancedCodes().begin(data, R, (1.0, 1.0), None),
        "start": list(H.values()),
        "lam": LAM,
        "ridges": (RIDGE, RIDGE),
        "tol": 0.0,
    }
    columns = [{k: part[k].T for k in part} for part in (X, H)]
    return arguments, Twin(columns[0], W, columns[1], labels)


# equal numbers of rows would let a transposed graph pass unseen by shape
@pytest.mark.parametrize(("n_s", "n_t"), [(8, 7), (7, 7)])
@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.parametrize("n_iter", [1, 2, 4])
def test_solver_is_algorithm_1(n_s, n_t, labelled, n_iter):
    arguments, twin = problem(n_s, n_t, labelled)
    solution = solve(**arguments, max_iter=n_iter)
    history = []
    for _ in range(n_iter):
        twin.round()
        history.append(twin.objective())
    np.testing.assert_allclose(solution.A[0], twin.A["source"], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(solution.A[1], twin.A["target"], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(solution.W[0] @ np.eye(n_t), twin.W_st, atol=1e-8)
    np.testing.assert_allclose(solution.history, history, rtol=1e-7)


@pytest.mark.parametrize("n_iter", [1, 3])
def test_the_order_of_the_script_begins_with_balanced_codes_and_ends_with_a(n_iter):
    """B, W, A, B, W, A is A, B, W, A, B, W with another beginning and another end."""
    arguments, twin = problem(8, 7, labelled=False)
    solution = solve(**arguments, step_order="BWA", max_iter=n_iter)
    twin.B = {k: reference.best_codes(twin.H[k]) for k in twin.H}
    for _ in range(n_iter):
        W_st = twin.W_st
        twin.round()
    np.testing.assert_allclose(solution.A[0], twin.A["source"], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(solution.A[1], twin.A["target"], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(solution.W[0] @ np.eye(7), W_st, atol=1e-8)


def test_the_objective_counts_the_ridge_of_each_domain():
    arguments, _ = problem(8, 7, labelled=True)
    solution = solve(**arguments | {"ridges": (RIDGE, 3.0)}, max_iter=2)
    ridge = RIDGE * (solution.A[0] ** 2).sum() + 3.0 * (solution.A[1] ** 2).sum()
    np.testing.assert_allclose(solution.history[-1].ridge, ridge)


def test_a_start_that_knows_a_graph_is_followed():
    arguments, _ = problem(8, 7, labelled=False)
    W = np.random.default_rng(0).random((8, 7))
    bridge = arguments["bridges"][0]._replace(first=SparseGraph(csr_array(W)))
    solution = solve(**arguments | {"bridges": [bridge]}, max_iter=1)
    _, twin = problem(8, 7, labelled=False)
    twin.W_st = W
    twin.round()
    np.testing.assert_allclose(solution.A[0], twin.A["source"], atol=1e-9)
    np.testing.assert_allclose(solution.A[1], twin.A["target"], atol=1e-9)


def test_solver_stops_when_the_objective_settles():
    arguments, _ = problem(8, 7, labelled=True)
    solution = solve(**arguments | {"tol": 1e-4}, max_iter=500)
    totals = np.array([terms.total for terms in solution.history])
    changes = np.abs(np.diff(totals)) / np.abs(totals[:-1])
    assert solution.converged
    assert len(totals) > 2
    assert changes[-1] <= 1e-4 < changes[:-1].min()


def test_solver_gives_up_after_max_iter():
    arguments, _ = problem(8, 7, labelled=False)
    solution = solve(**arguments, max_iter=2)
    assert not solution.converged
    assert len(solution.history) == 2


def test_each_round_is_reported():
    arguments, _ = problem(8, 7, labelled=False)
    seen = []
    solution = solve(**arguments, max_iter=3, on_iteration=seen.append)
    assert seen == solution.history


def test_fixed_graph_never_raises_the_objective():
    """With a given W no γ moves: the blocks descend, and so does the whole."""
    arguments, _ = problem(8, 8, labelled=True)
    history = solve(**arguments, max_iter=20).history
    totals = np.array([terms.total for terms in history])
    assert (np.diff(totals) <= 1e-12 * totals[0]).all()
