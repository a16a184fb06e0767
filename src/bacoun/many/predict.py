"""score_files: many Parquet files -> a folder of scored parts and a summary of all of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bacoun.columns.checks import Finding
from bacoun.columns.reading import is_parquet, listed, rows_per_chunk
from bacoun.many.cluster import Engine
from bacoun.many.parts import (
    SUFFIX,
    Counts,
    FileSurvey,
    PartWriter,
    RowGroup,
    atomic_file,
    located,
    merge_counts,
    remove_unfinished,
    survey_file,
)

if TYPE_CHECKING:
    from bacoun.many.scorer import Scorer

SUMMARY = "summary.json"
_MOST_GROUPS_CHECKED = 50


@dataclass(frozen=True)
class Plan:
    """What a run will do."""

    writer: PartWriter
    groups: list[RowGroup]  # all of them, in the order of the files
    n_done: int  # how many parts were there before
    others: list[str]  # parts of another model, of other options or of a file that has changed

    @property
    def names(self) -> list[str]:
        """File names of the parts, in the order of the row groups."""
        return [self.writer.name(group) for group in self.groups]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(group.n_rows for group in self.groups)


@dataclass(frozen=True)
class Summary:
    """What was found in all rows."""

    counts: Counts  # rows by decision, reason and prediction
    findings: list[Finding]  # how the rows differ from the training table
    n_checked: int  # rows that were compared

    def total(self, **wanted: str) -> int:
        """Number of rows, or of those with the wanted `decision`, `reason` or `prediction`."""
        pairs = self.counts.items()
        return sum(n for key, n in pairs if wanted.items() <= key._asdict().items())

    def by(self, name: str, **wanted: str) -> dict[str, int]:
        """Number of the wanted rows for each `decision`, `reason` or `prediction`."""
        values = sorted({getattr(key, name) for key in self.counts})
        found = {value: self.total(**{name: value}, **wanted) for value in values}
        return {value: n for value, n in found.items() if n}

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        rows = self.total()
        predictions = self.by("prediction")
        return {
            "rows": rows,
            "accepted": self.total(decision="accept"),
            "deferred": self.by("reason", decision="defer"),
            "familiar": rows - self.total(reason="unfamiliar"),
            "predictions": predictions,
            "class_shares": {label: n / rows for label, n in predictions.items()},
            "checked_rows": self.n_checked,
            "findings": [asdict(each) for each in self.findings],
        }


def find_files(pattern: str) -> list[str]:
    """Addresses of the Parquet files that match a pattern such as `folder/*.parquet`, sorted."""
    path, filesystem = located(pattern)
    facts = filesystem.glob(path, detail=True)
    found = sorted(each for each, info in facts.items() if info["type"] == "file")
    if not found:
        raise FileNotFoundError(
            f"the pattern must match at least one file; '{pattern}' matches none. Write it as in "
            "'folder/*.parquet', with the quotes."
        )
    others = [each for each in found if not is_parquet(each)]
    if others:
        raise ValueError(
            f"the files must be Parquet, which has row groups; got {listed(others, most=2)}. "
            "Convert them, or score each on its own."
        )
    return [filesystem.unstrip_protocol(each) for each in found]


def survey_files(files: Sequence[str], engine: Engine) -> list[FileSurvey]:
    """Read the footers of Parquet files, which must have at least one row."""
    surveys = engine.run(survey_file, files, _concatenated)
    if not any(survey.groups for survey in surveys):
        raise ValueError(
            f"the files must have at least one row; {listed(files, most=2)} have none."
        )
    return surveys


def check_folder(out: str, files: Sequence[str]) -> None:
    """Refuse a folder for parts that is a file, or that holds one of the files to score."""
    folder, filesystem = located(out)
    if filesystem.isfile(folder):
        raise FileExistsError(f"--out must be a folder; '{out}' is a file. Choose another.")
    inside = f"{filesystem.unstrip_protocol(folder)}/"
    within = [file for file in files if file.startswith(inside)]
    if within:
        raise ValueError(
            f"--out must not hold files that are scored; '{out}' holds {listed(within, most=2)}. "
            "Choose another."
        )


def plan(scorer: Scorer, files: Sequence[str], out: str, engine: Engine) -> Plan:
    """Read the footers of all files, check their columns, and see which parts are missing."""
    folder, filesystem = located(out)
    surveys = survey_files(files, engine)
    for survey in surveys:
        _check_columns(scorer, survey)
    groups = [group for survey in surveys for group in survey.groups]
    filesystem.makedirs(folder, exist_ok=True)
    writer = PartWriter(scorer, filesystem.unstrip_protocol(folder))
    names = {writer.name(group) for group in groups}
    present = {path.rsplit("/", 1)[-1] for path in filesystem.glob(f"{folder}/*{SUFFIX}")}
    return Plan(writer, groups, len(names & present), sorted(present - names))


def score_files(
    plan: Plan, engine: Engine, on_done: Callable[[RowGroup], None] = lambda group: None
) -> Summary:
    """Write the parts that are missing or torn, and the summary.

    `on_done` is called with each row group when its part is there.
    """
    counts = engine.run(plan.writer, plan.groups, merge_counts, on_done)
    sample = _sample(plan, engine)
    model = plan.writer.scorer.model
    summary = Summary(counts, model.check(sample), len(sample))
    folder, filesystem = located(plan.writer.out)
    remove_unfinished(folder, filesystem, plan.names)
    parts = [
        {"part": name, "file": group.file, "row_group": group.number, "rows": group.n_rows}
        for name, group in zip(plan.names, plan.groups, strict=True)
    ]
    scorer = plan.writer.scorer
    made = {"model": str(scorer.path), "checksum": scorer.checksum, "because": scorer.because}
    content = summary.to_dict() | made | {"parts": parts}
    with atomic_file(f"{folder}/{SUMMARY}", filesystem) as file:
        file.write(json.dumps(content, indent=1).encode())
    return summary


def _check_columns(scorer: Scorer, survey: FileSurvey) -> None:
    absent = [name for name in scorer.model.column_names if name not in survey.columns]
    if absent:
        raise ValueError(
            f"every file must have the columns that the model was fitted on; '{survey.file}' lacks "
            f"{listed(absent)}."
        )
    scorer.model.refuse_taken(survey.columns, f"'{survey.file}'", scorer.because)


def _sample(plan: Plan, engine: Engine) -> pd.DataFrame:
    """The first rows of row groups from all over the files, as many as `bacoun check` looks at."""
    n_groups = min(len(plan.groups), _MOST_GROUPS_CHECKED)
    places = np.linspace(0, len(plan.groups) - 1, n_groups).round().astype(int)
    chosen = [plan.groups[place] for place in places]
    most = rows_per_chunk(max(group.n_columns for group in chosen))
    return engine.run(partial(_first_rows, n_rows=max(1, most // n_groups)), chosen, _stacked)


def _first_rows(group: RowGroup, n_rows: int) -> pd.DataFrame:
    return next(group.frames(n_rows))


def _stacked(frames: list[pd.DataFrame]) -> pd.DataFrame:
    """The rows of all frames, with the columns that all of them have."""
    return pd.concat(frames, join="inner", ignore_index=True)


def _concatenated(lists: list[list[FileSurvey]]) -> list[FileSurvey]:
    return list(chain.from_iterable(lists))
