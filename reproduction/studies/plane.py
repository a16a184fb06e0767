"""Points of a plane that several studies ask about."""

from __future__ import annotations

import numpy as np


def grid(low: list[float], high: list[float], resolution: int) -> np.ndarray:
    """Crossings (resolution^2, 2) of a square grid, x running fastest."""
    x, y = (np.linspace(a, b, resolution) for a, b in zip(low, high, strict=True))
    return np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)


def rays(points: np.ndarray, distances: np.ndarray, n_rays: int = 200) -> np.ndarray:
    """Points (n_distances, n_rays, 2) around the data, distances in units of its radius.

    The radius is the largest distance of a training point from the data's mean.
    """
    centre = points.mean(axis=0)
    radius = np.linalg.norm(points - centre, axis=1).max()
    angle = np.linspace(0, 2 * np.pi, n_rays, endpoint=False)
    directions = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return centre + radius * distances[:, None, None] * directions
