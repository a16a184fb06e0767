"""Texts and photos of a training table: their columns and encoders, and those that are kept."""

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

import numpy as np
import pandas as pd

from bacoun.columns.cells import Cells, Kind, is_text
from bacoun.columns.column import Column
from bacoun.columns.embedding import embed
from bacoun.columns.frames import check_names
from bacoun.columns.photo_files import content_digest, located, short_name
from bacoun.columns.reading import listed
from bacoun.columns.type_inference import is_free_text, is_photos
from bacoun.encoders import Encoder, HasSpec, MissingPackageError, as_encoder, thumbnail
from bacoun.engine.progress import progress_bars
from bacoun.tabular.explanation import Nearest

Choice = Sequence[str] | bool | None
"""Names of columns; None: those that are found; False: none."""

DEFAULT_CHOICES: Mapping[Kind, Choice] = {"photo": None, "text": None}
DEFAULT_ENCODERS = {"photo": "efficientnet-lite0", "text": "minilm"}

_PLURAL = {"text": "free text", "photo": "photos"}
_LEFT_OUT = {"text": "text=False, --no-text", "photo": "photos=False, --no-photos"}
_FOUND = {"text": is_free_text, "photo": is_photos}
_NAMED = 5  # photos in a note

_MOST_KNOWN = 2000  # items that are kept, drawn at random
_MOST_CHARACTERS = 300  # of a text
_MOST_TYPICAL = 20


@dataclass(frozen=True)
class ItemColumns:
    """Columns of a training table whose cells are items for an encoder: texts or photos."""

    kinds: Mapping[str, Kind] = field(default_factory=dict)  # by the name of the column
    encoders: Mapping[str, HasSpec] = field(default_factory=dict)

    @classmethod
    def find(
        cls,
        frame: pd.DataFrame,
        others: Collection[str],
        choices: Mapping[Kind, Choice] = DEFAULT_CHOICES,
        encoders: Mapping[str, str | Encoder] = DEFAULT_ENCODERS,
    ) -> Self:
        """The columns that are named, or found, without `others`; see `TableModel.fit`."""
        check_names(frame)
        inputs = frame.drop(columns=list(others), errors="ignore")
        kinds: dict[str, Kind] = {}
        for kind, choice in choices.items():
            if choice is None or choice is True:
                left = inputs.columns.drop(list(kinds))
                found = [str(name) for name in left if _FOUND[kind](inputs[name])]
            else:
                found = [choice] if isinstance(choice, str) else list(choice or ())
                _check_named(found, inputs, kind)
            kinds |= dict.fromkeys(found, kind)
        return cls(kinds, {name: _saved_by_spec(encoders[kind]) for name, kind in kinds.items()})

    def refuse_sample(self) -> None:
        """Refuse a table that is a sample of more rows than fit into memory."""
        if self.kinds:
            raise ValueError(
                f"texts and photos need all rows in memory; there are {listed(self.kinds)}. Leave "
                "them out (text=False, photos=False; --no-text, --no-photos), or raise sample_rows."
            )

    def without_unreadable(
        self, frame: pd.DataFrame, folder: str, verbose: bool = False
    ) -> pd.DataFrame:
        """The table with complete paths of photos; rows of those that cannot be read are left out.

        All texts and photos are encoded once, with progress bars if `verbose`.
        """
        left, unreadable = np.ones(len(frame), dtype=bool), list[str]()
        for name, kind in self.kinds.items():
            cells = Cells.read(frame[name], kind).content
            if kind == "photo":
                paths = [None if cell is None else located(cell, folder) for cell in cells]
                cells = np.array(paths, dtype=object)
                frame = frame.assign(**{name: cells})
            rows = np.flatnonzero(~pd.isna(cells))
            try:
                with progress_bars(verbose) as bar_for:
                    _, reasons = embed(self.encoders[name], cells[rows].tolist(), bar_for(name))
            except MissingPackageError as error:
                raise MissingPackageError(
                    f"'{name}' holds {_PLURAL[kind]}, but {error} Or leave them out ("
                    f"{_LEFT_OUT[kind]})."
                ) from error
            left[rows[[*reasons]]] = False
            unreadable += [f"'{short_name(cells[rows[i]])}' {why}" for i, why in reasons.items()]
        if not unreadable:
            return frame
        more = len(unreadable) - _NAMED
        told = "; ".join(unreadable[:_NAMED]) + (f"; and {more} more" if more > 0 else "")
        if not left.any():
            raise ValueError(
                f"the photos must be readable, relative to '{folder or '.'}'; none is: {told}. "
                "Correct the paths, or leave them out (photos=False, --no-photos)."
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


@dataclass(frozen=True, eq=False)
class KnownItems:
    """Training texts or photos of a column, with their vectors and labels."""

    column: str
    vectors: np.ndarray  # (n, D), float32
    labels: tuple[str, ...]
    texts: tuple[str, ...]  # cut; of photos, the names of their files
    thumbnails: np.ndarray  # uint8: JPEG files, one after the other; none for texts
    ends: np.ndarray  # (n,), where each of these ends

    @classmethod
    def of_columns(
        cls,
        columns: Sequence[tuple[Column, np.ndarray, np.ndarray]],
        labels: np.ndarray,
        random_state: int,
    ) -> dict[str, Self]:
        """By their names, those of columns with their items (N,) and vectors (N, D)."""
        return {
            column.name: cls.of(column, items, vectors, labels, random_state)
            for column, items, vectors in columns
        }

    @classmethod
    def of(
        cls,
        column: Column,
        items: np.ndarray,
        vectors: np.ndarray,
        labels: np.ndarray,
        random_state: int,
    ) -> Self:
        """Keep some of the distinct items (N,), which have vectors (N, D) and labels (N,)."""
        firsts = {item: row for row, item in reversed([*enumerate(items)]) if item is not None}
        rows = np.sort([*firsts.values()])
        if len(rows) > _MOST_KNOWN:
            random = np.random.default_rng(random_state)
            rows = np.sort(random.choice(rows, _MOST_KNOWN, replace=False))
        kept, pictures = items[rows].tolist(), [b""] * len(rows)
        if column.kind == "photo":
            pictures = [thumbnail(item) for item in kept]
            kept = [short_name(item) for item in kept]
        return cls(
            column=column.name,
            vectors=vectors[rows].astype(np.float32),
            labels=tuple(map(str, labels[rows])),
            texts=tuple(text[:_MOST_CHARACTERS] for text in kept),
            thumbnails=np.frombuffer(bytearray(b"".join(pictures)), dtype=np.uint8),
            ends=np.cumsum([*map(len, pictures)]),
        )

    def _item(self, place: int, similarity: float) -> Nearest:
        start = self.ends[place - 1] if place else 0
        picture = self.thumbnails[start : self.ends[place]].tobytes()
        return Nearest(
            self.column, self.labels[place], similarity, self.texts[place], picture or None
        )

    def nearest(self, vectors: np.ndarray, number: int = 3) -> list[tuple[Nearest, ...]]:
        """The items with the most similar vectors to each of some (N, D), most similar first.

        More columns, such as one for gaps, are ignored.
        """
        similarity = _unit(vectors[:, : self.vectors.shape[1]]) @ self._units.T
        order = np.argsort(-similarity, axis=1, kind="stable")[:, :number]
        return [
            tuple(self._item(int(place), float(row[place])) for place in places)
            for row, places in zip(similarity, order, strict=True)
        ]

    @cached_property
    def _units(self) -> np.ndarray:
        return _unit(self.vectors)

    def decode(self, features: np.ndarray) -> str:
        """The text, or the name of the photo, that features (d,) are most similar to."""
        ((item,),) = self.nearest(features[None], number=1)
        return item.text

    def typical(self) -> np.ndarray:
        """Vectors (m, D) of a few items: of each class, those nearest to its mean."""
        labels, chosen = np.array(self.labels), list[int]()
        classes = np.unique(labels)
        for label in classes:
            rows = np.flatnonzero(labels == label)
            vectors = self.vectors[rows]
            distances = np.linalg.norm(vectors - vectors.mean(axis=0), axis=1)
            number = max(1, _MOST_TYPICAL // len(classes))
            chosen += rows[np.argsort(distances, kind="stable")[:number]].tolist()
        return self.vectors[sorted(chosen)].astype(np.float64)


def _unit(vectors: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    units: np.ndarray = (vectors / np.maximum(lengths, 1e-12)).astype(np.float64)
    return units
