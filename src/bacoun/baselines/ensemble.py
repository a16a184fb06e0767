"""Deep ensembles: the same network, trained from several starts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

from numpy.typing import ArrayLike

from bacoun.baselines.networks import Network, NetworkDraws, check_body, check_count
from bacoun.features import LearnedFeatures
from bacoun.nested import NestedSettings
from bacoun.progress import progress_bars
from bacoun.randomness import RandomState, as_generator


class DeepEnsemble(NestedSettings, NetworkDraws):
    """Draws are networks of equal weight, each with its own start and order of batches.

    Parameters
    ----------
    n_members : int
        Number S of networks.
    network : LearnedFeatures, optional
        Settings of each network; its body must be one of ours. None: the default body, trained on
        all points for the default number of epochs without dropout.
    standardize : bool
        Bring every input, or every channel of images, to zero mean and unit variance first.
    random_state : int, RandomState, Generator or None
        One state gives one answer; global streams are not touched.
    verbose : bool
        Draw progress bars on stderr.
    device : str
        Where tensors live, as torch names it.

    Attributes
    ----------
    members_ : list of LearnedFeatures
        The trained networks.
    """

    def __init__(
        self,
        *,
        n_members: int = 5,
        network: LearnedFeatures | None = None,
        standardize: bool = True,
        random_state: RandomState = None,
        verbose: bool = False,
        device: str = "cpu",
    ) -> None:
        self.n_members = n_members
        self.network = network
        self.standardize = standardize
        self.random_state = random_state
        self.verbose = verbose
        self.device = device

    def _default_part(self, name: str, value: Any) -> Any:
        if name == "network" and value is None:
            return LearnedFeatures(dropout=0.0, patience=None)
        return None

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from X (N, D), finite numbers, and y (N,), labels of at least two classes."""
        check_body(self._part("network").body)
        check_count("n_members", self.n_members)
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
