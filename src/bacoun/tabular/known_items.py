"""KnownItems: some training texts or photos of a column, to show what is nearest to a new one."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from bacoun.columns.column import Column
from bacoun.columns.photo_files import short_name
from bacoun.encoders import thumbnail
from bacoun.tabular.explanation import Nearest

_MOST = 2000  # items that are kept, drawn at random
_MOST_CHARACTERS = 300  # of a text
_MOST_TYPICAL = 20


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
    def of(
        cls,
        column: Column,
        items: np.ndarray,
        vectors: np.ndarray,
        labels: np.ndarray,
        random_state: int,
    ) -> Self:
        """Keep some of the distinct items (N,), which have features (N, d) and labels (N,)."""
        assert column.embedding is not None
        firsts = {item: row for row, item in reversed([*enumerate(items)]) if item is not None}
        rows = np.sort([*firsts.values()])
        if len(rows) > _MOST:
            rows = np.sort(np.random.default_rng(random_state).choice(rows, _MOST, replace=False))
        kept, pictures = items[rows].tolist(), [b""] * len(rows)
        if column.kind == "photo":
            pictures = [thumbnail(item) for item in kept]
            kept = [short_name(item) for item in kept]
        return cls(
            column=column.name,
            vectors=vectors[rows, : len(column.embedding.center)].astype(np.float32),
            labels=tuple(map(str, labels[rows])),
            texts=tuple(text[:_MOST_CHARACTERS] for text in kept),
            thumbnails=np.frombuffer(bytearray(b"".join(pictures)), dtype=np.uint8),
            ends=np.cumsum([*map(len, pictures)]),
        )

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, place: int) -> Nearest:
        return self._item(place, 1.0)

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
        similarity = _unit(vectors[:, : self.vectors.shape[1]]) @ _unit(self.vectors).T
        order = np.argsort(-similarity, axis=1, kind="stable")[:, :number]
        return [
            tuple(self._item(int(place), float(row[place])) for place in places)
            for row, places in zip(similarity, order, strict=True)
        ]

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
