"""Texts and photos of a training table: their columns and encoders, and which are left out."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import pandas as pd

from bacoun.columns.cells import Cells, Kind, is_text
from bacoun.columns.embedding import embed
from bacoun.columns.photo_files import content_digest, located, short_name
from bacoun.columns.reading import listed
from bacoun.columns.type_inference import is_free_text, is_photos
from bacoun.encoders import Encoder, HasSpec, as_encoder
from bacoun.engine.progress import BarFor

Choice = Sequence[str] | bool | None
"""Names of columns; None: those that are found; False: none."""

_FOUND = {"text": is_free_text, "photo": is_photos}
_NAMED = 5  # photos in a note


@dataclass(frozen=True)
class ItemColumns:
    """Columns of a training table whose cells are items for an encoder: texts or photos."""

    kinds: Mapping[str, Kind] = field(default_factory=dict)  # by the name of the column
    encoders: Mapping[str, HasSpec] = field(default_factory=dict)

    @classmethod
    def find(
        cls,
        inputs: pd.DataFrame,
        text: Choice = None,
        photos: Choice = None,
        text_encoder: str | Encoder = "minilm",
        photo_encoder: str | Encoder = "efficientnet-lite0",
    ) -> Self:
        """The columns that are named, or found; see `TableModel.fit`."""
        kinds: dict[str, Kind] = {}
        choices: dict[Kind, Choice] = {"photo": photos, "text": text}
        for kind, choice in choices.items():
            if choice is None or choice is True:
                others = inputs.columns.drop(list(kinds))
                found = [str(name) for name in others if _FOUND[kind](inputs[name])]
            else:
                found = [choice] if isinstance(choice, str) else list(choice or ())
                _check_named(found, inputs, kind)
            kinds |= dict.fromkeys(found, kind)
        by_kind = {"text": text_encoder, "photo": photo_encoder}
        return cls(kinds, {name: _saved_by_spec(by_kind[kind]) for name, kind in kinds.items()})

    def without_unreadable(
        self, frame: pd.DataFrame, folder: str, bar_for: BarFor = lambda name: None
    ) -> pd.DataFrame:
        """The table with complete paths of photos, all encoded once; others are left out."""
        left, unreadable = np.ones(len(frame), dtype=bool), dict[str, str]()
        for name, kind in self.kinds.items():
            cells = Cells.read(frame[name], kind).content
            if kind == "photo":
                paths = [None if cell is None else located(cell, folder) for cell in cells]
                cells = np.array(paths, dtype=object)
                frame = frame.assign(**{name: cells})
            rows = np.flatnonzero(~pd.isna(cells))
            _, reasons = embed(self.encoders[name], cells[rows].tolist(), bar_for(name))
            left[rows[[*reasons]]] = False
            unreadable |= {short_name(cells[rows[i]]): why for i, why in reasons.items()}
        if not unreadable:
            return frame
        first = "; ".join(f"'{name}' {why}" for name, why in list(unreadable.items())[:_NAMED])
        more = len(unreadable) - _NAMED
        told = first + (f"; and {more} more" if more > 0 else "")
        if not left.any():
            raise ValueError(
                f"the photos must be readable, relative to '{folder or '.'}'; none is: {told}. "
                "Correct the paths, or fit without photos."
            )
        warnings.warn(f"photos that cannot be read are left out: {told}.", stacklevel=3)
        return frame[left]

    def by_content(self, table: pd.DataFrame) -> pd.DataFrame:
        """The table with digests of photos, which are equal for copies under other names."""
        photos = [name for name, kind in self.kinds.items() if kind == "photo"]
        digests = {name: [content_digest(str(cell)) for cell in table[name]] for name in photos}
        return table.assign(**digests)


def _check_named(names: Sequence[str], inputs: pd.DataFrame, kind: str) -> None:
    for name in names:
        if name not in inputs:
            raise ValueError(
                f"a {kind} column must be an input of the table; '{name}' is not. It has "
                f"{listed(inputs.columns)}."
            )
        if not is_text(inputs[name]):
            raise ValueError(
                f"a {kind} column must hold text; '{name}' holds {inputs[name].dtype}. Leave it "
                "out of the list."
            )


def _saved_by_spec(encoder: str | Encoder) -> HasSpec:
    found = as_encoder(encoder)
    if not isinstance(found, HasSpec):
        raise ValueError(
            "the encoder of a table must have a spec, by which a model is saved; "
            f"{found!r:.80} has none. Add the attributes of bacoun.encoders.HasSpec."
        )
    return found
