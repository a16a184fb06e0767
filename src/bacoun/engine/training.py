"""The mini-batch loop of flows, networks and variational inference.

Under `torchrun`, once `torch.distributed` is initialized, all processes train the same network:
each computes the gradient of its share of every mini-batch, and the shares are added.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Generator, Tensor, distributed, nn
from torch.optim.adam import adam

from bacoun.engine.randomness import seeded

_Loss = Callable[..., Tensor]
OnEpoch = Callable[[int, int], None]
"""Called after every epoch with the number done and the number planned."""


@dataclass(frozen=True)
class History:
    """Mean loss of every epoch; `held_out` is empty when nothing was held out."""

    train: list[float] = field(default_factory=list)
    held_out: list[float] = field(default_factory=list)
    # Indices of the rows that the weights were not fitted to.
    held_out_rows: Tensor = field(default_factory=lambda: torch.empty(0).long(), compare=False)


def train(
    module: nn.Module,
    loss: _Loss,
    data: Sequence[Tensor],
    *,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    generator: Generator,
    l2: float = 0.0,
    l2_over: str = "rows",
    patience: int | None = None,
    held_out_fraction: float = 0.1,
    held_out: Sequence[Tensor] = (),
    held_out_loss: _Loss | None = None,
    on_epoch: OnEpoch | None = None,
) -> History:
    """Minimize the mean of `loss(*batch)` over `module`'s parameters with Adam.

    Rows of `data` are drawn together; with several processes, the data is the same in each, and
    each takes `batch_size` rows. The penalty, `l2 / 2` times the squared weights, is added to a
    *summed* loss: of all N rows, which on the mean loss is a weight decay of `l2 / N`, or of one
    mini-batch (`l2_over="batch"`), which is one of `l2 / batch_size`.

    With `patience`, a tenth of the rows is held out, unless other rows are given as `held_out`.
    Training stops once their loss, or `held_out_loss`, has not improved for so many epochs, and the
    best weights are restored. Without it, all `epochs` are trained on all rows.
    """
    if l2_over not in ("rows", "batch"):
        raise ValueError(f"l2_over must be 'rows' or 'batch'; got {l2_over!r}.")
    n_points = len(data[0])
    rows = History().held_out_rows
    n_held_out = int(held_out_fraction * n_points) if patience is not None else 0
    if n_held_out > 0 and not held_out:
        rows, others = _split(data[0], n_held_out, generator)
        held_out = [column[rows] for column in data]
        data = [column[others] for column in data]
    n_summed = n_points if l2_over == "rows" else batch_size * _place()[1]
    optimizer = _Adam(module, learning_rate, l2 / n_summed)
    history, best = History(held_out_rows=rows), _Best(module, patience)
    with seeded(generator):  # dropout draws from torch's global stream
        if rank := _place()[0]:  # other noise for other rows
            torch.manual_seed(torch.initial_seed() + rank)
        for epoch in range(1, epochs + 1):
            history.train.append(_one_epoch(optimizer, loss, data, batch_size, generator))
            if held_out and patience is not None:
                module.eval()
                with torch.no_grad():
                    history.held_out.append(float((held_out_loss or loss)(*held_out)))
                best.update(history.held_out[-1])
            if on_epoch is not None:  # a progress bar is full once there is nothing left to do
                on_epoch(epochs if best.is_final else epoch, epochs)
            if best.is_final:
                break
    best.restore()
    module.eval()
    return history


def mean_log_loss(logits: Tensor, targets: Tensor, weights: Tensor | None = None) -> Tensor:
    """Mean over rows of the log loss of logits (n, K), times their weights (n,)."""
    if weights is None:
        return nn.functional.cross_entropy(logits, targets)
    return (weights * nn.functional.cross_entropy(logits, targets, reduction="none")).mean()


def epochs_for(steps: int, n_points: int, batch_size: int, fewest: int, most: int) -> int:
    """How many epochs make about that many steps, within limits."""
    return min(most, max(fewest, steps // -(-n_points // batch_size)))


def _split(points: Tensor, n_held_out: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Rows to hold out, about `n_held_out`, and the others; identical points stay together.

    Copies of a training row would make overfitting look like learning.
    """
    order = torch.randperm(len(points), generator=generator)
    same = _groups_of_copies(points)
    n_groups = int(same.max()) + 1
    if n_groups < len(points):  # whole groups, in the order in which their first row was drawn
        drawn = torch.full((n_groups,), len(points)).scatter_reduce(
            0, same[order], torch.arange(len(points)), "amin"
        )
        order = order[drawn[same[order]].argsort(stable=True)]
        n_more = int((same[order[n_held_out:]] == same[order[n_held_out - 1]]).sum())
        if n_more < n_held_out:  # a row repeated more often than that has to be split
            n_held_out += n_more
    return order[:n_held_out], order[n_held_out:]


def assign_folds(points: Tensor, n_folds: int, generator: Generator) -> Tensor:
    """A fold (N,) for each point, of about equal sizes; identical points are in the same one."""
    same = _groups_of_copies(points)
    n_groups = int(same.max()) + 1
    fold_of_group = torch.randperm(n_groups, generator=generator) % n_folds
    return fold_of_group[same].to(points.device)


def _groups_of_copies(points: Tensor) -> Tensor:
    """A number (N,) for each point, the same one for identical points."""
    flat = points.flatten(1).double()
    direction = torch.linspace(1, 2, flat.shape[1], dtype=flat.dtype, device=flat.device).sin()
    return (flat * direction).sum(dim=1).unique(return_inverse=True)[1].cpu()  # a hash of the row


class _Adam:
    """torch's Adam with weight decay on matrices, not on biases.

    The optimizer classes of torch import its compiler, which takes two seconds.
    """

    def __init__(self, module: nn.Module, learning_rate: float, weight_decay: float) -> None:
        parameters: list[Tensor] = list(module.parameters())
        weights = [parameter for parameter in parameters if parameter.ndim > 1]
        biases = [parameter for parameter in parameters if parameter.ndim <= 1]
        self.module = module
        self.options = {"lr": learning_rate, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8}
        self.options |= {"fused": True, "amsgrad": False, "maximize": False}
        self.groups = [(weights, weight_decay), (biases, 0.0)]
        # Mean of the gradients, mean of their squares, and number of steps.
        self.state = {
            parameter: (
                torch.zeros_like(parameter),
                torch.zeros_like(parameter),
                torch.zeros((), dtype=torch.float32, device=parameter.device),
            )
            for parameter in parameters
        }

    def add_gradients(self, loss: Tensor) -> Tensor:
        """Add up the gradients and the loss of all processes; return that sum of the losses."""
        gradients = [parameter.grad for parameter in self.state if parameter.grad is not None]
        parts = [*gradients, loss.detach()]
        sums = torch.cat([part.flatten() for part in parts])  # one message for all
        distributed.all_reduce(sums)
        added = sums.split([part.numel() for part in parts])
        for gradient, total in zip(gradients, added, strict=False):
            gradient.copy_(total.view_as(gradient))
        return added[-1]

    @torch.no_grad()
    def step(self) -> None:
        for group, weight_decay in self.groups:
            moved = [parameter for parameter in group if parameter.grad is not None]
            if not moved:
                continue
            means, squares, steps = map(list, zip(*(self.state[p] for p in moved), strict=True))
            gradients = [parameter.grad for parameter in moved if parameter.grad is not None]
            options: Any = self.options | {"weight_decay": weight_decay}
            adam(moved, gradients, means, squares, [], steps, **options)


class _Best:
    """The weights with the lowest held-out loss, and whether to go on looking for better ones."""

    def __init__(self, module: nn.Module, patience: int | None) -> None:
        self.module, self.patience = module, patience
        self.loss, self.n_waited = float("inf"), 0
        self.weights: dict[str, Any] | None = None

    @property
    def is_final(self) -> bool:
        return self.patience is not None and self.n_waited >= max(self.patience, 1)

    def update(self, held_out_loss: float) -> None:
        self.n_waited += 1
        if held_out_loss < self.loss:
            self.loss, self.n_waited = held_out_loss, 0
            self.weights = copy.deepcopy(self.module.state_dict())

    def restore(self) -> None:
        if self.weights is not None:
            self.module.load_state_dict(self.weights)


def _one_epoch(
    optimizer: _Adam, loss: _Loss, data: Sequence[Tensor], batch_size: int, generator: Generator
) -> float:
    optimizer.module.train()
    rank, n_processes = _place()
    n_points, total = len(data[0]), 0.0
    # A batch of one row has no spread for a normalization layer, so equal batches, none tiny.
    order = torch.randperm(n_points, generator=generator)
    batches = order.tensor_split(-(-n_points // (batch_size * n_processes)))
    for batch in batches:
        optimizer.module.zero_grad()
        rows = batch.tensor_split(n_processes)[rank]
        value = loss(*(column[rows] for column in data)) * (len(rows) / len(batch))
        value.backward()
        if n_processes > 1:
            value = optimizer.add_gradients(value)
        optimizer.step()
        total += float(value.detach()) * len(batch)
    return total / n_points


def _place() -> tuple[int, int]:
    """The number of this process among those that train together, and how many there are."""
    is_one_of_many = distributed.is_available() and distributed.is_initialized()
    return (distributed.get_rank(), distributed.get_world_size()) if is_one_of_many else (0, 1)
