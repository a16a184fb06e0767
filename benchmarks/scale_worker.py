"""What workers of the benchmark of scale need besides bacoun, which they import only if used."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd


@dataclass(frozen=True)
class Forest:
    """Adds the probabilities of a pickled forest to a table of its inputs."""

    path: str
    n_classes: int

    def join(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The columns of `frame`, then its probabilities."""
        shares = np.empty((0, self.n_classes))
        if len(frame):
            shares = _load(self.path).predict_proba(frame.to_numpy())
        named = [f"p_{k}" for k in range(self.n_classes)]
        return pd.concat([frame, pd.DataFrame(shares, index=frame.index, columns=named)], axis=1)


@lru_cache(maxsize=1)
def _load(path: str) -> Any:
    return pickle.loads(Path(path).read_bytes())


def peak_megabytes() -> int:
    """The largest resident memory of this process so far, by Linux's own counter."""
    status = Path("/proc/self/status").read_text().splitlines()
    line = next(row for row in status if row.startswith("VmHWM"))
    return round(int(line.split()[1]) / 1024)
