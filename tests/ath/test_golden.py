"""`published="authors"` gives the stored results of the authors' public code.

Only what their code leaves to the caller is set here: preparation of the rows, the signs of the PCA
start, and k-NN graphs where ties make these depend on rounding.
"""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.sparse import coo_array

from bridgehash import ATH, AuthorsBipartite, PCAStart
from bridgehash.ath.starts import Start
from bridgehash.ath.steps import code_step
from bridgehash.codes import pack
from bridgehash.metrics import distance_histogram, radius_pr_area
from bridgehash.neighbors.graphs import KNNGraph, SparseGraph

RELATIVE = 1e-6
BITS = pytest.mark.parametrize("n_bits", [16, 64])


@dataclass(frozen=True)
class Task:
    """Rows of a stored task as the authors' code gets them, and the file with its results."""

    X_s: np.ndarray
    X_t: np.ndarray
    X_q: np.ndarray
    stored: object  # an npz file

    def start(self, prefix=""):
        return StoredStart(
            self.X_s @ self.stored[f"{prefix}As0"], self.X_t @ self.stored[f"{prefix}At0"]
        )

    def graph(self, name):
        """A k-NN graph from its stored edges."""
        i, j = (self.stored[f"graph_{name}_{end}"] for end in "ij")
        n = len(self.X_s if name == "source" else self.X_t)
        W = coo_array((np.ones(2 * len(i)), (np.append(i, j), np.append(j, i))), shape=(n, n))
        return SparseGraph(W.tocsr())


@dataclass(frozen=True)
class StoredStart:
    """PCA projections with the signs of the stored run."""

    H_s: np.ndarray
    H_t: np.ndarray

    def begin(self, context):
        return Start(self.H_s, self.H_t)


@dataclass(frozen=True)
class StoredGraph:
    graph: SparseGraph

    def build(self, X, y=None):
        return self.graph


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


def authors(task, start, **parameters):
    """Fit the script's variant to a task."""
    graphs = {f"{name}_graph": StoredGraph(task.graph(name)) for name in ("source", "target")}
    settings = {"start": start, **graphs, **parameters}
    ath = ATH.unsupervised(start.H_s.shape[1], published="authors", **settings)
    return ath.fit(task.X_s, task.X_t)


def projections(ath):
    """A_s and A_t of all rows; `source_encoder="own"` is needed for the former."""
    return ath.source_encoder_.projection, ath.target_encoder_.projection


def assert_equal(ath, task, prefix, gamma):
    """All that the authors' code left behind."""
    stored, W = task.stored, ath.bipartite_graph_
    weights = W.matrix.toarray()
    np.testing.assert_allclose(W.penalty / (weights**2).sum(), gamma, rtol=RELATIVE)
    for A, key in zip(projections(ath), ("As", "At"), strict=True):
        expected = stored[prefix + key]
        np.testing.assert_allclose(A, expected, rtol=0, atol=RELATIVE * np.abs(expected).max())
    edges = (stored[f"{prefix}W_row"], stored[f"{prefix}W_col"])
    expected = coo_array((stored[f"{prefix}W_val"], edges), shape=W.shape).toarray()
    np.testing.assert_allclose(weights, expected, rtol=0, atol=RELATIVE)
    without_ridge = ath.objective_["total"] - ath.objective_["ridge"]
    np.testing.assert_allclose(without_ridge, stored[f"{prefix}objective"], rtol=RELATIVE)
    for name, codes in encoded(ath, task).items():
        np.testing.assert_array_equal(codes, stored[f"{prefix}bits_{name}"])


def assert_equal_codes(H, task, prefix):
    """The balanced codes of the last iteration, from the projections before it."""
    for rows, key in zip(H, ("Bs_train", "Bt_train"), strict=True):
        np.testing.assert_array_equal(pack(code_step(rows)), task.stored[prefix + key])


def encoded(ath, task):
    """The codes of each set, by the key under which they are stored."""
    codes = {
        "query_At": ath.encode(task.X_q, "target"),
        "target_At": ath.encode(task.X_t, "target"),
        "source_As": ath.encode(task.X_s, "source"),
    }
    if task.X_s.shape[1] == task.X_t.shape[1]:
        codes["source_At"] = ath.encode(task.X_s, "target")
    return codes


def assert_equal_scores(ath, task, prefix):
    """The areas by true Hamming distances, to the last digit but rounding."""
    stored, codes = task.stored, encoded(ath, task)

    def area(database, y):
        sets = (codes["query_At"], codes[database], stored["y_query"], stored[y])
        return radius_pr_area(distance_histogram(*sets, n_bits=ath.n_bits))

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
    start, prefix = synthetic.start(), f"T{n_iter}_"
    ath = authors(synthetic, start, max_iter=n_iter, source_encoder="own")
    assert_equal(ath, synthetic, prefix, synthetic.stored["gamma"])
    assert_equal_scores(ath, synthetic, prefix)
    H = (start.H_s, start.H_t)
    if n_iter > 1:
        before = authors(synthetic, start, max_iter=n_iter - 1, source_encoder="own")
        H = [
            X @ A for X, A in zip((synthetic.X_s, synthetic.X_t), projections(before), strict=True)
        ]
    assert_equal_codes(H, synthetic, prefix)


def test_odd_numbers_of_samples_are_split_as_by_the_authors(synthetic_odd):
    start = synthetic_odd.start()
    ath = authors(synthetic_odd, start, source_encoder="own")
    assert_equal(ath, synthetic_odd, "T10_", synthetic_odd.stored["gamma"])
    assert_equal_scores(ath, synthetic_odd, "T10_")


@BITS
@pytest.mark.parametrize("name", ["mnist_usps", "office"])
def test_real_images_give_the_authors_codes_and_scores(request, name, n_bits):
    task, prefix = request.getfixturevalue(name), f"b{n_bits}_"
    ath = authors(task, task.start(prefix), source_encoder="own")
    assert_equal(ath, task, prefix, task.stored[f"{prefix}gamma"])
    assert_equal_scores(ath, task, prefix)


def test_the_settings_are_those_of_the_demo(synthetic):
    """What the other tests do not set is what the stored runs were made with."""
    ath, stored = ATH.unsupervised(8, published="authors"), synthetic.stored
    for domain in ("source", "target"):
        for name in ("alpha", "beta"):
            assert getattr(ath, f"{name}_{domain}") == stored[f"{name}_{domain[0]}"]
    assert (ath.ridge, ath.ridge_target) == (stored["ridge_s"], stored["ridge_t"])
    assert (ath.lam, ath.max_iter) == (stored["lam"], stored["n_iter"])
    assert (ath.start, ath.start_scale) == ("pca", None)
    assert (ath.unit_rows, ath.unit_scale, ath.center) == (False, False, "auto")
    assert AuthorsBipartite().n_neighbors == KNNGraph().n_neighbors == stored["k"]


@BITS
def test_the_start_is_the_stored_one_up_to_signs(mnist_usps, n_bits):
    """PCA about the mean of a domain, although rows are centred by the mean of both."""
    seen = []

    class Seen(PCAStart):
        def begin(self, context):
            seen.append(super().begin(context))
            return seen[-1]

    ath = ATH.unsupervised(n_bits, published="authors", start=Seen("domain", None), max_iter=1)
    ath.fit(mnist_usps.X_s, mnist_usps.X_t)
    stored = mnist_usps.start(f"b{n_bits}_")
    for ours, theirs in zip((seen[0].H_s, seen[0].H_t), (stored.H_s, stored.H_t), strict=True):
        signs = np.sign((ours * theirs).sum(axis=0))
        np.testing.assert_allclose(ours * signs, theirs, atol=1e-6)


def test_the_target_encodes_both_domains_of_one_feature_space(mnist_usps):
    """As in the demo, which has one feature space only; its mean is that of both domains."""
    X_s, X_t = mnist_usps.X_s[:60], mnist_usps.X_t[:50]
    ath = ATH.unsupervised(8, published="authors", max_iter=2).fit(X_s, X_t)
    assert ath.source_encoder_ is ath.target_encoder_
    np.testing.assert_allclose(ath.target_encoder_.mean, np.vstack([X_s, X_t]).mean(axis=0))
    ath = ATH.unsupervised(8, published="authors", max_iter=2).fit(X_s[:, :90], X_t)
    assert ath.source_encoder_ is not ath.target_encoder_
    np.testing.assert_allclose(ath.target_encoder_.mean, X_t.mean(axis=0))


@pytest.mark.parametrize("name", ["synthetic", "synthetic_odd", "mnist_usps"])
def test_knn_graphs_are_the_authors_where_nothing_is_tied(request, name):
    task = request.getfixturevalue(name)
    for domain, X in (("source", task.X_s), ("target", task.X_t)):
        ours, theirs = KNNGraph(n_neighbors=10).build(X), task.graph(domain)
        assert (ours.matrix != theirs.matrix).nnz == 0
        np.testing.assert_array_equal(ours.degrees, theirs.degrees)
