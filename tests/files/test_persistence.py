"""Dataclasses survive being stored, with what JSON does not know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bacoun.files.model_folder import read_folder, write_folder
from bacoun.files.persistence import from_state, to_state


@dataclass(frozen=True)
class Leaf:
    value: float
    name: str | None = None


@dataclass(frozen=True)
class Tree:
    leaves: tuple[Leaf, ...]
    by_number: Mapping[int, Leaf]
    pair: tuple[int, str]
    numbers: list[float]
    array: np.ndarray
    best: Leaf | None = None
    size: int = field(init=False, default=0)


leaves = st.builds(Leaf, st.floats(allow_nan=False), st.none() | st.text(max_size=5))
trees = st.builds(
    Tree,
    st.lists(leaves, max_size=3).map(tuple),
    st.dictionaries(st.integers(-5, 5), leaves, max_size=3),
    st.tuples(st.integers(-9, 9), st.text(max_size=3)),
    st.lists(st.floats(allow_nan=False), max_size=3),
    st.lists(st.floats(-9, 9), max_size=3).map(np.array),
    st.none() | leaves,
)


@given(tree=trees)
def test_what_is_stored_in_a_folder_comes_back(tmp_path_factory, tree):
    folder = tmp_path_factory.mktemp("trees") / "tree"
    write_folder({"tree": to_state(tree)}, folder, overwrite=False)
    again = from_state(Tree, read_folder(folder)["tree"])
    np.testing.assert_array_equal(again.array, tree.array)
    for name in ("leaves", "by_number", "pair", "numbers", "best"):
        assert getattr(again, name) == getattr(tree, name), name


def test_what_is_missing_is_named():
    with pytest.raises(ValueError, match="Tree was not stored completely: 'pair'"):
        from_state(Tree, {"leaves": [], "by_number": {}})
