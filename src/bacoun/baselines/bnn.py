"""BNN: a Gaussian for every weight of a network, fitted by Pyro's stochastic variational inference.

The paper's "BBVI". What is kept is the mean and the standard deviation of each weight; draws are
made again when they are needed, since 200 networks of 800,000 weights would fill 0.6 GB.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Self

import torch
from numpy.typing import ArrayLike
from torch import Generator, Tensor, nn
from torch.func import functional_call
from torch.nn.utils import parameters_to_vector

from bacoun.baselines.networks import Network, NetworkDraws, check_body, check_count
from bacoun.features.networks import make_body
from bacoun.progress import progress_bars
from bacoun.randomness import RandomState, as_generator, draw_seed, seeded, threads_for
from bacoun.training import OnEpoch

# Standard deviations start at this fraction of the prior's: wider, and the noise of the layers
# drowns what the labels have to say before the means have moved.
_START = 0.05

# Over this share of the iterations the weight of the prior rises from 0 to 1. With its full weight
# from the start it pulls the means of a wide network to zero before the labels are learned, and
# around zero no label moves them any more.
_WARM_UP = 0.2


class BNN(NetworkDraws):
    """Draws are networks whose weights come from a mean-field Gaussian posterior.

    Parameters
    ----------
    body : {"auto", "perceptron", "convolutional"}
    hidden : sequence of int
        Widths of the dense layers.
    prior_scale : float
        Prior standard deviation of the biases, and of a weight times the square root of its fan-in,
        so that signals neither grow nor fade with the width of a layer.
    n_iterations, batch_size, learning_rate
        Steps of Adam, rows in each, and their length; the paper's values are the defaults.
    n_draws : int
        Number S of draws.
    standardize, random_state, verbose, device
        As in `BaCOUnClassifier`.

    Attributes
    ----------
    loc_, spread_ : Tensor of shape (P,)
        Posterior mean and standard deviation of all P weights and biases, layer by layer.
    elbo_ : list of float
        The evidence bound as estimated in each iteration, in nats; in the first fifth of them the
        prior's part counts less, growing from nothing to its full weight.
    """

    def __init__(
        self,
        *,
        body: str = "auto",
        hidden: Sequence[int] = (512, 512, 512, 512),
        prior_scale: float = 1.0,
        n_iterations: int = 10_000,
        batch_size: int = 256,
        learning_rate: float = 1e-2,
        n_draws: int = 200,
        standardize: bool = True,
        random_state: RandomState = None,
        verbose: bool = False,
        device: str = "cpu",
    ) -> None:
        self.body = body
        self.hidden = hidden
        self.prior_scale = prior_scale
        self.n_iterations = n_iterations
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.n_draws = n_draws
        self.standardize = standardize
        self.random_state = random_state
        self.verbose = verbose
        self.device = device

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from X (N, D), finite numbers, and y (N,), labels of at least two classes."""
        pyro = _pyro()
        check_body(self.body)
        for name in ("n_iterations", "batch_size", "n_draws"):
            check_count(name, getattr(self, name))
        if not self.prior_scale > 0:
            raise ValueError(f"prior_scale must be positive; got {self.prior_scale!r}.")
        points, labels = self._validated(X, y)
        generator = as_generator(self.random_state)
        with seeded(generator):
            body = make_body(self.body, points.shape[1:], self.hidden, 0.0)
            width = body(points[:1].cpu()).shape[1]
            self.module_ = nn.Sequential(body, nn.Linear(width, len(self.classes_)))
        self.module_.requires_grad_(False).to(self.device)
        # All weights are one vector here, which wants them in plain order.
        self.module_.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
        with (
            progress_bars(self.verbose) as bar_for,
            pyro.get_param_store().scope(),  # parameters of others are put back
            pyro.validation_enabled(False),  # would look at every weight in every step
            seeded(generator),  # Pyro knows only the global stream
            threads_for(self.batch_size * parameters_to_vector(self.module_.parameters()).numel()),
        ):
            self._infer(pyro, points, labels, generator, bar_for("weights"))
        self.seeds_ = [draw_seed(generator) for _ in range(self.n_draws)]
        return self

    def _infer(
        self,
        pyro: Any,
        points: Tensor,
        labels: Tensor,
        generator: Generator,
        on_epoch: OnEpoch | None,
    ) -> None:
        """Maximise the evidence bound; the prior's part of it is exact, the data's is sampled."""
        from pyro import distributions as dist

        # Weights in units of their prior: steps of one length then suit layers of any width.
        unit = _prior_scales(self.module_, self.prior_scale)
        start = parameters_to_vector(self.module_.parameters()) / unit
        zeros, ones = torch.zeros_like(unit), torch.ones_like(unit)

        def model(rows: Tensor, prior_weight: float) -> None:
            with pyro.poutine.scale(scale=prior_weight):
                weights = pyro.sample("weights", dist.Normal(zeros, ones).to_event(1))
            with pyro.plate("rows", len(points), subsample=rows):
                logits = _forward(self.module_, unit * weights, points[rows])
                pyro.sample("labels", dist.Categorical(logits=logits), obs=labels[rows])

        def guide(rows: Tensor, prior_weight: float) -> None:
            loc = pyro.param("loc", start)
            spread = pyro.param("spread", _START * ones, constraint=dist.constraints.positive)
            with pyro.poutine.scale(scale=prior_weight):
                pyro.sample("weights", dist.Normal(loc, spread).to_event(1))

        optimizer = pyro.optim.Adam({"lr": self.learning_rate, "fused": True})
        inference = pyro.infer.SVI(model, guide, optimizer, pyro.infer.TraceMeanField_ELBO())
        self.elbo_ = []
        for iteration in range(self.n_iterations):
            rows = torch.randint(len(points), (self.batch_size,), generator=generator)
            prior_weight = min(1.0, (iteration + 1) / (_WARM_UP * self.n_iterations))
            self.elbo_.append(-inference.step(rows.to(points.device), prior_weight))
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


def _prior_scales(module: nn.Module, prior_scale: float) -> Tensor:
    """Prior standard deviation (P,) of each weight and bias."""
    return torch.cat(
        [
            torch.full_like(part, prior_scale / part[0].numel() ** 0.5).flatten()
            for part in module.parameters()
        ]
    )


def _forward(module: nn.Module, weights: Tensor, points: Tensor) -> Tensor:
    """Logits (n, K) of the network with all its weights and biases taken from one vector (P,)."""
    names, parts = zip(*module.named_parameters(), strict=True)
    pieces = weights.split([part.numel() for part in parts])
    replaced = {
        name: piece.view_as(part) for name, piece, part in zip(names, pieces, parts, strict=True)
    }
    logits: Tensor = functional_call(module, replaced, (points,))
    return logits
