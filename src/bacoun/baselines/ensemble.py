"""Deep ensembles: the same network, trained several times from different initial weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

from numpy.typing import ArrayLike

from bacoun.baselines.networks import Network, NetworkDraws, check_body
from bacoun.features import LearnedFeatures
from bacoun.nested import NestedSettings
from bacoun.progress import progress_bars
from bacoun.randomness import as_generator


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

    Attributes
    ----------
    members_ : list of LearnedFeatures
        The trained networks.
    """

    n_members: int = 5
    network: LearnedFeatures | None = None

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
        with progress_bars(self.verbose) as bar_for:
            self.members_ = [
                self._part("network").fit(
                    points, labels, generator=generator, on_epoch=bar_for(f"network {number}")
                )
                for number in range(1, self.n_members + 1)
            ]
        return self

    def _networks(self) -> Iterator[Network]:
        return (member.module_ for member in self.members_)
