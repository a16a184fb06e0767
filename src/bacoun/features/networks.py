"""Bodies of the network in step 2: all layers before the last, linear one."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

EMBEDDING_SCALE = 0.1  # standard deviation of new embeddings; larger ones are noise to unlearn


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
        return x * (bits >= dropped - 2**15) * (2**16 / (2**16 - dropped))


class CategoryCodes(nn.Module):
    """Splits points into numbers and categories, and numbers the values of all categories.

    Parameters
    ----------
    n_categories : sequence of int, of length D
        Number of categories of each column; 0 if it is continuous.
    """

    def __init__(self, n_categories: Sequence[int]) -> None:
        super().__init__()
        sizes = torch.tensor(n_categories)
        self.is_category: Tensor
        self.sizes: Tensor
        self.firsts: Tensor
        self.register_buffer("is_category", sizes > 0)
        self.register_buffer("sizes", sizes[sizes > 0])
        self.register_buffer("firsts", self.sizes.cumsum(0) - self.sizes)
        self.n_numbers = int((sizes == 0).sum())
        self.n_values = int(self.sizes.sum())

    def forward(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Numbers (N, D - C), and the value (N, C) of each category; the last one is unseen."""
        numbers, given = points[:, ~self.is_category], points[:, self.is_category]
        codes = given.long()
        known = (codes >= 0) & (codes < self.sizes) & (codes == given)
        return numbers, torch.where(known, codes + self.firsts, self.n_values)


class MixedInputs(nn.Module):
    """Numbers as they are, and a learned embedding of each category; what is unseen is 0.

    Parameters
    ----------
    n_categories : sequence of int, of length D
        Number of categories of each column; 0 if it is continuous.
    width : int
        Entries of an embedding.
    dropout : float
        Share of the categories that are hidden in training, each with its whole embedding.
    number_dropout : float
        Share of the numbers that are hidden in training.
    """

    def __init__(
        self,
        n_categories: Sequence[int],
        width: int,
        dropout: float,
        number_dropout: float = 0.0,
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

    Takes images of the given shape (C, H, W). Those below 16 x 16 are padded: two convolutions
    would shrink them to nothing.
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

    "auto" is "convolutional" for images, otherwise "perceptron". `hidden` defaults to four dense
    layers of 64 units, or 128 and 64 after convolutions. The convolutional body also takes square
    gray images as rows of pixels.
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
