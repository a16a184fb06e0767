"""`python -m reproduction.datasets`: what there is, and where."""

import json

import pytest
from reproduction.datasets.__main__ import data
from reproduction.datasets.catalog import SOURCES

from bacoun.cli import main


@pytest.fixture
def held(tmp_path, monkeypatch):
    """A folder that holds USPS, and nothing else within reach."""
    monkeypatch.setenv("BACOUN_DATA", str(tmp_path))
    monkeypatch.setenv("BACOUN_CACHE", str(tmp_path / "cache"))
    (tmp_path / "usps").mkdir()
    (tmp_path / "usps" / "usps.npz").write_bytes(b"1234")
    return tmp_path


def test_list_names_every_set_and_where_it_is(held, capsys):
    main(["list"], data)
    text = capsys.readouterr().out
    assert all(name in text for name in SOURCES)
    assert str(held / "usps") in text
    assert text.count("not downloaded") == len(SOURCES) - 1


def test_list_as_json(held, capsys):
    main(["list", "--json"], data)
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows.keys() == SOURCES.keys()
    assert (rows["usps"]["folder"], rows["usps"]["bytes"]) == (str(held / "usps"), 4)
    assert rows["mnist"]["folder"] is None


def test_get_prints_the_folder(held, capsys):
    main(["get", "usps"], data)
    main(["get", "usps", "--path", str(held)], data)
    assert capsys.readouterr().out.splitlines() == [str(held / "usps")] * 2


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["get", "nonsense"], "name must be one of"),
        (["get", "mnist", "--path", "/nowhere"], "path must be a folder with"),
        (["get"], "Missing argument"),
        (["sing"], "No such command 'sing'"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_two(held, words, sentence, capsys):
    with pytest.raises(SystemExit) as info:
        main(words, data)
    assert info.value.code == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert len(error.splitlines()) == 1
