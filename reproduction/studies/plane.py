"""Points of the plane that several studies evaluate."""

from __future__ import annotations

import numpy as np
import torch

from bacoun.boundary import FlowShell
from bacoun.protocols import FitContext


def grid(low: list[float], high: list[float], resolution: int) -> np.ndarray:
    """Points (resolution^2, 2) of a regular grid, x varying fastest."""
    x, y = (np.linspace(a, b, resolution) for a, b in zip(low, high, strict=True))
    return np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)


def rays(points: np.ndarray, distances: np.ndarray, n_rays: int = 200) -> np.ndarray:
    """Points (n_distances, n_rays, 2) around the data, distances in units of its radius.

    The radius is the largest distance of a training point from the data's mean.
    """
    centre = points.mean(axis=0)
    radius = np.linalg.norm(points - centre, axis=1).max()
    return centre + radius * distances[:, None, None] * directions(n_rays)


def directions(n_directions: int) -> np.ndarray:
    """Unit vectors (n_directions, 2) at equal angles."""
    angle = np.linspace(0, 2 * np.pi, n_directions, endpoint=False)
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)


def edge_points(points: np.ndarray, n_points: int, seed: int) -> np.ndarray:
    """Points (n_points, D) on a shell around standardized data, as in step 1 of BaCOUn."""
    centre, spread = points.mean(axis=0), points.std(axis=0)
    standard = torch.from_numpy((points - centre) / spread).float()
    generator = torch.Generator().manual_seed(seed)
    shell = FlowShell(per_class=False)
    shell.fit(standard, torch.zeros(len(points), dtype=torch.long), FitContext(generator=generator))
    drawn: np.ndarray = shell.sample(n_points, generator=generator)[0].numpy()
    return drawn * spread + centre
