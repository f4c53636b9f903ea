"""On real features: neither the scale, nor a rotation, nor the order of the rows matters."""

from functools import cache, partial

import numpy as np
import pytest
from scipy.stats import ortho_group

from bridgehash import ATH
from bridgehash.datasets import TransferTask
from bridgehash.metrics.evaluate import evaluate

TASKS = {
    "surf-effnet": ("office_caltech10", "caltech10_surf800", "amazon_effnet_lite0"),
    "mnist-usps": ("mnist_usps", "mnist2000_x", "usps1800_x"),
}
PRESETS = ["unsupervised", "semi_supervised", "supervised", "kernel"]


def scores(task, preset, **changes):
    """cross and single area and mean average precision, in points."""
    ath = getattr(ATH, preset)(32, random_state=0, max_iter=5, tol=0.0).set_params(**changes)
    labels = {"y_source": task.y_source, "y_target": task.y_target}
    report = evaluate(ath.fit(task.X_source, task.X_target, **labels), task)
    return 100 * np.array(
        [
            value
            for found in (report.cross, report.single)
            for value in (found.radius_pr_area, found.mean_average_precision)
        ]
    )


@pytest.fixture(scope="module", params=TASKS)
def task(request, data_pack):
    """Some rows of a real task, in float64."""
    file, source, target = TASKS[request.param]
    data = data_pack(file)
    X_s, X_t = (data[key].astype(float) for key in (source, target))
    y_s, y_t = (data[key.split("_")[0] + "_y"] for key in (source, target))
    rng = np.random.default_rng(0)
    s, t = (rng.permutation(len(X))[:n] for X, n in ((X_s, 300), (X_t, 400)))
    return TransferTask.split(X_s[s], y_s[s], X_t[t], y_t[t], n_queries=100, seed=0)


@pytest.fixture(scope="module")
def unchanged(task):
    """`unchanged(preset, ...)`: the scores of the task itself, computed once."""
    return cache(partial(scores, task))


@cache
def rotation(d, seed):
    return ortho_group.rvs(d, random_state=seed)


def changed(task, source=lambda X: X, target=lambda X: X):
    return TransferTask(
        source(task.X_source),
        target(task.X_target),
        target(task.X_query),
        task.y_source,
        task.y_target,
        task.y_query,
    )


@pytest.mark.parametrize("changes", [{}, {"unit_rows": False}], ids=["unit rows", "as they are"])
@pytest.mark.parametrize("preset", PRESETS)
def test_the_scale_of_the_input_is_of_no_account(task, unchanged, preset, changes):
    larger = changed(task, *[lambda X: 1e3 * X] * 2)
    np.testing.assert_allclose(
        scores(larger, preset, **changes), unchanged(preset, **changes), atol=0.02
    )


@pytest.mark.parametrize("preset", PRESETS)
def test_a_rotation_of_the_features_changes_nothing(task, unchanged, preset):
    """Except that a rotation makes features negative, of which no roots are compared."""
    fixed = {"feature_map__root": False} if preset == "kernel" else {}
    d_s, d_t = task.X_source.shape[1], task.X_target.shape[1]
    Q_s = rotation(d_s, 0)
    Q_t = Q_s if d_s == d_t else rotation(d_t, 1)
    turned = changed(task, lambda X: X @ Q_s, lambda X: X @ Q_t)
    np.testing.assert_allclose(
        scores(turned, preset, **fixed), unchanged(preset, **fixed), atol=0.02
    )


@pytest.mark.parametrize("preset", PRESETS)
def test_the_order_of_the_samples_changes_nothing(task, unchanged, preset):
    rng = np.random.default_rng(0)
    s, t = rng.permutation(len(task.X_source)), rng.permutation(len(task.X_target))
    shuffled = TransferTask(
        task.X_source[s],
        task.X_target[t],
        task.X_query,
        task.y_source[s],
        task.y_target[t],
        task.y_query,
    )
    np.testing.assert_allclose(scores(shuffled, preset), unchanged(preset), atol=0.02)
