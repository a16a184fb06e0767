"""WritingStyle: what it says of a table's texts does not depend on how many there are."""

import pytest

from bacoun.columns.writing_style import WritingStyle, most_common_opening, words_of


def test_words_are_letters_in_lower_case():
    assert words_of("It's 2 Müller-cats, NOT 3_dogs!") == [
        "it",
        "s",
        "müller",
        "cats",
        "not",
        "dogs",
    ]


def test_the_words_of_new_texts_are_as_well_known_as_it_says(tickets):
    texts = tickets["ticket"].tolist()
    some, others = WritingStyle.of(texts[:60]), WritingStyle.of(texts)
    assert some.known == pytest.approx(others.known, abs=0.05)
    assert {"please", "invoice", "router"} <= set(some.words)
    assert some.usual_lengths == (some.lengths[1], some.lengths[39])
    assert min(map(len, texts[:60])) <= some.usual_lengths[0] < some.usual_lengths[1]


def test_one_text_has_a_style():
    style = WritingStyle.of(["only one text"])
    assert (style.n_texts, style.known, style.opening) == (1, 1, 1)


def test_the_most_common_opening_is_counted():
    texts = ["Dear customer, thank you for one", "Dear customer, thank you for two", "Hello"]
    assert most_common_opening(texts) == ("Dear customer, thank you ", 2)
