"""The one minibatch loop, shared by the flow, the network and the variational fit."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Generator, Tensor, nn

from bacoun.randomness import seeded

OnEpoch = Callable[[int, int], None]
"""Called after every epoch with the number done and the number planned."""


@dataclass(frozen=True)
class History:
    """Mean loss of every epoch; `held_out` is empty when nothing was held out."""

    train: list[float] = field(default_factory=list)
    held_out: list[float] = field(default_factory=list)


def train(
    module: nn.Module,
    loss: Callable[..., Tensor],
    data: Sequence[Tensor],
    *,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    generator: Generator,
    l2: float = 0.0,
    patience: int | None = None,
    held_out_fraction: float = 0.1,
    on_epoch: OnEpoch | None = None,
) -> History:
    """Minimise the mean of `loss(*batch)` over `module`'s parameters with Adam.

    Parameters
    ----------
    data : sequence of Tensor
        Equal lengths; rows are drawn together.
    l2 : float
        The paper's penalty: `l2 / 2` times the squared weights, added to the *summed* loss of all
        N rows. On the mean loss that is a weight decay of `l2 / N`.
    patience : int, optional
        Hold out a tenth of the rows and stop once their loss has not improved for this many
        epochs; the best weights are put back. None trains for all `epochs` on all rows.
    """
    n_points = len(data[0])
    held_out: list[Tensor] = []
    n_held_out = int(held_out_fraction * n_points) if patience is not None else 0
    if n_held_out > 0:
        order = torch.randperm(n_points, generator=generator)
        held_out = [column[order[:n_held_out]] for column in data]
        data = [column[order[n_held_out:]] for column in data]
    history = History()
    best, best_weights, waited = float("inf"), None, 0
    weights = [weight for weight in module.parameters() if weight.ndim > 1]
    biases = [bias for bias in module.parameters() if bias.ndim <= 1]
    groups: list[dict[str, Any]] = [
        {"params": weights, "weight_decay": l2 / n_points},
        {"params": biases},
    ]
    optimizer = torch.optim.Adam(groups, lr=learning_rate, fused=True)
    with seeded(generator):  # dropout draws from torch's global stream
        for epoch in range(epochs):
            history.train.append(_one_epoch(module, loss, data, batch_size, optimizer, generator))
            if on_epoch is not None:
                on_epoch(epoch + 1, epochs)
            if not held_out:
                continue
            history.held_out.append(_mean_loss(module, loss, held_out))
            if history.held_out[-1] < best:
                best, waited = history.held_out[-1], 0
                best_weights = copy.deepcopy(module.state_dict())
                continue
            waited += 1
            if patience is not None and waited >= patience:
                break
    if best_weights is not None:
        module.load_state_dict(best_weights)
    module.eval()
    return history


def _one_epoch(
    module: nn.Module,
    loss: Callable[..., Tensor],
    data: Sequence[Tensor],
    batch_size: int,
    optimizer: torch.optim.Optimizer,
    generator: Generator,
) -> float:
    module.train()
    n_points, total = len(data[0]), 0.0
    # A batch of one row has no spread for a normalisation layer, so equal batches, none tiny.
    order = torch.randperm(n_points, generator=generator)
    batches = order.tensor_split(-(-n_points // batch_size))
    for rows in batches:
        optimizer.zero_grad(set_to_none=True)
        value = loss(*(column[rows] for column in data))
        value.backward()
        optimizer.step()
        total += float(value.detach()) * len(rows)
    return total / n_points


@torch.no_grad()
def _mean_loss(module: nn.Module, loss: Callable[..., Tensor], data: Sequence[Tensor]) -> float:
    module.eval()
    return float(loss(*data))
