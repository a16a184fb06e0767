"""Deep ensembles: the same network, trained from several starts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Self

from numpy.typing import ArrayLike

from bacoun.baselines.networks import Network, NetworkDraws, check_body, check_count
from bacoun.features import LearnedFeatures
from bacoun.progress import progress_bars
from bacoun.randomness import RandomState, as_generator


class DeepEnsemble(NetworkDraws):
    """Draws are networks of equal weight, each with its own start and order of batches.

    Parameters
    ----------
    n_members : int
        Number S of networks.
    body : {"auto", "perceptron", "convolutional"}
    hidden, dropout, l2, epochs, batch_size, learning_rate
        As in `LearnedFeatures`, without early stopping; dropout is for training only.
    standardize, random_state, verbose, device
        As in `BaCOUnClassifier`.

    Attributes
    ----------
    members_ : list of LearnedFeatures
        The trained networks.
    """

    def __init__(
        self,
        *,
        n_members: int = 5,
        body: str = "auto",
        hidden: Sequence[int] | None = None,
        dropout: float = 0.0,
        l2: float = 1.0,
        epochs: int | None = None,
        batch_size: int = 256,
        learning_rate: float = 1e-3,
        standardize: bool = True,
        random_state: RandomState = None,
        verbose: bool = False,
        device: str = "cpu",
    ) -> None:
        self.n_members = n_members
        self.body = body
        self.hidden = hidden
        self.dropout = dropout
        self.l2 = l2
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.standardize = standardize
        self.random_state = random_state
        self.verbose = verbose
        self.device = device

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from X (N, D), finite numbers, and y (N,), labels of at least two classes."""
        check_body(self.body)
        check_count("n_members", self.n_members)
        points, labels = self._validated(X, y)
        generator = as_generator(self.random_state)
        with progress_bars(self.verbose) as bar_for:
            self.members_ = [
                self._member().fit(
                    points, labels, generator=generator, on_epoch=bar_for(f"network {number}")
                )
                for number in range(1, self.n_members + 1)
            ]
        return self

    def _member(self) -> LearnedFeatures:
        return LearnedFeatures(
            body=self.body,
            hidden=self.hidden,
            dropout=self.dropout,
            l2=self.l2,
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            patience=None,
        )

    def _networks(self) -> Iterator[Network]:
        return (member.module_ for member in self.members_)
