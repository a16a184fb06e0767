"""The pages in a real browser: every flow, with mouse, keyboard and touch, and no complaint."""

import json

import pytest
from tests.browser import CONTRAST, chromium
from tests.server.conftest import NEW, TABLE, TOKEN

FITTED = "document.getElementById('progress').textContent.startsWith('Done')"
ANSWERED = "document.getElementById('verdict')?.textContent.length > 5"
CENTER = """(() => {{
  const box = document.querySelector("{}").getBoundingClientRect();
  return [box.left + box.width / 2, box.top + box.height / 2, box.width];
}})()"""


@pytest.fixture(scope="module")
def browser():
    with chromium() as started:
        yield started


@pytest.fixture
def visit(browser, server):
    """A function that opens a page and waits for it; at the end nothing may have gone wrong."""

    def open_page(path, ready, **options):
        browser.visit(server.address + path, **options)
        browser.until(ready)
        return browser

    yield open_page
    assert browser.complaints() == []
    requests = [each["request"]["url"] for each in browser.seen("Network.requestWillBeSent")]
    assert [url for url in requests if not url.startswith((server.address, "data:", "blob:"))] == []


def texts(browser, selector):
    return browser.run(
        f"[...document.querySelectorAll({selector!r})].map((each) => each.textContent)"
    )


def set_value(browser, selector, value):
    browser.run(
        f"(() => {{ const input = document.querySelector({selector!r}); input.value = {value!r};"
        "input.dispatchEvent(new Event('input', {bubbles: true}));"
        "input.dispatchEvent(new Event('change', {bubbles: true})); })()"
    )


@pytest.mark.parametrize(("width", "theme"), [(1200, "light"), (390, "dark")])
@pytest.mark.parametrize(
    ("path", "ready"),
    [
        ("/?b=nlm", FITTED),
        ("/digits?data=digits", ANSWERED),
        ("/models/tumors?ward=Z", ANSWERED),
        (
            "/models",
            "document.querySelectorAll('#models p')[1]?.textContent.includes('classes')",
        ),
        ("/docs", "document.querySelectorAll('details').length > 10"),
    ],
)
def test_pages_fit_the_screen_and_can_be_read(visit, path, ready, width, theme):
    browser = visit(path, ready, width=width, theme=theme)
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.run(CONTRAST) >= 4.5
    unnamed = """[...document.querySelectorAll("input, select, textarea, canvas, button")].filter(
        (each) => !each.closest("[aria-hidden]") && !each.hidden && !each.textContent.trim() &&
          !each.labels?.length && !each.getAttribute("aria-label")).map((each) => each.outerHTML)"""
    assert browser.run(unnamed) == []


def test_a_fit_shows_its_progress_maps_and_values_and_the_address_is_its_data(visit, server):
    told = """(() => { window.told = new Set(); new MutationObserver(() => {
        const bar = document.querySelector("#progress progress");
        if (bar) window.told.add(document.getElementById("progress").textContent.split(",")[0]);
      }).observe(document.getElementById("progress"), {childList: true}); })()"""
    browser = visit("/?data=moons", "!!document.getElementById('progress')")
    browser.run(told)
    set_value(browser, "[name=seed], [name=b]", "mc-dropout")
    browser.until("document.querySelectorAll('.panel').length === 2 && " + FITTED)
    assert any("BaCOUn" in each for each in browser.run("[...window.told]"))
    x, y, width = browser.run(CENTER.format("canvas.map"))
    browser.mouse("mouseMoved", x + 0.4 * width, y - 0.4 * width)
    near, far = (texts(browser, f".panel:nth-child({k}) .readout output")[:6] for k in (1, 2))
    assert near != far
    with server.client() as client:
        query = browser.run("location.search")
        found = client.get("/" + query, headers={"Accept": "application/json"}).json()
    assert [each["method"] for each in found["models"]] == ["bacoun", "mc-dropout"]
    maps = found["models"][0]["maps"]
    assert len(maps["total"]) == 81 * 81
    total = sum(maps[name][0] for name in ("aleatoric", "model", "ood"))
    assert total == pytest.approx(maps["total"][0], abs=3e-4)


def test_maps_sliders_and_methods_are_in_the_address_which_restores_them(visit):
    browser = visit("/", FITTED)
    browser.run("document.querySelector('[data-map=ood]').click()")
    set_value(browser, "[name=doubt]", "0")
    browser.run("document.querySelector('[name=shell]').click()")
    query = browser.until("location.search.includes('doubt=0') && location.search")
    assert set(query[1:].split("&")) == {"map=ood", "doubt=0", "shell=1"}
    browser = visit("/" + query, FITTED)
    assert browser.run("document.querySelector('[data-map=ood]').getAttribute('aria-pressed')")
    assert browser.run("document.querySelector('[name=doubt]').value") == "0"
    assert browser.run("document.querySelector('[name=shell]').checked")


def test_ones_own_points_are_clicked_onto_the_plane(visit):
    browser = visit("/?data=points", "!!document.querySelector('canvas.map')")
    x, y, width = browser.run(CENTER.format("canvas.map"))
    assert browser.run("document.getElementById('own').clientHeight") < 200
    for k in range(2):
        browser.run(f"document.querySelectorAll('#classes button')[{k}].click()")
        for step in range(4):
            browser.click(x + (k - 0.5) * 0.4 * width, y + step * 0.05 * width)
    assert browser.until("location.search.split('%3B').length === 8")
    browser.until(FITTED)
    browser.run("document.getElementById('undo').click()")
    browser.until("location.search.split('%3B').length === 7 && " + FITTED)


def test_the_map_can_be_read_by_keyboard(visit):
    browser = visit("/", FITTED)
    browser.run("document.querySelector('canvas.map').focus()")
    browser.key("ArrowRight", 39)
    first = texts(browser, ".readout p")[0]
    for _ in range(5):
        browser.key("ArrowUp", 38)
    assert texts(browser, ".readout p")[0] != first


def test_a_drawn_digit_is_read_and_noise_makes_it_unfamiliar(visit):
    browser = visit("/digits?data=digits", ANSWERED)
    x, y, width = browser.run(CENTER.format("#pad"))
    browser.mouse("mousePressed", x, y - 0.3 * width, button="left", clickCount=1)
    for step in range(13):
        browser.mouse("mouseMoved", x, y + (step / 20 - 0.3) * width, button="left")
    browser.mouse("mouseReleased", x, y + 0.3 * width, button="left", clickCount=1)
    browser.until("location.search.includes('image=')")
    browser.until("document.querySelectorAll('#chances output')[1].textContent > '50 %'")
    set_value(browser, "[name=noise]", "1")
    browser.until("document.querySelector('#verdict .quiet').textContent === 'unfamiliar'")
    set_value(browser, "[name=noise]", "0")
    set_value(browser, "[name=amount]", "1")
    browser.until("document.querySelector('#verdict .decision').textContent.includes('8')")


def test_a_row_is_changed_and_the_column_behind_the_decision_is_marked(visit):
    browser = visit("/models/tumors", ANSWERED)
    assert texts(browser, "#verdict .tag") == ["accept"]
    set_value(browser, "#form [data-column='mean radius']", "500")
    browser.until("document.querySelector('#verdict .tag').textContent === 'defer'")
    assert "mean+radius=500" in browser.run("location.search")
    blamed = "document.querySelector('.blamed [data-column]').dataset.column"
    assert browser.run(blamed) == "mean radius"
    browser.run("document.getElementById('reset').click()")
    browser.until("document.querySelector('#verdict .tag').textContent === 'accept'")
    assert browser.run("location.search") == ""


def test_a_dropped_table_comes_back_scored(visit, model):
    browser = visit("/models/tumors", ANSWERED)
    table = TABLE.iloc[400:420].assign(ward=["Z"] * 10 + ["B"] * 10)
    content = table.to_csv(index=False)
    browser.run(
        "(() => { const data = new DataTransfer();"
        f"data.items.add(new File([{json.dumps(content)}], 'new.csv', {{type: 'text/csv'}}));"
        "document.getElementById('drop').dispatchEvent("
        "new DragEvent('drop', {dataTransfer: data, bubbles: true})); })()"
    )
    browser.until("document.querySelectorAll('#scored tbody tr').length === 20")
    expected = model.score(table)
    accepted = int((expected["decision"] == "accept").sum())
    assert texts(browser, "#scored .row-of p") == [
        f"20 rows: {accepted} accepted, {20 - accepted} deferred."
    ]
    assert texts(browser, "#scored td:nth-child(2)") == expected["prediction"].tolist()
    assert browser.run("document.querySelector('#scored a').download") == "tumors-scored.csv"


def test_what_is_no_table_is_refused_in_words(browser, server):
    browser.visit(server.address + "/models/tumors")
    browser.until(ANSWERED)
    set_value(browser, "#pasted", "a,b\n1,2\n")
    browser.run("document.getElementById('score').click()")
    browser.until("document.querySelector('#scored .message')?.textContent.includes('it lacks')")


def test_the_log_and_the_report_are_on_the_models_page(visit, server):
    with server.client() as client:
        rows = json.loads(NEW.head(40).to_json(orient="records"))
        assert client.post("/v1/models/tumors/predict", json={"rows": rows}).is_success
    browser = visit("/models/tumors", "!document.getElementById('watched').hidden")
    assert " rows, " in texts(browser, "#watch .verdict")[0]
    assert browser.run("document.querySelectorAll('#watch svg.chart').length") == 3
    link = "document.querySelector('#facts a')?.getAttribute('href')"
    assert browser.until(link) == "/models/tumors/report"


def test_a_page_asks_for_the_token(strict, browser):
    browser.visit(strict.address + "/models")
    browser.until("!!document.querySelector('dialog[open]')")
    set_value(browser, "#token", TOKEN)
    browser.run("document.querySelector('dialog button').click()")
    browser.until("document.querySelectorAll('#models li').length === 1")
