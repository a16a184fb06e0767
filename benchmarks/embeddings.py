"""Few sentences through a pretrained encoder, beside simple detectors; extends embeddings.json.

    python -m benchmarks embeddings

Fifteen of CLINC's 150 intents, drawn at random for each seed, with 20 sentences each, are learned
from 384 numbers of MiniLM. Test sentences of these intents are to be told from questions that
belong to no intent at all. Needs the package tokenizers.
"""

from __future__ import annotations

import gzip
import json
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from reproduction.datasets.sources import fetch
from rich.console import Console
from sklearn.covariance import LedoitWolf
from sklearn.linear_model import LogisticRegression

from bacoun import BaCOUnClassifier
from bacoun.comparison.detectors import Detector, knn_distance, local_outlier_factor, mahalanobis
from bacoun.uncertainty import auroc
from benchmarks import record as records
from benchmarks.record import Record, mean_of

RECORD = Path(__file__).with_suffix(".json")
SEEDS = (0, 1, 2, 3, 4)
N_INTENTS, N_SENTENCES = 15, 20
LIBRARIES = ("bacoun", "torch", "numpy", "scikit-learn", "onnxruntime", "tokenizers")
_BATCH = 64


@cache
def _encoder() -> Any:
    """A function from sentences to the mean (N, 384) of their tokens' vectors, of unit length."""
    import onnxruntime
    from tokenizers import Tokenizer

    folder = fetch("minilm")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(128)
    tokenizer.enable_padding()
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"))
    names = {given.name for given in session.get_inputs()}

    def encode(batch: list[str]) -> np.ndarray:
        tokens = tokenizer.encode_batch(batch)
        given = {
            "input_ids": np.array([each.ids for each in tokens]),
            "attention_mask": np.array([each.attention_mask for each in tokens]),
            "token_type_ids": np.array([each.type_ids for each in tokens]),
        }
        vectors = session.run(None, {k: v for k, v in given.items() if k in names})[0]
        mask = given["attention_mask"][:, :, None]
        mean = (vectors * mask).sum(axis=1) / mask.sum(axis=1)
        return mean / np.linalg.norm(mean, axis=1, keepdims=True)

    return encode


def embedded(sentences: list[str]) -> np.ndarray:
    """Embeddings (N, 384)."""
    batches = (sentences[i : i + _BATCH] for i in range(0, len(sentences), _BATCH))
    return np.concatenate([_encoder()(batch) for batch in batches])


@cache
def clinc() -> dict[str, list[list[str]]]:
    """Pairs of a sentence and its intent, by part."""
    with gzip.open(fetch("clinc") / "clinc150.json.gz", "rt") as file:
        parts: dict[str, list[list[str]]] = json.load(file)
    return parts


def shared_mahalanobis(points: np.ndarray, labels: np.ndarray, seed: int) -> Detector:
    """Squared Mahalanobis distance to the nearest class mean, one covariance for all classes."""
    means = np.stack([points[labels == label].mean(axis=0) for label in np.unique(labels)])
    within = points - means[np.unique(labels, return_inverse=True)[1]]
    shared = LedoitWolf(assume_centered=True).fit(within)

    def score(rows: np.ndarray) -> np.ndarray:
        return np.min([shared.mahalanobis(rows - mean) for mean in means], axis=0)

    return Detector(score(points), score)


_DETECTORS = {
    "kNN": knn_distance,
    "LOF": local_outlier_factor,
    "Mahalanobis": mahalanobis,
    "Mahalanobis, shared": shared_mahalanobis,
}


def measure(table: str, seed: int) -> dict[str, Any]:
    """Accuracy, and the AUROC of every score, with the intents and sentences of one seed."""
    parts, rng = clinc(), np.random.default_rng(seed)
    intents = rng.permutation(sorted({label for _, label in parts["train"]}))[:N_INTENTS]
    sentences: list[str] = []
    labels: list[str] = []
    for intent in intents:
        own = [text for text, label in parts["train"] if label == intent]
        sentences += rng.permutation(own)[:N_SENTENCES].tolist()
        labels += [intent] * N_SENTENCES
    asked = [(text, label) for text, label in parts["test"] if label in set(intents)]
    train, y = embedded(sentences), np.array(labels)
    known, of_known = embedded([text for text, _ in asked]), np.array([label for _, label in asked])
    unknown = embedded([text for text, _ in parts["oos_test"]])
    started = time.perf_counter()
    model = BaCOUnClassifier(random_state=seed).fit(train, y)
    seconds = time.perf_counter() - started
    inside, outside = model.evaluate(known), model.evaluate(unknown)
    found: dict[str, Any] = {
        "bacoun": auroc(inside.ood_score, outside.ood_score),
        "bacoun, epistemic": auroc(inside.epistemic, outside.epistemic),
        "bacoun, aleatoric": auroc(inside.aleatoric, outside.aleatoric),
        "P(OOD) known": float(inside.ood_probability.mean()),
        "P(OOD) unknown": float(outside.ood_probability.mean()),
        "share known": float(inside.epistemic.sum() / inside.total.sum()),
        "share unknown": float(outside.epistemic.sum() / outside.total.sum()),
        "accuracy": float((model.classes_[inside.probabilities.argmax(axis=1)] == of_known).mean()),
        "fit seconds": round(seconds, 1),
        "effective draws": float(model.health_.ess),
    }
    for name, build in _DETECTORS.items():
        score = build(train, y, seed).score
        found[name] = auroc(score(known), score(unknown))
    plain = LogisticRegression(C=10, max_iter=2000).fit(train, y)
    sure = [-plain.predict_proba(rows).max(axis=1) for rows in (known, unknown)]
    found["logistic regression"] = auroc(*sure)
    found["accuracy of logistic regression"] = float(plain.score(known, of_known))
    return found


_SHOWN = {
    "bacoun": "`ood_score`",
    "bacoun, epistemic": "epistemic",
    "bacoun, aleatoric": "aleatoric",
    "kNN": "kNN",
    "LOF": "LOF",
    "Mahalanobis": "Mahalanobis",
    "Mahalanobis, shared": "Mahalanobis, one covariance",
    "logistic regression": "logistic regression",
}


def markdown(record: Record) -> str:
    """AUROC of every score, and what else our default says."""
    runs = list(record["runs"].values())
    means = {name: mean_of([run[name] for run in runs]) for name in runs[0]}
    header = ["", *_SHOWN.values()]
    row = ["AUROC", *(f"{means[name]:.3f}" for name in _SHOWN)]
    text = (
        f"Means over {len(runs)} draws of intents. The mean OOD probability is "
        f"{means['P(OOD) known']:.3f} for sentences of known intents and "
        f"{means['P(OOD) unknown']:.2f} for the others, the accuracy {means['accuracy']:.3f} "
        f"(logistic regression {means['accuracy of logistic regression']:.3f}), a fit "
        f"{means['fit seconds']:.0f} s."
    )
    return f"{records.markdown_table(header, [row])}\n\n{text}"


def main() -> None:
    """Measure what the record lacks, and print the means."""
    torch.set_num_threads(2)
    tasks = records.tasks(measure, ["clinc"], SEEDS)
    record = records.resume(RECORD, tasks, LIBRARIES)
    console = Console()
    runs = list(record["runs"].values())
    for name in runs[0]:
        console.print(f"{name:34} {mean_of([run[name] for run in runs]):.4f}")
