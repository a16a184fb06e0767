"""The room of columns is light: no torch, and a file is read once."""

import subprocess
import sys

from bacoun.cli.fit import _read

IMPORT_ALL = """
import importlib, pkgutil, sys
import bacoun.columns
for module in pkgutil.walk_packages(bacoun.columns.__path__, "bacoun.columns."):
    importlib.import_module(module.name)
assert "torch" not in sys.modules
"""
OPENED = []


def _note_opened(event, arguments):
    if event == "open":
        OPENED.append(str(arguments[0]))


def test_columns_need_no_torch():
    subprocess.run([sys.executable, "-c", IMPORT_ALL], check=True)


def test_fit_opens_a_csv_once(tmp_path):
    path = tmp_path / "train.csv"
    path.write_text("a,b\n" + "1,2\n" * 100)
    sys.addaudithook(_note_opened)
    assert len(_read(str(path), wants_workers=False)) == 100
    assert OPENED.count(str(path)) == 1
