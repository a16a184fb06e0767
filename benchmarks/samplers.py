"""Samplers of the same posterior: ours, and those of other libraries on the raw weights.

Each takes a head and returns logits (C chains, T draws, P points, K) at the query points, centered
over classes, the probabilities under each draw at all in-distribution and OOD points, and
wall-clock seconds (including compilation and warm-up, since a user waits for them).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from bacoun.posterior import HMC, NUTS
from bacoun.posterior.nuts import run_nuts
from bacoun.protocols import FitContext
from benchmarks.heads import Head

N_WARMUP, N_DRAWS = 200, 300


@dataclass(frozen=True)
class Sampled:
    """Centered logits (C, T, P, K), probabilities (S, n, K) in and out, seconds."""

    logits: np.ndarray
    inside: torch.Tensor
    outside: torch.Tensor
    seconds: float


def ours(head: Head) -> Sampled:
    """Lock-step HMC, default settings but for the prior, which all samplers share."""
    return _from_bacoun(HMC(prior_scale=1.0), head)


def nutpie_whitened(head: Head) -> Sampled:
    """The NUTS of nutpie on our reduced, whitened density."""
    nuts = NUTS(prior_scale=1.0, n_chains=1, n_warmup=N_WARMUP, n_iterations=N_DRAWS)
    return _from_bacoun(nuts, head)


def _from_bacoun(posterior: Any, head: Head) -> Sampled:
    started = time.perf_counter()
    posterior.fit(
        head.features, head.labels, FitContext(generator=torch.Generator().manual_seed(0))
    )
    seconds = time.perf_counter() - started
    # The law of the logits at a point: chains where the data speaks, independent prior noise else.
    design = torch.cat([head.asked, torch.ones_like(head.asked[:, :1])], dim=1).double()
    basis = posterior.reduction_.basis.double()
    q = design @ basis
    rho = (design - q @ basis.T).norm(dim=1, keepdim=True)
    contrasts = _contrasts(head.n_classes)
    chains = posterior.chains_.double()
    along = torch.einsum("ctjr,pr->ctpj", chains, q)
    noise = torch.randn(*along.shape[:2], 1, along.shape[3], dtype=torch.float64)
    logits = (along + rho * noise) @ contrasts.T
    return Sampled(
        logits.numpy(),
        posterior.predict_proba_samples(head.asked_in),
        posterior.predict_proba_samples(head.asked_out),
        seconds,
    )


def _contrasts(n_classes: int) -> torch.Tensor:
    from bacoun.posterior.logistic import contrasts

    return contrasts(n_classes)


def _from_weights(weights: np.ndarray, head: Head, seconds: float) -> Sampled:
    """From raw weights (C, T, L + 1, K)."""

    def logits(features: torch.Tensor) -> torch.Tensor:
        design = np.c_[features.numpy(), np.ones(len(features))]
        return torch.from_numpy(np.einsum("pl,ctlk->ctpk", design, weights, optimize=True))

    asked = logits(head.asked)
    centered = asked - asked.mean(dim=3, keepdim=True)
    inside = logits(head.asked_in).flatten(0, 1).softmax(dim=2)
    outside = logits(head.asked_out).flatten(0, 1).softmax(dim=2)
    return Sampled(centered.numpy(), inside, outside, seconds)


def nutpie_raw(head: Head) -> Sampled:
    """The NUTS of nutpie on the raw weights, the density written in NumPy."""
    started = time.perf_counter()
    design, n_classes = head.design, head.n_classes
    one_hot = np.eye(n_classes)[head.labels.numpy()]

    def density(flat: np.ndarray) -> tuple[float, np.ndarray]:
        weights = flat.reshape(-1, n_classes)
        logits = design @ weights
        logits -= logits.max(axis=1, keepdims=True)
        exponentials = np.exp(logits)
        total = exponentials.sum(axis=1, keepdims=True)
        value = (one_hot * logits).sum() - np.log(total).sum() - flat @ flat / 2
        gradient = design.T @ (one_hot - exponentials / total) - weights
        return float(value), gradient.ravel()

    draws, _ = run_nuts(
        density,
        design.shape[1] * n_classes,
        n_chains=1,
        n_warmup=N_WARMUP,
        n_iterations=N_DRAWS,
        target_accept=0.8,
        seed=0,
    )
    seconds = time.perf_counter() - started
    return _from_weights(draws.reshape(1, -1, design.shape[1], n_classes), head, seconds)


def numpyro_raw(head: Head) -> Sampled:
    """NumPyro's NUTS on the raw weights."""
    import jax
    import numpyro
    import numpyro.distributions as dist

    started = time.perf_counter()
    design, labels = jax.numpy.asarray(head.design), jax.numpy.asarray(head.labels.numpy())

    def model() -> None:
        prior = dist.Normal(0, 1).expand([design.shape[1], head.n_classes]).to_event(2)
        weights = numpyro.sample("weights", prior)
        numpyro.sample("labels", dist.Categorical(logits=design @ weights), obs=labels)

    kernel = numpyro.infer.NUTS(model)
    chain = numpyro.infer.MCMC(
        kernel, num_warmup=N_WARMUP, num_samples=N_DRAWS, num_chains=1, progress_bar=False
    )
    chain.run(jax.random.PRNGKey(0))
    weights = np.asarray(chain.get_samples(group_by_chain=True)["weights"], dtype=np.float64)
    return _from_weights(weights, head, time.perf_counter() - started)


def blackjax_raw(head: Head) -> Sampled:
    """BlackJAX's NUTS with window adaptation on the raw weights."""
    import blackjax
    import jax
    import jax.numpy as jnp

    started = time.perf_counter()
    design, labels = jnp.asarray(head.design), jnp.asarray(head.labels.numpy())
    shape = (design.shape[1], head.n_classes)

    def log_density(weights: Any) -> Any:
        log_p = jax.nn.log_softmax(design @ weights)
        return log_p[jnp.arange(len(labels)), labels].sum() - (weights**2).sum() / 2

    warm_key, run_key = jax.random.split(jax.random.PRNGKey(0))
    adaptation = blackjax.window_adaptation(blackjax.nuts, log_density)
    (state, parameters), _ = adaptation.run(warm_key, jnp.zeros(shape), num_steps=N_WARMUP)
    kernel = blackjax.nuts(log_density, **parameters).step

    @jax.jit
    def one_step(state: Any, key: Any) -> Any:
        state, _ = kernel(key, state)
        return state, state.position

    _, draws = jax.lax.scan(one_step, state, jax.random.split(run_key, N_DRAWS))
    weights = np.asarray(draws, dtype=np.float64)[None]
    return _from_weights(weights, head, time.perf_counter() - started)


def pyro_raw(head: Head) -> Sampled:
    """Pyro's NUTS on the raw weights: what the paper ran."""
    import pyro
    import pyro.distributions as dist
    import pyro.infer

    started = time.perf_counter()
    pyro.set_rng_seed(0)
    design = torch.from_numpy(head.design).float()
    zeros = torch.zeros(design.shape[1], head.n_classes)

    def model() -> None:
        weights = pyro.sample("weights", dist.Normal(zeros, 1.0).to_event(2))
        with pyro.plate("points", len(design)):
            pyro.sample("labels", dist.Categorical(logits=design @ weights), obs=head.labels)

    chain = pyro.infer.MCMC(
        pyro.infer.NUTS(model, jit_compile=False),
        num_samples=N_DRAWS // 2,  # it is slow; a shorter warm-up, the paper's, is to its advantage
        warmup_steps=100,
        disable_progbar=True,
    )
    chain.run()
    weights = chain.get_samples(group_by_chain=True)["weights"].double().numpy()
    return _from_weights(weights, head, time.perf_counter() - started)


SAMPLERS: dict[str, Callable[[Head], Sampled]] = {
    "bacoun HMC": ours,
    "nutpie, whitened": nutpie_whitened,
    "nutpie, raw": nutpie_raw,
    "NumPyro NUTS": numpyro_raw,
    "BlackJAX NUTS": blackjax_raw,
    "Pyro NUTS": pyro_raw,
}
