"""A folder of JSON and safetensors: whole or not at all, and never silently altered."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bacoun.files.model_folder import read_checksum, read_folder, write_folder

plain = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec="utf-8"))
)
finite = plain.filter(lambda value: not (isinstance(value, float) and math.isinf(value)))
tensors = st.builds(
    lambda shape, seed, dtype: torch.randint(
        0, 9, shape, generator=torch.Generator().manual_seed(seed)
    ).to(dtype),
    st.lists(st.integers(0, 3), max_size=3).map(tuple),
    st.integers(0, 99),
    st.sampled_from([torch.float32, torch.float64, torch.int64, torch.bool]),
)
keys = st.text(st.characters(codec="utf-8", exclude_characters="/$"), min_size=1, max_size=5)
contents = st.recursive(
    finite | tensors,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=12,
)


@pytest.fixture
def saved(tmp_path) -> Path:
    path = tmp_path / "model"
    write_folder(example(1.0), path, overwrite=False)
    return path


def example(value: float) -> dict:
    return {
        "name": "Grüße, 世界",
        "steps": [{"weights": torch.full((3, 2), value)}, None, {"radii": [3.0, 3.1]}],
        "mean": torch.tensor([value], dtype=torch.float64),
    }


def assert_same(one, other):
    assert type(one) is type(other)
    if isinstance(one, torch.Tensor):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)
    elif isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_same(one[key], other[key])
    elif isinstance(one, list):
        assert len(one) == len(other)
        for left, right in zip(one, other, strict=True):
            assert_same(left, right)
    else:
        assert one == other


@given(content=contents)
@settings(deadline=None, max_examples=60)
def test_reading_undoes_writing(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("round") / "trip"
    write_folder({"content": content}, path, overwrite=False)
    assert_same(read_folder(path), {"content": content})


def test_tuples_come_back_as_lists(tmp_path):
    write_folder({"radii": (3.0, 3.1)}, tmp_path / "model", overwrite=False)
    assert read_folder(tmp_path / "model") == {"radii": [3.0, 3.1]}


def test_tensors_that_share_memory_are_saved(tmp_path):
    table = torch.arange(12.0).reshape(3, 4)
    content = {"tied": [table, table], "view": table[1:], "transposed": table.T}
    write_folder(content, tmp_path / "model", overwrite=False)
    assert_same(read_folder(tmp_path / "model"), content)


def test_missing_parents_are_made(tmp_path):
    write_folder(example(1.0), tmp_path / "new" / "deep" / "model", overwrite=False)
    assert_same(read_folder(tmp_path / "new" / "deep" / "model"), example(1.0))


def test_a_saved_model_is_two_files_and_nothing_beside_it(saved):
    assert sorted(file.name for file in saved.iterdir()) == ["model.json", "model.safetensors"]
    assert list(saved.parent.iterdir()) == [saved]


def test_an_existing_folder_is_kept_unless_overwrite(saved):
    with pytest.raises(FileExistsError, match=r"path must not exist yet; '.*model' does\."):
        write_folder(example(2.0), saved, overwrite=False)
    assert_same(read_folder(saved), example(1.0))
    write_folder(example(2.0), saved, overwrite=True)
    assert_same(read_folder(saved), example(2.0))
    assert list(saved.parent.iterdir()) == [saved]


def test_overwrite_fills_an_empty_folder(tmp_path):
    write_folder(example(1.0), tmp_path, overwrite=True)
    assert_same(read_folder(tmp_path), example(1.0))


def test_overwrite_refuses_what_is_no_model(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    for path in (tmp_path, tmp_path / "thesis.tex"):
        with pytest.raises(FileExistsError, match="overwrite=True replaces a saved model; "):
            write_folder(example(1.0), path, overwrite=True)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


@pytest.mark.parametrize("name", ["model.json", "model.safetensors"])
def test_a_missing_file_is_named(saved, name):
    (saved / name).unlink()
    with pytest.raises(FileNotFoundError, match=rf"^path must be .*; '.*model' has no {name}\.$"):
        read_folder(saved)


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"'.*nowhere' has no model\.json"):
        read_folder(tmp_path / "nowhere")


@pytest.mark.parametrize("text", ["", "[]", "{}", "3", "{'format': 1}", "\udcff"])
def test_a_document_that_is_none_is_called_damaged(saved, text):
    (saved / "model.json").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ValueError, match=r"^'.*model\.json' is damaged; save the model again\.$"):
        read_folder(saved)


@pytest.mark.parametrize("kept", [0.0, 0.3, 0.9, 0.999])
@pytest.mark.parametrize("name", ["model.json", "model.safetensors"])
def test_a_truncated_file_is_refused(saved, name, kept):
    whole = (saved / name).read_bytes()
    (saved / name).write_bytes(whole[: int(kept * len(whole))])
    with pytest.raises(ValueError, match=rf"^'.*{name}' (is damaged|was changed after saving);"):
        read_folder(saved)


def test_a_tampered_document_is_refused(saved):
    document = json.loads((saved / "model.json").read_text())
    document["steps"][2]["radii"] = [1.0, 2.0]
    (saved / "model.json").write_text(json.dumps(document))
    with pytest.raises(ValueError, match=r"model\.json' was changed after saving; save the model"):
        read_folder(saved)


@given(position=st.integers(0, 10**6))
@settings(deadline=None, max_examples=30)
def test_one_flipped_bit_in_the_tensors_is_refused(tmp_path_factory, position):
    path = tmp_path_factory.mktemp("flip") / "model"
    write_folder(example(1.0), path, overwrite=False)
    file = path / "model.safetensors"
    altered = bytearray(file.read_bytes())
    altered[position % len(altered)] ^= 1
    file.write_bytes(altered)
    with pytest.raises(ValueError, match=r"safetensors' was changed after saving; save the model"):
        read_folder(path)


def test_a_future_format_is_named(saved):
    document = json.loads((saved / "model.json").read_text())
    document["format"] = 7
    (saved / "model.json").write_text(json.dumps(document))
    with pytest.raises(ValueError, match="has format 7, this version of bacoun reads 3"):
        read_folder(saved)


@pytest.mark.parametrize("unwritable", [math.nan, object()])
def test_content_that_is_not_plain_leaves_nothing_behind(tmp_path, unwritable):
    with pytest.raises((ValueError, TypeError)):
        write_folder({"value": unwritable}, tmp_path / "model", overwrite=False)
    assert list(tmp_path.iterdir()) == []


WRITE_TOO_LARGE_FILES = """
import resource, sys, torch
from bacoun.files.model_folder import write_folder
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
large_tensors = {"weights": torch.zeros(100_000), "names": []}
large_document = {"weights": torch.zeros(1), "names": ["n" * 100] * 1_000}
for path in sys.argv[1:]:
    for content in (large_tensors, large_document):
        try:
            write_folder(content, path, overwrite=True)
        except Exception as error:
            print(error)
"""


def test_a_failed_write_leaves_nothing_behind_and_the_old_model_whole(tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    write_folder(example(1.0), old, overwrite=False)
    result = subprocess.run(
        [sys.executable, "-c", WRITE_TOO_LARGE_FILES, str(old), str(new)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout.count("File too large") == 4
    assert list(tmp_path.iterdir()) == [old]
    assert_same(read_folder(old), example(1.0))


def test_the_checksum_tells_models_apart(tmp_path):
    for name, value in (("one", 1.0), ("same", 1.0), ("other", 2.0)):
        write_folder(example(value), tmp_path / name, overwrite=False)
    one, same, other = (read_checksum(tmp_path / name) for name in ("one", "same", "other"))
    assert one == same != other


def test_a_model_that_a_killed_save_left_is_named(saved):
    """30.5: in two steps, a kill may leave the model under its temporary name."""
    left = saved.with_name(f".{saved.name}.1-01234567.tmp")
    saved.rename(left)
    with pytest.raises(FileNotFoundError, match=r"A save was interrupted: rename '.*tmp' to it"):
        read_folder(saved)


@pytest.mark.parametrize("foreign", ["notes.txt", "data.csv"])
def test_a_folder_with_something_foreign_is_not_replaced(saved, foreign):
    """30.10: any folder with a file model.json was."""
    (saved / foreign).write_text("mine")
    with pytest.raises(FileExistsError, match="holds other files"):
        write_folder(example(2.0), saved, overwrite=True)
    assert (saved / foreign).read_text() == "mine"


def test_a_folder_of_another_program_is_not_replaced(tmp_path):
    (tmp_path / "model.json").write_text('{"weights": [1, 2]}')
    with pytest.raises(FileExistsError, match="something else"):
        write_folder(example(2.0), tmp_path, overwrite=True)


def test_who_may_read_a_file_may_read_them_all(saved):
    """30.14: tensors were written for the owner alone."""
    modes = {path.stat().st_mode & 0o777 for path in saved.iterdir()}
    assert len(modes) == 1
