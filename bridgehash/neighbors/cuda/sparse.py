"""Sparse matrices on a GPU with reproducible products: the same bits every time.

Entries are stored row by row (CSR), and a product adds them in this order. Long rows are cut into
pieces whose sums are added in order, so that one long row does not delay the others.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import torch
from scipy.sparse import csr_array

from ..._core.errors import InputError
from .compiling import product_ready
from .device import has_kernels, scratch

_PIECE = 512  # entries added by one program
_ALIGNED = 16  # columns of a dense factor are padded to a multiple of it


class Pieces(NamedTuple):
    """Ranges of entries, and the row of the buffer for the sum of each."""

    start: Any
    stop: Any
    place: Any


class SparseMatrix:
    """A CSR matrix: columns[starts[i]:starts[i + 1]] are the columns of row i.

    Duplicate entries are added. A product has the type of its dense factor.

    >>> W = SparseMatrix.from_rows(torch.tensor([[0.5, 0.5]]), torch.tensor([[0, 2]]), width=3)
    >>> W @ torch.tensor([[2.0], [0.0], [4.0]])
    tensor([[3.]])
    """

    def __init__(self, starts: Any, columns: Any, weights: Any, shape: tuple[int, int]) -> None:
        self.starts, self.columns, self.weights, self.shape = starts, columns, weights, shape

    @classmethod
    def from_rows(cls, weights: Any, columns: Any, width: int) -> SparseMatrix:
        """Build a matrix with k entries per row from weights and columns of shape (n, k)."""
        n, k = columns.shape
        starts = k * torch.arange(n + 1, device=columns.device)
        whole = columns.to(torch.int32).reshape(-1)
        return cls(starts, whole, weights.detach().reshape(-1), (n, width))

    @cached_property
    def T(self) -> SparseMatrix:
        """The transpose; `T.T` is this matrix."""
        columns, order = self.columns.sort(stable=True)  # stable: rows stay in order
        ends = torch.arange(self.shape[1] + 1, dtype=torch.int32, device=columns.device)
        starts = torch.searchsorted(columns, ends)
        transpose = SparseMatrix(starts, self._rows[order], self.weights[order], self.shape[::-1])
        transpose.__dict__["T"] = self
        return transpose

    @property
    def _rows(self) -> Any:
        """Row of each entry."""
        numbers = torch.arange(self.shape[0], dtype=torch.int32, device=self.columns.device)
        lengths = self.starts.diff()
        return numbers.repeat_interleave(lengths, output_size=len(self.columns))

    def row_sums(self) -> Any:
        """Return the sum of each row."""
        ones = self.weights.new_ones((self.shape[1], _ALIGNED))
        return (self @ ones)[:, 0].contiguous()

    def to_scipy(self) -> csr_array:
        """Return the matrix as a SciPy array."""
        parts = (self.weights, self.columns, self.starts)
        return csr_array(tuple(part.cpu().numpy() for part in parts), shape=self.shape)

    def __matmul__(self, dense: Any) -> Any:
        if dense.ndim == 1:
            return (self @ dense[:, None])[:, 0]
        if len(dense) != self.shape[1]:
            raise InputError(f"{self.shape} @ {tuple(dense.shape)}: the sizes do not match")
        H = dense.detach()
        d = H.shape[1]
        if not has_kernels(H.device):
            return self._by_torch(H)
        H = torch.nn.functional.pad(H, (0, -d % _ALIGNED)).contiguous()
        with torch.cuda.device(H.device):
            product_ready(H.shape[1], H.dtype, H.device)
            return self._by_kernel(H)[:, :d]

    def _by_kernel(self, H: Any) -> Any:
        """Add up all pieces; sums of cut rows are stored below the result and then added."""
        pieces, sums, n_cut = self._pieces
        out = H.new_empty((self.shape[0] + n_cut, H.shape[1]))
        add_up(pieces, self.columns, self.weights, H, out)
        if n_cut:
            places = torch.arange(self.shape[0], len(out), dtype=torch.int32, device=H.device)
            add_up(sums, places, self.weights.new_ones(n_cut), out, out)
        return out[: self.shape[0]]

    @cached_property
    def _pieces(self) -> tuple[Pieces, Pieces, int]:
        """Pieces of all rows, pieces that sum up cut rows, and the number of pieces of cut rows."""
        n = self.shape[0]
        rows = torch.arange(n, device=self.starts.device)
        lengths = self.starts.diff()
        numbers = ((lengths + _PIECE - 1) // _PIECE).clamp_(min=1)
        cut = numbers > 1
        n_cut = int((numbers * cut).sum())
        if n_cut == 0:
            return Pieces(self.starts[:-1], self.starts[1:], rows), Pieces(*[rows[:0]] * 3), 0
        first = numbers.cumsum(0) - numbers
        row = rows.repeat_interleave(numbers)
        start = self.starts[row] + _PIECE * (torch.arange(len(row), device=row.device) - first[row])
        stop = torch.minimum(start + _PIECE, self.starts[row + 1])
        is_cut = cut[row]
        place = torch.where(is_cut, n - 1 + is_cut.cumsum(0), row)
        stops = numbers[cut].cumsum(0)
        return Pieces(start, stop, place), Pieces(stops - numbers[cut], stops, rows[cut]), n_cut

    def _by_torch(self, H: Any) -> Any:
        """Compute the product without kernels, some columns of H at a time."""
        lengths, columns = self.starts.diff(), self.columns.long()
        weights = self.weights.to(H.dtype)[:, None]
        out = H.new_zeros((self.shape[0], H.shape[1]))
        step = max(1, scratch(H.device) // (3 * H.element_size() * max(1, len(columns))))
        for start in range(0, H.shape[1] if len(columns) else 0, step):
            part = slice(start, start + step)
            terms = weights * H[:, part].contiguous()[columns]
            out[:, part] = torch.segment_reduce(terms, "sum", lengths=lengths, initial=0, axis=0)
        return out


def row_shares(A: SparseMatrix, B: SparseMatrix) -> SparseMatrix:
    """Return A + Bᵀ with each row divided by its sum."""
    B = B.T
    rows, order = torch.cat([A._rows, B._rows]).sort(stable=True)
    columns = torch.cat([A.columns, B.columns])[order]
    weights = torch.cat([A.weights, B.weights])[order]
    ends = torch.arange(A.shape[0] + 1, dtype=rows.dtype, device=rows.device)
    total = SparseMatrix(torch.searchsorted(rows, ends), columns, weights, A.shape)
    total.weights = weights / total.row_sums().clamp(min=1e-30)[rows.long()]  # or stays zero
    return total


def add_up(pieces: Pieces, columns: Any, weights: Any, H: Any, out: Any) -> None:
    """Write the weighted sum of rows of H of each piece to its row of `out`."""
    from . import kernels

    d = H.shape[1]
    block = 64 if d <= 64 else 128
    kernels.sparse_rows[(len(pieces.start), -(-d // block))](
        *pieces, columns, weights, H, out, d, BD=block, U=8, num_warps=1
    )


def joined(columns: Any, edge: Any, mutual: bool, dtype: Any = torch.float32) -> SparseMatrix:
    """Build a symmetric graph of weights one from the neighbours of each row.

    columns[i, j] is a neighbour of row i if edge[i, j]. Two rows are joined if either is a
    neighbour of the other, or with `mutual` if both are.

    >>> columns, edge = torch.tensor([[1], [0], [1]]), torch.ones((3, 1), dtype=torch.bool)
    >>> joined(columns, edge, mutual=False).to_scipy().toarray()
    array([[0., 1., 0.],
           [1., 0., 1.],
           [0., 1., 0.]], dtype=float32)
    """
    n = len(columns)
    i = torch.arange(n, device=columns.device)[:, None].expand_as(columns)[edge]
    j = columns[edge]
    keys = torch.cat([(i * n + j).unique(), (j * n + i).unique()])
    keys, count = keys.unique(return_counts=True)
    if mutual:
        keys = keys[count == 2]
    weights = torch.ones(len(keys), dtype=dtype, device=columns.device)
    starts = torch.searchsorted(keys, torch.arange(n + 1, device=keys.device) * n)
    return SparseMatrix(starts, (keys % n).to(torch.int32), weights, (n, n))
