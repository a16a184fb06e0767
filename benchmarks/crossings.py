"""How many modules of the package four journeys cross, and other sizes of the house.

    python -m benchmarks.crossings

Each journey runs in processes that note every module of `bacoun` in which a function is called:
(a) a fit and `uncertainty`, (b) from a CSV to a scored CSV, (c) one HTTP request, (d) a fit to
Parquet files. It uses commands and public names only, so that it runs on older checkouts as well.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

# Python imports a module of this name when it starts, in each process.
NOTES = """
import os, sys, threading, time
folder, phase, looked, noted = os.environ["CROSSINGS"], "", 0.0, set()
def note(frame, event, argument):
    global phase, looked
    name = frame.f_code.co_filename
    if event != "call" or "/bacoun/" not in name or frame.f_code.co_name.startswith("<"):
        return
    if time.monotonic() > looked + 0.02:
        looked = time.monotonic()
        phase = open(folder + "/phase").read()
    if (phase, name) not in noted:
        noted.add((phase, name))
        with open(f"{folder}/{os.getpid()}.txt", "a") as file:
            file.write(f"{phase} {name}\\n")
sys.setprofile(note)
threading.setprofile(note)
"""

FIT = """
from sklearn.datasets import load_iris
from bacoun import BaCOUnClassifier
X, y = load_iris(return_X_y=True)
BaCOUnClassifier.quick(random_state=0).fit(X, y).uncertainty(X)
"""
TABLE = """
from sklearn.datasets import load_iris
table = load_iris(as_frame=True).frame
table.to_csv("iris.csv", index=False)
table.drop(columns="target").to_csv("new.csv", index=False)
table.sample(2000, replace=True, random_state=0).to_parquet("iris.parquet")
"""
BACOUN = [sys.executable, "-c", "from bacoun.cli import main; main()"]
ROW = {"sepal length (cm)": 5, "sepal width (cm)": 3, "petal length (cm)": 2, "petal width (cm)": 1}


def main() -> None:
    """Print the table."""
    for name, size in {**sizes(), **crossed()}.items():
        print(f"{name:<45} {size}")


def sizes() -> dict[str, object]:
    """Files and lines of the package that is imported."""
    import bacoun

    root = Path(bacoun.__file__).parent
    lines = {path: len(path.read_text().splitlines()) for path in root.rglob("*.py")}
    folders = [path.parent for path in lines]
    text = "\n".join(path.read_text() for path in lines)
    longest = max(lines, key=lambda path: lines[path])
    steps = "boundary|features|posterior|step|feature_map|predictor.features"
    asked = rf"(?:hasattr|getattr)\((?:self\.|model\.|estimator\.|classifier\.)*(?:{steps})_?\b"
    return {
        "files": len(lines),
        "lines": sum(lines.values()),
        "median file": statistics.median(lines.values()),
        "longest file": f"{lines[longest]} ({longest.relative_to(root)})",
        "files in the fullest folder": max(folders.count(folder) for folder in folders),
        "hasattr and getattr on steps": len(re.findall(asked, text)),
    }


def crossed() -> dict[str, int]:
    """Modules that each journey crosses."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "sitecustomize.py").write_text(NOTES)
        path = os.pathsep.join([temporary, *filter(None, [os.environ.get("PYTHONPATH")])])
        options = {
            "cwd": temporary,
            "env": os.environ | {"PYTHONPATH": path, "CROSSINGS": temporary},
        }

        def run(phase: str, *command: str) -> None:
            (folder / "phase").write_text(phase)
            subprocess.run(command, check=True, capture_output=True, **options)

        run("-", sys.executable, "-c", TABLE)
        run("fit", sys.executable, "-c", FIT)
        run("csv", *BACOUN, "fit", "iris.csv", "--target", "target", "--out", "model", "--quick")
        run("csv", *BACOUN, "predict", "model", "new.csv", "--out", "scored.csv")
        os.mkdir(folder / "parts")
        os.rename(folder / "iris.parquet", folder / "parts" / "a.parquet")
        arguments = ["parts/*.parquet", "--target", "target", "--out", "large", "--quick"]
        run("parquet", *BACOUN, "fit", *arguments)
        (folder / "phase").write_text("-")
        serve = [*BACOUN, "serve", "model", "--port", "8765", "--no-playground"]
        server = subprocess.Popen(serve, stderr=subprocess.DEVNULL, **options)
        try:
            ask(folder)
        finally:
            server.terminate()
            server.wait()
        notes = [line for path in folder.glob("*.txt") for line in path.read_text().splitlines()]
    names = {
        "fit": "modules: fit and uncertainty",
        "csv": "modules: CSV to scored CSV",
        "http": "modules: HTTP request",
        "parquet": "modules: Parquet fit",
    }
    return {
        name: len({note for note in notes if note.startswith(f"{phase} ")})
        for phase, name in names.items()
    }


def ask(folder: Path) -> None:
    """Wait for the server, then send one row."""
    request = urllib.request.Request(
        "http://127.0.0.1:8765/v1/models/model/predict",
        json.dumps({"rows": [ROW]}).encode(),
        {"Content-Type": "application/json"},
    )
    for _ in range(600):
        try:
            urllib.request.urlopen(request).read()  # the model is loaded
            break
        except OSError:
            time.sleep(0.2)
    (folder / "phase").write_text("http")
    time.sleep(0.1)
    urllib.request.urlopen(request).read()


if __name__ == "__main__":
    main()
