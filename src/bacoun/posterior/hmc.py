"""Vectorized Hamiltonian Monte Carlo: all chains take each gradient in one matrix product."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Generator, Tensor

from bacoun.engine.randomness import as_generator
from bacoun.engine.threads import independent_workers, is_worth_threads
from bacoun.engine.training import OnEpoch
from bacoun.files.checkpoint import Checkpoint
from bacoun.files.persistence import SavesAttributes
from bacoun.posterior import diagnostics
from bacoun.posterior.last_layer import ReducedLayer, Sampled
from bacoun.posterior.logistic import SoftmaxRegression, mix
from bacoun.posterior.whitening import Whitening, is_full, whiten
from bacoun.protocols import FitContext

Density = Callable[[Tensor, bool], tuple[Tensor, Tensor]]
"""Whitened coordinates (d, B), whether the value is needed -> log density (B,), gradient (d, B)."""

_QUARTER_PERIOD = math.pi / 2  # integration time after which draws of a Gaussian are independent
_MAX_STEP_SIZE = math.pi / 2
_DIVERGENCE_THRESHOLD = -1000.0
_MIN_ACCEPTANCE = 0.02
_LARGE = 50_000_000  # rows times dimensions
_WHITENING_ROUNDS = (0.15, 0.2, 0.2)  # shares of the warm-up, each followed by a new whitening
_MOST_STEPS = 10  # of an iteration before the last whitening: on the way, not yet independent
_N_FOR_CURVATURE = 16  # chains
_N_BLOCKS = 4  # of chains in a large problem, each advanced on a thread of its own


@dataclass(kw_only=True, repr=False, eq=False)
class HMC(ReducedLayer):
    """Exact posterior of the last layer by Hamiltonian Monte Carlo in the reduced space.

    Settings that are not listed are those of `ReducedLayer`.

    Parameters
    ----------
    n_chains : int, optional
        Chains that advance together. None: 64, or 32 for large problems.
    n_warmup : int, optional
        Warm-up iterations. None: 40, or 25 for large problems.
    n_iterations : int, optional
        Iterations after warm-up. None: enough for 4 `n_draws` in all chains (2 for large problems),
        at least 30, and up to six times as many until the effective sample size is 400.
    target_accept : float
        Harmonic mean over chains of the acceptance probability that the step size is tuned to.
    """

    n_chains: int | None = None
    n_warmup: int | None = None
    n_iterations: int | None = None
    target_accept: float = 0.8

    def _sample(self, posterior: SoftmaxRegression, mode: Tensor, context: FitContext) -> Sampled:
        if not is_full(posterior):  # a factor for each class errs by a factor of 2 at most
            posterior, mode = posterior.of_classes(), posterior.to_classes @ mode
        target, generator = posterior.to(torch.float32), as_generator(context.generator)
        n_chains, n_warmup, n_iterations = self._sizes(len(posterior.features) * mode.numel())
        # Rounding errors depend on the number of blocks, so it must not depend on the machine.
        n_blocks = _N_BLOCKS if is_worth_threads(target.features.numel() * mode.numel()) else 1
        n_done, planned = 0, n_warmup + n_iterations
        whitening = whiten(posterior, mode[:, :, None]).to(torch.float32)
        x = _starts(mode.numel(), n_chains, generator).to(target.features)

        def run(n_warmup: int, n_iterations: int = 0, **options: Any) -> Run:
            return sample_chains(
                _density(target, whitening),
                x,
                n_warmup=n_warmup,
                n_iterations=n_iterations,
                target_accept=self.target_accept,
                generator=generator,
                n_blocks=n_blocks,
                on_epoch=_shifted(context.on_epoch, n_done, planned),
                **options,
            )

        def is_enough(draws: list[Tensor]) -> bool:
            chains = _to_chains(draws, whitening, target)
            logits = diagnostics.probe_logits(chains, target.features, target.n_classes)
            return min(diagnostics.effective_sample_sizes(logits).values()) >= diagnostics.MIN_ESS

        # The posterior of separable classes is skewed: the curvature at its mode says little about
        # its bulk, which the chains reach after a few iterations.
        for share in _WHITENING_ROUNDS:
            weights = whitening.to_weights(
                run(round(share * n_warmup), most_steps=_MOST_STEPS).last
            )
            n_done += round(share * n_warmup)
            some = weights[:, :, :: max(1, n_chains // _N_FOR_CURVATURE)]
            whitening = whiten(posterior, some).to(torch.float32)
            x = whitening.from_weights(weights)
        enough = None if self.n_iterations else is_enough
        last = run(n_warmup - n_done, n_iterations, enough=enough, checkpoint=context.checkpoint)
        facts = {name: getattr(last, name) for name in ("acceptance", "step_size", "divergences")}
        return _to_chains(last.draws, whitening, target), facts

    def _sizes(self, work: int) -> tuple[int, int, int]:
        large = work > _LARGE  # gradients are expensive: fewer chains, a shorter warm-up
        n_chains = self.n_chains or (32 if large else 64)
        n_warmup = (25 if large else 40) if self.n_warmup is None else self.n_warmup
        n_pooled = (2 if large else 4) * self.n_draws
        return n_chains, n_warmup, self.n_iterations or max(30, math.ceil(n_pooled / n_chains))


def _starts(dimension: int, n_chains: int, generator: Generator) -> Tensor:
    """Laplace draws (d, B), one per superchain: what nested R-hat needs to detect slow mixing."""
    n_groups = diagnostics.N_SUPERCHAINS
    n_starts = n_groups if n_chains % n_groups == 0 else n_chains
    starts = torch.randn(dimension, n_starts, generator=generator)
    return starts.repeat_interleave(n_chains // n_starts, dim=1)


def _density(target: SoftmaxRegression, whitening: Whitening) -> Density:
    def density(x: Tensor, want_value: bool) -> tuple[Tensor, Tensor]:
        weights = whitening.to_weights(x)
        if not want_value:
            return x, whitening.pull_back(target.gradient(weights))
        value, gradient = target.value_and_gradient(weights)
        return value, whitening.pull_back(gradient)

    return density


def _to_chains(
    draws: Sequence[Tensor] | Tensor, whitening: Whitening, target: SoftmaxRegression
) -> Tensor:
    """Chains of contrasts (B, T, K-1, r) from T draws (d, B) in whitened coordinates."""

    def in_contrasts(weights: Tensor) -> Tensor:
        return weights if target.columns is None else mix(target.to_classes.T, weights)

    weights = (in_contrasts(whitening.to_weights(x)) for x in draws)
    return torch.stack([drawn.permute(2, 0, 1) for drawn in weights], dim=1)


def _shifted(on_epoch: OnEpoch | None, n_before: int, planned: int) -> OnEpoch | None:
    """The callback for a part of the iterations; the last part may be longer than planned."""
    return on_epoch and (
        lambda done, total: on_epoch(n_before + done, max(planned, n_before + total))
    )


@dataclass(frozen=True)
class Run:
    """Draws (T, d, B) of B chains after warm-up, the last state (d, B) and sampler statistics."""

    draws: Tensor
    last: Tensor
    acceptance: float
    divergences: int
    step_size: float


def sample_chains(
    density: Density,
    start: Tensor,
    *,
    n_warmup: int,
    n_iterations: int,
    target_accept: float,
    generator: Generator,
    n_blocks: int = 1,
    most_steps: int | None = None,
    enough: Callable[[list[Tensor]], bool] | None = None,
    on_epoch: OnEpoch | None = None,
    checkpoint: Checkpoint | None = None,
) -> Run:
    """Run B chains in lockstep from `start` (d, B) with an identity mass matrix.

    All chains share the step size, fixed after warm-up, and the random number of steps of an
    iteration, at most `most_steps`. Until the draws are `enough`, `n_iterations` are added, at most
    five times. The chains resume from `checkpoint` if an interrupted call with the same arguments
    saved its state there. Each of `n_blocks` blocks of chains is integrated on a thread of its own.
    """
    chains = _Chains(density, start, n_warmup, target_accept, n_blocks, most_steps)
    planned = n_warmup + n_iterations
    if checkpoint is not None and (saved := checkpoint.load("chains", start.device)) is not None:
        chains.set_state(saved)
        generator.set_state(saved["generator"].cpu())
        planned = saved["planned"]
        if on_epoch is not None:
            on_epoch(chains.n_done, planned)
    most = n_warmup + (1 if enough is None else 6) * n_iterations
    while chains.n_done < planned:
        chains.advance(generator)
        if on_epoch is not None:
            on_epoch(chains.n_done, planned)
        if chains.n_done == planned < most and enough is not None and not enough(chains.draws):
            planned += n_iterations
        if checkpoint is not None and checkpoint.is_due():
            extra = {"planned": planned, "generator": generator.get_state()}
            checkpoint.save("chains", chains.get_state() | extra)
    return Run(
        torch.stack(chains.draws) if chains.draws else chains.x[None][:0],
        chains.x,
        chains.accepted / max(1, len(chains.draws)),
        chains.divergences,
        min(chains.step.averaged, _MAX_STEP_SIZE),
    )


class _Chains(SavesAttributes):
    """The state of B chains: everything that changes from one iteration to the next."""

    _saved = ("x", "value", "gradient", "step", "draws", "accepted", "divergences", "n_done")

    def __init__(
        self,
        density: Density,
        start: Tensor,
        n_warmup: int,
        target_accept: float,
        n_blocks: int,
        most_steps: int | None,
    ) -> None:
        self.density, self.n_warmup, self.n_blocks = density, n_warmup, n_blocks
        self.most_steps = most_steps
        self.x = start
        self.value, self.gradient = density(start, True)
        size = 2.4 * len(start) ** -0.25
        self.step = _StepSize(target_accept, math.log(2 * size), size, size)
        self.draws: list[Tensor] = []
        self.accepted, self.divergences, self.n_done = 0.0, 0, 0

    def advance(self, generator: Generator) -> None:
        """One iteration: tune the step size during warm-up, keep a draw of each chain after it."""
        x, warming = self.x, self.n_done < self.n_warmup
        size = min(self.step.current if warming else self.step.averaged, _MAX_STEP_SIZE)
        duration = _QUARTER_PERIOD * (0.7 + 0.6 * float(torch.rand(1, generator=generator)))
        momentum = torch.randn(x.shape, generator=generator).to(x)
        before = self.value - _kinetic(momentum)
        n_steps = math.ceil(duration / size)
        if self.most_steps is not None and n_steps > self.most_steps:
            n_steps, duration = self.most_steps, self.most_steps * size
        proposal, momentum, value, gradient = self._integrate(momentum, duration, n_steps)
        change = value - _kinetic(momentum) - before
        diverged = ~(change > _DIVERGENCE_THRESHOLD)  # also if it is NaN
        probability = change.nan_to_num(nan=-math.inf).clamp(max=0).exp()
        uniform = torch.rand(x.shape[1], generator=generator, dtype=torch.float64).to(probability)
        accept = uniform < probability
        self.x = torch.where(accept, proposal, x)
        self.gradient = torch.where(accept, gradient, self.gradient)
        self.value = torch.where(accept, value, self.value)
        if warming:
            # Unlike the arithmetic mean, the harmonic mean is sensitive to a single stuck chain.
            self.step.update(float(1 / (1 / probability.clamp(min=_MIN_ACCEPTANCE)).mean()))
        else:
            self.draws.append(self.x)
            self.accepted += float(probability.mean())
            self.divergences += int(diverged.sum())
        self.n_done += 1

    def _integrate(self, momentum: Tensor, duration: float, n_steps: int) -> tuple[Tensor, ...]:
        state = self.x, momentum, self.gradient
        if self.n_blocks == 1:
            return integrate(self.density, *state, duration, n_steps)
        blocks = (tensor.tensor_split(self.n_blocks, dim=1) for tensor in state)
        with independent_workers() as run:
            one = partial(integrate, self.density, duration=duration, n_steps=n_steps)
            integrated = run(one, *blocks)
        return tuple(torch.cat(parts, dim=-1) for parts in zip(*integrated, strict=True))

    def _empty(self, name: str, state: Any) -> Any:
        return _StepSize if name == "step" else None


def integrate(
    density: Density, x: Tensor, momentum: Tensor, gradient: Tensor, duration: float, n_steps: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Integrate Hamilton's equations for a `duration`: x, momentum, value, gradient.

    The posterior is N(0, I) in whitened coordinates but for a remainder. The Gaussian's motion is a
    rotation, which is exact; only the gradient of the remainder, x + gradient, is integrated in
    steps (Shahbaba et al. 2014: split HMC). So errors come from what is not Gaussian alone.
    """
    value, size = gradient, duration / n_steps
    cosine, sine = math.cos(size), math.sin(size)
    momentum = momentum + size / 2 * (x + gradient)
    for step in range(n_steps):
        x, momentum = cosine * x + sine * momentum, cosine * momentum - sine * x
        last = step == n_steps - 1
        value, gradient = density(x, last)
        momentum = momentum + (size / 2 if last else size) * (x + gradient)
    return x, momentum, value, gradient


def _kinetic(momentum: Tensor) -> Tensor:
    return momentum.double().square().sum(dim=0) / 2


@dataclass
class _StepSize:
    """Dual averaging (Hoffman & Gelman 2014, section 3.2) of the step size that chains share."""

    target: float
    anchor: float  # log of twice the first size
    current: float
    averaged: float
    count: int = 0
    error: float = 0.0

    def update(self, acceptance: float) -> None:
        self.count += 1
        weight = 1 / (self.count + 5)
        self.error += weight * (self.target - acceptance - self.error)
        # gamma = 0.2 and t0 = 5; the paper has 0.05 and 10, for the noisier mean of one chain.
        log_size = self.anchor - math.sqrt(self.count) / 0.2 * self.error
        share = self.count**-0.75
        log_averaged = share * log_size + (1 - share) * math.log(self.averaged)
        self.current, self.averaged = math.exp(log_size), math.exp(log_averaged)
