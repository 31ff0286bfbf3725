"""A headless Chromium, driven over the pipe of its DevTools protocol: no port, no package, no network.

It is found as `FEDSDG_CHROMIUM` (a path), or as chromium, chromium-browser, google-chrome or chrome on the search path.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PATIENCE = 60.0
OPTIONS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-sandbox",  # it shows our own page only, and containers often cannot make a sandbox
    "--no-zygote",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
)


#: The protocol lives on descriptors 3 and 4 of the browser.
ON_THREE_AND_FOUR = """
import fcntl, os, sys
hear, tell = (fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3])
os.dup2(hear, 3)
os.dup2(tell, 4)
os.execvp(sys.argv[3], sys.argv[3:])
"""


def find() -> str | None:
    """Return the browser of this machine, if there is one."""
    named = os.environ.get("FEDSDG_CHROMIUM")
    if named:
        return named
    return next((path for path in map(shutil.which, NAMES) if path), None)


@dataclass
class Seen:
    """What a page did while it was shown."""

    complaints: list[str] = field(default_factory=list)
    """Errors and warnings of its console, and exceptions."""
    requests: list[str] = field(default_factory=list)


class Browser:
    """One browser with one tab."""

    def __init__(self, executable: str, profile: Path) -> None:
        told, self._tell = os.pipe()
        self._hear, telling = os.pipe()
        start = [sys.executable, "-c", ON_THREE_AND_FOUR, str(told), str(telling)]
        self.process = subprocess.Popen(
            [*start, executable, *OPTIONS, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(told, telling),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": str(profile)},
        )
        os.close(told)
        os.close(telling)
        self._buffer, self._number = b"", 0
        self.seen = Seen()
        self._session: str | None = None
        try:
            self._attach()
        except BaseException:
            self.close()
            raise

    def _attach(self) -> None:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        """End the browser."""
        os.close(self._tell)
        self.process.terminate()
        self.process.wait(PATIENCE)
        os.close(self._hear)

    def show(self, page: Path, width: int, height: int, dark: bool = False) -> Seen:
        """Open a page in a window of this size, as a reader with this taste, and return what it did."""
        self.seen = Seen()
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        taste = "dark" if dark else "light"
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": taste}])
        self.call("Page.navigate", url=page.as_uri())
        deadline = time.monotonic() + PATIENCE
        while self.value("location.href + ' ' + document.readyState") != f"{page.as_uri()} complete":
            assert time.monotonic() < deadline, "the page never finished"
        return self.seen

    def value(self, expression: str) -> Any:
        """Return what an expression is on the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def picture(self, path: Path) -> None:
        """Write a picture of the whole page."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 12000), "scale": 1}
        shot = self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and wait for its answer; what happens meanwhile is noted."""
        self._number += 1
        number = self._number
        message = {"id": number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._tell, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            self._note(answer)

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._hear], [], [], PATIENCE)
            assert ready, "the browser does not answer"
            part = os.read(self._hear, 1 << 20)
            assert part, "the browser has ended"
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def _note(self, event: dict[str, Any]) -> None:
        what = event.get("params", {})
        match event.get("method"):
            case "Runtime.exceptionThrown":
                self.seen.complaints.append(str(what["exceptionDetails"]))
            case "Runtime.consoleAPICalled":
                self.seen.complaints.append(str(what["args"]))
            case "Log.entryAdded":
                self.seen.complaints.append(what["entry"]["text"])
            case "Network.requestWillBeSent":
                self.seen.requests.append(what["request"]["url"])
