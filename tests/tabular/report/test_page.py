"""The page says what the scores say, lets nothing in or out, and reads well in a real browser."""

import base64
import fcntl
import json
import math
import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer

from bacoun import uncertainty as scores
from bacoun.deferral import Acceptance, DeferralRule
from bacoun.tabular import TableModel
from bacoun.tabular.report.data import ReportData, Scored, UnusualFeature, report_data
from bacoun.tabular.report.measures import class_auc, reliability
from bacoun.tabular.report.page import render_page, write_page
from bacoun.uncertainty import decompose

NASTY = "<script>window.broken = 1</script>\"'&<img src=x onerror='window.broken=1'>"


# --- pages to look at ----------------------------------------------------------------------------


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
    return Scored(
        probabilities=probabilities,
        total=total,
        aleatoric=aleatoric,
        epistemic=epistemic,
        ood_score=ood_score,
        reason=rule.decide(ood_score, total, probabilities.argmax(axis=1)).reason,
        projection=rng.normal(size=(n, 2)),
        log_density=rng.normal(size=n),
        labels=rng.integers(k, size=n) if labeled else None,
    )


def page_data(n=60, k=3, seed=0, *, labeled=True, n_ood=0, rule=None, names=None, **changes):
    """A report on made-up rows."""
    test = scored(n, k, seed, labeled=labeled, rule=rule)
    rule = rule or DeferralRule.calibrate(test.ood_score, test.total, false_alarm=0.3)
    data = ReportData(
        names={"model": "model", "test": "test.csv", "ood": "ood.csv"} | (names or {}),
        classes=tuple(f"class {i}" for i in range(k)),
        about={"rows": "100"},
        settings={"ood prior": "0.01"},
        health={"inference": "HMC", "rhat": "1.01"},
        warning="",
        rule=rule,
        test=replace(test, reason=rule.decide(test.ood_score, test.total, test.predicted).reason),
        ood=scored(n_ood, k, seed + 1, labeled=False, rule=rule, sharpness=0.1) if n_ood else None,
        calibration={"ood_score": test.ood_score[::2], "total": test.total[::2]},
        unusual={row: (UnusualFeature("width", 1.5, -2.5),) for row in range(n)},
        unseen=np.zeros(n, dtype=bool),
        explained_variance=(0.5, 0.2),
        standardized=True,
        written="2026-01-01 00:00 UTC",
    )
    return replace(data, **changes)


def cancer():
    frame = load_breast_cancer(as_frame=True).frame
    named = frame.assign(diagnosis=np.where(frame["target"] == 0, "malignant", NASTY))
    named["ward"] = np.where(np.arange(len(named)) % 3 == 0, "A", "B")
    named = named.rename(columns={"mean radius": NASTY})
    columns = [NASTY, "mean texture", "worst area", "worst symmetry", "ward", "diagnosis"]
    return named[columns].sample(frac=1, random_state=0).reset_index(drop=True)


@pytest.fixture(scope="module")
def table():
    return cancer()


@pytest.fixture(scope="module")
def model(table):
    return TableModel.fit(table.head(400), "diagnosis", quick=True, random_state=0)


@pytest.fixture(scope="module")
def real(model, table):
    """The report of a fitted model, with names that try to break out."""
    strange = table.tail(60).assign(**{"worst area": 9_000.0, "ward": "Z"})
    names = {"model": NASTY, "test": f"{NASTY}.csv", "ood": NASTY}
    return report_data(model, table.tail(169), strange.drop(columns="diagnosis"), names=names)


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


@settings(max_examples=30)
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
    right = test.predicted == test.labels
    accepted = test.reason == ""
    expected = {
        "accuracy-all": right.mean(),
        "auc": scores.auroc(
            test.probabilities[test.labels == 0, 1], test.probabilities[test.labels == 1, 1]
        ),
        "ece": scores.expected_calibration_error(test.probabilities, test.labels),
        "log-loss": scores.negative_log_likelihood(test.probabilities, test.labels),
        "auroc": scores.auroc(test.ood_score, ood.ood_score),
        "aupr": scores.aupr(test.ood_score, ood.ood_score),
        "fpr95": scores.fpr_at_tpr(test.ood_score, ood.ood_score),
        "aurc": scores.aurc(test.total, right),
        "augrc": scores.augrc(test.total, right),
        "risk-80": scores.risk_at_coverage(test.total, right, 0.8),
        "coverage-5": scores.coverage_at_risk(test.total, right, 0.05),
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
    np.testing.assert_array_equal(real.test.epistemic, answers["epistemic"])
    np.testing.assert_array_equal(real.test.ood_score, answers["ood_score"])
    np.testing.assert_array_equal(real.test.reason, answers["reason"])
    said = model.classifier.classes_[real.test.predicted]
    np.testing.assert_array_equal(said, answers["prediction"])
    np.testing.assert_array_equal(model.classifier.classes_[real.test.labels], table["diagnosis"])


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
    bins = reliability(test.probabilities, test.labels)
    gap = sum(bin.rows * abs(bin.confidence - bin.accuracy) for bin in bins) / n
    assert gap == pytest.approx(
        scores.expected_calibration_error(test.probabilities, test.labels), abs=1e-12
    )


def test_auc_of_many_classes_is_the_mean_of_each_against_the_rest():
    from sklearn.metrics import roc_auc_score

    test = scored(200, 4, 0)
    expected = roc_auc_score(test.labels, test.probabilities, multi_class="ovr")
    assert class_auc(test.probabilities, test.labels) == pytest.approx(expected)


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
        page_data(30, 2, standardized=False, health={}, settings={}),
        page_data(30, 2, unseen=np.arange(30) < 3),
        page_data(30, 2, calibration={"ood_score": np.zeros(9), "total": np.full(9, 0.2)}),
        page_data(30, 2, calibration={"ood_score": np.full(9, np.inf), "total": np.full(9, 0.2)}),
        page_data(30, 2, calibration={"ood_score": np.full(9, -1e9), "total": np.full(9, 0.2)}),
    ],
)
def test_odd_cases_make_a_page(case):
    read(case)


def test_rows_that_are_infinitely_unfamiliar_make_a_page():
    data = page_data(30, 2, n_ood=9, rule=rule(1.0))
    endless = replace(data.ood, ood_score=np.array([1e3, 1e30, *[np.inf] * 7]))
    reader = read(replace(data, ood=endless))
    assert "OOD: 9 rows, 100 % above the threshold" in reader.text
    assert reader.numbers["auroc"] == 1
    listed = np.where(np.arange(30) == 3, np.inf, data.test.ood_score)
    assert "infinite" in read(replace(data, test=replace(data.test, ood_score=listed))).text


def test_a_model_without_doubt_makes_a_page(fast, table):
    paper = fast(ood_prior=0.0)
    model = TableModel.fit(table.head(400), "diagnosis", classifier=paper)
    data = report_data(model, table.tail(50), table.tail(20).assign(**{"worst area": 9_000.0}))
    np.testing.assert_array_equal(data.test.ood_score, data.test.epistemic)
    read(data)


def test_rows_of_which_the_model_is_entirely_sure_make_a_page():
    sure = np.tile([1.0, 0.0], (5, 1))
    zero = np.zeros(5)
    for labels in (np.zeros(5, int), np.ones(5, int), None):
        test = Scored(sure, zero, zero, zero, zero, np.full(5, ""), np.zeros((5, 2)), None, labels)
        read(page_data(5, 2, test=test, ood=test))


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


def test_a_moved_feature_is_named_first(model, table):
    moved = table.tail(30).reset_index(drop=True)
    moved.loc[7, "worst symmetry"] = 5.0
    moved.loc[9, "ward"] = "Z"
    data = report_data(model, moved)
    first = data.unusual[7][0]
    assert (first.name, first.value) == ("worst symmetry", pytest.approx(5.0))
    mean, scale = model.classifier.mean_, model.classifier.scale_
    k = model.encoder.feature_names_.index("worst symmetry")
    assert first.deviation == pytest.approx((5.0 - mean[k]) / scale[k])
    assert data.test.reason[9] == "unfamiliar"
    assert data.unseen.sum() == 1


def test_the_map_shows_the_two_widest_directions(model, table):
    data = report_data(model, table.tail(100))
    points = model.encoder.transform(table.tail(100).drop(columns="diagnosis"))
    standard = (points - model.classifier.mean_) / model.classifier.scale_
    variances = np.linalg.eigvalsh(np.cov(standard.T))[::-1]
    np.testing.assert_allclose(data.test.projection.var(axis=0, ddof=1), variances[:2])
    np.testing.assert_allclose(data.explained_variance, variances[:2] / variances.sum())


# --- what it lets in and out ---------------------------------------------------------------------


def test_untrusted_text_stays_text(real):
    page, reader = render_page(real), read(real)
    assert reader.tags.count("script") == 1
    assert "img" not in reader.tags
    assert NASTY not in page
    assert reader.text.count("window.broken = 1") > 10  # names, labels and columns are all shown


def test_the_page_needs_nothing_but_itself(real):
    page = render_page(real)
    assert all(link.startswith(("#", "data:,")) for link in Reader(page).links)
    outside = page.replace(NASTY, "")
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
        np.testing.assert_array_equal(data.test.labels, label)


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


# --- how it looks --------------------------------------------------------------------------------

_LAUNCH = """
import os, sys
for wanted, given in ((3, sys.argv[1]), (4, sys.argv[2])):
    os.dup2(int(given), wanted)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Chromium:
    """A headless browser, spoken to through a pipe in its own devtools protocol."""

    def __init__(self, binary, profile):
        there, self.to = os.pipe()
        self.back, here = os.pipe()
        theirs = [fcntl.fcntl(each, fcntl.F_DUPFD, 20) for each in (there, here)]
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        flags += ["--no-first-run", "--remote-debugging-pipe", f"--user-data-dir={profile}"]
        self.process = subprocess.Popen(
            [sys.executable, "-c", _LAUNCH, *map(str, theirs), binary, *flags, "about:blank"],
            pass_fds=theirs,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for each in (there, here, *theirs):
            os.close(each)
        self.count, self.rest, self.events, self.session = 0, b"", [], None
        pages = self.ask("Target.getTargets")["targetInfos"]
        page = next(each["targetId"] for each in pages if each["type"] == "page")
        answer = self.ask("Target.attachToTarget", targetId=page, flatten=True)
        self.session = answer["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method, **params):
        self.count += 1
        message = {"id": self.count, "method": method, "params": params}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self.count:
            self.events.append(answer)
        assert "error" not in answer, answer
        return answer["result"]

    def visit(self, url, width=1200, theme="light", media=""):
        self.events.clear()
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        self.ask("Emulation.setDeviceMetricsOverride", **size)
        features = [{"name": "prefers-color-scheme", "value": theme}]
        self.ask("Emulation.setEmulatedMedia", media=media, features=features)
        self.ask("Page.navigate", url=url)
        while not self.seen("Page.loadEventFired"):
            self.events.append(self._next())

    def run(self, script):
        answer = self.ask("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def picture(self):
        data = self.ask("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        return base64.b64decode(data)

    def seen(self, *methods):
        return [event["params"] for event in self.events if event.get("method") in methods]

    def complaints(self):
        return self.seen("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled")

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.to)
        os.close(self.back)

    def _next(self):
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.back], [], [], 60)
            piece = os.read(self.back, 1 << 20) if ready else b""
            if not piece:
                raise ConnectionError("the browser does not answer")
            self.rest += piece
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)


@pytest.fixture(scope="module")
def browser():
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    binary = next(filter(None, map(shutil.which, names)), None)
    if binary is None:
        pytest.skip(f"no browser on PATH: looked for {', '.join(names)}")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        chromium = Chromium(binary, profile)
        try:
            yield chromium
        finally:
            chromium.close()


@pytest.fixture(scope="module")
def address(real, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_page(real, path)
    return path.as_uri()


_CONTRAST = """(() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const light = (color) => {
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map((v) => v / 255)
      .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (node) => {
    const color = getComputedStyle(node).backgroundColor;
    return color === "rgba(0, 0, 0, 0)" ? behind(node.parentElement) : color;
  };
  const texts = [...document.querySelectorAll("h1, h2, h3, p, a, dt, dd, th, td, li, caption, " +
    "figcaption, summary, button, svg text")];
  return Math.min(...texts.map((node) => {
    const style = getComputedStyle(node);
    const both = [light(node.tagName === "text" ? style.fill : style.color), light(behind(node))];
    return (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05);
  }));
})()"""


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 390])
def test_a_browser_shows_it_without_complaint(browser, address, theme, width):
    browser.visit(address, width, theme)
    assert browser.complaints() == []
    requests = [each["request"]["url"] for each in browser.seen("Network.requestWillBeSent")]
    assert [url for url in requests if not url.startswith("data:")] == [address]
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.run("typeof window.broken") == "undefined"
    assert browser.run("document.querySelectorAll('svg[role=img]').length") == 6
    assert browser.run(_CONTRAST) >= 4.5
    picture = browser.picture()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 20_000


def test_the_theme_can_be_chosen(browser, address):
    background = "getComputedStyle(document.body).backgroundColor"
    browser.visit(address)
    light = browser.run(background)
    browser.run("document.getElementById('theme').click()")
    dark = browser.run(background)
    assert light != dark
    browser.visit(address, theme="dark", media="print")
    assert browser.run(background) == light  # paper is white
    browser.visit(address)
    browser.run("localStorage.clear()")
    assert browser.complaints() == []
