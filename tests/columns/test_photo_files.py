"""Photos as cells, and folders of photos as tables."""

import pytest

from bacoun.columns.photo_files import (
    content_digest,
    data_uri,
    folder_of,
    is_photo,
    located,
    photo_table,
    short_name,
)
from bacoun.columns.reading import read_table, stream_table, survey_table


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("a.jpg", True),
        ("x/y z.PNG", True),
        ("C:\\photos\\1.Tiff ", True),
        ("data:image/png;base64,AAAA", True),
        ("https://example.org/a.jpg", False),
        ("a.jpg.txt", False),
        ("jpg", False),
        ("", False),
    ],
)
def test_photos_are_told_by_their_names(cell, expected):
    assert is_photo(cell) == expected


def test_a_folder_of_classes_is_a_table(shapes):
    table = photo_table(shapes)
    assert list(table) == ["photo", "class"]
    assert table["photo"].tolist() == sorted(table["photo"])
    assert table["photo"][0] == "box/box0.png"
    assert table["class"].value_counts().to_dict() == {"box": 25, "disc": 25}
    survey = survey_table(shapes)
    assert (survey.columns, survey.n_rows) == (("photo", "class"), 50)
    assert [len(chunk) for chunk in stream_table(shapes, 20)] == [20, 20, 10]
    assert read_table(shapes).equals(table)


def test_other_and_hidden_files_are_no_rows_and_a_photo_beside_folders_has_no_class(tmp_path):
    (tmp_path / "sub" / ".cache").mkdir(parents=True)
    for name in ("b.png", "sub/a.JPG", "notes.txt", ".hidden.png", "sub/.cache/c.png"):
        (tmp_path / name).touch()
    assert photo_table(tmp_path).to_dict("list") == {"photo": ["b.png", "sub/a.JPG"]}


def test_a_folder_without_photos_is_refused(tmp_path):
    (tmp_path / "notes.txt").touch()
    with pytest.raises(ValueError, match="is a folder, which must hold photos"):
        photo_table(tmp_path)


def test_paths_are_relative_to_the_table_or_refused(tmp_path):
    (tmp_path / "table.csv").touch()
    assert folder_of(tmp_path / "table.csv") == str(tmp_path)
    assert folder_of(tmp_path) == str(tmp_path)
    assert folder_of(f"file://{tmp_path}/a.parquet") == str(tmp_path)
    assert located("a.png", "/photos") == "/photos/a.png"
    assert located("/b/a.png", "/photos") == "/b/a.png"
    uri = data_uri(b"jpeg")
    assert located(uri, "/photos") == located(uri, None) == uri
    with pytest.raises(ValueError, match=r"must be data URIs.*got '/etc/a\.png'"):
        located("/etc/a.png", None)


def test_a_photo_is_called_by_its_file_and_known_by_its_content(shapes, tmp_path):
    photo = shapes / "box" / "box3.png"
    (tmp_path / "other.png").write_bytes(photo.read_bytes())
    assert content_digest(str(photo)) == content_digest(str(tmp_path / "other.png"))
    assert content_digest("no.png") == "no.png"
    assert (short_name(str(photo)), short_name(data_uri(b""))) == ("box3.png", "a photo")
