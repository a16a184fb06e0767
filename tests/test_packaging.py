"""What a user gets who installs the wheel, and nothing of this folder."""

import json
import os
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from importlib.metadata import metadata
from pathlib import Path

import pytest

import bacoun

ROOT = Path(__file__).parents[1]

FIT = """
import warnings; warnings.simplefilter("error")
import importlib.metadata, json
import bacoun
from bacoun.boundary import FlowShell
from bacoun.features import LearnedFeatures
from sklearn.datasets import make_moons
X, y = make_moons(100, noise=0.1, random_state=0)
model = bacoun.BaCOUnClassifier(
    boundary=FlowShell(epochs=2, blocks=1, hidden=8),
    features=LearnedFeatures(hidden=(16, 16), epochs=20, learning_rate=1e-2),
    posterior="laplace", n_boundary=50, random_state=0,
).fit(X, y)
model.save("model")
loaded = bacoun.BaCOUnClassifier.load("model")
print(json.dumps({
    "file": bacoun.__file__,
    "version": importlib.metadata.version("bacoun"),
    "score": model.score(X, y),
    "same": bool((loaded.predict_proba(X) == model.predict_proba(X)).all()),
}))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, ROOT]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    (path,) = out.iterdir()
    return path


def test_the_wheel_holds_the_package_its_types_and_its_licence_alone(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert "bacoun/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    tops = {name.split("/")[0] for name in names}
    assert tops == {"bacoun", f"bacoun-{bacoun.__version__}.dist-info"}
    source = ROOT / "src" / "bacoun"
    expected = {f"bacoun/{file.relative_to(source).as_posix()}" for file in source.rglob("*.py")}
    assert expected <= set(names)


def test_the_wheel_fits_and_saves_in_an_empty_environment(wheel, tmp_path):
    home = tmp_path / "venv"
    venv.create(home, with_pip=False, symlinks=os.name != "nt")
    binaries = home / ("Scripts" if os.name == "nt" else "bin")
    python = binaries / ("python.exe" if os.name == "nt" else "python")
    paths = sysconfig.get_paths(vars={"base": str(home), "platbase": str(home)}, scheme="venv")
    site = Path(paths["purelib"])
    install = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--no-deps",
        "--no-index",
    ]
    done = subprocess.run([*install, wheel], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    # The dependencies alone: a folder named in a .pth file has its own .pth files left unread, so
    # an editable bacoun there is not seen.
    here = {sysconfig.get_paths()[kind] for kind in ("purelib", "platlib")}
    (site / "dependencies.pth").write_text("\n".join(sorted(here)))
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(
        [python, "-c", FIT], capture_output=True, text=True, cwd=tmp_path, env=clean
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert Path(result["file"]).is_relative_to(site)
    assert (site / "bacoun" / "py.typed").is_file()
    assert result["version"] == bacoun.__version__
    assert result["score"] > 0.75
    assert result["same"]


def test_the_version_is_written_once():
    assert metadata("bacoun")["Version"] == bacoun.__version__
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "version" in project["dynamic"]


def test_everything_named_in_public_is_there():
    for name in bacoun.__all__:
        assert hasattr(bacoun, name), name
