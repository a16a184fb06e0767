"""BNN: a Gaussian for each weight of a network, by Pyro's stochastic variational inference.

The paper's "BBVI". Only the mean and standard deviation of each weight are kept, and draws are
regenerated from seeds: 200 networks of 800,000 weights would take 0.6 GB.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.func import functional_call
from torch.nn.utils import parameters_to_vector

from bacoun.baselines.networks import Count, Network, NetworkDraws, Positive, Run
from bacoun.engine.randomness import draw_seed, seeded
from bacoun.engine.threads import threads_for
from bacoun.features.networks import make_body

# Initial standard deviation relative to the prior's; if larger, noise dominates the gradient.
_INITIAL_SCALE = 0.05


@dataclass(kw_only=True, repr=False, eq=False)
class BNN(NetworkDraws):
    """Draws are networks whose weights come from a mean-field Gaussian posterior.

    Settings that are not listed are those of `Baseline`.

    Parameters
    ----------
    body : {"auto", "perceptron", "convolutional"}
        All layers before the last, linear one. "auto": convolutional for images.
    hidden : sequence of int
        Widths of the dense layers.
    prior_scale : float
        Prior standard deviation of the biases, and of the weights or, with `fan_in`, of a weight
        times the square root of its fan-in.
    fan_in : bool
        Give activations the same scale in layers of any width. False: one prior for all weights.
    kl_warmup : float
        Share of the iterations, below 1, over which the weight of the KL term rises from 0 to 1.
        With its full weight from the start, the means of a wide network may collapse to 0.
    n_iterations : int
        Steps of Adam; the defaults of this and the next two are the paper's.
    batch_size : int
        Rows in a mini-batch.
    learning_rate : float
        Step size of Adam.
    n_draws : int
        Number S of draws.

    Attributes
    ----------
    loc_, spread_ : Tensor of shape (P,)
        Posterior mean and standard deviation of all P weights and biases, layer by layer.
    elbo_ : list of float
        Estimated ELBO of each iteration, in nats, with the weight that the KL term had there.
    """

    body: str = "auto"
    hidden: Sequence[int] = (512, 512, 512, 512)
    prior_scale: Positive = 1.0
    fan_in: bool = True
    kl_warmup: float = 0.2
    n_iterations: Count = 10_000
    batch_size: Count = 256
    learning_rate: float = 1e-2
    n_draws: Count = 200

    def _check_settings(self) -> None:
        _pyro()
        super()._check_settings()
        if not 0 <= self.kl_warmup < 1:
            raise ValueError(f"kl_warmup must satisfy 0 <= kl_warmup < 1; got {self.kl_warmup!r}.")

    def _fit(self, points: Tensor, labels: Tensor, run: Run) -> None:
        pyro, generator = _pyro(), run.generator
        with seeded(generator):
            body = make_body(self.body, points.shape[1:], self.hidden, 0.0)
            width = body(points[:1].cpu()).shape[1]
            self.module_ = nn.Sequential(body, nn.Linear(width, len(self.classes_)))
        self.module_.requires_grad_(False).to(self.device)
        # Flattening all weights into one vector needs contiguous tensors.
        self.module_.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
        with (
            pyro.get_param_store().scope(),  # restores the caller's parameters
            pyro.validation_enabled(False),  # would check all weights in each step
            seeded(generator),  # Pyro uses the global stream
            threads_for(self.batch_size * parameters_to_vector(self.module_.parameters()).numel()),
        ):
            self._infer(pyro, points, labels, run)
        self.seeds_ = [draw_seed(generator) for _ in range(self.n_draws)]

    def _infer(self, pyro: Any, points: Tensor, labels: Tensor, run: Run) -> None:
        """Maximize the ELBO, with an exact KL term and a sampled likelihood."""
        from pyro import distributions as dist

        # Weights in units of their prior, so that one step size suits layers of any width.
        unit = _prior_scales(self.module_, self.prior_scale, self.fan_in)
        start = parameters_to_vector(self.module_.parameters()) / unit
        zeros, ones = torch.zeros_like(unit), torch.ones_like(unit)

        def model(rows: Tensor, kl_weight: float) -> None:
            with pyro.poutine.scale(scale=kl_weight):
                weights = pyro.sample("weights", dist.Normal(zeros, ones).to_event(1))
            with pyro.plate("rows", len(points), subsample=rows):
                logits = _forward(self.module_, unit * weights, points[rows])
                pyro.sample("labels", dist.Categorical(logits=logits), obs=labels[rows])

        def guide(rows: Tensor, kl_weight: float) -> None:
            loc = pyro.param("loc", start)
            spread = pyro.param(
                "spread", _INITIAL_SCALE * ones, constraint=dist.constraints.positive
            )
            with pyro.poutine.scale(scale=kl_weight):
                pyro.sample("weights", dist.Normal(loc, spread).to_event(1))

        optimizer = pyro.optim.Adam({"lr": self.learning_rate, "fused": True})
        inference = pyro.infer.SVI(model, guide, optimizer, pyro.infer.TraceMeanField_ELBO())
        self.elbo_, on_epoch = [], run.bar_for("weights")
        n_warmup = self.kl_warmup * self.n_iterations
        for iteration in range(self.n_iterations):
            rows = torch.randint(len(points), (self.batch_size,), generator=run.generator)
            kl_weight = min(1.0, (iteration + 1) / n_warmup) if n_warmup else 1.0
            self.elbo_.append(-inference.step(rows.to(points.device), kl_weight))
            if on_epoch is not None:
                on_epoch(iteration + 1, self.n_iterations)
        self.loc_ = unit * pyro.param("loc").detach()
        self.spread_ = unit * pyro.param("spread").detach()

    def _networks(self) -> Iterator[Network]:
        for seed in self.seeds_:
            noise = torch.randn(len(self.loc_), generator=Generator().manual_seed(seed))
            weights = self.loc_ + self.spread_ * noise.to(self.loc_)
            yield partial(_forward, self.module_, weights)


def _pyro() -> Any:
    try:
        import pyro
        import pyro.infer
        import pyro.optim
    except ImportError as error:
        raise ImportError("BNN needs Pyro: pip install 'bacoun[paper]'.") from error
    return pyro


def _prior_scales(module: nn.Module, prior_scale: float, fan_in: bool) -> Tensor:
    """Prior standard deviation (P,) of each weight and bias."""
    scales = [
        torch.full_like(part, prior_scale / (part[0].numel() ** 0.5 if fan_in else 1.0))
        for part in module.parameters()
    ]
    return parameters_to_vector(scales)


def _forward(module: nn.Module, weights: Tensor, points: Tensor) -> Tensor:
    """Logits (n, K) of the network with all its weights and biases taken from one vector (P,)."""
    parts = dict(module.named_parameters())
    pieces = weights.split([part.numel() for part in parts.values()])
    zipped = zip(parts.items(), pieces, strict=True)
    replaced = {name: piece.view_as(part) for (name, part), piece in zipped}
    return functional_call(module, replaced, (points,))
