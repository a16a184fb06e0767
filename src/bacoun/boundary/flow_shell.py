"""FlowShell: a shell in the latent space of one flow, or one per class, mapped to the data."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from joblib import Parallel, delayed, effective_n_jobs
from torch import Generator, Tensor

from bacoun.boundary.flow import Flow, FlowSettings, FlowStack, deviation_within
from bacoun.boundary.shell import check_radii, chi_radius, sample_shell
from bacoun.engine.randomness import as_generator, draw_seed
from bacoun.engine.training import OnEpoch
from bacoun.files.persistence import SavesAttributes
from bacoun.protocols import FitContext

_MAX_ROUNDS = 50
_LARGEST_STRETCH = 2.0  # of a radius, to held-out points
FEWEST_HELD_OUT = 20  # points to take a 95 % quantile from
_LARGEST_SCORE = 1e6


@dataclass(kw_only=True, repr=False, eq=False)
class FlowShell(SavesAttributes, FlowSettings):
    """Boundary points: a latent shell around 99 % of the data, pushed through a normalizing flow.

    Settings that are not listed are those of `FlowSettings`.

    Parameters
    ----------
    radii : (inner, outer), optional
        Fixed latent radii, as in the paper. None: for each flow, the inner radius is the larger of
        the `mass` quantiles of the chi distribution and of its own latent norms, stretched to hold
        points that the flows were not fitted to; the outer radius is 1.03 times the inner.
    mass : float
        Share of the data inside the shell if `radii` is None.
    factors : sequence of float, optional
        Draw from one shell per factor, with both radii multiplied by it. None: one shell.
    per_class : bool
        Fit one flow per class (True) or one to all points (False).
    drop_overlap : bool
        Keep a boundary point only if it lies outside the shell of every other class.
    n_jobs : int, optional
        Number of processes that fit flows in parallel. None: one, or as many as
        `joblib.parallel_config` says, such as the workers of a Dask cluster.
    """

    radii: tuple[float, float] | None = None
    mass: float = 0.99
    factors: Sequence[float] | None = None
    per_class: bool = True
    drop_overlap: bool = True
    n_jobs: int | None = None

    _saved = ("classes_", "log_weights_", "inner_radii_", "held_out_rows_", "flows_")

    def fit(self, points: Tensor, labels: Tensor, context: FitContext = FitContext()) -> Self:
        """Fit the flows to points (N, D) with labels (N,)."""
        if self.radii is not None:
            check_radii(self.radii)
        if not 0 < self.mass < 1:
            raise ValueError(f"mass must lie between 0 and 1; got {self.mass}. Try 0.99.")
        if self.factors is not None and (len(self.factors) == 0 or min(self.factors) <= 0):
            raise ValueError(
                f"factors must be positive numbers, at least one; got {self.factors}. Try (1.0,)."
            )
        generator, on_epoch = as_generator(context.generator), context.on_epoch
        self.classes_ = labels.unique() if self.per_class else None
        every = torch.ones_like(labels, dtype=torch.bool)
        members = [every] if self.classes_ is None else [labels == own for own in self.classes_]
        clouds = [points[member] for member in members]
        within = deviation_within(clouds)
        seeds = [draw_seed(generator) for _ in clouds]

        def progress(index: int) -> OnEpoch | None:
            if on_epoch is None or effective_n_jobs(self.n_jobs) > 1:
                return None  # other processes cannot draw on this terminal
            return lambda done, planned: on_epoch(index * planned + done, len(seeds) * planned)

        self.flows_: list[Flow] = Parallel(n_jobs=self.n_jobs)(
            delayed(self._fit_flow)(cloud, within, seed, progress(index))
            for index, (cloud, seed) in enumerate(zip(clouds, seeds, strict=True))
        )
        self.__dict__.pop("_stack", None)  # of an earlier fit
        sizes = torch.tensor([len(cloud) for cloud in clouds], dtype=torch.float64)
        self.log_weights_ = (sizes / sizes.sum()).log().to(points)
        held_out = [
            member.nonzero()[flow.history_.held_out_rows.to(points.device), 0]
            for member, flow in zip(members, self.flows_, strict=True)
        ]
        self.held_out_rows_ = torch.cat(held_out)
        self.inner_radii_ = self._inner_radii(clouds)
        return self

    def _inner_radii(self, clouds: list[Tensor]) -> list[float]:
        """The radius of the sphere, in the latent space of each flow, that holds most of the data.

        Points that a flow was fitted to are nearer than others. So the radius is stretched until
        the sphere holds as many of the points that were held out.
        """
        if self.radii is not None:
            return [float(self.radii[0])] * len(clouds)
        chi = chi_radius(clouds[0].shape[1], self.mass)
        radii, learned, new = [], [], []
        for flow, cloud in zip(self.flows_, clouds, strict=True):
            norms = flow.to_latent(cloud).norm(dim=1)
            finite = norms[norms.isfinite()]
            radii.append(max(chi, float(finite.quantile(self.mass)) if len(finite) else 0.0))
            is_new = torch.zeros(len(cloud), dtype=torch.bool, device=cloud.device)
            is_new[flow.history_.held_out_rows.to(cloud.device)] = True
            relative = torch.nan_to_num(norms / radii[-1], nan=torch.inf)
            learned.append(relative[~is_new])
            new.append(relative[is_new])
        stretch = 1.0
        if sum(map(len, new)) >= FEWEST_HELD_OUT:
            stretch = float(torch.cat(new).quantile(0.95) / torch.cat(learned).quantile(0.95))
        stretch = min(max(stretch, 1.0), _LARGEST_STRETCH) if math.isfinite(stretch) else 1.0
        return [stretch * radius for radius in radii]

    def sample(self, n_points: int, *, generator: Generator) -> tuple[Tensor, Tensor | None]:
        """Draw boundary points (n_points, D) in equal parts from all flows and shells.

        Their labels (n_points,) are those of the flows; None with one flow for all classes.
        """
        drawn, source = self._collect(n_points, generator, check_overlap=self.drop_overlap)
        if self.drop_overlap and len(drawn) < n_points:
            warnings.warn(
                f"only {len(drawn)} of {n_points} boundary points lie outside every class; the "
                "rest is drawn without that check. Use per_class=False if the classes overlap.",
                stacklevel=2,
            )
            rest = self._collect(n_points - len(drawn), generator, check_overlap=False)
            drawn, source = torch.cat([drawn, rest[0]]), torch.cat([source, rest[1]])
        if len(drawn) < n_points:
            raise ValueError(
                f"the flows must map their shells to finite points; only {len(drawn)} of "
                f"{n_points} were, the others overflowed. Use a lower learning_rate or fewer "
                "blocks."
            )
        return drawn, None if self.classes_ is None else self.classes_[source]

    def _collect(
        self, n_points: int, generator: Generator, *, check_overlap: bool
    ) -> tuple[Tensor, Tensor]:
        """Up to `n_points` valid boundary points and their flows; fewer after too many rounds."""
        rounds: list[tuple[Tensor, Tensor]] = []
        missing = n_points
        while len(rounds) < _MAX_ROUNDS and (missing > 0 or not rounds):
            rounds.append(self._one_round(missing, generator, check_overlap))
            missing -= len(rounds[-1][0])
        drawn, sources = map(torch.cat, zip(*rounds, strict=True))
        return drawn[:n_points], sources[:n_points]

    def _one_round(
        self, wanted: int, generator: Generator, check_overlap: bool
    ) -> tuple[Tensor, Tensor]:
        """Boundary points (n, D) and the index (n,) of the flow each came from."""
        factors = (1.0,) if self.factors is None else self.factors
        n_each = -(-wanted // (len(self.flows_) * len(factors)))
        parts, sources = [], []
        for index, flow in enumerate(self.flows_):
            for factor in factors:
                radii = self.radii or (self.inner_radii_[index], 1.03 * self.inner_radii_[index])
                radii = (factor * radii[0], factor * radii[1])
                latent = sample_shell(n_each, len(flow.center_), radii, generator=generator)
                drawn = flow.to_data(latent.to(flow.center_.device))
                drawn = drawn[drawn.isfinite().all(dim=1)]
                if check_overlap:
                    drawn = drawn[self._outside_others(drawn, index)]
                parts.append(drawn)
                sources.append(torch.full((len(drawn),), index, device=drawn.device))
        pooled, source = torch.cat(parts), torch.cat(sources)
        # In random order, so that truncation takes from all flows.
        order = torch.randperm(len(pooled), generator=generator).to(pooled.device)
        return pooled[order], source[order]

    def _outside_others(self, drawn: Tensor, own: int) -> Tensor:
        outside = torch.ones(len(drawn), dtype=torch.bool, device=drawn.device)
        for index, flow in enumerate(self.flows_):
            if index != own:
                # NaN means that the flow overflowed: the point is far outside.
                outside &= ~(flow.to_latent(drawn).norm(dim=1) < self.inner_radii_[index])
        return outside

    def log_prob(self, points: Tensor) -> Tensor:
        """Log density (N,) of points (N, D) under the mixture of flows weighted by class size."""
        return torch.logsumexp(self.class_log_prob(points), dim=0)

    def class_log_prob(self, points: Tensor, wanted: Tensor | None = None) -> Tensor:
        """Log of p(class) times the density (K, N) of points (N, D); -inf where not `wanted`."""
        if wanted is None or self.classes_ is None:
            log_density = self._log_prob_of_flows(points)
        else:
            log_density = points.new_full((len(self.flows_), len(points)), -torch.inf)
            for index, flow in enumerate(self.flows_):
                log_density[index, wanted[index]] = flow.log_prob(points[wanted[index]])
        return log_density + self.log_weights_[:, None]

    def _log_prob_of_flows(self, points: Tensor) -> Tensor:
        """Log density (K, N) of points (N, D) under each flow."""
        if not FlowStack.can_hold(self.flows_):  # some may be plain Gaussians
            return torch.stack([flow.log_prob(points) for flow in self.flows_])
        if "_stack" not in vars(self):
            self._stack = FlowStack(self.flows_)
        return self._stack.log_prob(points)

    def unfamiliarity(self, points: Tensor) -> dict[str, Tensor]:
        """How unusual (N,) points (N, D) are: minus their log density."""
        return {"density": -self.log_prob(points)}

    def log_prob_from(self, points: Tensor, unfamiliarity: dict[str, Tensor]) -> Tensor:
        """`log_prob` (N,) of points of known `unfamiliarity`."""
        return -unfamiliarity["density"]

    def held_out_unfamiliarity(self, points: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """The same of the points (N, D) of `fit`, as if they were new."""
        return as_if_held_out(self.unfamiliarity(points), self.held_out_rows_)

    def _empty(self, name: str, state: Any) -> Any:
        self.__dict__.pop("_stack", None)
        return [self._new_flow() for _ in state] if name == "flows_" else None


def as_if_held_out(scores: dict[str, Tensor], held_out: Tensor) -> dict[str, Tensor]:
    """Scores (N,) of training points, those that were learned from moved to where others are.

    Their median and 95 % quantile become those of the held-out points, if these are enough.
    """
    if len(held_out) < FEWEST_HELD_OUT:
        return scores
    moved = {}
    for name, values in scores.items():
        values = values.double().clamp(-_LARGEST_SCORE, _LARGEST_SCORE)  # a flow may overflow
        learned = torch.ones(len(values), dtype=torch.bool, device=values.device)
        learned[held_out.to(values.device)] = False
        shares = values.new_tensor([0.5, 0.95])
        middle, high = values[~learned].quantile(shares).tolist()
        if bool(learned.any()):
            own_middle, own_high = values[learned].quantile(shares).tolist()
            stretch = (high - middle) / max(own_high - own_middle, 1e-6)
            values = torch.where(learned, middle + (values - own_middle) * stretch, values)
        moved[name] = values
    return moved
