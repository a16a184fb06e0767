"""The direction of a point, by which embeddings are told apart."""

import math

import torch
from torch import Tensor


def directions(points: Tensor) -> Tensor:
    """Points (N, D), scaled to the length sqrt(D).

    Examples
    --------
    >>> directions(torch.tensor([[3.0, 4.0]])).norm()
    tensor(1.4142)
    """
    return torch.nn.functional.normalize(points, dim=1) * math.sqrt(points.shape[1])
