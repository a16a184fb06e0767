"""Lock-step Hamiltonian Monte Carlo: chains advance together, so gradients are real GEMMs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor

from bacoun.checkpoint import Checkpoint, State
from bacoun.posterior.diagnostics import ENOUGH, N_SUPERCHAINS, chain_statistics
from bacoun.posterior.head import PriorScale, ReducedHead, probed_logits
from bacoun.posterior.logistic import SoftmaxRegression
from bacoun.posterior.whitening import Whitening, whiten
from bacoun.training import OnEpoch

Density = Callable[[Tensor, bool], tuple[Tensor, Tensor]]
"""Round coordinates (d, B), whether the value is wanted -> log density (B,), gradient (d, B)."""

_QUARTER_TURN = math.pi / 2  # takes a Gaussian to an independent draw
_LARGEST_STEP = math.pi / 4  # skewed posteriors have walls that longer steps jump into
_FIRST_KICK = 0.1931833275037836
_DIVERGED = -1000.0
_FLOOR = 0.02
_LARGE = 100_000_000  # rows times dimensions
_EARLY = (0.15, 0.2, 0.2)  # shares of the warm-up after which coordinates are made anew
_ENOUGH_FOR_CURVATURE = 16  # chains


class HMC(ReducedHead):
    """Exact posterior of the last layer, by Hamiltonian Monte Carlo in the reduced space.

    Parameters
    ----------
    prior_scale : float, "auto" or "evidence"
        Standard deviation of every weight under the prior, intercept included, kept as
        `prior_scale_`. "auto": 0.3, or more where features are so small that logits would have a
        prior standard deviation below 3. "evidence": the one with the largest Laplace evidence.
    n_draws : int
        Draws kept for prediction, evenly spaced over all chains.
    n_chains, n_warmup, n_iterations : int, optional
        Chains that advance together, iterations to settle, iterations kept. None: chosen by size.
    target_accept : float
        Harmonic mean of the chains' acceptance that the step size is tuned to.
    tol : float
        Which weak directions keep their prior; 0 infers all but the null space. See `reduce`.
    fit_intercept : bool
        Add a column of ones to the features.
    """

    def __init__(
        self,
        *,
        prior_scale: PriorScale = "auto",
        n_draws: int = 500,
        n_chains: int | None = None,
        n_warmup: int | None = None,
        n_iterations: int | None = None,
        target_accept: float = 0.8,
        tol: float = 0.01,
        fit_intercept: bool = True,
    ) -> None:
        self.prior_scale = prior_scale
        self.n_draws = n_draws
        self.n_chains = n_chains
        self.n_warmup = n_warmup
        self.n_iterations = n_iterations
        self.target_accept = target_accept
        self.tol = tol
        self.fit_intercept = fit_intercept

    def _sample(
        self,
        posterior: SoftmaxRegression,
        mode: Tensor,
        generator: Generator,
        on_epoch: OnEpoch | None,
        checkpoint: Checkpoint | None,
    ) -> tuple[Tensor, dict[str, Any]]:
        target = posterior.to(torch.float32)
        dimension = mode.numel()
        # Large heads pay dearly for every gradient: fewer chains, a shorter warm-up.
        large = len(posterior.features) * dimension > _LARGE
        n_chains = self.n_chains or (32 if large else 64)
        n_warmup = (25 if large else 40) if self.n_warmup is None else self.n_warmup
        wanted = (2 if large else 4) * self.n_draws
        n_iterations = self.n_iterations or max(30, math.ceil(wanted / n_chains))
        n_early = [round(share * n_warmup) for share in _EARLY]
        planned = n_warmup + n_iterations
        # A superchain starts from one Laplace draw, so that nested R-hat sees what it forgot.
        n_starts = N_SUPERCHAINS if n_chains % N_SUPERCHAINS == 0 else n_chains
        starts = torch.randn(dimension, n_starts, generator=generator)
        x = starts.repeat_interleave(n_chains // n_starts, dim=1).to(target.features)
        whitening = whiten(posterior, mode[:, :, None]).to(torch.float32)
        # Classes that can be told apart make the posterior skewed: its curvature at the mode says
        # little about its bulk, where the chains are after a few iterations.
        for stage, n_steps in enumerate(n_early):
            run = sample_chains(
                _density(target, whitening),
                x,
                n_warmup=n_steps,
                n_iterations=0,
                target_accept=self.target_accept,
                generator=generator,
                on_epoch=_later(on_epoch, sum(n_early[:stage]), planned),
            )
            weights = whitening.to_weights(run.last)
            some = weights[:, :, :: max(1, n_chains // _ENOUGH_FOR_CURVATURE)]
            whitening = whiten(posterior, some).to(torch.float32)
            x = whitening.from_weights(weights)

        def enough(draws: list[Tensor]) -> bool:
            chains = _in_weights(draws, whitening)
            found = chain_statistics(probed_logits(chains, target.features, target.n_classes))
            return min(found["ess"], found["ess_squares"]) >= ENOUGH

        run = sample_chains(
            _density(target, whitening),
            x,
            n_warmup=n_warmup - sum(n_early),
            n_iterations=n_iterations,
            target_accept=self.target_accept,
            generator=generator,
            enough=None if self.n_iterations else enough,
            on_epoch=_later(on_epoch, sum(n_early), planned),
            checkpoint=checkpoint,
        )
        chains = _in_weights(run.draws, whitening)
        facts = {
            "acceptance": run.acceptance,
            "divergences": run.divergences,
            "step_size": run.step_size,
        }
        return chains, facts


def _density(target: SoftmaxRegression, whitening: Whitening) -> Density:
    def density(x: Tensor, want_value: bool) -> tuple[Tensor, Tensor]:
        weights = whitening.to_weights(x)
        if not want_value:
            return x, whitening.pull_back(target.gradient(weights))
        value, gradient = target.value_and_gradient(weights)
        return value, whitening.pull_back(gradient)

    return density


def _in_weights(draws: Sequence[Tensor] | Tensor, whitening: Whitening) -> Tensor:
    """Chains of contrasts (B, T, K-1, r) from T draws (d, B) in round coordinates."""
    return torch.stack([whitening.to_weights(x).permute(2, 0, 1) for x in draws], dim=1)


def _later(on_epoch: OnEpoch | None, n_before: int, planned: int) -> OnEpoch | None:
    """The callback for a part of the iterations, told how many all parts together are.

    The last part may turn out longer than planned.
    """
    return on_epoch and (
        lambda done, total: on_epoch(n_before + done, max(planned, n_before + total))
    )


@dataclass(frozen=True)
class Run:
    """Draws (T, d, B) of B chains after warm-up, where they ended (d, B), how they were made."""

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
    enough: Callable[[list[Tensor]], bool] | None = None,
    on_epoch: OnEpoch | None = None,
    checkpoint: Checkpoint | None = None,
) -> Run:
    """Run B chains in lock-step from `start` (d, B) with an identity mass matrix.

    All chains share the step size and each iteration's random number of steps; the step size is
    frozen after warm-up. If the draws so far are not `enough`, up to twice as many iterations are
    added as were asked for. If an interrupted call with the same arguments left its state in
    `checkpoint`, the chains resume there.
    """
    chains = _Chains(density, start, n_warmup, target_accept)
    planned = n_warmup + n_iterations
    if checkpoint is not None and (saved := checkpoint.load("chains")) is not None:
        chains.set_state(saved)
        generator.set_state(saved["generator"])
        planned = saved["planned"]
        if on_epoch is not None:
            on_epoch(chains.n_done, planned)
    most = n_warmup + (1 if enough is None else 3) * n_iterations
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
        torch.stack(chains.draws) if chains.draws else chains.x[None, :, :][:0],
        chains.x,
        chains.accepted / max(1, len(chains.draws)),
        chains.divergences,
        min(chains.step.averaged, _LARGEST_STEP),
    )


class _Chains:
    """Where B chains stand: all that changes from one iteration to the next."""

    def __init__(
        self,
        density: Density,
        start: Tensor,
        n_warmup: int,
        target_accept: float,
    ) -> None:
        self.density, self.n_warmup = density, n_warmup
        self.x = start
        self.value, self.gradient = density(start, True)
        self.step = _StepSize(2.4 * len(start) ** -0.25, target_accept)
        self.draws: list[Tensor] = []
        self.accepted, self.divergences, self.n_done = 0.0, 0, 0

    def advance(self, generator: Generator) -> None:
        """One iteration: tunes the step size in warm-up, keeps a draw of each chain after it."""
        x, warming = self.x, self.n_done < self.n_warmup
        size = min(self.step.current if warming else self.step.averaged, _LARGEST_STEP)
        turn = _QUARTER_TURN * (0.7 + 0.6 * float(torch.rand(1, generator=generator)))
        momentum = torch.randn(x.shape, generator=generator).to(x)
        before = self.value - _kinetic(momentum)
        proposal, momentum, new_value, new_gradient = integrate(
            self.density, x, momentum, self.gradient, turn, math.ceil(turn / size)
        )
        change = new_value - _kinetic(momentum) - before
        diverged = ~(change > _DIVERGED)  # NaN counts
        probability = change.nan_to_num(nan=-math.inf).clamp(max=0).exp()
        uniform = torch.rand(x.shape[1], generator=generator, dtype=torch.float64).to(probability)
        accept = uniform < probability
        self.x = torch.where(accept, proposal, x)
        self.gradient = torch.where(accept, new_gradient, self.gradient)
        self.value = torch.where(accept, new_value, self.value)
        if warming:
            # The harmonic mean hears a single stuck chain, which the plain mean drowns.
            self.step.update(float(1 / (1 / probability.clamp(min=_FLOOR)).mean()))
        else:
            self.draws.append(self.x)
            self.accepted += float(probability.mean())
            self.divergences += int(diverged.sum())
        self.n_done += 1

    def get_state(self) -> State:
        """Tensors and plain values, without the density, from which `set_state` goes on."""
        return {
            "tensors": [self.x, self.value, self.gradient, *self.draws],
            "step": vars(self.step),
            "accepted": self.accepted,
            "divergences": self.divergences,
            "n_done": self.n_done,
        }

    def set_state(self, state: State) -> None:
        tensors = [tensor.to(self.x.device) for tensor in state["tensors"]]
        self.x, self.value, self.gradient, *self.draws = tensors
        vars(self.step).update(state["step"])
        self.accepted, self.divergences = state["accepted"], state["divergences"]
        self.n_done = state["n_done"]


def integrate(
    density: Density, x: Tensor, momentum: Tensor, gradient: Tensor, turn: float, n_steps: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Follow Hamilton's equations for a time `turn` in `n_steps`: x, momentum, value, gradient.

    A step takes two gradients, placed where its error is least (McLachlan 1995). At the price of
    two leapfrog steps the error in energy is a third as large, so steps can be longer.
    """
    value = gradient
    size = turn / n_steps
    momentum = momentum + _FIRST_KICK * size * gradient
    for step in range(n_steps):
        x = x + size / 2 * momentum
        _, gradient = density(x, False)
        momentum = momentum + (1 - 2 * _FIRST_KICK) * size * gradient
        x = x + size / 2 * momentum
        last = step == n_steps - 1
        value, gradient = density(x, last)
        momentum = momentum + (_FIRST_KICK if last else 2 * _FIRST_KICK) * size * gradient
    return x, momentum, value, gradient


def _kinetic(momentum: Tensor) -> Tensor:
    return momentum.double().square().sum(dim=0) / 2


class _StepSize:
    """Dual averaging (Hoffman & Gelman 2014, section 3.2) on the mean acceptance of all chains."""

    def __init__(self, initial: float, target: float) -> None:
        self.target = target
        self.anchor = math.log(2 * initial)
        self.current = self.averaged = initial
        self._count, self._error = 0, 0.0

    def update(self, acceptance: float) -> None:
        self._count += 1
        weight = 1 / (self._count + 5)
        self._error += weight * (self.target - acceptance - self._error)
        # Many chains make the acceptance nearly noiseless, so larger strides than the paper's .05.
        log_size = self.anchor - math.sqrt(self._count) / 0.2 * self._error
        share = self._count**-0.75
        log_averaged = share * log_size + (1 - share) * math.log(self.averaged)
        self.current, self.averaged = math.exp(log_size), math.exp(log_averaged)
