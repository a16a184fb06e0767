"""A variational autoencoder with two latent dimensions, to interpolate between digits.

Architecture and loss are those of the weights the paper used; we train our own.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from sklearn.neighbors import KNeighborsClassifier
from torch import Tensor, nn

from bacoun.engine.randomness import as_generator, seeded
from bacoun.engine.training import train
from reproduction.datasets import load_images
from reproduction.datasets.dataset import Dataset
from reproduction.datasets.sources import locate
from reproduction.fits import cached, code_digest

_N_STEPS = 21
_N_NEAREST = 20
_CHUNK = 500
_PUBLISHED = "dl4g_vae_2d_mnist.npz"


class VAE(nn.Module):
    """Images (N, 1, 28, 28) of shades from 0 to 1 -> codes (N, 2) -> images."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.ModuleDict(
            {
                "conv1": nn.Conv2d(1, 64, 4, stride=2, padding=1),
                "conv2": nn.Conv2d(64, 128, 4, stride=2, padding=1),
                "fc_mu": nn.Linear(128 * 7 * 7, 2),
                "fc_logvar": nn.Linear(128 * 7 * 7, 2),
            }
        )
        self.decoder = nn.ModuleDict(
            {
                "fc": nn.Linear(2, 128 * 7 * 7),
                "conv2": nn.ConvTranspose2d(128, 64, 4, stride=2, padding=1),
                "conv1": nn.ConvTranspose2d(64, 1, 4, stride=2, padding=1),
            }
        )

    def encode(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log variance (N, 2) of the code."""
        hidden = self.encoder["conv1"](images).relu()
        hidden = self.encoder["conv2"](hidden).relu().flatten(1)
        return self.encoder["fc_mu"](hidden), self.encoder["fc_logvar"](hidden)

    def logits(self, codes: Tensor) -> Tensor:
        """Images (N, 1, 28, 28) before the sigmoid."""
        hidden = self.decoder["fc"](codes).view(-1, 128, 7, 7)
        hidden = self.decoder["conv2"](hidden).relu()
        logits: Tensor = self.decoder["conv1"](hidden)
        return logits

    def loss(self, images: Tensor) -> Tensor:
        """Negative evidence bound, nats an image."""
        mean, log_variance = self.encode(images)
        codes = mean + (0.5 * log_variance).exp() * torch.randn_like(mean)
        misfit = nn.functional.binary_cross_entropy_with_logits(
            self.logits(codes), images, reduction="sum"
        )
        surplus = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum()
        return (misfit + surplus) / len(images)

    @torch.no_grad()
    def codes(self, images: np.ndarray) -> np.ndarray:
        """Mean codes (N, 2) of images (N, 28, 28)."""
        chunks = torch.from_numpy(images)[:, None].split(_CHUNK)
        return torch.cat([self.encode(chunk)[0] for chunk in chunks]).numpy()

    @torch.no_grad()
    def images(self, codes: np.ndarray) -> np.ndarray:
        """Images (N, 28, 28) of codes (N, 2)."""
        return self.logits(torch.from_numpy(codes).float()).sigmoid()[:, 0].numpy()


def autoencoders(epochs: int, n_images: int) -> dict[str, VAE]:
    """Our own, trained here and cached, and the published one, where its weights are."""
    found = {"ours": _with_weights(cached(_train, ignore=[])(epochs, n_images, 0, code_digest()))}
    published = _published()
    return found if published is None else {**found, "published": published}


def _train(epochs: int, n_images: int, seed: int, code: str) -> dict[str, np.ndarray]:
    """Weights after training on the first images of MNIST."""
    generator = as_generator(torch.Generator().manual_seed(seed))
    with seeded(generator):
        vae = VAE()
    train(
        vae,
        vae.loss,
        [torch.from_numpy(load_images("mnist")[0][:n_images])[:, None]],
        epochs=epochs,
        batch_size=128,
        learning_rate=1e-3,
        generator=generator,
    )
    return {name: weight.numpy() for name, weight in vae.state_dict().items()}


def _with_weights(weights: Mapping[str, np.ndarray]) -> VAE:
    vae = VAE()
    vae.load_state_dict({name: torch.from_numpy(weights[name]) for name in weights})
    return vae.eval()


@torch.no_grad()
def mean_loss(vae: VAE, images: np.ndarray) -> float:
    """Mean loss over images (N, 28, 28), with one draw of the code for each."""
    chunks = torch.from_numpy(images)[:, None].split(_CHUNK)
    with seeded(torch.Generator().manual_seed(0)):
        return float(np.mean([float(vae.loss(chunk)) for chunk in chunks]))


def _published() -> VAE | None:
    folder = locate("mnist")
    path = Path() if folder is None else folder.parent / "vae" / _PUBLISHED
    if not path.is_file():
        return None
    with np.load(path) as arrays:
        return _with_weights(arrays)


def line_between(vae: VAE, data: Dataset, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
    """Codes (21, 2) and images (21, 28, 28) on the straight line from one digit to another."""
    ends = [_middle(vae, data, digit) for digit in (first, last)]
    share = np.linspace(0, 1, _N_STEPS)[:, None]
    line = (1 - share) * ends[0] + share * ends[1]
    return line.astype(np.float32), vae.images(line)


def _middle(vae: VAE, data: Dataset, digit: int) -> np.ndarray:
    """The code (2,) in the middle of those whose images read as the digit.

    Codes are those of test images of the digit. An image reads as the digit if the training images
    nearest to it, pixel by pixel, do; no method that is asked later has a say in it.
    """
    codes = vae.codes(data.test_points[data.test_labels == digit])
    reader = KNeighborsClassifier(_N_NEAREST).fit(_flat(data.points), data.labels == digit)
    share = reader.predict_proba(_flat(vae.images(codes)))[:, 1]
    legible = codes[share >= np.sort(share)[-max(1, len(share) // 4)]]  # at least the best quarter
    distance = np.linalg.norm(legible - np.median(legible, axis=0), axis=1)
    middle: np.ndarray = legible[distance.argmin()]
    return middle


def _flat(images: np.ndarray) -> np.ndarray:
    return images.reshape(len(images), -1)
