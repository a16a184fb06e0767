"""score_files: many Parquet files -> a folder of scored parts and a summary of all of them."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

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
    remove_unfinished,
    survey_file,
)
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


def _in_all(counts: Counts) -> dict[str, Any]:
    """Numbers of rows by decision, reason and prediction, as plain values."""
    rows, reasons, predictions = counts.total(), Counter[str](), Counter[str]()
    for (_, reason, prediction), n in counts.items():
        reasons[reason] += n
        predictions[prediction] += n
    return {
        "rows": rows,
        "accepted": reasons.pop("", 0),
        "deferred": dict(sorted(reasons.items())),
        "familiar": rows - reasons["unfamiliar"],
        "predictions": dict(sorted(predictions.items())),
        "class_shares": {label: n / rows for label, n in sorted(predictions.items())},
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
    concatenate: Any = partial(sum, start=[])
    surveys = engine.run(survey_file, files, concatenate)
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
        absent = [name for name in scorer.model.column_names if name not in survey.columns]
        if absent:
            raise ValueError(
                "every file must have the columns that the model was fitted on; "
                f"'{survey.file}' lacks {listed(absent)}."
            )
        scorer.model.refuse_taken(survey.columns, f"'{survey.file}'", scorer.because)
    groups = [group for survey in surveys for group in survey.groups]
    filesystem.makedirs(folder, exist_ok=True)
    writer = PartWriter(scorer, filesystem.unstrip_protocol(folder))
    names = {writer.name(group) for group in groups}
    present = {path.rsplit("/", 1)[-1] for path in filesystem.glob(f"{folder}/*{SUFFIX}")}
    return Plan(writer, groups, len(names & present), sorted(present - names))


def score_files(
    plan: Plan, engine: Engine, on_done: Callable[[RowGroup], None] = lambda group: None
) -> tuple[dict[str, Any], list[Finding]]:
    """Write the parts that are missing or torn, and the summary; return it, and its findings.

    `on_done` is called with each row group when its part is there.
    """
    counts = engine.run(plan.writer, plan.groups, partial(sum, start=Counter()), on_done)
    sample, scorer = _sample(plan, engine), plan.writer.scorer
    findings = scorer.model.check(sample)
    folder, filesystem = located(plan.writer.out)
    remove_unfinished(folder, filesystem, plan.names)
    parts = [
        {"part": name, "file": group.file, "row_group": group.number, "rows": group.n_rows}
        for name, group in zip(plan.names, plan.groups, strict=True)
    ]
    content = _in_all(counts) | {
        "checked_rows": len(sample),
        "findings": [asdict(finding) for finding in findings],
        "model": str(scorer.path),
        "checksum": scorer.checksum,
        "because": scorer.because,
        "parts": parts,
    }
    with atomic_file(f"{folder}/{SUMMARY}", filesystem) as file:
        file.write(json.dumps(content, indent=1).encode())
    return content, findings


def _sample(plan: Plan, engine: Engine) -> pd.DataFrame:
    """The first rows of row groups from all over the files, as many as `bacoun check` looks at."""
    n_groups = min(len(plan.groups), _MOST_GROUPS_CHECKED)
    places = np.linspace(0, len(plan.groups) - 1, n_groups).round().astype(int)
    chosen = [plan.groups[place] for place in places]
    most = rows_per_chunk(max(group.n_columns for group in chosen))
    first = partial(_first_rows, n_rows=max(1, most // n_groups))
    # The columns that all files have.
    return engine.run(first, chosen, partial(pd.concat, join="inner", ignore_index=True))


def _first_rows(group: RowGroup, n_rows: int) -> pd.DataFrame:
    return next(group.frames(n_rows))
