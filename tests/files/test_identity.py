"""One identity of a saved model, in three forms."""

import shutil
import subprocess
import sys

import pytest

from bacoun.files.identity import is_model, stamp_of, version_of
from bacoun.files.model_folder import read_checksum, write_folder


def test_the_version_is_the_beginning_of_the_checksum(tmp_path):
    for name, content in {"one": {"a": 1}, "same": {"a": 1}, "other": {"a": 2}}.items():
        write_folder(content, tmp_path / name, overwrite=False)
    one, same, other = (version_of(tmp_path / name) for name in ("one", "same", "other"))
    assert one == same != other
    assert read_checksum(tmp_path / "one").startswith(one)
    assert len(one) == 12


def test_the_stamp_changes_with_the_model(tmp_path):
    folder = tmp_path / "model"
    assert stamp_of(folder) is None
    assert not is_model(folder)
    write_folder({"a": 1}, folder, overwrite=False)
    before = stamp_of(folder)
    assert is_model(folder)
    assert stamp_of(folder) == before
    write_folder({"a": 2}, folder, overwrite=True)
    assert stamp_of(folder) != before
    shutil.rmtree(folder)
    assert stamp_of(folder) is None


def test_a_damaged_model_is_refused(tmp_path):
    (tmp_path / "model.json").write_text('{"format": ')
    with pytest.raises(ValueError, match="is damaged; save the model again"):
        version_of(tmp_path)


def test_the_identity_does_not_wait_for_torch():
    code = "import sys, bacoun.files.identity; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=120).returncode == 0
