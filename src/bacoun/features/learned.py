"""LearnedFeatures: a network's last hidden layer, trained on classes and boundary."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn

from bacoun.engine.randomness import as_generator, seeded
from bacoun.engine.threads import threads_for
from bacoun.engine.training import mean_log_loss
from bacoun.features.networks import (
    NO_CLASS,
    Dropout,
    MixedInputs,
    NetworkSettings,
    boundary_targets,
    default_epochs,
    make_body,
    with_boundary,
)
from bacoun.protocols import FitContext


@dataclass(kw_only=True, repr=False, eq=False)
class LearnedFeatures(NetworkSettings):
    """The last hidden layer of a classifier network.

    Settings that are not listed are those of `NetworkSettings`. With `joint_softmax`,
    `boundary_gradient` has no effect; with a module as `body`, `input_dropout` has none.

    Parameters
    ----------
    body : {"auto", "perceptron", "convolutional"} or torch.nn.Module
        All layers before the last, linear one. "auto": convolutional for images. A module is copied
        and trained further; it maps (N, D), or (N, C, H, W) for images, to (N, L).
    hidden : sequence of int, optional
        Widths of the dense layers; the last is L. None: 64, 64, 64, 64; after convolutions 128, 64.
        Ignored if `body` is a module.
    joint_softmax : bool
        How the boundary is learned. False: by a softmax over the K classes and a separate sigmoid,
        data against boundary, so that classes are also learned just outside the data. True: by one
        softmax over K+1 classes, the boundary last, as in the paper.
    dropout : float, optional
        Dropout rate after each dense layer. None: 0.5 after convolutions, otherwise 0. Ignored if
        `body` is a module.
    l2_over : "rows" or "batch"
        What that loss is summed over: all rows, or a mini-batch, which makes the penalty stronger.
    """

    body: str | nn.Module = "auto"
    hidden: Sequence[int] | None = None
    joint_softmax: bool = False
    dropout: float | None = None
    l2_over: str = "rows"

    _saved = ("input_shape_", "n_categories_", "has_boundary_", "held_out_rows_", "module_")

    def fit(self, points: Tensor, labels: Tensor, context: FitContext = FitContext()) -> Self:
        """Train on points (N, ...) and labels (N,) in 0..K-1, with or without boundary points."""
        generator, boundary = as_generator(context.generator), context.boundary_points
        sample_weight = context.sample_weight
        n_classes = int(labels.max()) + 1
        self.input_shape_ = list(points.shape[1:])
        columns = context.n_categories
        self.n_categories_ = None if columns is None else list(columns)
        self.has_boundary_ = boundary is not None
        with seeded(generator):
            body = self._body()
            head = nn.Linear(_n_outputs(body, points), n_classes + int(self.has_boundary_))
            self.module_ = nn.Sequential(body, head).to(points.device)
        data = {"batch": points, "targets": labels}
        if sample_weight is not None:
            data["weights"] = (sample_weight / sample_weight.mean()).to(points)
        if boundary is not None:
            of_boundary = {"batch": boundary, "targets": boundary_targets(context, labels)}
            of_boundary["weights"] = points.new_ones(len(boundary))
            data = {name: torch.cat([data[name], of_boundary[name]]) for name in data}
            data["is_boundary"] = (torch.arange(len(data["batch"])) >= len(points)).to(points)

        def by_name(loss: Callable[..., Tensor]) -> Callable[..., Tensor]:
            return lambda *columns: loss(**dict(zip(data, columns, strict=True)))

        n_weights = sum(weight.numel() for weight in self.module_.parameters())
        with threads_for(self.batch_size * n_weights):
            self.history_ = self._train(
                self.module_,
                by_name(self._loss),
                list(data.values()),
                epochs=default_epochs(len(data["batch"]), self.batch_size),
                l2_over=self.l2_over,
                held_out_loss=by_name(self._held_out_loss),
                generator=generator,
                on_epoch=context.on_epoch,
            )
        rows = self.history_.held_out_rows
        self.held_out_rows_ = rows[rows < len(points)]  # without boundary points
        return self

    def _loss(self, batch: Tensor, targets: Tensor, **optional: Tensor) -> Tensor:
        weights, is_boundary = optional.get("weights"), optional.get("is_boundary")
        if is_boundary is None:
            return mean_log_loss(self.module_(batch), targets, weights)
        features = self.module_[0](batch)
        logits: Tensor = self.module_[1](features)
        if self.joint_softmax:
            boundary_class = logits.shape[1] - 1
            targets = targets.where(is_boundary == 0, boundary_class)
            loss = nn.functional.cross_entropy(logits, targets, reduction="none")
        else:
            unscaled = self.boundary_gradient == 1
            log_odds = logits if unscaled else self.module_[1](self._damped(features))
            loss = nn.functional.cross_entropy(
                logits[:, :-1], targets, ignore_index=NO_CLASS, reduction="none"
            ) + nn.functional.binary_cross_entropy_with_logits(
                log_odds[:, -1], is_boundary, reduction="none"
            )
        if weights is not None:
            loss = loss * weights
        return (loss * (1 - (1 - self.boundary_weight) * is_boundary)).mean()

    def _held_out_loss(self, batch: Tensor, targets: Tensor, **optional: Tensor) -> Tensor:
        """Log loss of the classes of data points, without the boundary."""
        weights, is_boundary = optional.get("weights"), optional.get("is_boundary")
        if is_boundary is None or bool(is_boundary.all()):
            return self._loss(batch, targets, **optional)
        is_data = is_boundary == 0
        weights = None if weights is None else weights[is_data]
        return mean_log_loss(self.module_(batch[is_data])[:, :-1], targets[is_data], weights)

    def _body(self) -> nn.Module:
        if isinstance(self.body, nn.Module):
            return copy.deepcopy(self.body)
        images = self.body == "convolutional" or len(self.input_shape_) == 3
        dropout = (0.5 if images else 0.0) if self.dropout is None else self.dropout
        if (columns := self.n_categories_) is not None:
            rates = self.category_dropout, self._input_dropout(columns.count(0))
            inputs = MixedInputs(columns, self.embedding, *rates)
            body = make_body(self.body, (inputs.n_outputs,), self.hidden, dropout)
            return nn.Sequential(inputs, *body)
        body = make_body(self.body, self.input_shape_, self.hidden, dropout)
        rate = 0.0 if images else self._input_dropout(self.input_shape_[0])
        return nn.Sequential(Dropout(rate), *body) if rate > 0 else body

    @torch.no_grad()
    def transform(self, points: Tensor) -> Tensor:
        """Features (N, L) of points (N, ...)."""
        return self.module_[0](points)

    @torch.no_grad()
    def transform_with_log_odds(self, points: Tensor) -> tuple[Tensor, Tensor | None]:
        """Features (N, L), and log-odds (N,) of boundary against data; None without one."""
        features = self.transform(points)
        if not self.has_boundary_:
            return features, None
        logits: Tensor = self.module_[1](features)
        other = logits[:, :-1].logsumexp(dim=1) if self.joint_softmax else 0
        return features, logits[:, -1] - other

    @torch.no_grad()
    def region_proba(self, points: Tensor) -> Tensor:
        """The network's own probabilities (N, K), or (N, K+1) with the boundary last."""
        logits: Tensor = self.module_(points)
        if not self.has_boundary_ or self.joint_softmax:
            return logits.softmax(dim=1)
        return with_boundary(logits)

    def _empty(self, name: str, state: Any) -> Any:
        if name != "module_":
            return None
        n_outputs, n_features = state["1.weight"].shape
        return nn.Sequential(self._body(), nn.Linear(n_features, n_outputs))


def _n_outputs(body: nn.Module, points: Tensor) -> int:
    """Width L of the body's output, from a forward pass of two points."""
    was_training = body.training
    body.eval()
    with torch.no_grad():
        features = body.to(points.device)(points[:2])
    body.train(was_training)
    if features.ndim != 2 or len(features) != len(points[:2]):
        raise ValueError(
            f"body must map points to (N, L); it gave shape {tuple(features.shape)} for "
            f"{tuple(points[:2].shape)}. End it with torch.nn.Flatten()."
        )
    return int(features.shape[1])
