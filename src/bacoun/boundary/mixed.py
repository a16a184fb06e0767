"""MixedShell: flows for numbers, a tree for categories; together one density of the row."""

from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Generator, Tensor

from bacoun.boundary.categories import CategoryTree
from bacoun.boundary.compact import CompactShell
from bacoun.boundary.directions import DirectionShell
from bacoun.boundary.flow_shell import FEWEST_HELD_OUT, FlowShell, as_if_held_out
from bacoun.engine.nested import NestedSettings
from bacoun.engine.randomness import as_generator
from bacoun.files.persistence import SavesAttributes
from bacoun.protocols import FitContext

_HELD_OUT = 0.1  # share of the rows that tell how likely new ones are
_NO_CLASS = -1


@dataclass(kw_only=True, repr=False, eq=False)
class MixedShell(SavesAttributes, NestedSettings):
    """Boundary points of tables with categories, which are columns of codes 0, 1, ...

    The density of a row is p(class) p(numbers | class) p(categories | class, numbers), summed over
    the classes: flows know the first part, a `CategoryTree` the second. A boundary point is numbers
    on the boundary with likely categories or, in half of the cases, with about half of the
    categories drawn at random. Without numbers, all boundary points are of the second kind.

    Parameters
    ----------
    shell : CompactShell, DirectionShell or FlowShell, optional
        Density and shell of the numbers. None: `CompactShell()`.
    """

    shell: CompactShell | DirectionShell | FlowShell | None = None

    _default = ("shell", CompactShell)
    _saved = ("n_categories_", "log_weights_", "held_out_rows_", "tree_", "shell_")

    @classmethod
    def around(cls, boundary: Any) -> Self:
        """A boundary of numbers as one that knows categories too."""
        if isinstance(boundary, cls):
            return boundary
        if not isinstance(boundary, CompactShell | DirectionShell | FlowShell):
            raise ValueError(
                "boundary must be flows to be used with categorical_features; got "
                f"{type(boundary).__name__}. Use 'compact-shell', or one-hot encode the categories."
            )
        return cls(shell=boundary)

    def fit(self, points: Tensor, labels: Tensor, context: FitContext = FitContext()) -> Self:
        """Fit flows and tree to points (N, D) with labels (N,)."""
        if context.n_categories is None:
            raise ValueError(
                "MixedShell needs n_categories in its FitContext; got None. Without categories use "
                "CompactShell."
            )
        self.n_categories_ = list(context.n_categories)
        context = replace(context, generator=(generator := as_generator(context.generator)))
        numbers, codes = self._split(points)
        self.shell_ = None
        if numbers.shape[1] > 0:
            self.shell_ = self._part("shell")
            self.shell_.fit(numbers, labels, context)
        if isinstance(self.shell_, CompactShell | FlowShell):
            self.held_out_rows_ = self.shell_.held_out_rows_
        else:
            order = torch.randperm(len(points), generator=generator)
            self.held_out_rows_ = order[: int(_HELD_OUT * len(points))].to(points.device)
        groups = labels if self._flows is None or self._flows.per_class else 0 * labels
        sizes = torch.bincount(groups).double()
        self.log_weights_ = (sizes / sizes.sum()).log().to(points)
        kept = torch.ones(len(points), dtype=torch.bool, device=points.device)
        kept[self.held_out_rows_] = False
        kept |= torch.bincount(groups[kept], minlength=len(sizes))[groups] == 0
        known = [size for size in self.n_categories_ if size > 0]
        self.tree_ = CategoryTree().fit(codes[kept], known, numbers[kept], groups[kept])
        return self

    @property
    def _flows(self) -> FlowShell | None:
        flows = self.shell_.shell_ if isinstance(self.shell_, CompactShell) else self.shell_
        return flows if isinstance(flows, FlowShell) else None

    def _split(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Numbers (N, M) and codes (N, C) of points (N, D)."""
        is_category = torch.tensor(self.n_categories_, device=points.device) > 0
        return points[:, ~is_category], points[:, is_category]

    def _join(self, numbers: Tensor, codes: Tensor) -> Tensor:
        is_category = torch.tensor(self.n_categories_, device=numbers.device) > 0
        points = numbers.new_empty(len(numbers), len(is_category))
        points[:, ~is_category], points[:, is_category] = numbers, codes
        return points

    def sample(self, n_points: int, *, generator: Generator) -> tuple[Tensor, Tensor]:
        """Draw boundary points (n_points, D), and the class (n_points,) whose boundary each is on.

        The class is -1 where categories were drawn at random.
        """
        n_groups, device = len(self.log_weights_), self.log_weights_.device
        labels: Tensor | None = torch.randint(n_groups, (n_points,), generator=generator).to(device)
        numbers = self.log_weights_.new_zeros(n_points, 0)
        if self.shell_ is not None:
            numbers, labels = self.shell_.sample(n_points, generator=generator)
        unknown = torch.full((n_points,), _NO_CLASS, device=device)
        groups = unknown - _NO_CLASS if labels is None else labels
        codes = self.tree_.sample(numbers, groups, generator)
        share = 1.0 if self.shell_ is None else 0.5
        at_random = torch.rand(n_points, generator=generator).to(device) < share
        replaced = torch.rand(codes.shape, generator=generator).to(device) < 0.5
        uniform = torch.rand(codes.shape, generator=generator).to(device)
        any_code = (uniform * uniform.new_tensor(self.tree_.sizes_)).floor()
        codes = torch.where(at_random[:, None] & replaced, any_code, codes)
        drawn = self._join(numbers, codes)
        return drawn, unknown if labels is None else torch.where(at_random, unknown, labels)

    def class_log_prob(self, points: Tensor, wanted: Tensor | None = None) -> Tensor:
        """Log of p(class) times the density of points (N, D) in each class, (K, N)."""
        numbers, codes = self._split(points)
        tree = self.tree_.log_prob(codes, numbers)
        if self.shell_ is None:
            return self.log_weights_[:, None] + tree
        return self.shell_.class_log_prob(numbers, wanted) + tree

    def log_prob(self, points: Tensor) -> Tensor:
        """Log density (N,) of points (N, D): of the numbers, plus that of the categories."""
        return torch.logsumexp(self.class_log_prob(points), dim=0)

    def unfamiliarity(self, points: Tensor) -> dict[str, Tensor]:
        """How unusual (N,) points (N, D) are: the whole row, its numbers, and its categories.

        In the density of the whole row, many ordinary columns could outweigh an unusual one.
        """
        numbers, codes = self._split(points)
        tree = self.tree_.log_prob(codes, numbers)
        categories = {"categories": -torch.logsumexp(self.log_weights_[:, None] + tree, dim=0)}
        flows, gaussian_views = self._flows, {}
        if isinstance(self.shell_, DirectionShell):
            return self.shell_.unfamiliarity(numbers) | categories
        if flows is None:
            return categories
        if isinstance(self.shell_, CompactShell):
            gaussian_views = self.shell_.gaussians_.unfamiliarity(numbers)
            numbers, _ = self.shell_._split(numbers)
        density = {"density": -torch.logsumexp(flows.class_log_prob(numbers) + tree, dim=0)}
        return density | gaussian_views | categories

    def log_prob_from(self, points: Tensor, unfamiliarity: dict[str, Tensor]) -> Tensor:
        """`log_prob` (N,) of points of known `unfamiliarity`."""
        if self.shell_ is None:
            return -unfamiliarity["categories"]
        if self._flows is None:
            return self.log_prob(points)
        log_prob = -unfamiliarity["density"]
        if isinstance(self.shell_, CompactShell):
            log_prob = log_prob + self.shell_.residual_log_prob(self._split(points)[0])
        return log_prob

    def held_out_unfamiliarity(self, points: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """The same of the points (N, D) of `fit`, as if they were new."""
        views = as_if_held_out(self.unfamiliarity(points), self.held_out_rows_)
        if isinstance(self.shell_, DirectionShell):
            return views | self.shell_.held_out_unfamiliarity(self._split(points)[0], labels)
        if isinstance(self.shell_, CompactShell):
            views |= self.shell_.gaussians_.cross_fitted(self._split(points)[0], labels)
            if len(self.held_out_rows_) < FEWEST_HELD_OUT:
                del views["density"]
        return views

    def _empty(self, name: str, state: Any) -> Any:
        if name == "tree_":
            return CategoryTree()
        return self._part("shell") if name == "shell_" else None
