"""Digits: a drawing -> probabilities, uncertainties and a decision, by a classifier made on demand.

It learns from MNIST if that is at hand, in the folder that the variable BACOUN_DATA names;
otherwise from scikit-learn's digits, which have 8 by 8 pixels.
"""

import gzip
import os
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import ndimage
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split

from bacoun.boundary import CompactShell, FlowShell
from bacoun.classifier import BaCOUnClassifier
from bacoun.deferral import DeferralRule
from bacoun.features import LearnedFeatures
from bacoun.playground.settings import SIDE
from bacoun.posterior import HMC

_N_MNIST = 6000  # images to learn from; more would take longer than one waits for a page
_CALIBRATION = 0.25
_PARTS = ("total", "aleatoric", "model", "ood")
_SCORES = ("ood_score", "ood_probability", "rows_like_this")
_INK = 0.15  # shade from which a pixel counts as drawn


@dataclass(frozen=True)
class Reader:
    """A classifier of digits."""

    name: str  # what it learned from
    side: int  # pixels on each side of its images
    classifier: BaCOUnClassifier
    rule: DeferralRule
    examples: np.ndarray  # (10, side, side), one image of each digit, from 0 to 1
    accuracy: float


def score_digit(settings: dict[str, Any]) -> dict[str, Any]:
    """Everything that the page shows about one drawing, by the values of `DigitSettings`."""
    reader = _reader(settings["data"])
    image = _drawn(settings, reader)
    points = image[None].astype(np.float32)
    scores: Any = reader.classifier.evaluate(points)
    parts: Any = reader.classifier.uncertainty(points, split=True)
    decision, reason = reader.rule.decide(scores.ood_score, scores.total)
    numbers = {name: float(getattr(parts, name)[0]) for name in _PARTS}
    numbers |= {name: float(getattr(scores, name)[0]) for name in _SCORES}
    probabilities = scores.probabilities[0]
    return numbers | {
        "learned_from": reader.name,
        "accuracy": reader.accuracy,
        "side": reader.side,
        "image": np.round(image, 3).tolist(),
        "prediction": int(probabilities.argmax()),
        "probabilities": probabilities.tolist(),
        "ood_threshold": reader.rule.ood_threshold,
        "decision": str(decision[0]),
        "reason": str(reason[0]),
        "because": _because(str(reason[0]), probabilities, reader),
        "max_total": float(np.log(10)),
    }


def _because(reason: str, probabilities: np.ndarray, reader: Reader) -> str:
    if reason == "unfamiliar":
        share = 1 - reader.rule.false_alarm
        return (
            f"It is less like the digits it learned from than {share:.0%} of such digits are, so "
            "its class says little."
        )
    if reason == "ambiguous":
        likely = (f"a {k} ({probabilities[k]:.0%})" for k in np.argsort(-probabilities)[:2])
        return f"It may be {' or '.join(likely)}."
    return "It is like the digits it learned from, and one class is clearly ahead."


def _drawn(settings: dict[str, Any], reader: Reader) -> np.ndarray:
    """The image (side, side) that is classified, with all changes made."""
    image = reader.examples[settings["example"]]
    if settings["image"]:
        shades = np.array([int(shade, 16) for shade in settings["image"]]) / 15
        image = centered(shades.reshape(SIDE, SIDE), reader.side)
    if settings["amount"] > 0:
        image = morphed(image, reader.examples[settings["morph"]], settings["amount"])
    scale = reader.side / SIDE  # changes mean the same for small images
    if settings["rotate"]:
        image = ndimage.rotate(image, settings["rotate"], reshape=False, order=1)
    if settings["blur"]:
        image = ndimage.gaussian_filter(image, settings["blur"] * scale)
    if settings["noise"]:
        noise = np.random.default_rng(0).standard_normal(image.shape)
        image = image + settings["noise"] * noise
    return np.clip(image, 0.0, 1.0)


def centered(image: np.ndarray, side: int) -> np.ndarray:
    """A drawing (n, n), cut out and scaled as the digits of a data set are, (side, side).

    MNIST's fill 20 of 28 pixels and have their center of mass in the middle; small ones fill it.
    """
    rows, columns = (np.flatnonzero((image > _INK).any(axis=axis)) for axis in (1, 0))
    if len(rows) == 0:
        return np.zeros((side, side))
    ink = image[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    inner = 20 if side == SIDE else side
    factor = inner / max(ink.shape)
    smooth = ndimage.gaussian_filter(ink, max(0.0, 0.4 / factor - 0.4))  # before it is made smaller
    small = np.clip(ndimage.zoom(smooth, factor, order=1, grid_mode=True, mode="nearest"), 0, 1)
    small = small[:side, :side]
    canvas = np.zeros((side, side))
    top, left = ((side - n) // 2 for n in small.shape)
    canvas[top : top + small.shape[0], left : left + small.shape[1]] = small
    if side != SIDE:
        return canvas
    mass = np.array(ndimage.center_of_mass(canvas + 1e-12))
    return ndimage.shift(canvas, (side - 1) / 2 - mass, order=1)


def morphed(first: np.ndarray, second: np.ndarray, amount: float) -> np.ndarray:
    """An image between two (n, n), by the signed distances to their outlines."""

    def distance(image: np.ndarray) -> np.ndarray:
        ink = image > 0.4
        if not ink.any():
            return np.full(image.shape, -float(len(image)))
        inside: Any = ndimage.distance_transform_edt(ink)
        outside: Any = ndimage.distance_transform_edt(~ink)
        return np.where(ink, inside - 0.5, 0.5 - outside)

    between = (1 - amount) * distance(first) + amount * distance(second)
    outline = np.clip(between + 0.5, 0.0, 1.0)
    near = 2 * min(amount, 1 - amount)  # the ends keep their own shades
    return near * outline + (1 - near) * (first if amount < 0.5 else second)


@cache
def _reader(data: str) -> Reader:
    folder = Path(os.environ.get("BACOUN_DATA", "")) / "mnist"
    at_hand = bool(os.environ.get("BACOUN_DATA")) and folder.is_dir()
    if data == "mnist" and not at_hand:
        raise ValueError("MNIST is not at hand; set BACOUN_DATA to a folder that has mnist/.")
    if data == "digits" or not at_hand:
        digits = load_digits()
        return _fitted("scikit-learn's digits", digits.images / 16, digits.target)
    names = ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz")
    images, labels = (_read_idx(folder / name)[:_N_MNIST] for name in names)
    return _fitted("MNIST", images / 255, labels)


def _read_idx(path: Path) -> np.ndarray:
    """An array in the IDX format: two zeros, type, number of axes, their lengths, the bytes."""
    content = gzip.decompress(path.read_bytes())
    n_axes = content[3]
    shape = np.frombuffer(content, ">u4", n_axes, offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * n_axes).reshape(shape)


def _fitted(name: str, images: np.ndarray, labels: np.ndarray) -> Reader:
    images = images.astype(np.float32)
    train, held_out, known, truth = train_test_split(
        images, labels, test_size=_CALIBRATION, random_state=0, stratify=labels
    )
    large = images.shape[1] == SIDE
    flows = FlowShell(epochs=15 if large else 30, blocks=3, hidden=32)
    classifier = BaCOUnClassifier(
        boundary=CompactShell(shell=flows),
        features=LearnedFeatures(epochs=10 if large else 25, learning_rate=2e-3),
        posterior=HMC(n_draws=100, n_chains=16, n_warmup=15, n_iterations=25),
        n_boundary=1500 if large else 800,
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a quick fit, for a page
        classifier.fit(train, known)
    scores = classifier.evaluate(held_out)
    correct = scores.probabilities.argmax(axis=1) == truth
    columns = (scores.ood_score, scores.total, correct)
    rule = DeferralRule.calibrate(*columns, max_error_probability=0.2)
    by_class = (train[known == k] for k in range(10))  # of which the most familiar are shown
    examples = [rows[classifier.evaluate(rows).ood_score.argmin()] for rows in by_class]
    shown = np.stack(examples).astype(float)
    return Reader(name, images.shape[1], classifier, rule, shown, float(correct.mean()))
