"""PWCF: its parts and the public script's loop against the stored run, its steps against loops."""

import numpy as np
import pytest

from bridgehash import PWCF
from bridgehash._core.linalg import random_orthonormal, symmetric_product
from bridgehash.baselines import pwcf
from bridgehash.baselines._stiefel import minimise
from bridgehash.baselines.pwcf import (
    PWCFProblem,
    Triplets,
    class_loss,
    class_step,
    focal_weights,
    hardest_rows,
    histograms,
    manifold_graph,
    mine_triplets,
    nearest_histograms,
    projection_objective,
    solve,
    source_code_step,
    triplet_matrix,
)
from bridgehash.codes import signs
from bridgehash.models.feature_maps import outward
from bridgehash.neighbors.graphs import laplacian
from bridgehash.neighbors.search import nearest
from tests.baselines.golden import assert_close, assert_same_bits
from tests.cases import over_seeds, two_domains

# --- the stored run


def stored_triplets(run, digits):
    n_s, n_t = len(digits.X_source), len(digits.X_target)
    target = n_s + np.arange(n_t)
    return Triplets(
        np.concatenate([np.arange(n_s), target, target]),
        np.concatenate([run["pos1"], n_s + run["pos2"], run["pos3"]]).astype(np.intp),
        np.concatenate([run["neg1"], n_s + run["neg2"], run["neg3"]]).astype(np.intp),
    )


def test_stored_classes_histograms_positives_and_graph_are_found_again(stored, digits):
    run, digits = stored("pwcf", 16), digits.centred()
    X_s, X_t, y_s = digits.X_source, digits.X_target, digits.y_source.astype(np.intp)
    y_t = y_s[nearest(X_t, X_s, 1)[1][:, 0]]
    np.testing.assert_array_equal(y_t, run["pseudo"])
    H_s, H_t = histograms(X_s, y_s, X_t, y_t, 50)
    np.testing.assert_array_equal(H_s, run["hist_s"])
    np.testing.assert_array_equal(H_t, run["hist_t"])
    found = mine_triplets(X_s, y_s, H_s, X_t, y_t, H_t)
    expected = stored_triplets(run, digits)
    np.testing.assert_array_equal(found.anchor, expected.anchor)
    np.testing.assert_array_equal(found.positive, expected.positive)
    y = np.concatenate([y_s, y_t])
    assert (y[found.negative] != y[found.anchor]).all()  # unlike those of the script
    graph = manifold_graph(np.vstack([H_s, H_t]), 500, 0.4, keep_zero=False)
    XLX = symmetric_product(digits.stacked, laplacian(graph, digits.stacked))
    # Equal histograms: 334 of 134,844 pairs have an edge in the script, by rounding.
    assert graph.matrix.nnz == int(run["graph_nnz"]) - 3338
    assert np.linalg.norm(XLX - run["XLX"]) < 2e-4 * np.linalg.norm(run["XLX"])


@pytest.mark.parametrize("n_bits", [16, pytest.param(64, marks=pytest.mark.slow)])
def test_the_loop_of_the_script_is_found_again(stored, digits, n_bits):
    """With its negatives of the same class, its constant and ever growing triplet terms."""
    run, digits = stored("pwcf", n_bits), digits.centred()
    X, X_s, y = digits.stacked, digits.X_source, digits.y_source.astype(np.intp)
    triplets, W = stored_triplets(run, digits), run["W0"]
    B_s, B_t = run.signs("Bs0"), run.signs("Bt0")
    Q = 10 * symmetric_product(X, X) + run["XLX"]
    value, slope, values = 10.0 * len(X) * n_bits, np.zeros_like(W), []
    for i in range(50):
        H = X @ W
        omega = focal_weights(H, triplets, 0.3)
        gaps = [H[triplets.anchor] - H[rows] for rows in triplets[1:]]
        far, near = (np.linalg.norm(gap, axis=1) for gap in gaps)
        value += omega @ (far - near)
        slope -= 2 * triplet_matrix(X, triplets, omega) @ W
        C = 10 * X.T @ np.vstack([B_s, B_t])
        rest = projection_objective(Q, C, value)

        def objective(W, rest=rest, slope=slope):
            found, G = rest(W)
            return found, G + slope

        W = minimise(objective, W, max_iter=10)
        values.append(objective(W)[0])
        if i == 0:
            assert_close(W, run["W1"], 1e-9)
        A = class_step(B_s, y, 10.0, 1e4)
        B_s = source_code_step(X_s @ W, A, y, 10.0, 10.0)
        B_t = signs(digits.X_target @ W).astype(float)
    assert_close(W, run["W"], 1e-5)
    np.testing.assert_allclose(values, run["fval"], rtol=1e-8)
    assert_same_bits(run, digits, lambda X: X @ W)


# --- parts


@pytest.mark.parametrize(("n_t", "k"), [(12, 3), (4, 5)])
def test_histograms_count_the_classes_around_a_row(n_t, k):
    rng = np.random.default_rng(0)
    X_s, X_t = rng.normal(size=(9, 2)), rng.normal(size=(n_t, 2))
    y_s, y_t = rng.permutation(np.arange(9) % 3), np.arange(n_t) % 3
    H_s, H_t = histograms(X_s, y_s, X_t, y_t, k)
    np.testing.assert_array_equal(H_s, np.round(H_s))
    for X, y, H in ((X_s, y_s, H_s), (X_t, y_t, H_t)):
        for i, x in enumerate(X):
            far = ((X - x) ** 2).sum(axis=1)
            far[i] = np.inf
            near = np.argsort(far)[: min(k, len(X) - 1)]
            shares = np.bincount(y[near], minlength=3) / len(near)
            np.testing.assert_allclose(H[i] / H[i].sum(), shares)
    assert len(np.unique(np.concatenate([H_s.sum(axis=1), H_t.sum(axis=1)]))) == 1


@pytest.mark.parametrize("keep_zero", [True, False])
@over_seeds(3)
def test_the_manifold_graph_is_its_definition(keep_zero, seed):
    H = np.random.default_rng(seed).integers(0, 4, (14, 2)).astype(float)
    D = np.sqrt(((H[:, None] - H) ** 2).sum(axis=2))
    edges = np.zeros((14, 14), dtype=bool)
    for i in range(14):
        others = sorted((j for j in range(14) if j != i), key=lambda j: (D[i, j], j))
        edges[i, others[:5]] = True
    edges |= edges.T
    G = D / D[edges].max()
    expected = np.where(edges & (keep_zero | (D > 0)), np.exp(-(G**4) / (2 * 0.5**2)), 0.0)
    graph = manifold_graph(H, 5, 0.5, keep_zero)
    np.testing.assert_allclose(graph.matrix.toarray(), expected, atol=1e-6)
    np.testing.assert_allclose(graph.degrees, expected.sum(axis=1), atol=1e-5)


def test_a_graph_of_equal_histograms_is_complete_or_empty():
    for keep_zero, weight in ((True, 1.0), (False, 0.0)):
        W = manifold_graph(np.full((4, 2), 3.0), 9, 0.4, keep_zero).matrix.toarray()
        np.testing.assert_array_equal(W, weight * (1 - np.eye(4)))


def labelled(seed=0, n_s=13, n_t=11, d=4):
    rng = np.random.default_rng(seed)
    y_s, y_t = rng.permutation(np.arange(n_s) % 3), rng.permutation(np.arange(n_t) % 3)
    X_s, X_t = rng.normal(size=(n_s, d)), rng.normal(size=(n_t, d))
    return X_s, y_s, *histograms(X_s, y_s, X_t, y_t, 4), X_t, y_t


def test_triplets_are_mined_in_both_domains_and_between_them():
    X_s, y_s, H_s, H_t, X_t, y_t = labelled()
    found = mine_triplets(X_s, y_s, H_s, X_t, y_t, H_t)
    expected = []
    for queries, y, rows, y_rows, first, first_row in (
        (X_s, y_s, X_s, y_s, 0, 0),
        (X_t, y_t, X_t, y_t, 13, 13),
        (H_t, y_t, H_s, y_s, 13, 0),
    ):
        for i, x in enumerate(queries):
            D = ((rows - x) ** 2).sum(axis=1)
            far = max(np.flatnonzero(y_rows == y[i]), key=D.__getitem__)
            near = min(np.flatnonzero(y_rows != y[i]), key=D.__getitem__)
            expected.append((first + i, first_row + far, first_row + near))
    np.testing.assert_array_equal(np.transpose(found), expected)


def test_a_target_of_one_class_has_no_triplets_of_its_own():
    X_s, y_s, H_s, H_t, X_t, y_t = labelled()
    found = mine_triplets(X_s, y_s, H_s, X_t, np.ones_like(y_t), H_t)
    assert len(found.anchor) == len(X_s) + len(X_t)
    assert (found.negative < len(X_s)).all()


def triplets_of(n, count=9, seed=1):
    rng = np.random.default_rng(seed)
    return Triplets(*(rng.integers(0, n, count) for _ in range(3)))


def test_focal_weights_are_their_definition():
    H, triplets = np.random.default_rng(2).normal(size=(8, 3)), triplets_of(8, 40)
    weights = focal_weights(H, triplets, 0.3)
    for found, x, p, n in zip(weights, *triplets, strict=True):
        z = np.linalg.norm(H[x] - H[p]) - np.linalg.norm(H[x] - H[n]) + 0.3
        np.testing.assert_allclose(found, (1 - np.exp(-z)) ** 2 if z >= 0 else 0.0, atol=1e-15)
    assert (weights == 0).any()
    assert (weights > 0.1).any()


def test_the_triplet_matrix_is_a_sum_over_triplets():
    X, triplets = np.random.default_rng(3).normal(size=(8, 4)), triplets_of(8)
    omega = np.random.default_rng(4).uniform(size=9)
    expected = np.zeros((4, 4))
    for w, x, p, n in zip(omega, *triplets, strict=True):
        expected += w * np.outer(X[x] - X[p], X[x] - X[p])
        expected -= w * np.outer(X[x] - X[n], X[x] - X[n])
    np.testing.assert_allclose(triplet_matrix(X, triplets, omega), expected, atol=1e-12)


def whole_numbers(seed, n, d=3, high=4):
    return np.random.default_rng(seed).integers(0, high, (n, d)).astype(float)


def squared_distances(queries, rows):
    """Exact for whole numbers."""
    return (queries**2).sum(axis=1)[:, None] + (rows**2).sum(axis=1) - 2.0 * queries @ rows.T


@pytest.mark.parametrize(("n", "k"), [(17, 1), (17, 6), (17, 16), (2100, 5)])
def test_ties_between_nearest_histograms_go_by_row_number(n, k):
    """2,100 rows are searched in two tiles."""
    for seed in range(5 if n < 100 else 1):
        H = whole_numbers(seed, n)
        F, columns = nearest_histograms(H, k)
        D = squared_distances(H, H)
        np.fill_diagonal(D, np.inf)
        expected = np.argsort(D, axis=1, kind="stable")[:, :k]
        np.testing.assert_array_equal(np.sort(columns, axis=1), np.sort(expected, axis=1))
        np.testing.assert_array_equal(F, np.take_along_axis(D, columns, axis=1))


@pytest.mark.parametrize(("n_queries", "n_rows"), [(17, 14), (4500, 2100)])
def test_the_hardest_rows_are_the_first_farthest_of_a_class_and_nearest_of_another(
    n_queries, n_rows
):
    """A class of 2,250 queries among 2,100 rows is searched in two tiles."""
    n_classes = 3 if n_rows < 100 else 2
    for seed in range(5 if n_rows < 100 else 1):
        queries, rows = whole_numbers(seed, n_queries), whole_numbers(seed + 100, n_rows)
        rng = np.random.default_rng(seed)
        y = rng.permutation(np.arange(n_queries) % n_classes)
        y_rows = rng.permutation(np.arange(n_rows) % n_classes)
        positive, negative = hardest_rows(queries, y, rows, y_rows)
        D, same = squared_distances(queries, rows), y[:, None] == y_rows
        np.testing.assert_array_equal(positive, np.where(same, D, -1.0).argmax(axis=1))
        np.testing.assert_array_equal(negative, np.where(same, np.inf, D).argmin(axis=1))


# --- steps


def problem(seed=0, d=5):
    X_s, y_s, H_s, H_t, X_t, y_t = labelled(seed, d=d)
    X = np.vstack([X_s, X_t])
    theta = np.repeat([10.0, 3.0], [13, 11])
    graph = manifold_graph(np.vstack([H_s, H_t]), 6, 0.4, keep_zero=True)
    fixed = X.T @ (theta[:, None] * X) + 2.0 * X.T @ laplacian(graph, X)
    mined = mine_triplets(X_s, y_s, H_s, X_t, y_t, H_t)
    return PWCFProblem(X, y_s, theta, fixed, mined, 0.3, 10.0, 20.0), graph


def whole_objective(problem, graph, omega, W, A, B):
    """By loops, from the text of the method."""
    X, y, theta = problem.X, problem.y, problem.theta
    value, (x, p, n) = 0.0, problem.triplets
    for i, w in enumerate(omega):
        value += w * ((W.T @ (X[x[i]] - X[p[i]])) ** 2).sum()
        value -= w * ((W.T @ (X[x[i]] - X[n[i]])) ** 2).sum()
    for i, row in enumerate(X):
        value += theta[i] * ((B[i] - W.T @ row) ** 2).sum()
        for j, weight in enumerate(graph.matrix.toarray()[i]):
            value += 2.0 * 0.5 * weight * ((W.T @ (row - X[j])) ** 2).sum()
    for i, label in enumerate(y):
        value += 10.0 * ((np.eye(3)[label] - A.T @ B[i]) ** 2).sum()
    return value + 20.0 * (A**2).sum()


def point(n_bits=4, d=5, n=24, seed=5):
    rng = np.random.RandomState(seed)
    W = random_orthonormal(d, n_bits, rng)
    return W, signs(rng.standard_normal((n, n_bits))).astype(float), rng.standard_normal((4, 3))


def slope_of(objective, at, step=1e-5):
    slope = np.empty_like(at)
    for place in np.ndindex(at.shape):
        E = np.zeros_like(at)
        E[place] = step
        slope[place] = (objective(at + E) - objective(at - E)) / (2 * step)
    return slope


def test_the_gradient_of_the_projection_is_that_of_the_whole_objective():
    (made, graph), (W, B, A) = problem(), point()
    omega = focal_weights(made.X @ W, made.triplets, 0.3)
    Q = made.fixed + triplet_matrix(made.X, made.triplets, omega)
    constant = 4 * made.theta.sum() + class_loss(B[:13], A, made.y, 10.0, 20.0)
    objective = projection_objective(Q, made.X.T @ (made.theta[:, None] * B), constant)
    value, G = objective(W)
    np.testing.assert_allclose(value, whole_objective(made, graph, omega, W, A, B))
    slope = slope_of(lambda V: whole_objective(made, graph, omega, V, A, B), W)
    np.testing.assert_allclose(G, slope, rtol=1e-6, atol=1e-5)


def test_the_classifier_is_the_best_one():
    (made, _), (_, B, _) = problem(), point()
    A = class_step(B[:13], made.y, 10.0, 20.0)
    slope = slope_of(lambda V: class_loss(B[:13], V, made.y, 10.0, 20.0), A)
    np.testing.assert_allclose(slope, 0.0, atol=1e-6)
    expected = np.linalg.solve(
        10 * B[:13].T @ B[:13] + 20 * np.eye(4), 10 * B[:13].T @ np.eye(3)[made.y]
    )
    np.testing.assert_allclose(A, expected, atol=1e-14)


def test_source_codes_are_signs_of_the_best_real_matrix():
    (made, _), (W, _, A) = problem(), point()
    H = made.X[:13] @ W
    best = (10 * np.eye(3)[made.y] @ A.T + 7 * H) @ np.linalg.inv(10 * A @ A.T + 7 * np.eye(4))

    def real(B):
        return class_loss(B, A, made.y, 10.0, 20.0) + 7 * ((B - H) ** 2).sum()

    np.testing.assert_allclose(slope_of(real, best), 0.0, atol=1e-5)
    B = source_code_step(H, A, made.y, 10.0, 7.0)
    np.testing.assert_array_equal(B, np.where(best > 0, 1.0, -1.0))


@pytest.mark.parametrize(("d", "n_bits"), [(5, 3), (5, 5), (5, 8)])
def test_the_solver_ends_where_its_objective_says(d, n_bits):
    made, graph = problem(d=d)
    W, B, _ = point(n_bits, d)
    found = solve(made, W, B, max_iter=3, inner_iter=10)
    before = solve(made, W, B, max_iter=2, inner_iter=10)
    omega = focal_weights(made.X @ before.W, made.triplets, made.margin)
    expected = whole_objective(made, graph, omega, found.W, found.A, found.B)
    np.testing.assert_allclose(found.objective[-1], expected)
    np.testing.assert_allclose(found.objective[:2], before.objective)
    tall = found.W if n_bits <= d else found.W.T
    np.testing.assert_allclose(tall.T @ tall, np.eye(min(d, n_bits)), atol=1e-12)
    np.testing.assert_array_equal(found.B[13:], signs(made.X[13:] @ found.W))
    A = class_step(before.B[:13], made.y, 10.0, 20.0)
    np.testing.assert_allclose(found.A, A)
    # In each round the search for W and the classifier gain, all else held fixed.
    lowered = [
        whole_objective(made, graph, omega, *at, before.B)
        for at in ((before.W, before.A), (found.W, before.A), (found.W, found.A))
    ]
    assert lowered[2] <= lowered[1] <= lowered[0] + 1e-9


# --- the estimator


def fitted(data, **parameters):
    model = PWCF(**({"n_bits": 6, "max_iter": 5, "random_state": 0} | parameters))
    return model.fit(data.X_source, data.X_target, y_source=data.y_source)


def projection(model):
    return model.target_encoder_.projection


@pytest.mark.parametrize("n_bits", [4, 12])
@pytest.mark.parametrize("unit_rows", [True, False])
def test_the_encoder_gives_the_projections_that_were_learned(monkeypatch, n_bits, unit_rows):
    seen = []

    def watched(problem, *start, **limits):
        seen.append((problem, solve(problem, *start, **limits)))
        return seen[-1][1]

    monkeypatch.setattr(pwcf, "solve", watched)
    data = two_domains(d_t=7)
    model = fitted(data, n_bits=n_bits, unit_rows=unit_rows)
    ((problem, found),) = seen
    for domain, X, rows in (
        ("source", data.X_source, problem.X[:31]),
        ("target", data.X_target, problem.X[31:]),
    ):
        H = model.decision_function(X, domain)
        np.testing.assert_allclose(H[outward(X)], rows @ found.W, atol=1e-10)
    size = np.sqrt((problem.X**2).sum(axis=1).mean())
    np.testing.assert_allclose(size < 0.99, unit_rows)  # centred rows are shorter than unit ones


def test_source_rows_without_a_label_are_left_out():
    data = two_domains(d_t=7)
    y = data.y_source.copy()
    y[::4] = -1
    partly = fitted(data.changed(y_source=y))
    without = fitted(data.changed(X_source=data.X_source[y >= 0], y_source=y[y >= 0]))
    np.testing.assert_array_equal(projection(partly), projection(without))


@pytest.mark.parametrize("labels", [[0, 1] + [2] * 29, [0] * 30 + [1]])
def test_a_class_of_one_row_is_allowed(labels):
    model = fitted(two_domains(d_t=7).changed(y_source=np.array(labels)))
    assert np.isfinite(projection(model)).all()


def test_a_target_near_one_class_only_is_allowed():
    data = two_domains(d_t=7)
    near = data.X_source[data.y_source == 1]
    model = fitted(data.changed(X_target=near + 0.01))
    assert np.isfinite(projection(model)).all()


def test_rows_of_one_direction_are_refused_with_a_remedy():
    data = two_domains(d_t=7).changed(X_target=np.outer(1.0 + np.arange(24), np.ones(7)))
    along = data.changed(X_source=np.outer(1.0 + np.arange(31), np.ones(7)))
    with pytest.raises(ValueError, match=r"^unit_rows: .* use unit_rows=False$"):
        fitted(along)
    assert np.isfinite(projection(fitted(along, unit_rows=False))).all()


def test_raw_rows_are_brought_to_scale():
    data = two_domains(d_t=7)
    model, larger = (fitted(data.each(lambda X: s * X), unit_rows=False) for s in (1.0, 1e3))  # noqa: B023
    np.testing.assert_array_equal(
        model.transform(data.X_query, "target"), larger.transform(1e3 * data.X_query, "target")
    )
    assert np.abs(projection(model) - projection(fitted(data))).max() > 1e-3


def test_the_parameters_reach_the_solver():
    data = two_domains(d_t=7, n_s=60, n_t=50)
    rng = np.random.default_rng(0)
    data = data.each(lambda X: X + 6 * rng.normal(size=X.shape))  # classes overlap
    default = fitted(data, n_neighbors=5, graph_neighbors=20)
    for changed in (
        {"n_neighbors": 9},
        {"graph_neighbors": 8},
        {"sigma": 1.5},
        {"margin": 0.0},
        {"quantisation_source": 1.0},
        {"quantisation_target": 1.0},
        {"manifold": 0.0},
        {"classification": 1000.0, "ridge": 1.0},
        {"ridge": 1.0},
        {"max_iter": 2},
        {"inner_iter": 2},
        {"keep_zero": False},
        {"random_state": 1},
    ):
        model = fitted(data, **({"n_neighbors": 5, "graph_neighbors": 20} | changed))
        assert np.abs(projection(model) - projection(default)).max() > 1e-7, changed
        assert model.n_iter_ == len(model.objective_) == changed.get("max_iter", 5)
