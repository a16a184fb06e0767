"""The network of `TabularFeatures`: encoded inputs, and small perceptrons side by side."""

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from bacoun.features.networks import EMBEDDING_SCALE, CategoryCodes, Dropout

BIN_SCALE = 0.25  # so that steps are learned only where slopes do not suffice
_SMALLEST_BIN = 1e-6  # in standard deviations; a narrower bin is empty


class PiecewiseLinear(nn.Module):
    """Each number, and its position in the quantile bins of its column.

    The entry of a bin grows across the bin, from 0 to `BIN_SCALE`, and is constant outside
    (Gorishniy et al. 2022). The number itself goes on linearly: far points stay far.
    """

    def __init__(self, n_numbers: int, n_bins: int) -> None:
        super().__init__()
        self.lows = nn.Buffer(torch.zeros(n_numbers, n_bins))
        self.slopes = nn.Buffer(torch.zeros(n_numbers, n_bins))
        self.n_outputs = n_numbers * (1 + n_bins)

    def learn_bins(self, numbers: Tensor) -> None:
        """Place the bins so that each holds about as many of the rows (N, D) as the others."""
        n_numbers, n_bins = self.lows.shape
        if n_numbers == 0:
            return
        places = torch.linspace(0, len(numbers) - 1, n_bins + 1).round().long()
        cuts = numbers.sort(dim=0).values[places.to(numbers.device)].T
        widths = cuts.diff(dim=1)
        self.lows.copy_(cuts[:, :-1])
        slopes = BIN_SCALE / widths
        self.slopes.copy_(torch.where(widths > _SMALLEST_BIN, slopes, torch.zeros_like(slopes)))

    def forward(self, numbers: Tensor) -> Tensor:
        """Encoded numbers (N, n_outputs), from (N, D)."""
        positions = ((numbers[:, :, None] - self.lows) * self.slopes).clamp(0, BIN_SCALE)
        return torch.cat([numbers, positions.flatten(1)], dim=1)


class ParallelPerceptrons(nn.Module):
    """M perceptrons that see the same encoded numbers; each has its own embeddings and weights.

    `n_categories` is that of each column; 0 if it is continuous. Votes are numbers that follow the
    columns and are never hidden. The last of the `hidden` widths is the number L of features of a
    member. In training, shares `category_dropout` and `input_dropout` of the columns are hidden.
    """

    def __init__(
        self,
        n_members: int,
        n_categories: Sequence[int],
        n_votes: int,
        n_outputs: int,
        *,
        hidden: Sequence[int],
        n_bins: int,
        embedding: int,
        category_dropout: float,
        input_dropout: float,
    ) -> None:
        super().__init__()
        self.n_members = n_members
        self.codes = CategoryCodes(n_categories)
        self.numbers = PiecewiseLinear(self.codes.n_numbers + n_votes, n_bins)
        self.category_dropout = Dropout(category_dropout)
        self.input_dropout = Dropout(input_dropout)
        n_embedded = embedding * len(self.codes.sizes)
        n_inputs = self.numbers.n_outputs + n_embedded
        table = EMBEDDING_SCALE * torch.randn(self.codes.n_values + 1, n_members, embedding)
        table[-1] = 0  # of an unseen category
        self.embedding = nn.Parameter(table)
        # One matrix for all members, because they share what enters it.
        self.first = _weights(self.numbers.n_outputs, n_members * hidden[0], fan_in=n_inputs)
        self.first_bias = _weights(n_members * hidden[0], fan_in=n_inputs)
        self.first_embedded = _weights(n_members, n_embedded, hidden[0], fan_in=n_inputs)
        widths = [*hidden, n_outputs]
        pairs = list(itertools.pairwise(widths))
        self.layers = nn.ParameterList(_weights(n_members, a, b, fan_in=a) for a, b in pairs)
        self.biases = nn.ParameterList(_weights(n_members * b, fan_in=a) for a, b in pairs)

    def features(self, points: Tensor, votes: Tensor) -> Tensor:
        """Features (M, N, L) of points (N, D) with votes (N, V)."""
        numbers, rows = self.codes(points)
        encoded = self.numbers(torch.cat([self.input_dropout(numbers), votes], dim=1))
        value = torch.addmm(self.first_bias, encoded, self.first)
        value = value.unflatten(1, (self.n_members, -1)).transpose(0, 1)
        if rows.shape[1] > 0:
            shown = self.category_dropout(points.new_ones(*rows.shape, self.n_members, 1))
            embedded = (self.embedding[rows] * shown).permute(2, 0, 1, 3).flatten(2)
            value = torch.baddbmm(value, embedded, self.first_embedded)
        value = nn.functional.leaky_relu(value)
        for place in range(len(self.layers) - 1):
            value = nn.functional.leaky_relu(self._layer(place, value))
        return value

    def outputs(self, features: Tensor) -> Tensor:
        """Outputs (M, N, n_outputs) of the last layer, from features (M, N, L)."""
        return self._layer(len(self.layers) - 1, features)

    def _layer(self, place: int, value: Tensor) -> Tensor:
        bias = self.biases[place].view(self.n_members, 1, -1)
        return torch.baddbmm(bias, value, self.layers[place])


def _weights(*shape: int, fan_in: int) -> nn.Parameter:
    """Initial weights, as those of `torch.nn.Linear`."""
    bound = 1 / math.sqrt(fan_in)
    return nn.Parameter(torch.empty(*shape).uniform_(-bound, bound))
