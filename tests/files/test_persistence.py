"""Dataclasses survive being stored, with what JSON does not know."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from bacoun.files.model_folder import read_folder, write_folder
from bacoun.files.persistence import SavesAttributes, from_state, to_state


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


class Fitted(SavesAttributes):
    """Saves a number, a leaf and, if it is there, a module."""

    _saved = ("number_", "leaf_", "module_")

    def _empty(self, name, state):
        return {"leaf_": Leaf, "module_": nn.Linear(2, 1)}.get(name)


def test_fitted_attributes_survive_and_those_that_were_not_set_stay_away(tmp_path):
    one = Fitted()
    one.number_, one.leaf_, one.unsaved_ = math.inf, Leaf(1.5, "green"), 3
    again = Fitted().set_state(written_and_read(one.get_state(), tmp_path / "one"))
    assert vars(again) == {"number_": math.inf, "leaf_": one.leaf_}
    one.module_ = nn.Linear(2, 1)
    again = Fitted().set_state(written_and_read(one.get_state(), tmp_path / "two"))
    assert torch.equal(again.module_.weight, one.module_.weight)


def written_and_read(state, folder):
    write_folder(state, folder, overwrite=False)
    return read_folder(folder)
