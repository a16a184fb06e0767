"""The page reads well in a real browser, in both themes, on a screen and on a phone."""

import pytest
from tests.browser import CONTRAST, chromium

from bacoun.report.page import write_page


@pytest.fixture(scope="module")
def browser():
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def address(real, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_page(real, path)
    return path.as_uri()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 390])
def test_a_browser_shows_it_without_complaint(browser, address, theme, width):
    browser.visit(address, width, theme)
    assert browser.complaints() == []
    requests = [each["request"]["url"] for each in browser.seen("Network.requestWillBeSent")]
    assert [url for url in requests if not url.startswith("data:")] == [address]
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.run("typeof window.broken") == "undefined"
    assert browser.run("document.querySelectorAll('figure svg[role=img]').length") == 6
    assert browser.run("document.querySelectorAll('.reasons svg[aria-label]').length") > 20
    assert browser.run(CONTRAST) >= 4.5
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
