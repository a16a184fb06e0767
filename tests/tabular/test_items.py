"""Texts and photos in tables: found, encoded, scored, explained by what is nearest, and saved."""

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError

import numpy as np
import pandas as pd
import pytest

from bacoun.columns import embedding
from bacoun.columns.embedding import encoder_of
from bacoun.columns.photo_files import data_uri
from bacoun.encoders import MiniLM, MissingPackageError, TorchModel, encoder, thumbnail
from bacoun.tabular import TableModel, fit_files, read_table

GERMAN = "Der schnelle braune Fuchs springt ueber den faulen Hund und schlaeft dann ein."


@dataclass(frozen=True)
class CountsLetters:
    """An encoder of the user's own."""

    version: str = "1"

    @property
    def spec(self):
        return {"kind": "counts-letters", "settings": {}, "fingerprint": self.version}

    def content(self, item):
        return item.encode()

    def encode(self, items):
        return np.array([[t.count(c) for c in "aeiostr"] for t in items], dtype=np.float32)


@pytest.fixture
def small(tickets, fast):
    """A function that fits the tickets with settings, in a moment."""

    def fitted(table=tickets, **settings):
        settings = {"text_encoder": CountsLetters()} | settings
        return TableModel.fit(table, "team", classifier=fast(boundary="compact-shell"), **settings)

    return fitted


def kinds(model):
    return {column.name: column.kind for column in model.columns}


# --- texts ----------------------------------------------------------------------------------------


def test_free_text_is_found_encoded_and_said(ticket_model):
    assert kinds(ticket_model) == {"ticket": "text", "hours": "number", "channel": "category"}
    assert len(ticket_model.feature_names) == 384 + 2
    assert ticket_model.feature_names[:2] == ["ticket 1", "ticket 2"]
    assert ticket_model.summary()["encoded"] == "ticket (text, by minilm)"
    assert ticket_model.facts["accuracy"] == 1


def test_text_can_be_forbidden_or_forced(small, tickets):
    assert "ticket" not in kinds(small(text=False))
    names = [f"{team} {i}" for i, team in enumerate(tickets["team"])]
    table = tickets.assign(ticket=names)
    assert "ticket" not in kinds(small(table))  # two words are no text
    assert kinds(small(table, text=["ticket"]))["ticket"] == "text"
    with pytest.raises(ValueError, match="'tickets' is not"):
        small(text=["tickets"])
    with pytest.raises(ValueError, match="must hold text; 'hours' holds float64"):
        small(text=["hours"])


@pytest.mark.parametrize(
    "values",
    [
        [f"2021-04-{i % 28 + 1:02} 10:{i % 60:02}:00 and so on"[:19] for i in range(96)],
        [f"Braund, Mr. Owen Harris {chr(65 + i % 26)}. Smith" for i in range(96)],
        [f"a8f3-{i:04}-bb01 {i:05}" for i in range(96)],
        ["very good and clean condition", "rather bad and dirty condition"] * 48,
    ],
    ids=["dates", "names", "codes", "categories"],
)
def test_what_is_no_prose_is_no_text(small, tickets, values):
    assert kinds(small(tickets.assign(ticket=values))).get("ticket") != "text"


def test_scores_do_not_depend_on_the_other_rows(ticket_model, tickets):
    scored = ticket_model.score(tickets, because=True)
    order = np.random.default_rng(0).permutation(len(tickets))
    again = ticket_model.score(tickets.iloc[order], because=True).loc[scored.index]
    numbers = scored.select_dtypes("number").columns
    np.testing.assert_allclose(again[numbers], scored[numbers], atol=1e-4, rtol=1e-4)
    pd.testing.assert_series_equal(again["because"], scored["because"])


def test_a_saved_model_scores_and_explains_the_same(ticket_model, tickets, tmp_path):
    ticket_model.save(tmp_path / "model")
    loaded = TableModel.load(tmp_path / "model")
    new = tickets.head(20).assign(ticket=[GERMAN, *tickets["ticket"][1:20]])
    expected = ticket_model.score(new, because=True)
    pd.testing.assert_frame_equal(loaded.score(new, because=True), expected)
    assert loaded.explain(new) == ticket_model.explain(new)


def test_the_nearest_known_text_of_a_training_text_is_itself(ticket_model, tickets):
    (scored,) = ticket_model.score_rows([tickets])
    known = set(ticket_model.known["ticket"].texts)
    assert len(known) == ticket_model.facts["training_rows"]
    found = ticket_model.nearest(scored)
    for text, team, nearest in zip(tickets["ticket"], tickets["team"], found, strict=True):
        assert len(nearest) == 3
        if text in known:
            assert (nearest[0].text, nearest[0].label) == (text, team)
            assert nearest[0].similarity == pytest.approx(1)
        assert nearest[0].similarity >= nearest[1].similarity >= nearest[2].similarity


@pytest.mark.parametrize("text", [GERMAN, "zxcv qwer asdf uiop hjkl bnm"])
def test_a_far_text_is_unfamiliar_and_the_nearest_known_ones_are_named(ticket_model, tickets, text):
    new = tickets.head(1).assign(ticket=text)
    (why,) = ticket_model.explain(new)
    assert why.reason == "unfamiliar"
    assert why.surprises[0].column == "ticket"
    assert why.surprises[0].expected.strip("'…") in " ".join(tickets["ticket"])
    assert [each.column for each in why.nearest] == ["ticket"] * 3
    told = str(why)
    assert f"ticket = '{text[:20]}" in told
    assert "unlike the known texts" in told
    assert f"nearest known: '{why.nearest[0].text[:20]}" in told
    assert ticket_model.score(new, because=True)["because"].tolist() == [told]


def test_an_empty_text_is_a_gap(small, tickets):
    (why,) = small().explain(tickets.head(1).assign(ticket="  "))
    assert "ticket = missing (never in training)" in map(str, why.unseen)
    assert why.nearest == ()
    holes = tickets.assign(ticket=tickets["ticket"].where(tickets.index % 10 > 0, ""))
    model = small(holes)
    assert model.feature_names[7] == "ticket missing"
    assert (model.score(holes)["reason"] == "unfamiliar").mean() < 0.1


def test_group_and_time_split_tables_with_texts(small, tickets):
    table = tickets.assign(visit=np.arange(len(tickets)) // 2, day=np.arange(len(tickets)))
    assert kinds(small(table, group="visit", time="day"))["ticket"] == "text"


def test_parquet_and_csv_give_the_same_model(small, tickets, tmp_path):
    tickets.to_parquet(tmp_path / "a.parquet")
    tickets.to_csv(tmp_path / "a.csv", index=False)
    one, other = (small(read_table(tmp_path / name)) for name in ("a.parquet", "a.csv"))
    pd.testing.assert_frame_equal(one.score(tickets), other.score(tickets))


def test_a_typical_row_can_be_scored(ticket_model, shape_model):
    row = ticket_model.typical_row()
    assert row["ticket"] in ticket_model.known["ticket"].texts
    assert ticket_model.score(pd.DataFrame([row]))["decision"].tolist() == ["accept"]
    photo = shape_model.typical_row()  # which is a small picture, as text
    served = shape_model.with_photos_in(None)
    (scored,) = served.score_rows([pd.DataFrame([photo])])
    ((nearest, *_),) = served.nearest(scored)
    assert scored.table["prediction"].tolist() == [nearest.label]


def test_an_own_encoder_is_given_to_load_and_must_be_the_same(small, tickets, tmp_path):
    model = small(text_encoder=CountsLetters("of a test"))
    model.save(tmp_path / "model")
    encoder = CountsLetters("of a test")
    loaded = TableModel.load(tmp_path / "model", encoders=[encoder])
    pd.testing.assert_frame_equal(loaded.score(tickets), model.score(tickets))
    with pytest.raises(ValueError, match="an encoder must be one of"):
        encoder_of(CountsLetters("another").spec)


def test_other_weights_than_those_of_the_fit_are_refused(ticket_model, tickets):
    spec = dict(ticket_model.columns[0].embedding.encoder)
    assert encoder_of(spec) == MiniLM()
    with pytest.raises(ValueError, match="must have the weights of the fit"):
        encoder_of(spec | {"fingerprint": "0" * 64})


def test_an_encoder_without_a_spec_is_refused(small):
    class NoSpec:
        def encode(self, items):
            return np.ones((len(items), 2), dtype=np.float32)

    with pytest.raises(ValueError, match="must have a spec"):
        small(text_encoder=NoSpec())


def test_a_missing_extra_is_named_with_the_way_out(small, monkeypatch):
    def not_installed(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(encoder, "distribution", not_installed)
    monkeypatch.setenv("BACOUN_CACHE", "/dev/null/none")
    with pytest.raises(
        MissingPackageError, match=r"'ticket' holds free text, but .*bacoun\[text\]"
    ):
        small(text_encoder="minilm")
    assert "ticket" not in kinds(small(text=False))


def test_more_rows_than_memory_refuse_texts(tickets, tmp_path):
    tickets.to_parquet(tmp_path / "a.parquet", row_group_size=30)
    with pytest.raises(ValueError, match="texts and photos need all rows in memory"):
        fit_files(f"{tmp_path}/*.parquet", "team", sample_rows=40)


# --- photos ---------------------------------------------------------------------------------------


def test_photos_are_found_and_encoded(shape_model):
    assert kinds(shape_model) == {"photo": "photo"}
    assert len(shape_model.feature_names) == 1280
    assert shape_model.facts["rows"] == 48
    assert shape_model.facts["accuracy"] == 1


def test_a_saved_model_of_photos_scores_the_same(shape_model, shapes, tmp_path):
    shape_model.save(tmp_path / "model")
    loaded = TableModel.load(tmp_path / "model").with_photos_in(shapes)
    table = read_table(shapes)
    expected = shape_model.score(table, because=True)
    pd.testing.assert_frame_equal(loaded.score(table, because=True), expected)
    assert (expected["prediction"] == table["class"])[expected["reason"] == ""].all()


def test_a_photo_that_cannot_be_read_is_unfamiliar_and_named(shape_model, shapes):
    table = pd.DataFrame({"photo": ["box/broken.png", "no/such.png", "disc/empty.jpg"]})
    explanations = shape_model.explain(table)
    for why, name in zip(explanations, ("broken.png", "such.png", "empty.jpg"), strict=True):
        assert why.reason == "unfamiliar"
        assert str(why).startswith(f"photo = {name} (cannot be read: it ")
        assert why.nearest == why.surprises == ()


def test_the_nearest_known_photos_have_names_and_pictures(shape_model, shapes):
    (scored,) = shape_model.score_rows([pd.DataFrame({"photo": ["disc/disc3.png"]})])
    ((first, *_),) = shape_model.nearest(scored)
    assert first.thumbnail.startswith(b"\xff\xd8")
    assert first.label == "disc"
    if "disc3.png" in shape_model.known["photo"].texts:
        assert first.text == "disc3.png"


def test_a_data_uri_is_scored_like_its_file(shape_model, shapes):
    jpeg = thumbnail(shapes / "box" / "box1.png")
    (shapes.parent / "box1.jpg").write_bytes(jpeg)
    table = pd.DataFrame({"photo": [data_uri(jpeg), "../box1.jpg"]})
    scored = shape_model.score(table)
    pd.testing.assert_series_equal(scored.loc[0], scored.loc[1], check_names=False)


def test_paths_can_be_forbidden(shape_model, shapes):
    served = shape_model.with_photos_in(None)
    table = pd.DataFrame({"photo": [str(shapes / "box" / "box1.png")]})
    for ask in (served.score, served.explain, served.check):
        with pytest.raises(ValueError, match="photos must be data URIs"):
            ask(table)


def test_copies_of_a_photo_under_other_names_are_on_one_side(shapes, fast):
    table = read_table(shapes).query("not photo.str.contains('broken|empty')")
    twice = pd.concat([table, table.assign(photo=[f"../shapes/{p}" for p in table["photo"]])])
    model = TableModel.fit(
        twice, "class", photo_folder=shapes, classifier=fast(boundary="compact-shell")
    )
    assert model.facts["copies"] == len(table)


def test_without_any_photo_the_fit_is_refused(shapes):
    table = read_table(shapes)
    with pytest.raises(ValueError, match=r"must be readable, relative to .*; and 45 more"):
        TableModel.fit(table, "class", photo_folder=shapes / "box")


def test_too_few_photos_are_refused_as_too_few_rows(shapes):
    table = read_table(shapes)
    table["photo"] = table["photo"].where(table["class"] == "disc", "no.png")
    with (
        pytest.warns(UserWarning, match="left out"),
        pytest.raises(ValueError, match="at least 2 classes"),
    ):
        TableModel.fit(table, "class", photo_folder=shapes)


def make_network():
    import torch

    return torch.nn.Sequential(torch.nn.AvgPool2d(8), torch.nn.Conv2d(3, 4, 2), torch.nn.Flatten())


def test_a_network_of_the_users_own_needs_trust_and_its_weights(
    shapes, fast, tmp_path, monkeypatch
):
    import torch

    def write_weights(seed):
        torch.manual_seed(seed)
        torch.save(make_network().state_dict(), tmp_path / "state.pt")

    write_weights(0)
    encoder = TorchModel(f"{__name__}:make_network", tmp_path / "state.pt", size=32)
    table = read_table(shapes).query("not photo.str.contains('broken|empty')")
    settings = {"photo_folder": shapes, "photo_encoder": encoder}
    classifier = fast(boundary="compact-shell")
    model = TableModel.fit(table, "class", classifier=classifier, **settings)
    model.save(tmp_path / "model")
    expected = model.score(table)
    monkeypatch.setattr(embedding, "_REMEMBERED", {})  # as in another process
    with pytest.raises(ValueError, match="only if trusted is True"):
        TableModel.load(tmp_path / "model").with_photos_in(shapes).score(table)
    loaded = TableModel.load(tmp_path / "model", encoders=[encoder]).with_photos_in(shapes)
    pd.testing.assert_frame_equal(loaded.score(table), expected)
    write_weights(1)
    with pytest.raises(ValueError, match=r"only if trusted|must have the weights of the fit"):
        loaded.score(table)
