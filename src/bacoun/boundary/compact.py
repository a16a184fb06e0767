"""CompactShell: a `FlowShell`, applied to principal components if there are many inputs."""

import math
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import torch
from torch import Generator, Tensor

from bacoun.boundary.flow import finite
from bacoun.boundary.flow_shell import FEWEST_HELD_OUT, FlowShell
from bacoun.boundary.gaussians import ClassGaussians, principal_directions
from bacoun.engine.nested import NestedSettings
from bacoun.engine.randomness import as_generator
from bacoun.files.persistence import SavesAttributes
from bacoun.protocols import FitContext

_MAX_RESIDUALS = 512  # kept to draw from; 1.5 MB for MNIST
_FACTORS = (1.0, 1.3)  # default `factors` of the shell in a compact space
MOST_INPUTS, _N_COMPONENTS = 128, 64  # under "auto", more inputs are reduced to so many components
_MIN_RESIDUAL = 1e-3  # relative to the points' standard deviation, for points in a subspace
_OF_COMPONENTS = ("mean_", "basis_", "low_", "high_", "residuals_", "residual_scale_")


@dataclass(kw_only=True, repr=False, eq=False)
class CompactShell(SavesAttributes, NestedSettings):
    """Boundary points: a flow's shell around the principal components, mapped back to the inputs.

    Up to 128 inputs are left as they are, and this is a `FlowShell`. Otherwise a point is
    `mean + code @ basis + residual`: the flows model the codes, and the residual, which the
    components do not explain, is an isotropic Gaussian in the remaining directions.

    Parameters
    ----------
    n_components : "auto" or int
        Number of principal components, or fewer if the points span fewer directions. "auto": 64 if
        there are more than 128 inputs; fewer inputs are left as they are.
    clip : bool
        Clip each input of a boundary point to its range in the data, if the inputs are reduced.
    residual : float
        Share of the boundary points that get the residual of a random training point; the others
        are smoother than the data. At 0, the network would learn that smooth points are unknown.
        Without effect if the inputs are left as they are.
    shell : FlowShell, optional
        Flows and shell, whose `factors` are (1.0, 1.3) in a compact space. None: `FlowShell()`.
    """

    n_components: int | Literal["auto"] = "auto"
    clip: bool = True
    residual: float = 0.5
    shell: FlowShell | None = None

    _default = ("shell", FlowShell)
    _saved = ("compact_", "gaussians_", "shell_", *_OF_COMPONENTS)

    def fit(self, points: Tensor, labels: Tensor, context: FitContext = FitContext()) -> Self:
        """Fit components and flows to points (N, D) with labels (N,)."""
        if self.n_components != "auto" and self.n_components < 1:
            raise ValueError(f"n_components must be at least 1; got {self.n_components}. Try 64.")
        if not isinstance(self.residual, int | float) or not 0 <= self.residual <= 1:
            raise ValueError(f"residual must be a share from 0 to 1; got {self.residual!r}.")
        generator = as_generator(context.generator)
        context = replace(context, generator=generator)
        self.compact_ = self.n_components != "auto" or points.shape[1] > MOST_INPUTS
        self.shell_ = self._new_shell()
        # Gaussians need fewer rows than flows do, so they may have more components.
        n_gaussian = 2 * self._most_components if self.compact_ else None
        self.gaussians_ = ClassGaussians(n_gaussian).fit(points, labels)
        if not self.compact_:
            self.shell_.fit(points, labels, context)
            return self
        self.mean_ = points.mean(dim=0)
        self.basis_ = principal_directions(points - self.mean_, self._most_components)
        self.low_, self.high_ = points.amin(dim=0), points.amax(dim=0)
        codes, residuals = self._split(points)
        self.residual_scale_ = self._residual_scale(points, residuals)
        n_kept = min(len(points), _MAX_RESIDUALS) if self.residual > 0 else 0
        rows = torch.randperm(len(points), generator=generator)[:n_kept]
        self.residuals_ = residuals[rows.to(points.device)]
        self.shell_.fit(codes, labels, context)
        return self

    def _new_shell(self) -> FlowShell:
        shell: FlowShell = self._part("shell")
        if self.compact_ and shell.factors is None:
            shell.factors = _FACTORS
        return shell

    @property
    def _most_components(self) -> int:
        return _N_COMPONENTS if self.n_components == "auto" else self.n_components

    def _split(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Codes (N, n_components) and residuals (N, D) of points; or the points, and (N, 0)."""
        if not self.compact_:
            return points, points[:, :0]
        centered = points - self.mean_
        codes = centered @ self.basis_.T
        return codes, centered - codes @ self.basis_

    def _residual_scale(self, points: Tensor, residuals: Tensor) -> float:
        """Standard deviation of the residual in each of the remaining directions."""
        n_left = points.shape[1] - len(self.basis_)
        if n_left == 0:
            return 1.0
        deviation = float((points - self.mean_).square().mean().sqrt())
        scale = float(residuals.square().sum(dim=1).mean() / n_left) ** 0.5
        return max(scale, _MIN_RESIDUAL * (deviation if deviation > 0 else 1.0))

    def sample(self, n_points: int, *, generator: Generator) -> tuple[Tensor, Tensor | None]:
        """Draw boundary points (n_points, D), and the class (n_points,) whose flow each came from.

        The classes are None with one flow for all of them.
        """
        codes, labels = self.shell_.sample(n_points, generator=generator)
        if not self.compact_:
            return codes, labels
        drawn = self.mean_ + codes @ self.basis_
        if len(self.residuals_) > 0:
            rows = torch.randint(len(self.residuals_), (n_points,), generator=generator)
            has_residual = torch.rand(n_points, 1, generator=generator) < self.residual
            drawn = drawn + has_residual.to(drawn) * self.residuals_[rows.to(drawn.device)]
        return drawn.clamp(self.low_, self.high_) if self.clip else drawn, labels

    @property
    def held_out_rows_(self) -> Tensor:
        """Indices of the rows that the flows were not fitted to."""
        return self.shell_.held_out_rows_

    def log_prob(self, points: Tensor) -> Tensor:
        """Log density (N,) of points (N, D): that of the code plus that of the residual.

        Because the basis is orthonormal, the sum is a density on all D inputs.
        """
        codes, residuals = self._split(points)
        return finite(self.shell_.log_prob(codes) + self._log_prob_of(residuals))

    def class_log_prob(self, points: Tensor, wanted: Tensor | None = None) -> Tensor:
        """Log of p(class) times the density of points (N, D) in each class, (K, N)."""
        codes, residuals = self._split(points)
        return finite(self.shell_.class_log_prob(codes, wanted) + self._log_prob_of(residuals))

    def log_prob_from(self, points: Tensor, unfamiliarity: dict[str, Tensor]) -> Tensor:
        """`log_prob` (N,) of points of known `unfamiliarity`."""
        return self.residual_log_prob(points) - unfamiliarity["density"]

    def residual_log_prob(self, points: Tensor) -> Tensor:
        """Log density (N,) of what the components leave out of points (N, D); 0 if nothing."""
        return self._log_prob_of(self._split(points)[1])

    def _log_prob_of(self, residuals: Tensor) -> Tensor:
        if not self.compact_:
            return residuals.new_zeros(len(residuals))
        n_left = residuals.shape[1] - len(self.basis_)
        squares = (residuals / self.residual_scale_).square().sum(dim=1)
        normalization = math.log(self.residual_scale_) + 0.5 * math.log(2 * math.pi)
        return (-0.5 * squares - n_left * normalization) if n_left > 0 else 0 * squares

    def unfamiliarity(self, points: Tensor) -> dict[str, Tensor]:
        """How unusual (N,) points (N, D) are: by flows, by Gaussians, and by the residual's norm.

        The residual is apart because it is modeled only roughly: it would dominate a sum.
        """
        flows = self.shell_.unfamiliarity(self._split(points)[0])
        return flows | self.gaussians_.unfamiliarity(points)

    def held_out_unfamiliarity(self, points: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """The same of the points (N, D) of `fit`, as if they were new.

        Gaussians are fitted again without each point. Flows have no say if they held out too few.
        """
        gaussians = self.gaussians_.cross_fitted(points, labels)
        if len(self.held_out_rows_) < FEWEST_HELD_OUT:
            return gaussians
        return self.shell_.held_out_unfamiliarity(self._split(points)[0], labels) | gaussians

    def _empty(self, name: str, state: Any) -> Any:
        if name == "gaussians_":
            return ClassGaussians()
        return self._new_shell() if name == "shell_" else None
