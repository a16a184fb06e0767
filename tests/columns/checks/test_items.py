"""Texts and photos at the door: another language, length, boilerplate, files that are not read."""

import pandas as pd
import pytest

GERMAN = [
    "Der schnelle braune Fuchs springt über den faulen Hund",
    "Das Wetter ist heute sehr schön in Berlin",
    "Ich möchte gerne ein Bier bestellen bitte",
    "Die Regierung hat gestern neue Gesetze beschlossen",
    "Wir fahren morgen mit dem Zug nach München",
    "Kinder spielen im Garten hinter dem Haus",
]


def found(model, table):
    return {each.kind: each for each in model.check(table)}


@pytest.fixture(scope="module")
def texts(tickets):
    return tickets.drop(columns="team")


def test_a_sample_of_training_has_no_findings(ticket_model, texts):
    for rows in (texts, texts.head(40), texts.tail(5)):
        assert set(found(ticket_model, rows)) <= {"duplicates"}


@pytest.mark.parametrize(
    ("change", "kind", "severity", "words"),
    [
        (lambda texts: [*GERMAN * 16], "vocabulary", "serious", "another language or vocabulary"),
        (lambda texts: texts.str[:12], "length", "serious", "far shorter than in training"),
        (lambda texts: texts + " " + texts + texts, "length", "serious", "far longer than in"),
        (lambda texts: "Dear team, we have got one of these: " + texts, "boilerplate", "note",
         "begins alike in 100 % of the rows"),
        (lambda texts: "Please help, my last invoice fails", "boilerplate", "serious",
         "is the same text in 100 % of the rows"),
        (lambda texts: texts.where(texts.index % 2 == 0, " "), "gaps", "serious", "gaps in 50 %"),
    ],
    ids=["language", "short", "long", "beginning", "same text", "empty"],
)  # fmt: skip
def test_each_accident_of_texts_is_named(ticket_model, texts, change, kind, severity, words):
    finding = found(ticket_model, texts.assign(ticket=change(texts["ticket"])))[kind]
    assert (finding.column, finding.severity) == ("ticket", severity)
    assert words in finding.message


def test_a_renamed_text_column_is_recognized(ticket_model, texts):
    renamed = texts.rename(columns={"ticket": "message"})
    assert (
        "'message' has the same distribution"
        in found(ticket_model, renamed)["renamed column"].message
    )


def test_photos_that_cannot_be_read_are_named(shape_model, shapes):
    names = [f"box/box{i}.png" for i in range(24)]
    served = shape_model.with_photos_in(shapes)
    assert "unreadable" not in found(served, pd.DataFrame({"photo": names}))
    finding = found(served, pd.DataFrame({"photo": [*names, "box/broken.png"]}))["unreadable"]
    assert finding.severity == "note"
    assert "4 % of the rows: 'broken.png' is none of JPEG" in finding.message
    bad = pd.DataFrame({"photo": [f"no{i}.png" for i in range(5)]})
    finding = found(served, bad)["unreadable"]
    assert finding.severity == "serious"
    assert finding.message.endswith("; and 2 more.")


def test_copies_of_photos_are_found_by_content(shape_model, shapes, tmp_path):
    for i in range(24):
        content = (shapes / "box" / f"box{i}.png").read_bytes()
        (tmp_path / f"new{i}.png").write_bytes(content)
    table = pd.DataFrame({"photo": [f"new{i}.png" for i in range(24)]})
    assert "duplicates" in found(shape_model.with_photos_in(tmp_path), table)
