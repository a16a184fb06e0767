"""Deep ensembles: the same network, trained several times from different initial weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import ArrayLike
from torch import Generator, Tensor

from bacoun.baselines.networks import Network, NetworkDraws, check_body
from bacoun.engine.nested import NestedSettings
from bacoun.engine.progress import progress_bars
from bacoun.engine.randomness import as_generator, draw_seed
from bacoun.engine.training import OnEpoch
from bacoun.features import LearnedFeatures
from bacoun.protocols import FitContext


@dataclass(kw_only=True, repr=False, eq=False)
class DeepEnsemble(NestedSettings, NetworkDraws):
    """Draws are networks of equal weight, with different initial weights and mini-batches.

    Parameters
    ----------
    n_members : int
        Number S of networks.
    network : LearnedFeatures, optional
        Settings of each network; its body must be given by name. None: the default body, trained on
        all points for the default number of epochs without dropout.
    standardize : bool
        Scale each input, or each channel of images, to zero mean and unit variance.
    random_state : int, RandomState, Generator or None
        Seed of the fit. Global random streams are not touched.
    verbose : bool
        Show progress bars on stderr.
    device : str
        Torch device of the model, such as "cpu".
    n_jobs : int, optional
        Number of processes that train networks in parallel. None: one, or as many as
        `joblib.parallel_config` says, such as the workers of a Dask cluster.

    Attributes
    ----------
    members_ : list of LearnedFeatures
        The trained networks.
    """

    n_members: int = 5
    network: LearnedFeatures | None = None
    n_jobs: int | None = None

    def _default_part(self, name: str, value: Any) -> Any:
        if name == "network" and value is None:
            return LearnedFeatures(dropout=0.0, patience=None)
        return None

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit to X (N, D), finite numbers, and y (N,), labels of at least two classes."""
        check_body(self._part("network").body)
        self._check_counts("n_members")
        points, labels = self._validated(X, y)
        generator = as_generator(self.random_state)
        seeds = [draw_seed(generator) for _ in range(self.n_members)]
        is_here = effective_n_jobs(self.n_jobs) == 1  # others cannot draw on this terminal
        with progress_bars(self.verbose and is_here) as bar_for:
            self.members_ = Parallel(n_jobs=self.n_jobs)(
                delayed(self._fit_member)(points, labels, seed, bar_for(f"network {number}"))
                for number, seed in enumerate(seeds, start=1)
            )
        return self

    def _fit_member(
        self, points: Tensor, labels: Tensor, seed: int, on_epoch: OnEpoch | None
    ) -> LearnedFeatures:
        context = FitContext(generator=Generator().manual_seed(seed), on_epoch=on_epoch)
        network: LearnedFeatures = self._part("network")
        return network.fit(points, labels, context)

    def _networks(self) -> Iterator[Network]:
        return (member.module_ for member in self.members_)
