"""CategoryTree: the probability of categories, each given one other column and the class."""

import math
from collections.abc import Sequence
from typing import Self

import torch
from scipy.sparse import csgraph, csr_array
from torch import Generator, Tensor

from bacoun.files.persistence import SavesAttributes

_N_BINS = 6  # of a number, as the parent of a category
_MAX_CELLS = 1_000_000  # in the table of a category and its parent
_MAX_ROWS = 20_000  # from which parents are chosen
_UNSEEN = 0.5  # pseudo-count of each category, and of all that were not seen


class CategoryTree(SavesAttributes):
    """A tree-augmented naive Bayes model: p(categories | class, numbers).

    Each category depends on the class and at most one parent: another category, or a number in six
    bins. Parents are a spanning tree of largest mutual information given the class, after Chow and
    Liu; a parent must be worth its parameters. Frequencies are smoothed towards those of the class,
    and these towards those of all classes, by the method of Witten and Bell, so that a category
    that was not seen has a small probability, not none.

    A code outside 0..n-1 counts as unseen.
    """

    _saved = ("sizes_", "cuts_", "parents_", "tables_")

    def fit(self, codes: Tensor, sizes: Sequence[int], numbers: Tensor, groups: Tensor) -> Self:
        """Learn from codes (N, C) of categories, numbers (N, M), and the classes (N,) of rows.

        Column j of the codes holds whole numbers 0 to `sizes[j] - 1`; each of the K classes occurs.
        """
        self.sizes_ = list(sizes)
        shares = torch.linspace(0, 1, _N_BINS + 1, dtype=numbers.dtype, device=numbers.device)
        rows = numbers[:: max(1, len(numbers) // _MAX_ROWS)]
        cuts = [column.quantile(shares[1:-1]) for column in rows.T]
        self.cuts_ = torch.stack(cuts) if cuts else numbers.new_zeros(0, _N_BINS - 1)
        columns = self._columns(codes, numbers)
        n_groups = int(groups.max()) + 1
        step = max(1, len(columns) // _MAX_ROWS)
        self.parents_ = self._choose_parents(columns[::step], groups[::step], n_groups)
        children = range(len(self.sizes_))
        self.tables_ = [self._log_probabilities(columns, i, groups, n_groups) for i in children]
        return self

    def _columns(self, codes: Tensor, numbers: Tensor) -> Tensor:
        """Categories (N, C), what is unseen as the last one, and numbers (N, M) in bins."""
        sizes = codes.new_tensor(self.sizes_)
        known = (codes >= 0) & (codes < sizes) & (codes == codes.round())
        bins = torch.searchsorted(self.cuts_, numbers.T.contiguous()).T
        return torch.cat([torch.where(known, codes, sizes).long(), bins], dim=1)

    def _n_levels(self, column: int) -> int:
        """Number of values of a column, what is unseen among them."""
        return self.sizes_[column] + 1 if column < len(self.sizes_) else _N_BINS

    def _choose_parents(self, columns: Tensor, groups: Tensor, n_groups: int) -> list[int]:
        """For each category the column it depends on, or -1."""
        n_categories, n_columns = len(self.sizes_), columns.shape[1]
        weights = torch.zeros(n_columns + 1, n_columns + 1, dtype=torch.float64)
        for child in range(n_categories):
            for other in range(child + 1, n_columns):
                cells = n_groups * self._n_levels(child) * self._n_levels(other)
                if cells <= _MAX_CELLS:
                    joint = self._counts(columns, child, other, groups, n_groups)
                    weights[child, other] = _mutual_information(joint)
        # One more node joins all numbers, whose density the flows know; it is the root.
        largest = 1 + float(weights.max())
        weights[n_categories:n_columns, -1] = largest
        tree = csgraph.minimum_spanning_tree(csr_array(-weights.clamp(min=0).numpy()))
        parents = [-1] * (n_columns + 1)
        seen: set[int] = set()
        for root in [n_columns, *range(n_categories)]:
            if root not in seen:
                order, before = csgraph.breadth_first_order(tree, root, directed=False)
                seen.update(order.tolist())
                for node in order[1:].tolist():
                    parents[node] = int(before[node])
        return parents[:n_categories]

    def _counts(
        self, columns: Tensor, child: int, parent: int, groups: Tensor, n_groups: int
    ) -> Tensor:
        """Number of rows (K, levels of the parent, levels of the child)."""
        shape = (n_groups, 1 if parent < 0 else self._n_levels(parent), self._n_levels(child))
        condition = torch.zeros_like(groups) if parent < 0 else columns[:, parent]
        cells = (groups * shape[1] + condition) * shape[2] + columns[:, child]
        return torch.bincount(cells, minlength=math.prod(shape)).view(shape).double()

    def _log_probabilities(
        self, columns: Tensor, child: int, groups: Tensor, n_groups: int
    ) -> Tensor:
        """Log p(child | class, parent), of shape (K, levels of the parent, levels of the child)."""
        counts = self._counts(columns, child, self.parents_[child], groups, n_groups)
        by_class = counts.sum(dim=1, keepdim=True)
        overall = by_class.sum(dim=0, keepdim=True) + _UNSEEN
        of_class = _smoothed(by_class, overall / overall.sum())
        return (_smoothed(counts, of_class) if self.parents_[child] >= 0 else of_class).log()

    def surprise(self, codes: Tensor, numbers: Tensor) -> Tensor:
        """-log p (K, N, C) of each category, given its parent and the class."""
        columns = self._columns(codes, numbers)
        nothing = torch.zeros_like(columns[:, 0])
        log_probabilities = [
            table[:, nothing if parent < 0 else columns[:, parent], columns[:, child]]
            for child, (table, parent) in enumerate(zip(self.tables_, self.parents_, strict=True))
        ]
        return -torch.stack(log_probabilities, dim=2).to(numbers)

    def log_prob(self, codes: Tensor, numbers: Tensor) -> Tensor:
        """Log p(categories | class, numbers), of shape (K, N)."""
        return -self.surprise(codes, numbers).sum(dim=2)

    def sample(self, numbers: Tensor, groups: Tensor, generator: Generator) -> Tensor:
        """Draw categories (N, C), given numbers (N, M) and classes (N,)."""
        codes = numbers.new_zeros(len(numbers), len(self.sizes_))
        for child in self._parents_first():
            columns, parent = self._columns(codes, numbers), self.parents_[child]
            condition = torch.zeros_like(groups) if parent < 0 else columns[:, parent]
            probabilities = self.tables_[child][groups, condition, :-1].exp()  # nothing unseen
            drawn = torch.multinomial(probabilities.cpu(), 1, generator=generator)
            codes[:, child] = drawn[:, 0].to(codes)
        return codes

    def _parents_first(self) -> list[int]:
        order: list[int] = []
        for node in range(len(self.sizes_)):
            path = []
            while 0 <= node < len(self.sizes_) and node not in order:
                path.append(node)
                node = self.parents_[node]
            order += reversed(path)
        return order


def _smoothed(counts: Tensor, towards: Tensor) -> Tensor:
    """Frequencies, with as many pseudo-rows of other ones as different values were counted."""
    n_pseudo = (counts > 0).sum(dim=2, keepdim=True).clamp(min=1)
    smoothed = counts + n_pseudo * towards
    return smoothed / smoothed.sum(dim=2, keepdim=True)


def _mutual_information(counts: Tensor) -> float:
    """Mutual information given the class, from counts (K, A, B), less a penalty for parameters.

    The penalty is half of that of the BIC, which was likelier on held-out rows of seven tables.
    """
    n_rows = counts.sum()
    rows, columns = counts.sum(dim=2, keepdim=True), counts.sum(dim=1, keepdim=True)
    expected = rows * columns / counts.sum(dim=(1, 2), keepdim=True).clamp(min=1)
    information = torch.special.xlogy(counts, counts / expected.clamp(min=1e-300)).sum() / n_rows
    freedom = ((rows > 0).sum(dim=1) - 1).clamp(min=0) * ((columns > 0).sum(dim=2) - 1).clamp(min=0)
    return max(0.0, float(information - freedom.sum() * n_rows.log() / (4 * n_rows)))
