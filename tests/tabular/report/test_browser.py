"""The page reads well in a real browser, in both themes, on a screen and on a phone."""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile

import pytest

from bacoun.tabular.report.page import write_page

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
    assert browser.run("document.querySelectorAll('figure svg[role=img]').length") == 6
    assert browser.run("document.querySelectorAll('.reasons svg[aria-label]').length") > 20
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
