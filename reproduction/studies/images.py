"""Fit a method to images; evaluate it on other kinds, on rotated, noisy and interpolated ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from bacoun.boundary import CompactShell
from bacoun.classifier import BaCOUnClassifier
from bacoun.protocols import FitContext
from bacoun.uncertainty import aupr, auroc, fpr_at_tpr, rank_correlation
from reproduction.datasets.dataset import Dataset
from reproduction.fits import cached, code_digest, fitted, training_settings
from reproduction.results import Measured
from reproduction.schema import Experiment, Table
from reproduction.studies.corruptions import rotated
from reproduction.studies.regions import load, quality_of
from reproduction.studies.vae import autoencoders, line_between, mean_loss

PARTS = ("total", "aleatoric", "epistemic")
_SHELL_IMAGES = 5000  # enough for flows that only evaluation images are drawn from
_NOISE = np.linspace(0, 1, 11)
_ANGLES = np.arange(0, 361, 15)
_UNSURE = 0.325  # nats: the entropy of 90 % for one class and 10 % for another


def image_sets(experiment: Experiment, method: str, seed: int) -> Measured:
    """Quality on test images; parts of uncertainty on every set, and how well they separate it.

    The sets "boundary" and "smooth boundary" are drawn from a shell that no method was trained
    with, the same for all of them, with and without the residual of the principal components.
    """
    data = load(experiment.dataset, seed)
    model, seconds = fitted(experiment, method, seed, data)
    index = np.searchsorted(model.classes_, data.test_labels)
    numbers: dict[str, Any] = {"fit_seconds": seconds}
    numbers |= quality_of(probabilities(model, data.test_points), index)
    n_edge = len(data.regions["in"])
    sets = {
        **data.regions,
        "boundary": edge_images(experiment, data, n_edge, seed),
        "smooth boundary": edge_images(experiment, data, n_edge, seed, residual=0.0),
    }
    values = {name: scores(model, images) for name, images in sets.items()}
    arrays: dict[str, np.ndarray] = {}
    for name, parts in values.items():
        for part, value in parts.items():
            numbers.setdefault(part, {})[name] = float(value.mean())
            numbers.setdefault("sd", {}).setdefault(part, {})[name] = float(value.std())
            if name != "in":
                inside = values["in"][part]
                for measure in (auroc, aupr, fpr_at_tpr):
                    of_measure = numbers.setdefault(measure.__name__, {}).setdefault(part, {})
                    of_measure[name] = measure(inside, value)
        arrays |= {f"{part} {name}": parts[part] for part in ("aleatoric", "epistemic")}
    return numbers, arrays


def probabilities(model: Any, images: np.ndarray) -> np.ndarray:
    """Class probabilities (N, K), in single precision where that is several times faster."""
    if isinstance(model, BaCOUnClassifier):
        answers: np.ndarray = model.evaluate(images).probabilities
        return answers.astype(np.float64) / answers.sum(axis=1, keepdims=True)
    found: np.ndarray = model.predict_proba(images)
    return found


def scores(model: Any, images: np.ndarray) -> dict[str, np.ndarray]:
    """Parts of uncertainty, each (N,), and what doubt and density say, if there is an edge."""
    if not isinstance(model, BaCOUnClassifier):
        return model.uncertainty(images).parts()
    answers = model.evaluate(images)
    found = {part: getattr(answers, part) for part in PARTS}
    if answers.ood_probability is not None and answers.log_density is not None:
        found |= {"p_ood": answers.ood_probability, "rarity": -answers.log_density}
        found["ood_score"] = answers.ood_score
    return found


def edge_images(
    experiment: Experiment, data: Dataset, n_images: int, seed: int, *, residual: float = 1.0
) -> np.ndarray:
    """Images (n, H, W) on the edge of the data, from flows of their own."""
    draw = cached(_draw_edge, ignore=["data"])
    return draw(training_settings(experiment), n_images, seed, residual, code_digest(), data)


def _draw_edge(
    dataset: Table, n_images: int, seed: int, residual: float, code: str, data: Dataset
) -> np.ndarray:
    points = torch.from_numpy(data.points[:_SHELL_IMAGES]).flatten(1)
    labels = np.unique(data.labels[:_SHELL_IMAGES], return_inverse=True)[1]
    generator = torch.Generator().manual_seed(1000 + seed)  # no method has this seed
    shell = CompactShell(residual=residual)
    shell.fit(points, torch.from_numpy(labels), FitContext(generator=generator))
    drawn: np.ndarray = shell.sample(n_images, generator=generator)[0].numpy()
    return drawn.reshape(-1, *data.points.shape[1:])


def examples(experiment: Experiment, method: str, seed: int) -> Measured:
    """Predictions for single images; which of them are shown depends on all methods.

    Images of the data sets are not stored, because of their licences; a figure reads them again.
    """
    data = load(experiment.dataset, seed)
    model, seconds = fitted(experiment, method, seed, data)
    n_images = experiment.options["n_images"]
    sets = {name: data.regions[name][:n_images] for name in ("in", "usps")}
    sets["boundary"] = edge_images(experiment, data, 8, seed)
    numbers: dict[str, Any] = {"fit_seconds": seconds}
    arrays: dict[str, np.ndarray] = {}
    for name, images in sets.items():
        predicted = model.classes_[probabilities(model, images).argmax(axis=1)]
        found = scores(model, images)
        arrays |= {f"{part} {name}": found[part] for part in PARTS}
        arrays[f"predicted {name}"] = predicted.astype(np.uint8)
        if name in data.region_labels:
            labels = data.region_labels[name][:n_images]
            arrays[f"labels {name}"] = labels.astype(np.uint8)
            numbers.setdefault("accuracy", {})[name] = float((predicted == labels).mean())
    arrays["images boundary"] = as_bytes(sets["boundary"])
    return numbers, arrays


def rotations(experiment: Experiment, method: str, seed: int) -> Measured:
    """Test digits rotated by 0 to 360 degrees: one strip each, and means over many digits."""
    data = load(experiment.dataset, seed)
    model, _ = fitted(experiment, method, seed, data)
    numbers: dict[str, Any] = {}
    arrays: dict[str, np.ndarray] = {"angles": _ANGLES.astype(np.int16)}
    for digit in experiment.options["digits"]:
        upright = typical(data, digit, experiment.options["n_images"])
        turned = np.concatenate([rotated(upright, float(angle)) for angle in _ANGLES])
        winners, parts = _evaluated(model, turned, len(_ANGLES))
        arrays |= {f"{part} {digit}": value for part, value in parts.items()}
        arrays[f"winners {digit}"] = winners[:, 0].astype(np.uint8)
        arrays[f"images {digit}"] = as_bytes(turned[:: len(upright)])
        for part in ("aleatoric", "epistemic"):
            mean = parts[part].mean(axis=1)
            at = {f"at {angle}": float(mean[angle == _ANGLES][0]) for angle in (0, 90, 180, 270)}
            numbers.setdefault(part, {})[str(digit)] = {**at, "largest": float(mean.max())}
        numbers.setdefault("read as a 6 at 180", {})[str(digit)] = float(
            (winners[_ANGLES == 180] == 6).mean()
        )
    return numbers, arrays


def noise(experiment: Experiment, method: str, seed: int) -> Measured:
    """Test digits under ever more Gaussian noise: means over all of them, a strip of one."""
    data = load(experiment.dataset, seed)
    model, _ = fitted(experiment, method, seed, data)
    clean = data.test_points[: experiment.options["n_images"]]
    drawn = np.random.default_rng(seed).normal(size=clean.shape).astype(np.float32)
    noisy = np.concatenate([clean + level * drawn for level in _NOISE])
    _, parts = _evaluated(model, noisy, len(_NOISE))
    numbers: dict[str, Any] = {}
    arrays = {"levels": _NOISE, "images": as_bytes(noisy[:: len(clean)])}
    for part, value in parts.items():
        mean = value.mean(axis=1)
        numbers[part] = {
            "clean": float(mean[0]),
            "noisiest": float(mean[-1]),
            "rise": float(mean[-1] - mean[0]),
            "rank_correlation": rank_correlation(_NOISE, mean),
        }
        arrays[part] = value
    return numbers, arrays


def morph(experiment: Experiment, method: str, seed: int) -> Measured:
    """From one digit to another on a straight line through the latent plane of an autoencoder.

    Lines are those through the plane of our own autoencoder, and, where there is one, of the one
    that the paper used. `unsure` is the share of a line on which the prediction is unsure.
    """
    data, options = load(experiment.dataset, seed), experiment.options
    model, _ = fitted(experiment, method, seed, data)
    asked = slice(options.get("n_images"))  # all test images, if nothing is said
    data = replace(data, test_points=data.test_points[asked], test_labels=data.test_labels[asked])
    numbers: dict[str, Any] = {}
    arrays: dict[str, np.ndarray] = {}
    some = slice(None, 2000)
    arrays["code labels"] = data.test_labels[some].astype(np.uint8)
    for source, vae in autoencoders(options["epochs"], options["n_vae"]).items():
        numbers.setdefault("vae_loss", {})[source] = mean_loss(vae, data.test_points)
        arrays[f"codes, {source}"] = vae.codes(data.test_points[some])
        for first, last in options["between"]:
            name = f"{first} to {last}, {source}"
            line, images = line_between(vae, data, first, last)
            winners, parts = _evaluated(model, images, len(images))
            arrays |= {f"{part} {name}": value[:, 0] for part, value in parts.items()}
            arrays |= {f"line {name}": line, f"images {name}": as_bytes(images)}
            arrays[f"winners {name}"] = winners[:, 0].astype(np.uint8)
            for part, value in parts.items():
                numbers.setdefault(part, {})[name] = _along(value[:, 0])
            read = [winners[0, 0] == first, winners[-1, 0] == last]
            numbers.setdefault("ends read", {})[name] = float(np.mean(read))
            unsure = parts["total"][:, 0] > _UNSURE
            numbers.setdefault("unsure", {})[name] = float(unsure.mean())
    return numbers, arrays


def _along(values: np.ndarray) -> dict[str, float]:
    """A part of uncertainty on a line: at its ends, and at its peak between them."""
    inner = values[1:-1]
    return {
        "ends": float(max(values[0], values[-1])),
        "largest between": float(inner.max()),
        "where": float((1 + inner.argmax()) / (len(values) - 1)),
    }


def _evaluated(model: Any, images: np.ndarray, n_steps: int) -> tuple[np.ndarray, dict[str, Any]]:
    """Winning class and parts of uncertainty, each (n_steps, n_images)."""
    found = scores(model, images)
    parts = {part: found[part].reshape(n_steps, -1) for part in PARTS}
    winners = model.classes_[probabilities(model, images).argmax(axis=1)]
    return winners.reshape(n_steps, -1), parts


def typical(data: Dataset, digit: int, n_images: int) -> np.ndarray:
    """Test images of a digit, the one nearest to their mean first."""
    images = data.test_points[data.test_labels == digit]
    distance = np.square(images - images.mean(axis=0)).sum(axis=(1, 2))
    nearest = int(distance.argmin())
    rest = np.delete(np.arange(len(images)), nearest)
    return images[np.append(nearest, rest)[:n_images]]


def as_bytes(images: np.ndarray) -> np.ndarray:
    """For a record: pixels from 0 to 255, clipped."""
    return (255 * images.clip(0, 1)).round().astype(np.uint8)
