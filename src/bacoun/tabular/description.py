"""What a model says about its own fit: facts about rows and quality, and what it was made with."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd

from bacoun.columns.frames import table_checksum
from bacoun.tabular.encoding import TableEncoder
from bacoun.tabular.scored_rows import ScoredRows
from bacoun.tabular.splitting import Split


def describe(
    frame: pd.DataFrame,
    labels: np.ndarray,
    split: Split,
    encoder: TableEncoder,
    held_out: ScoredRows,
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    """Plain values about the rows, the columns and the quality on the held-out rows."""
    return {
        "rows": len(frame),
        "training_rows": len(split.train),
        "sampled_rows": len(split.train),
        "calibration_rows": len(split.held_out),
        "copies": split.n_copies,
        "repeated_rows": split.repeats,
        "unseen_in_calibration": int(np.isinf(held_out.ood_score).sum()),
        "classes": {str(label): int((labels == label).sum()) for label in held_out.classes},
        "features": len(encoder.feature_names_),
        "dropped_columns": dict(encoder.dropped_),
        "calibrated_on": split.calibrated_on,
        "drift": "" if split.in_order is None else held_out.take(split.in_order).drift(),
        **held_out.quality(),
        **settings,
        "data_digest": table_checksum(frame),
    }


def made_now() -> dict[str, str]:
    """The time, and the versions of all libraries that affect a model's numbers."""
    libraries = ("bacoun", "torch", "zuko", "numpy", "scipy", "scikit-learn", "pandas")
    versions = [f"{name} {version(name)}" for name in libraries]
    return {
        "fitted": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "with": ", ".join([*versions, f"Python {platform.python_version()}"]),
    }
