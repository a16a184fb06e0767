"""Deep ensembles: the same network, trained several times from different initial weights."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from joblib import Parallel, delayed, effective_n_jobs
from torch import Generator, Tensor

from bacoun.baselines.networks import Count, Network, NetworkDraws, Run
from bacoun.engine.nested import NestedSettings
from bacoun.engine.randomness import draw_seed
from bacoun.engine.training import OnEpoch
from bacoun.features import LearnedFeatures
from bacoun.protocols import FitContext


@dataclass(kw_only=True, repr=False, eq=False)
class DeepEnsemble(NestedSettings, NetworkDraws):
    """Draws are networks of equal weight, with different initial weights and mini-batches.

    Settings that are not listed are those of `Baseline`.

    Parameters
    ----------
    n_members : int
        Number S of networks.
    network : LearnedFeatures, optional
        Settings of each network; its body must be given by name. None: the default body, trained on
        all points for the default number of epochs without dropout.
    n_jobs : int, optional
        Number of processes that train networks in parallel. None: one, or as many as
        `joblib.parallel_config` says, such as the workers of a Dask cluster.

    Attributes
    ----------
    members_ : list of LearnedFeatures
        The trained networks.
    """

    n_members: Count = 5
    network: LearnedFeatures | None = None
    n_jobs: int | None = None

    _default = ("network", partial(LearnedFeatures, dropout=0.0, patience=None))

    def _fit(self, points: Tensor, labels: Tensor, run: Run) -> None:
        seeds = [draw_seed(run.generator) for _ in range(self.n_members)]
        is_here = effective_n_jobs(self.n_jobs) == 1  # others cannot draw on this terminal
        self.members_ = Parallel(n_jobs=self.n_jobs)(
            delayed(self._fit_member)(
                points, labels, seed, run.bar_for(f"network {number}") if is_here else None
            )
            for number, seed in enumerate(seeds, start=1)
        )

    def _fit_member(
        self, points: Tensor, labels: Tensor, seed: int, on_epoch: OnEpoch | None
    ) -> LearnedFeatures:
        network: LearnedFeatures = self._part("network")
        context = FitContext(generator=Generator().manual_seed(seed), on_epoch=on_epoch)
        return network.fit(points, labels, context)

    def _networks(self) -> Iterator[Network]:
        return (member.module_ for member in self.members_)
