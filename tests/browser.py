"""A real browser for tests, spoken to in its own protocol; without one, tests are skipped."""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager

import pytest

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

    def until(self, script, seconds=60):
        """Wait until a script gives something true, which is returned."""
        ends = time.monotonic() + seconds
        while not (found := self.run(script)):
            assert time.monotonic() < ends, f"still not: {script}; {self.complaints()}"
            time.sleep(0.05)
        return found

    def mouse(self, kind, x, y, **more):
        """A mouse event, such as "mouseMoved" or "mousePressed", at a place of the window."""
        self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x, y):
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, button="left", clickCount=1)

    def key(self, name, code=0, text=""):
        """Press a key, by its name."""
        for kind in ("keyDown", "keyUp"):
            self.ask(
                "Input.dispatchKeyEvent",
                type=kind,
                key=name,
                code=name,
                windowsVirtualKeyCode=code,
                text=text if kind == "keyDown" else "",
            )

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


@contextmanager
def chromium():
    """A browser; skips the test where there is none."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    binary = next(filter(None, map(shutil.which, names)), None)
    if binary is None:
        pytest.skip(f"no browser on PATH: looked for {', '.join(names)}")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Chromium(binary, profile)
        try:
            yield browser
        finally:
            browser.close()


# The lowest contrast of any text with what is behind it; 4.5 is what WCAG asks for.
CONTRAST = """(() => {
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
    "figcaption, summary, button, label, legend, output, svg text")];
  return Math.min(...texts.map((node) => {
    const style = getComputedStyle(node);
    const both = [light(node.tagName === "text" ? style.fill : style.color), light(behind(node))];
    return (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05);
  }));
})()"""
