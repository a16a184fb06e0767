"""NUTS, the paper's own inference: nutpie on the whitened posterior."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bacoun.posterior.last_layer import ReducedLayer, Sampled
from bacoun.posterior.logistic import SoftmaxRegression
from bacoun.posterior.whitening import whiten
from bacoun.protocols import FitContext


@dataclass(kw_only=True, repr=False, eq=False)
class NUTS(ReducedLayer):
    """Exact posterior of the last layer by the No-U-Turn Sampler (needs the extra `nuts`).

    Settings that are not listed are those of `ReducedLayer`.

    Parameters
    ----------
    n_chains : int
        Chains, run one after the other.
    n_warmup : int
        Warm-up iterations of each chain.
    n_iterations : int
        Iterations of each chain after warm-up.
    target_accept : float
        Acceptance probability that the step size is tuned to.
    """

    n_chains: int = 4
    n_warmup: int = 300
    n_iterations: int = 500
    target_accept: float = 0.8

    def _sample(self, posterior: SoftmaxRegression, mode: Tensor, context: FitContext) -> Sampled:
        whitening = whiten(posterior, mode[:, :, None])

        def density(x: np.ndarray) -> tuple[float, np.ndarray]:
            weights = whitening.to_weights(torch.from_numpy(x)[:, None].to(mode.device))
            value, gradient = posterior.value_and_gradient(weights)
            return float(value), whitening.pull_back(gradient)[:, 0].cpu().numpy()

        draws, divergences = run_nuts(
            density,
            mode.numel(),
            n_chains=self.n_chains,
            n_warmup=self.n_warmup,
            n_iterations=self.n_iterations,
            target_accept=self.target_accept,
            seed=int(torch.randint(2**31, (1,), generator=context.generator)),
        )
        if context.on_epoch is not None:  # nutpie runs to the end in one call
            context.on_epoch(self.n_iterations, self.n_iterations)
        flat = torch.from_numpy(draws).flatten(0, 1).T.to(mode.device)  # (d, C T)
        chains = whitening.to_weights(flat).permute(2, 0, 1).unflatten(0, draws.shape[:2])
        return chains, {"divergences": divergences}


def run_nuts(
    density: Any,
    dimension: int,
    *,
    n_chains: int,
    n_warmup: int,
    n_iterations: int,
    **settings: Any,
) -> tuple[np.ndarray, int]:
    """Draws (C, T, d) of `density(x) -> (log density, gradient)`, and the number of divergences."""
    try:
        with warnings.catch_warnings():  # ArviZ announces its own refactoring on import
            warnings.simplefilter("ignore", FutureWarning)
            import nutpie
            from nutpie.compiled_pyfunc import from_pyfunc
    except ImportError as error:
        raise ImportError(
            "NUTS needs nutpie, which is not installed: pip install 'bacoun[nuts]', or use HMC."
        ) from error

    model = from_pyfunc(
        dimension,
        lambda: density,
        lambda *_: lambda x: {"x": x},
        [np.dtype(np.float64)],
        [(dimension,)],
        ["x"],
        make_initial_point_fn=lambda seed: np.random.default_rng(seed).normal(size=dimension),
    )
    settings |= {"chains": n_chains, "tune": n_warmup, "draws": n_iterations, "cores": 1}
    trace = nutpie.sample(model, **settings, progress_bar=False, save_warmup=False)
    return trace.posterior["x"].to_numpy(), int(trace.sample_stats["diverging"].sum())
