"""Mixed tables are read as published: numbers as numbers, categories as text, gaps as gaps."""

import gzip
import os

import numpy as np
import pandas as pd
import pytest
from reproduction.datasets.catalog import SOURCES
from reproduction.datasets.frames import (
    _SHAPES,
    frame_names,
    from_one_hot,
    load_frame,
    needs_file,
    read_keel,
    read_keel_with_header,
    split_frame,
)

needs_data = pytest.mark.skipif(
    "BACOUN_DATA" not in os.environ, reason="BACOUN_DATA is not set, so there are no table files"
)
FILES = [name for name in frame_names() if needs_file(name)]
WITHOUT_FILES = [name for name in frame_names() if not needs_file(name)]


def check(name):
    frame, target = load_frame(name)
    assert (len(frame), frame.shape[1] - 1, frame[target].nunique()) == _SHAPES[name]
    assert all(isinstance(column, str) for column in frame)
    assert frame.columns.is_unique
    assert frame[target].notna().all()


def text_columns(frame):
    return [name for name in frame if not pd.api.types.is_numeric_dtype(frame[name])]


@pytest.mark.parametrize("name", WITHOUT_FILES)
def test_frames_that_need_no_file_have_their_published_size(name):
    check(name)


@needs_data
@pytest.mark.parametrize("name", FILES)
def test_frames_in_files_have_their_published_size(name):
    check(name)


@needs_data
def test_categories_are_text_and_numbers_are_numbers():
    saheart, target = load_frame("saheart")
    assert text_columns(saheart) == ["Famhist"]
    assert target == "Chd"
    german, _ = load_frame("german")
    assert len(text_columns(german)) == 13
    assert set(german["x20"]) == {"A201", "A202"}
    assert text_columns(load_frame("vehicle")[0]) == ["label"]
    assert len(text_columns(load_frame("mushroom")[0])) == 23


@needs_data
def test_penguins_keep_their_gaps():
    frame, target = load_frame("penguins")
    assert target == "species"
    gaps = frame.isna().sum()
    assert gaps["sex"] == 11
    assert gaps["body_mass_g"] == 2
    assert gaps.sum() == 19


@needs_data
def test_one_hot_columns_become_categories_again():
    adult, target = load_frame("adult")
    assert set(adult[target]) == {"<=50K", ">50K"}
    assert adult["native-country"].nunique() == 41
    assert "workclass_Private" not in adult
    credit, _ = load_frame("credit_card")
    assert set(credit["MARRIAGE"]) == {"0", "1", "2", "3"}
    assert {"PAY_0", "PAY_AMT6"} <= set(credit)
    assert "ID" not in credit


@needs_data
def test_fars_is_named_by_its_header():
    frame, target = load_frame("fars")
    assert target == "INJURY_SEVERITY"
    assert frame.columns[0] == "CASE_STATE"
    assert pd.api.types.is_numeric_dtype(frame["AGE"])
    assert frame["CASE_STATE"].nunique() > 50


def test_a_row_in_no_category_or_in_two_is_refused():
    table = pd.DataFrame({"sex_F": [1, 0], "sex_M": [0, 0]})
    with pytest.raises(ValueError, match="exactly one of sex_F, sex_M must be 1 in each row"):
        from_one_hot(table, ["sex"])


def test_only_keels_own_signs_are_gaps(tmp_path):
    path = tmp_path / "table.dat"
    path.write_text("1, None, a \n<null>, NA, b\n3, ?, b\n")
    frame, target = read_keel(path)
    assert list(frame) == ["x1", "x2", "label"]
    assert frame["x1"].isna().tolist() == [False, True, False]
    assert frame["x2"].tolist()[:2] == ["None", "NA"]
    assert frame["x2"].isna().tolist() == [False, False, True]
    assert frame[target].tolist() == ["a", "b", "b"]


def test_a_keel_header_names_the_columns(tmp_path):
    path = tmp_path / "table.dat.gz"
    text = "@relation t\n@attribute AGE real [0,9]\n@attribute KIND {a,b}\n@data\n1,a\n2,b\n"
    path.write_bytes(gzip.compress(text.encode()))
    frame, target = read_keel_with_header(path)
    assert target == "KIND"
    assert frame.to_dict("list") == {"AGE": [1, 2], "KIND": ["a", "b"]}


def test_an_unknown_name_and_a_missing_file_are_answered_in_one_sentence(tmp_path):
    with pytest.raises(ValueError, match=r"name must be one of adult, .*; got 'wines'"):
        load_frame("wines")
    for file in SOURCES["tables"].files:
        (tmp_path / file).touch()
    with pytest.raises(FileNotFoundError, match=r"german needs the file german\.dat\.gz beside"):
        load_frame("german", tmp_path)


def test_splits_are_disjoint_stratified_and_of_one_seed():
    frame, target = load_frame("iris")
    numbered = frame.assign(row=range(len(frame)))

    def rows(seed, n_train=1000):
        parts = split_frame(numbered, target, n_train=n_train, n_test=20, random_state=seed)
        return [part["row"].tolist() for part in parts]

    train, test = rows(0)
    assert (len(train), len(test)) == (105, 20)
    assert not set(train) & set(test)
    assert np.bincount(frame[target].iloc[train]).tolist() == [35, 35, 35]
    assert rows(0) == [train, test] != rows(1)
    assert rows(0, n_train=10)[0] == train[:10]
