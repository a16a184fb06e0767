"""Listed rows are explained by the columns that the model names."""

from dataclasses import replace

import pandas as pd
import pytest
from markupsafe import escape

from bacoun.columns.column import Column
from bacoun.report.data import report_data
from bacoun.report.page import render_page
from bacoun.report.reasons import reasons
from bacoun.tabular.explanation import Explanation, Surprise, Unseen

COLUMNS = {
    "width": Column("width", "number", 10, usual=(0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 6.0, 10.0)),
    "ward": Column("ward", "category", 10, counts={"A": 7, "B": 3}),
}
UNFAMILIAR = Explanation(
    reason="unfamiliar",
    surprises=(Surprise("ward", "Z", "A", 1e30), Surprise("width", "99", "2.5", 12.3)),
    n_repairs=2,
    unseen=(Unseen("ward", "Z", "not seen in training"),),
)


def kinds(strip):
    return [mark.attributes["class"] for mark in strip.marks if mark.element in ("circle", "path")]


def test_a_moved_column_is_named_first_with_an_arrow(model, table):
    moved = table.tail(30).reset_index(drop=True)
    moved.loc[7, "worst symmetry"] = 0.9  # beyond all training rows
    moved.loc[8, "worst symmetry"] = 9.0  # beyond what is possible
    data = report_data(model, moved)
    for row, value in ((7, "0.9"), (8, "9")):
        first = reasons(data.unfamiliar[row], data.columns)[0]
        assert first.words.startswith(f"worst symmetry = {value}")
        assert "value arrow" in kinds(first.strip)
        assert f"worst symmetry = {value}" in render_page(data)


def test_an_unseen_category_is_named(model, table):
    strange = table.tail(30).reset_index(drop=True)
    strange.loc[9, "ward"] = "Z"
    data = report_data(model, strange)
    assert data.test.reason[9] == "unfamiliar"
    assert data.test.unseen.sum() == 1
    first = reasons(data.unfamiliar[9], data.columns)[0]
    assert first.words == "ward = Z (not seen in training)"
    assert "value" not in kinds(first.strip)
    assert first.words in render_page(data)


def test_listed_rows_are_explained_as_by_the_model(model, table):
    rows = table.tail(60).drop(columns="diagnosis").reset_index(drop=True)
    rows.loc[:2, "worst area"] = 5_000.0
    data = report_data(model, rows)
    told = model.explain(rows)
    assert set(data.test.reason[list(data.unfamiliar)]) > {"unfamiliar"}  # others are listed too
    for row, explanation in data.unfamiliar.items():
        assert explanation.reason == "unfamiliar"
        assert 1 <= len(reasons(explanation, data.columns)) <= 3
        if told[row].reason == "unfamiliar":
            assert str(told[row]) == str(explanation)
            assert told[row].rows_like_this == pytest.approx(explanation.rows_like_this, rel=1e-4)


def test_an_ambiguous_row_names_its_two_classes_and_what_speaks_for_them(model, table):
    data = report_data(model, table.tail(169))
    row, explanation = next(iter(data.ambiguous.items()))
    assert row == data.test.evaluation.aleatoric.argmax()
    assert [name for name, _ in explanation.classes] == [
        data.classes[k] for k, _ in data.test.most_likely(row, 2)
    ]
    first = reasons(explanation, data.columns)[0]
    assert first.meaning.startswith(f"speaks for {explanation.pulls[0].label}")
    assert "expected" not in kinds(first.strip)
    assert escape(first.meaning) in render_page(data)


def test_what_was_not_seen_comes_first_and_three_columns_are_enough():
    unseen = tuple(Unseen(name, "9", "always 1 in training") for name in "abcde")
    told = reasons(replace(UNFAMILIAR, unseen=unseen), COLUMNS)
    assert [each.words for each in told] == [
        *(f"{name} = 9 (always 1 in training)" for name in "abc"),
        "2 more not seen in training",
    ]
    assert all(each.strip is None for each in told)
    told = reasons(UNFAMILIAR, COLUMNS)
    assert [(each.words, each.meaning) for each in told] == [
        ("ward = Z (not seen in training)", "expected A, surprise over 1,000 nats"),
        ("width = 99", "expected 2.5, surprise 12.3 nats"),
    ]


def test_texts_and_photos_stand_beside_the_nearest_known_ones(
    ticket_model, tickets, shape_model, shapes
):
    text = "Der schnelle braune Fuchs springt über den faulen Hund und schläft dann lange. " * 3
    data = report_data(ticket_model, tickets.head(9).assign(ticket=text))
    first = reasons(data.unfamiliar[0], data.columns, data.items[0])[0]
    assert first.words == f"ticket = '{text.strip()}'"
    assert first.strip is None
    assert [known.picture for known in first.nearest] == ["", "", ""]
    assert escape(first.nearest[0].words) in render_page(data)
    table = pd.DataFrame({"photo": ["disc/disc1.png", "no.png", "box/box1.png"]})
    data = report_data(shape_model, table)
    page = render_page(data)
    for listed in (data.unfamiliar, data.ambiguous):
        (shown,) = reasons(listed[0], data.columns, data.items[0])
        assert shown.photo in page
        assert all(known.picture in page for known in shown.nearest)
        (unread,) = reasons(listed[1], data.columns, data.items[1])
        assert (unread.photo, unread.nearest) == ("", ())
