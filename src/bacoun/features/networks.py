"""What the networks of step 2 share, and their bodies: all layers before the last, linear one."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from sklearn.base import BaseEstimator
from torch import Tensor, nn

from bacoun.engine.training import History, epochs_for, train
from bacoun.files.persistence import SavesAttributes
from bacoun.protocols import FitContext

NO_CLASS = -1  # target of a boundary point of unknown class
EMBEDDING_SCALE = 0.1  # standard deviation of new embeddings; larger ones are noise to unlearn
_MANY_NUMBERS = 50  # columns of a table


@dataclass(kw_only=True, repr=False, eq=False)
class NetworkSettings(SavesAttributes, BaseEstimator):
    """How a network of step 2 learns.

    Parameters
    ----------
    boundary_weight : float
        Weight of a boundary point in the loss; a data point has weight 1.
    boundary_gradient : float
        Factor of the gradient that the features get from the question "data or boundary?". 1: they
        learn the boundary as much as the classes, which costs accuracy. 0: they learn only the
        classes, those of boundary points included.
    input_dropout : float, optional
        Share of the numbers in a table that are hidden from the network in training, so that it
        does not learn the noise in many of them. None: 0.5 if there are more than 50, otherwise 0.
    embedding : int
        Entries of the learned embedding of each category.
    category_dropout : float
        Share of the categories that are hidden from the network in training. It then does not rely
        on a single column, nor on rare categories.
    l2 : float
        Weight decay: `l2 / 2` times the squared weights is added to the summed loss.
    epochs : int, optional
        Passes over the data, at most. None: about as many as make 3000 steps (6000 for tables), in
        10 to 500 epochs; usually early stopping comes first.
    batch_size : int
        Points in a mini-batch.
    learning_rate : float
        Step size of Adam.
    patience : int, optional
        Stop early once the log loss of held-out points has not improved for this many epochs. None:
        train for all epochs.
    """

    boundary_weight: float = 0.1
    boundary_gradient: float = 0.1
    input_dropout: float | None = None
    embedding: int = 8
    category_dropout: float = 0.3
    l2: float = 1.0
    epochs: int | None = None
    batch_size: int = 256
    learning_rate: float = 1e-3
    patience: int | None = 20

    honored = ("sample_weight",)

    def _input_dropout(self, n_numbers: int) -> float:
        if self.input_dropout is not None:
            return self.input_dropout
        return 0.5 if n_numbers > _MANY_NUMBERS else 0.0

    def _train(self, *model_and_data: Any, epochs: int, **options: Any) -> History:
        """`train` by these settings; `epochs` are meant if none are set."""
        for name in ("batch_size", "learning_rate", "l2", "patience"):
            options[name] = getattr(self, name)
        return train(*model_and_data, epochs=self.epochs or epochs, **options)

    def _damped(self, features: Tensor) -> Tensor:
        """Features of which the gradient is `boundary_gradient` times theirs."""
        frozen = features.detach()
        return frozen + self.boundary_gradient * (features - frozen)


def default_epochs(n_points: int, batch_size: int, steps: int = 3000) -> int:
    """As many epochs as make about so many steps."""
    return epochs_for(steps, n_points, batch_size, fewest=10, most=500)


def boundary_targets(context: FitContext, labels: Tensor) -> Tensor:
    """Classes (n,) of the boundary points, of the type of other labels; -1 where unknown."""
    known, points = context.boundary_labels, context.boundary_points
    n_points = 0 if points is None else len(points)
    return labels.new_full((n_points,), NO_CLASS) if known is None else known


def with_boundary(logits: Tensor) -> Tensor:
    """Probabilities (..., K+1) of K classes and the boundary, each of which has its own sigmoid."""
    boundary = logits[..., -1:]
    known = (-boundary).sigmoid() * logits[..., :-1].softmax(dim=-1)  # 1 - sigmoid would round to 0
    return torch.cat([known, boundary.sigmoid()], dim=-1)


class Dropout(nn.Module):
    """Dropout with 16 random bits per element, 2.5 times as fast as torch's own."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        if not 0 <= rate < 1:
            raise ValueError(f"dropout must satisfy 0 <= dropout < 1; got {rate}.")
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        """Zero each element with probability `rate` and scale up the rest, in training only."""
        if not self.training or self.rate == 0:
            return x
        words = torch.empty(-(-x.numel() // 4), dtype=torch.int64, device=x.device)
        bits = words.random_(-(2**63), None).view(torch.int16)[: x.numel()].view_as(x)
        dropped = min(round(self.rate * 2**16), 2**16 - 1)  # of the 2**16 equally likely values
        kept = (bits >= dropped - 2**15).to(x.dtype)
        return x * kept.mul_(2**16 / (2**16 - dropped))  # one product to differentiate, not two


class CategoryCodes(nn.Module):
    """Splits points into numbers and categories, and numbers the values of all categories.

    `n_categories` is that of each column; 0 if it is continuous.
    """

    def __init__(self, n_categories: Sequence[int]) -> None:
        super().__init__()
        sizes = torch.tensor(n_categories)
        self.is_category = nn.Buffer(sizes > 0)
        self.sizes = nn.Buffer(sizes[sizes > 0])
        self.firsts = nn.Buffer(self.sizes.cumsum(0) - self.sizes)
        self.n_numbers = int((sizes == 0).sum())
        self.n_values = int(self.sizes.sum())

    def forward(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Numbers (N, D - C), and the value (N, C) of each category; the last one is unseen."""
        numbers, categories = points[:, ~self.is_category], points[:, self.is_category]
        codes = categories.long()
        known = (codes >= 0) & (codes < self.sizes) & (codes == categories)
        return numbers, torch.where(known, codes + self.firsts, self.n_values)


class MixedInputs(nn.Module):
    """Numbers as they are, and a learned embedding of each category; what is unseen is 0.

    `n_categories` is that of each column; 0 if it is continuous. `width` is the number of entries
    of an embedding; `dropout` and `number_dropout` are shares of the categories, each with its
    whole embedding, and of the numbers, that are hidden in training.
    """

    def __init__(
        self, n_categories: Sequence[int], width: int, dropout: float, number_dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.dropout, self.number_dropout = Dropout(dropout), Dropout(number_dropout)
        self.codes = CategoryCodes(n_categories)
        self.embedding = nn.Embedding(self.codes.n_values + 1, width, padding_idx=-1)
        with torch.no_grad():
            self.embedding.weight.mul_(EMBEDDING_SCALE)
        self.n_outputs = self.codes.n_numbers + width * len(self.codes.sizes)

    def forward(self, points: Tensor) -> Tensor:
        """Inputs (N, n_outputs) of the first layer, from points (N, D)."""
        numbers, rows = self.codes(points)
        shown = self.dropout(numbers.new_ones(*rows.shape, 1))
        embedded = (self.embedding(rows) * shown).flatten(1)
        return torch.cat([self.number_dropout(numbers), embedded], dim=1)


def perceptron(n_inputs: int, hidden: Sequence[int], dropout: float) -> nn.Sequential:
    """Dense layers of the given widths, each followed by LeakyReLU and dropout."""
    layers: list[nn.Module] = []
    for before, after in zip([n_inputs, *hidden], hidden, strict=False):
        layers += [nn.Linear(before, after), nn.LeakyReLU(), Dropout(dropout)]
    return nn.Sequential(*layers)


def convolutional(shape: Sequence[int], hidden: Sequence[int], dropout: float) -> nn.Sequential:
    """The paper's image network: two convolutions of kernel 5 with max pooling, then dense layers.

    Images (C, H, W) below 16 x 16 are padded: two convolutions would shrink them to nothing.
    """
    n_channels, height, width = shape
    if min(height, width) < 4:
        raise ValueError(
            f"a convolutional body needs images of at least 4 x 4 pixels; got {height} x {width}. "
            "Use body='perceptron', or pass a module of your own."
        )
    padding = 0 if min(height, width) >= 16 else 2
    lost = 4 - 2 * padding
    height, width = (((side - lost) // 2 - lost) // 2 for side in (height, width))
    body = nn.Sequential(
        nn.Conv2d(n_channels, 10, kernel_size=5, padding=padding),
        nn.MaxPool2d(2),
        nn.LeakyReLU(),
        nn.Conv2d(10, 20, kernel_size=5, padding=padding),
        nn.MaxPool2d(2),
        nn.LeakyReLU(),
        nn.Flatten(),
        *perceptron(20 * height * width, hidden, dropout),
    )
    # Almost halves the training time; torch's type hints lack this overload of `to`.
    return body.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


KINDS = ("auto", "convolutional", "perceptron")


def make_body(
    kind: str, shape: Sequence[int], hidden: Sequence[int] | None, dropout: float
) -> nn.Sequential:
    """A body of one of `KINDS` for points of the given shape: (D,), or (C, H, W) for images.

    "auto" is "convolutional" for images, otherwise "perceptron". `hidden` defaults to four layers
    of 64 units, or 128 and 64 after convolutions, which also take square images as rows of pixels.
    """
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"body must be one of {list(KINDS)} or a torch.nn.Module; got {kind!r}.")
    images = len(shape) == 3
    if kind == "perceptron" or (kind == "auto" and not images):
        widths = (64, 64, 64, 64) if hidden is None else hidden
        body = perceptron(math.prod(shape), widths, dropout)
        return nn.Sequential(nn.Flatten(), *body) if images else body
    widths = (128, 64) if hidden is None else hidden
    if images:
        return convolutional(shape, widths, dropout)
    side = math.isqrt(shape[0])
    if side * side != shape[0]:
        raise ValueError(
            "a convolutional body needs images (N, H, W), or square ones as rows of pixels; got "
            f"{shape[0]} inputs. Use body='perceptron', or pass a module of your own."
        )
    return nn.Sequential(
        nn.Unflatten(1, (1, side, side)), *convolutional((1, side, side), widths, dropout)
    )
