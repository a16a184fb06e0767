"""Texts and photos on the command line, from a folder or a file to a scored file."""

import base64
import json

import pandas as pd
import pytest
from PIL import Image

from bacoun.cli import main
from bacoun.tabular import TableModel


@pytest.fixture(scope="module")
def folder(tmp_path_factory, ticket_model, shape_model, shapes, tickets):
    """Two models, photos and a table of texts."""
    folder = tmp_path_factory.mktemp("items")
    ticket_model.save(folder / "tickets")
    shape_model.save(folder / "shapes")
    tickets.to_csv(folder / "tickets.csv", index=False)
    new = folder / "new" / "deep"
    new.mkdir(parents=True)
    for name in ("box/box3.png", "disc/disc3.png", "box/broken.png"):
        (new / name.replace("/", "-")).write_bytes((shapes / name).read_bytes())
    Image.effect_noise((40, 40), 200).save(folder / "new" / "noise.png")
    return folder


@pytest.fixture
def run(folder, capsys, monkeypatch):
    def said(*words, code=0):
        monkeypatch.chdir(folder)
        if code:
            with pytest.raises(SystemExit) as exit:
                main([*map(str, words)])
            assert exit.value.code == code
        else:
            main([*map(str, words)])
        return capsys.readouterr()

    return said


def test_a_folder_of_photos_is_fitted_scored_checked_and_reported(run, folder, shapes, tmp_path):
    said = run("fit", shapes, "--out", tmp_path / "model", "--quick")
    assert "photo (photo, by efficientnet-lite0)" in said.out
    assert "box (24), disc (24)" in said.out
    assert "left out: 'broken.png' is none of JPEG" in said.err
    run("predict", tmp_path / "model", "new", "--out", tmp_path / "scored.csv")
    scored = pd.read_csv(tmp_path / "scored.csv").set_index("photo")
    names = ["deep/box-box3.png", "deep/box-broken.png", "deep/disc-disc3.png", "noise.png"]
    assert scored.index.tolist() == names
    assert scored["prediction"].iloc[[0, 2]].tolist() == ["box", "disc"]
    assert scored["reason"].iloc[[1, 3]].tolist() == ["unfamiliar", "unfamiliar"]
    assert scored["because"].iloc[1].startswith("photo = box-broken.png (cannot be read: it is")
    assert "nearest known: " in scored["because"].iloc[3]
    said = run("check", tmp_path / "model", "new", code=1)
    assert "cannot be read in 25 % of the rows: 'box-broken.png'" in said.out
    run("report", tmp_path / "model", "new", "--out", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert page.count("data:image/jpeg;base64,") > 4
    assert "nearest known" in page


def test_a_folder_without_classes_is_scored_but_not_fitted(run, tmp_path):
    said = run("fit", "new", "--out", tmp_path / "model", code=2)
    assert "must have a subfolder of photos for each class; 'noise.png' is in none" in said.err


def test_a_table_of_data_uris_is_scored(run, folder, shapes, tmp_path):
    noise = Image.effect_noise((500, 500), 200)  # larger than what csv reads by itself
    noise.save(tmp_path / "noise.png")
    uri = base64.b64encode((tmp_path / "noise.png").read_bytes()).decode()
    (tmp_path / "new.csv").write_text(f"photo\n'data:image/png;base64,{uri}'\n".replace("'", '"'))
    assert len(uri) > 131_072
    answer = json.loads(run("predict", "shapes", tmp_path / "new.csv", "--json").out)
    assert answer["because"].startswith("photo = a photo (unlike the known photos")


def test_the_labels_of_a_folder_are_its_subfolders(run, shapes, tmp_path):
    out = tmp_path / "page.html"
    run("report", "shapes", shapes, "--out", out)
    assert 'id="accuracy-all"' in out.read_text()


def test_paths_are_relative_to_the_table(run, folder, tmp_path):
    (folder / "new" / "list.csv").write_text("photo,note\ndeep/box-box3.png,a\ngone.png,b\n")
    run("predict", "shapes", "new/list.csv", "--out", tmp_path / "scored.csv")
    scored = pd.read_csv(tmp_path / "scored.csv")
    assert scored["photo"].tolist() == ["deep/box-box3.png", "gone.png"]
    assert scored["prediction"][0] == "box"
    assert "gone.png (cannot be read: it cannot be opened" in scored["because"][1]
    said = run("predict", "shapes", "new/list.csv", "--json")
    assert json.loads(said.out.splitlines()[0])["photo"] == "deep/box-box3.png"
    pd.read_csv(folder / "new" / "list.csv").to_parquet(folder / "new" / "list.parquet")
    run("predict", "shapes", "new/*.parquet", "--out", tmp_path / "parts")
    (part,) = (tmp_path / "parts").glob("*.parquet")
    assert pd.read_parquet(part)["because"].tolist() == scored["because"].fillna("").tolist()


def test_text_is_found_forbidden_or_forced(run, tmp_path):
    fit = ("fit", "tickets.csv", "--target", "team", "--quick", "--out")
    assert "ticket (text, by minilm)" in run(*fit, tmp_path / "found").out
    said = run(*fit, tmp_path / "without", "--no-text").out
    assert "dropped   ticket (id)" in said
    assert "encoded" not in said
    run(*fit, tmp_path / "forced", "--text", "channel")
    columns = {c.name: c.kind for c in TableModel.load(tmp_path / "forced").columns}
    assert columns == {"hours": "number", "channel": "text"}
    said = run(*fit, tmp_path / "no", "--no-text", "--text", "ticket", code=2)
    assert "give either --text COLUMN or --no-text; got both." in said.err
    assert "Missing option '--target'" in run("fit", "tickets.csv", "--out", "x", code=2).err


def test_onnx_refuses_texts_and_photos_in_a_sentence(run, tmp_path):
    said = run("export", "tickets", "--onnx", tmp_path / "model.onnx", code=2)
    assert "an ONNX graph takes numbers; 'ticket' must go through an encoder first" in said.err


def test_compare_gives_every_method_the_vectors(run, tmp_path):
    out = tmp_path / "page.html"
    words = ("compare", "tickets.csv", "--target", "team", "--methods", "Mahalanobis", "--json")
    answer = json.loads(run(*words, "--out", out).out)
    assert answer["failed"] == {}
    assert answer["methods"]["Mahalanobis"]["accuracy"] > 0.9
