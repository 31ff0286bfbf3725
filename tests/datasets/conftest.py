"""What the tests of downloads share: a cache of their own, and a server on this machine."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDSDG_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("FEDSDG_DATA", raising=False)
    return tmp_path / "cache"


@pytest.fixture
def server():
    """A server whose files are a dictionary, a text being a redirect; it counts what it is asked for."""
    files, asked = {}, []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            content = files.get(self.path)
            if isinstance(content, str):
                self.send_response(302)
                self.send_header("Location", content)
            else:
                self.send_response(200 if content is not None else 404)
            self.end_headers()
            if isinstance(content, bytes):
                self.wfile.write(content)

        def log_message(self, *_):
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{http.server_port}", files, asked
    http.shutdown()
    http.server_close()
    thread.join()
