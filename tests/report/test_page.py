"""The page says what the scores say, and lets nothing in or out."""

import math
import os
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2 import FileSystemLoader

from bacoun import uncertainty as scores
from bacoun.base import Evaluation
from bacoun.columns.column import Column
from bacoun.deferral import Acceptance, DeferralRule
from bacoun.report import page
from bacoun.report.data import ReportData, report_data
from bacoun.report.measures import Thresholds, reliability
from bacoun.report.page import render_page, write_page
from bacoun.report.sections import SECTIONS, Section
from bacoun.tabular import TableModel
from bacoun.tabular.explanation import Explanation, Pull, Surprise, Unseen
from bacoun.tabular.scored_rows import ScoredRows, class_auc
from bacoun.uncertainty import decompose

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
AMBIGUOUS = Explanation(
    reason="ambiguous",
    classes=(("class 0", 0.6), ("class 1", 0.3)),
    pulls=(Pull("width", "1.5", "class 1", 0.4), Pull("ward", "B", "class 0", 0.2)),
)


# --- pages to look at ----------------------------------------------------------------------------


def rows_of(evaluation, reason, truth=None):
    """Scored rows of which the page only looks at what the model said."""
    n, k = evaluation.probabilities.shape
    nothing = np.zeros(n, dtype=bool)
    frame, features = pd.DataFrame(index=range(n)), np.zeros((n, 0))
    classes = np.arange(k)
    return ScoredRows(frame, features, classes, evaluation, nothing, nothing, reason, truth)


def saying(rows, **scores):
    """The same rows, with other scores."""
    return replace(rows, evaluation=replace(rows.evaluation, **scores))


def scored(n, k, seed, *, labeled=True, rule=None, sharpness=2.0):
    """What some model might say of n rows of k classes."""
    import torch

    rng = np.random.default_rng(seed)
    logits = sharpness * rng.normal(size=(1, n, k)) + rng.normal(size=(8, n, k))
    draws = torch.softmax(torch.from_numpy(logits), dim=2)
    parts = decompose(draws)
    total, aleatoric, epistemic = (
        p.numpy() for p in (parts.total, parts.aleatoric, parts.epistemic)
    )
    probabilities = draws.mean(dim=0).numpy()
    ood_score = rng.normal(size=n) / sharpness
    rule = rule or DeferralRule.calibrate(ood_score, total, false_alarm=0.3)
    evaluation = Evaluation(
        probabilities, total, aleatoric, epistemic, ood_score, log_density=rng.normal(size=n)
    )
    reason = rule.decide(ood_score, total, probabilities.argmax(axis=1)).reason
    return rows_of(evaluation, reason, rng.integers(k, size=n) if labeled else None)


def page_data(n=60, k=3, seed=0, *, labeled=True, n_ood=0, rule=None, names=None, **changes):
    """A report on made-up rows."""
    test = scored(n, k, seed, labeled=labeled, rule=rule)
    ood_score, total = test.evaluation.ood_score, test.evaluation.total
    rule = rule or DeferralRule.calibrate(ood_score, total, false_alarm=0.3)
    rng = np.random.default_rng(seed)
    data = ReportData(
        names={"model": "model", "test": "test.csv", "ood": "ood.csv"} | (names or {}),
        classes=tuple(f"class {i}" for i in range(k)),
        about={"rows": "100"},
        settings={"ood prior": "0.01"},
        health={"inference": "HMC", "rhat": "1.01"},
        warning="",
        rule=rule,
        test=replace(test, reason=rule.decide(ood_score, total, test.predicted).reason),
        ood=scored(n_ood, k, seed + 1, labeled=False, rule=rule, sharpness=0.1) if n_ood else None,
        calibration={"ood_score": ood_score[::2], "total": total[::2]},
        unfamiliar=dict.fromkeys(range(min(n, 10)), UNFAMILIAR),
        ambiguous=dict.fromkeys(range(min(n, 10)), AMBIGUOUS),
        columns=COLUMNS,
        on_map=[rng.normal(size=(size, 2)) for size in (n, n_ood) if size],
        explained_variance=(0.5, 0.2),
        written="2026-01-01 00:00 UTC",
    )
    return replace(data, **changes)


class Reader(HTMLParser):
    """Elements, ids, links, numbers and visible text of a page; tags must nest."""

    VOID = frozenset({"meta", "link"})

    def __init__(self, page):
        super().__init__()
        self.open, self.tags, self.ids, self.links = [], [], [], []
        self.numbers, self.words, self.handlers = {}, [], []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        named = dict(attrs)
        assert len(named) == len(attrs)
        self.tags.append(tag)
        self.ids += [named["id"]] if "id" in named else []
        self.links += [named[key] for key in ("src", "href", "action", "data") if key in named]
        self.handlers += [key for key in named if key.startswith("on") or key == "style"]
        self.words += [named[key] for key in ("aria-label", "title", "data-head") if key in named]
        if tag == "data":
            self.numbers[named["id"]] = float(named["value"])
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, words):
        if self.open and self.open[-1] not in ("script", "style"):
            self.words.append(words)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


def read(data):
    reader = Reader(render_page(data))
    assert len(reader.ids) == len(set(reader.ids))
    assert re.findall(r"\b(?:nan|NaN|inf|None)\b", reader.text) == []
    assert not reader.handlers
    n = len(data.test)
    counts = [reader.numbers[f"rows-{name}"] for name in ("accepted", "unfamiliar", "ambiguous")]
    assert sum(counts) == reader.numbers["rows-all"] == n
    return reader


def rule(ood=math.inf, acceptance=None, class_thresholds=None):
    return DeferralRule(0.05, 100, ood, class_thresholds, acceptance)


def accept_below(threshold):
    return Acceptance(0.05, 0.95, threshold, 100, 50, 1, 0.04)


# --- what it says --------------------------------------------------------------------------------


@settings(max_examples=12)
@given(
    n=st.integers(1, 40),
    k=st.integers(2, 6),
    seed=st.integers(0, 99),
    labeled=st.booleans(),
    n_ood=st.sampled_from([0, 1, 9]),
)
def test_any_page_is_well_formed_and_its_counts_add_up(n, k, seed, labeled, n_ood):
    read(page_data(n, k, seed, labeled=labeled, n_ood=n_ood))


def test_numbers_are_those_of_the_scores(real):
    reader, test, ood = read(real), real.test, real.ood
    right = test.predicted == test.truth
    said, of_ood = test.evaluation, ood.evaluation
    accepted = test.reason == ""
    expected = {
        "accuracy-all": right.mean(),
        "auc": scores.auroc(
            said.probabilities[test.truth == 0, 1],
            said.probabilities[test.truth == 1, 1],
        ),
        "ece": scores.expected_calibration_error(said.probabilities, test.truth),
        "log-loss": scores.negative_log_likelihood(said.probabilities, test.truth),
        "auroc": scores.auroc(said.ood_score, of_ood.ood_score),
        "aupr": scores.aupr(said.ood_score, of_ood.ood_score),
        "fpr95": scores.fpr_at_tpr(said.ood_score, of_ood.ood_score),
        "aurc": scores.aurc(said.total, right),
        "augrc": scores.augrc(said.total, right),
        "risk-80": scores.risk_at_coverage(said.total, right, 0.8),
        "coverage-5": scores.coverage_at_risk(said.total, right, 0.05),
        "accepted-share": accepted.mean(),
        "deferred-share": 1 - accepted.mean(),
        "accepted-accuracy": right[accepted].mean(),
        "ood-deferred": (ood.reason != "").mean(),
        "rows-accepted": accepted.sum(),
        "rows-unfamiliar": (test.reason == "unfamiliar").sum(),
        "rows-ambiguous": (test.reason == "ambiguous").sum(),
        "rows-all": 169,
        "ood-accepted": (ood.reason == "").sum(),
        "ood-unfamiliar": (ood.reason == "unfamiliar").sum(),
        "ood-ambiguous": (ood.reason == "ambiguous").sum(),
    }
    assert reader.numbers == pytest.approx(expected)


def test_scores_on_the_page_are_those_of_the_model(model, table, real):
    table = table.tail(169)
    answers = model.score(table.drop(columns="diagnosis"))
    np.testing.assert_array_equal(real.test.evaluation.epistemic, answers["epistemic"])
    np.testing.assert_array_equal(real.test.evaluation.ood_score, answers["ood_score"])
    np.testing.assert_array_equal(real.test.reason, answers["reason"])
    said = model.classifier.classes_[real.test.predicted]
    np.testing.assert_array_equal(said, answers["prediction"])
    np.testing.assert_array_equal(model.classifier.classes_[real.test.truth], table["diagnosis"])


def test_the_page_says_what_the_model_was_made_with_and_calibrated_on(model, real):
    text = read(real).text
    assert f"fitted {model.made['fitted']}" in text
    assert f"with {model.made['with']}" in text
    above = (model.calibration["ood_score"] > model.rule.ood_threshold).mean()
    assert f"calibration: 80 rows, {100 * above:.1f} % above the threshold" in text


@given(n=st.integers(1, 200), k=st.integers(2, 5), seed=st.integers(0, 99))
@settings(max_examples=20)
def test_gaps_of_the_reliability_plot_make_the_calibration_error(n, k, seed):
    test = scored(n, k, seed)
    bins = reliability(test)
    gap = sum(bin.rows * abs(bin.confidence - bin.accuracy) for bin in bins) / n
    assert gap == pytest.approx(
        scores.expected_calibration_error(test.evaluation.probabilities, test.truth), abs=1e-12
    )


def test_auc_of_many_classes_is_the_mean_of_each_against_the_rest():
    from sklearn.metrics import roc_auc_score

    test = scored(200, 4, 0)
    expected = roc_auc_score(test.truth, test.evaluation.probabilities, multi_class="ovr")
    assert class_auc(test.evaluation.probabilities, test.truth) == pytest.approx(expected)


@pytest.mark.parametrize(
    "case",
    [
        page_data(1, 2),
        page_data(1, 2, labeled=False),
        page_data(40, 50, n_ood=20),
        page_data(30, 2, rule=rule()),
        page_data(30, 2, rule=rule(ood=-9.0), n_ood=3),
        page_data(30, 2, rule=rule(0.01, accept_below(0.2))),
        page_data(30, 2, rule=rule(1.0, accept_below(math.inf))),
        page_data(30, 2, rule=rule(1.0, accept_below(None))),
        page_data(30, 3, rule=rule(1.0, accept_below(0.4), {0: 0.5, 2: 2.0})),
        page_data(30, 3, rule=rule(math.inf, None, {0: 0.5})),
        page_data(30, 2, warning="HMC has not converged: R-hat 1.2 above 1.01 (raise n_warmup)."),
        page_data(30, 2, health={}, settings={}),
        page_data(30, 2, test=replace(scored(30, 2, 0), unseen=np.arange(30) < 3)),
        page_data(30, 2, calibration={"ood_score": np.zeros(9), "total": np.full(9, 0.2)}),
        page_data(30, 2, calibration={"ood_score": np.full(9, np.inf), "total": np.full(9, 0.2)}),
        page_data(30, 2, calibration={"ood_score": np.full(9, -1e9), "total": np.full(9, 0.2)}),
    ],
)
def test_odd_cases_make_a_page(case):
    read(case)


def test_rows_that_are_infinitely_unfamiliar_make_a_page():
    data = page_data(30, 2, n_ood=9, rule=rule(1.0))
    endless = saying(data.ood, ood_score=np.array([1e3, 1e30, *[np.inf] * 7]))
    reader = read(replace(data, ood=endless))
    assert "OOD: 9 rows, 100 % above the threshold" in reader.text
    assert reader.numbers["auroc"] == 1
    listed = np.where(np.arange(30) == 3, np.inf, data.test.evaluation.ood_score)
    assert "infinite" in read(replace(data, test=saying(data.test, ood_score=listed))).text


def test_a_model_without_doubt_makes_a_page(fast, table):
    paper = fast(ood_prior=0.0)
    model = TableModel.fit(table.head(400), "diagnosis", classifier=paper)
    data = report_data(model, table.tail(50), table.tail(20).assign(**{"worst area": 9_000.0}))
    said = data.test.evaluation
    np.testing.assert_array_equal(said.ood_score, said.epistemic)
    read(data)


def test_rows_of_which_the_model_is_entirely_sure_make_a_page():
    sure = np.tile([1.0, 0.0], (5, 1))
    zero = np.zeros(5)
    for labels in (np.zeros(5, int), np.ones(5, int), None):
        test = rows_of(Evaluation(sure, zero, zero, zero, zero), np.full(5, ""), labels)
        read(page_data(5, 2, test=test, ood=test, on_map=[np.zeros((5, 2))] * 2))


def test_without_labels_no_number_needs_them():
    reader = read(page_data(labeled=False, n_ood=20))
    labeled = {"accuracy-all", "auc", "ece", "log-loss", "aurc", "augrc", "risk-80", "coverage-5"}
    assert not labeled & set(reader.numbers)
    assert reader.text.count("have no labels") >= 3


def test_many_rows_are_thinned_and_the_page_says_so():
    data = page_data(5000, 3)
    assert read(data).text.count("2,000 of 5,000 rows are drawn") == 2
    assert len(render_page(data)) < 1_000_000
    assert "are drawn, chosen" not in read(page_data(2000, 3)).text


def test_the_map_shows_the_two_widest_directions(model, table):
    data = report_data(model, table.tail(100))
    points = model.encoder.transform(table.tail(100).drop(columns="diagnosis"))
    standard = (points - model.neighborhood.mean) / model.neighborhood.scale
    wards = points[:, -1:] == [0, 1]  # one-hot encoded, not numbers
    variances = np.linalg.eigvalsh(np.cov(np.column_stack([standard[:, :-1], wards]).T))[::-1]
    np.testing.assert_allclose(data.on_map[0].var(axis=0, ddof=1), variances[:2], 1e-5)
    np.testing.assert_allclose(data.explained_variance, variances[:2] / variances.sum(), 1e-5)


# --- what it lets in and out ---------------------------------------------------------------------


def test_untrusted_text_stays_text(real, nasty):
    page, reader = render_page(real), read(real)
    assert reader.tags.count("script") == 1
    assert "img" not in reader.tags
    assert nasty not in page
    assert reader.text.count("window.broken = 1") > 10  # names, labels and columns are all shown


def test_the_page_needs_nothing_but_itself(real, nasty):
    page = render_page(real)
    assert all(link.startswith(("#", "data:,")) for link in Reader(page).links)
    outside = page.replace(nasty, "")
    assert not re.search(r"https?://|@import|url\(|//cdn", outside)
    targets = {link.removeprefix("#") for link in Reader(page).links if link.startswith("#")}
    assert targets <= set(Reader(page).ids)


def test_a_page_is_not_replaced_unasked_and_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path, data = tmp_path / "new" / "report.html", page_data()
    write_page(data, path)
    assert path.read_text(encoding="utf-8") == render_page(data)
    with pytest.raises(FileExistsError, match="must not exist yet"):
        write_page(data, path)
    other = page_data(7)
    write_page(other, path, overwrite=True)
    assert path.read_text(encoding="utf-8") == render_page(other)
    with pytest.raises(IsADirectoryError, match="is a folder"):
        write_page(data, tmp_path, overwrite=True)

    def full(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        write_page(data, path, overwrite=True)
    assert path.read_text(encoding="utf-8") == render_page(other)
    assert [each.name for each in path.parent.iterdir()] == ["report.html"]


def test_labels_are_found_however_the_file_spells_them():
    rng = np.random.default_rng(0)
    label = np.repeat([0, 1], 40)
    frame = pd.DataFrame({"x": rng.normal(size=80) + 3 * label, "y": rng.normal(size=80)})
    model = TableModel.fit(frame.assign(label=label), "label", quick=True, random_state=0)
    for spelled in (label, label.astype(float), label.astype(str)):
        data = report_data(model, frame.assign(kind=spelled), target="kind")
        np.testing.assert_array_equal(data.test.truth, label)


def test_mistakes_are_named(model, table):
    frame = table.tail(20)
    with pytest.raises(ValueError, match="it has no 'color'"):
        report_data(model, frame, target="color")
    with pytest.raises(ValueError, match=r"got unheard of\. Rows of other classes"):
        report_data(model, frame.assign(diagnosis="unheard of"))
    gaps = frame.assign(diagnosis=frame["diagnosis"].mask(np.arange(20) == 4))
    with pytest.raises(ValueError, match="row 5 has none"):
        report_data(model, gaps)
    with pytest.raises(ValueError, match="at least 1 row"):
        report_data(model, frame.head(0))


def test_the_threshold_of_likely_errors_is_shown_without_an_error_bound():
    rule = DeferralRule(0.05, 100, 3.0, max_error_probability=0.2)
    assert Thresholds.of(rule).total == pytest.approx(0.5004, abs=1e-4)
    assert Thresholds.of(DeferralRule(0.05, 100, 3.0)).total is None


def test_a_new_section_is_a_template_and_a_line(tmp_path, monkeypatch):
    written = '<h2 id="hello-title">Hello</h2><p>{{ data.test|length|rows }}, {{ answer }}</p>'
    (tmp_path / "sections").mkdir()
    (tmp_path / "sections" / "hello.html.j2").write_text(written)
    monkeypatch.setitem(SECTIONS, "hello", Section("Hello", lambda data: {"answer": 42}))
    templates = page.environment("bacoun.report")
    templates.loader.loaders.append(FileSystemLoader(tmp_path))
    monkeypatch.setattr(page, "environment", lambda *packages: templates)
    reader = read(page_data(30))
    assert "30 rows, 42" in reader.text
    assert "#hello" in reader.links
