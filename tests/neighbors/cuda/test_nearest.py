"""The nearest rows on a GPU are those of the definition, for all kinds of data."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'bridgehash[gpu]'")

from bridgehash._core.errors import InputError  # noqa: E402
from bridgehash.neighbors.cuda.nearest import nearest  # noqa: E402

TYPES = {np.float32: 3e-6, np.float64: 1e-14}  # and how well a distance must be met


def exact(Q, R, k):
    """All distances in float64, by definition, and the k nearest by (distance, position)."""
    D = np.stack([((R - q) ** 2).sum(axis=1) for q in Q.astype(np.float64)])
    columns = np.argsort(D, axis=1, kind="stable")[:, :k]
    return D, columns


def found(Q, R, k, device):
    F, columns = nearest(torch.from_numpy(Q).to(device), torch.from_numpy(R).to(device), k)
    assert F.dtype == torch.from_numpy(Q).dtype
    assert columns.dtype == torch.int64
    assert F.device.type == columns.device.type == device.type
    assert F.shape == columns.shape == (len(Q), k)
    return F.cpu().numpy(), columns.cpu().numpy()


def assert_nearest(Q, R, k, device):
    """Distances are those of the rows named, none is nearer, and the order is right."""
    F, columns = found(Q, R, k, device)
    D, expected = exact(Q, R, k)
    tolerance = TYPES[Q.dtype.type]
    named, best = (np.take_along_axis(D, at, axis=1) for at in (columns, expected))
    np.testing.assert_allclose(F, named, rtol=tolerance)
    np.testing.assert_allclose(F, best, rtol=tolerance)
    assert_ordered(F, columns)
    wrong = columns != expected  # only where two distances agree to rounding
    np.testing.assert_allclose(named[wrong], best[wrong], rtol=tolerance)


def assert_ordered(F, columns):
    assert (np.diff(F, axis=1) >= 0).all()
    assert (np.diff(columns, axis=1)[np.diff(F, axis=1) == 0] > 0).all()
    assert all(len(set(row)) == len(row) for row in columns.tolist())


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    ("n_queries", "n_rows", "d", "k"),
    [
        (1, 1, 1, 1),
        (1, 3000, 64, 11),
        (300, 12, 64, 11),
        (7, 511, 3, 5),
        (130, 513, 64, 1),
        (200, 5000, 64, 128),
        (200, 5000, 65, 41),
        (129, 3001, 100, 11),
        (100, 4096, 200, 16),
        (100, 3001, 512, 41),
        (70, 600, 515, 100),
        (50, 600, 64, 600),
        (9, 20_001, 17, 130),
    ],
)
def test_the_nearest_are_those_of_the_definition(device, rng, dtype, n_queries, n_rows, d, k):
    Q, R = (rng.normal(size=(n, d)).astype(dtype) for n in (n_queries, n_rows))
    assert_nearest(Q, R, k, device)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("d", [16, 64, 300])
@pytest.mark.parametrize("spread", [0.3, 1e-2, 1e-4])
def test_rows_in_tight_clusters_are_distinguished(device, rng, dtype, d, spread):
    centres = rng.normal(size=(20, d))
    Q, R = (centres[rng.integers(20, size=n)] for n in (100, 4000))
    Q, R = (X + spread * rng.normal(size=X.shape) for X in (Q, R))
    assert_nearest(Q.astype(dtype), R.astype(dtype), 11, device)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("offset", [10.0, -1e4])
def test_an_offset_of_all_changes_nothing(device, rng, dtype, offset):
    Q, R = (rng.integers(-8, 8, size=(n, 20)).astype(dtype) for n in (100, 3000))
    F, columns = found(Q, R, 11, device)
    F_moved, columns_moved = found(Q + dtype(offset), R + dtype(offset), 11, device)
    np.testing.assert_array_equal(F_moved, F)
    np.testing.assert_array_equal(columns_moved, columns)
    assert_nearest(Q + dtype(offset), R + dtype(offset), 11, device)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("scale", [2.0**-20, 2.0**20])
def test_a_scale_of_all_only_scales_the_distances(device, rng, dtype, scale):
    Q, R = (rng.normal(size=(n, 64)).astype(dtype) for n in (100, 3000))
    F, columns = found(Q, R, 11, device)
    F_scaled, columns_scaled = found(Q * dtype(scale), R * dtype(scale), 11, device)
    np.testing.assert_array_equal(F_scaled, F * dtype(scale) ** 2)
    np.testing.assert_array_equal(columns_scaled, columns)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("d", [4, 64, 300])
def test_equal_distances_are_ordered_by_position(device, rng, dtype, d):
    """Whole numbers: distances are exact, and few values are taken by very many rows."""
    Q, R = (rng.integers(0, 2, size=(n, 4)).repeat(-(-d // 4), axis=1) for n in (60, 6000))
    Q, R = Q[:, :d].astype(dtype), R[:, :d].astype(dtype)
    D, expected = exact(Q, R, 41)
    F, columns = found(Q, R, 41, device)
    np.testing.assert_array_equal(columns, expected)
    np.testing.assert_array_equal(F, np.take_along_axis(D, expected, axis=1))


@pytest.mark.parametrize("apart", [0.0, 1.0])
@pytest.mark.parametrize("d", [64, 300])
def test_of_equal_rows_the_first_are_found(device, d, apart):
    Q, R = np.full((5, d), apart, np.float32), np.zeros((10_000, d), np.float32)
    F, columns = found(Q, R, 41, device)
    np.testing.assert_array_equal(columns, np.tile(np.arange(41), (5, 1)))
    np.testing.assert_array_equal(F, np.full((5, 41), apart * d, np.float32))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("d", [7, 30, 64, 100, 512])
def test_copies_of_a_row_are_at_the_same_distance(device, rng, dtype, d):
    """Whichever threads come to compare them, and whatever the width."""
    Q, rows = (rng.normal(size=(n, d)).astype(dtype) for n in (100, 300))
    order = rng.permutation(np.arange(300).repeat(5))
    F, columns = found(Q, rows[order], 20, device)
    assert_ordered(F, columns)
    F, named = F.reshape(100, 4, 5), order[columns].reshape(100, 4, 5)
    np.testing.assert_array_equal(F, np.broadcast_to(F[:, :, :1], F.shape))
    np.testing.assert_array_equal(named, np.broadcast_to(named[:, :, :1], F.shape))


@pytest.mark.parametrize("n_bits", [8, 16, 64])
def test_codes_of_signs_are_searched_exactly(device, rng, n_bits):
    Q, R = (np.sign(rng.normal(size=(n, n_bits))).astype(np.float32) for n in (200, 5000))
    D, expected = exact(Q, R, 11)
    F, columns = found(Q, R, 11, device)
    np.testing.assert_array_equal(columns, expected)
    np.testing.assert_array_equal(F, np.take_along_axis(D, expected, axis=1))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n_far", [1, 40, 1500])
@pytest.mark.parametrize("size", [100.0, 1e6])
def test_rows_far_from_the_others_do_not_change_the_result(device, rng, dtype, n_far, size):
    R = rng.normal(size=(4000, 30))
    R[rng.choice(4000, n_far, replace=False)] *= size * 2.0 ** -rng.integers(9, size=(n_far, 1))
    Q = np.concatenate([rng.normal(size=(100, 30)), R[:100] + 1e-3])
    assert_nearest(Q.astype(dtype), R.astype(dtype), 11, device)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("ratio", [1e-9, 1e-4, 1e4, 1e9])
def test_queries_of_another_size_than_the_rows_are_answered(device, rng, dtype, ratio):
    Q, R = ratio * rng.normal(size=(50, 40)), rng.normal(size=(2000, 40))
    F, columns = found(Q.astype(dtype), R.astype(dtype), 11, device)
    D, expected = exact(Q.astype(dtype), R.astype(dtype), 11)
    best = np.take_along_axis(D, expected, axis=1)
    np.testing.assert_allclose(F, best, rtol=TYPES[dtype])
    assert_ordered(F, columns)


def test_numbers_in_float64_are_compared_in_float64(device, rng):
    """Distances that float32 cannot tell apart."""
    Q, R = np.ones((3, 20)), 1 + 1e-12 * rng.integers(1, 2000, size=(2000, 1)) * np.ones((1, 20))
    assert_nearest(Q, R, 11, device)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_strides_and_gradients_of_the_inputs_do_not_matter(device, rng, dtype):
    Q, R = (torch.from_numpy(rng.normal(size=(n, 64))).to(device, dtype) for n in (100, 3000))
    F, columns = nearest(Q, R, 11)
    strided_Q = Q.T.contiguous().T.requires_grad_()
    strided_R = torch.stack([R, -R], dim=1).reshape(6000, 64)[::2].requires_grad_()
    for other_Q, other_R in ((strided_Q, R), (Q, strided_R)):
        other = nearest(other_Q, other_R, 11)
        assert torch.equal(other[0], F)
        assert torch.equal(other[1], columns)
        assert not other[0].requires_grad


@pytest.mark.parametrize("dtype", TYPES)
def test_the_same_input_gives_the_same_bits(device, rng, dtype):
    Q, R = (rng.normal(size=(n, 64)).astype(dtype) for n in (700, 3000))
    first, second = found(Q, R, 11, device), found(Q, R, 11, device)
    np.testing.assert_array_equal(first[0], second[0])
    np.testing.assert_array_equal(first[1], second[1])


@pytest.mark.parametrize("d", [64, 300])
def test_little_memory_changes_no_bit(device, rng, d, monkeypatch):
    Q, R = (rng.normal(size=(n, d)).astype(np.float32) for n in (300, 3000))
    whole = found(Q, R, 11, device)
    for limit in ("_MOST", "_HOST"):
        monkeypatch.setattr(f"bridgehash.neighbors.cuda.device.{limit}", 1 << 18)
    in_chunks = found(Q, R, 11, device)
    np.testing.assert_array_equal(in_chunks[0], whole[0])
    np.testing.assert_array_equal(in_chunks[1], whole[1])


def test_no_queries_are_no_answers(device):
    F, columns = nearest(torch.empty(0, 5, device=device), torch.zeros(9, 5, device=device), 3)
    assert F.shape == columns.shape == (0, 3)


def test_a_wrong_input_is_named(device):
    zeros, small = torch.zeros(4, 3), torch.zeros(2, 3)
    for Q, R, k, words in (
        (small, zeros, 5, "k: 5 is not between 1 and 4"),
        (small, zeros, 0, "k: 0 is not between 1 and 4"),
        (small, torch.zeros(4, 2), 1, "same width"),
        (torch.zeros(2, 0), torch.zeros(4, 0), 1, "same width"),
        (small, zeros.double(), 1, "float64"),
        (small, torch.full((4, 3), torch.nan), 1, "finite"),
        (torch.full((2, 3), torch.inf), zeros, 1, "finite"),
        (torch.full((2, 3), 1e19), zeros, 1, "finite"),
    ):
        with pytest.raises(InputError, match=words):
            nearest(Q.to(device), R.to(device), k)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("d", [10, 64, 128, 300])
def test_the_finer_filter_finds_the_same(gpu, rng, dtype, d, monkeypatch):
    Q, R = (rng.normal(size=(n, d)).astype(dtype) for n in (300, 3000))
    coarse = found(Q, R, 11, gpu)
    monkeypatch.setattr(
        "bridgehash.neighbors.cuda.nearest._MANY", -(1 << 20)
    )  # every list is too long
    monkeypatch.setattr("bridgehash.neighbors.cuda.nearest._SHARE", -1)
    fine = found(Q, R, 11, gpu)
    np.testing.assert_array_equal(fine[0], coarse[0])
    np.testing.assert_array_equal(fine[1], coarse[1])
    assert_nearest(Q, R, 11, gpu)


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("d", [64, 128, 512, 2000])
@pytest.mark.parametrize("signs", ["mixed", "one"])
def test_the_filter_is_within_its_bound(gpu, rng, split, d, signs):
    """Also where all products of a sum have one sign, and its roundings may add up."""
    from bridgehash.neighbors.cuda.filter import Filter
    from bridgehash.neighbors.cuda.stages import norms

    Q, R = (torch.from_numpy(rng.normal(size=(n, d))).to(gpu, torch.float32) for n in (256, 1024))
    if signs == "one":
        Q, R = 1 + Q.abs(), 1 + R.abs()
    centre = torch.zeros(d, device=gpu)
    rows = Filter(R, centre, norms(R, centre), split=split)
    values = torch.empty((len(Q), len(R) // rows.group), device=gpu)
    bound, square = rows.values(Q, norms(Q, centre), values)
    true = R.double().square().sum(dim=1) / 2 - Q.double() @ R.double().T
    unit = square.double() / Q.double().square().sum(dim=1)
    true = true.view(len(Q), -1, rows.group).amin(dim=2) * unit[:, None]
    wrong = (values - true).abs() / bound[:, None]
    assert 1e-3 < float(wrong.max()) < 0.9


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("d", [1, 64, 128, 300, 512])
def test_the_kernels_were_compiled_well(gpu, d, dtype, split):
    from bridgehash.neighbors.cuda.filter import is_sound

    assert is_sound(d, dtype, gpu, split=split)


def test_a_compiler_that_leaves_out_the_products_is_noticed(gpu, monkeypatch):
    from bridgehash.neighbors.cuda import stages
    from bridgehash.neighbors.cuda.filter import is_sound
    from bridgehash.neighbors.cuda.nearest import _works

    def without_products(queries, rows, half, out):
        G = rows.group
        out[:] = half.view(-1, G // 2, 4, 2).transpose(1, 2).reshape(-1, G).amin(dim=1)

    monkeypatch.setattr(stages, "minima", without_products)
    is_sound.cache_clear()
    _works.cache_clear()
    X = torch.randn(900, 64, device=gpu)
    with pytest.warns(UserWarning, match="wrong kernels"):
        F, columns = nearest(X, X, 3)
    is_sound.cache_clear()
    _works.cache_clear()
    monkeypatch.undo()
    expected = nearest(X, X, 3)
    assert torch.equal(columns, expected[1])
    assert torch.allclose(F, expected[0])
