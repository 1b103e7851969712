"""Serve the report of a running run, on this machine only."""

from __future__ import annotations

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

from prompt_coevo.errors import CoevoError
from prompt_coevo.report.fold import Fold
from prompt_coevo.report.page import page_of
from prompt_coevo.report.reading import NewLines, journal_of
from prompt_coevo.report.run import Run, RunError

_HOST: Final = "127.0.0.1"
_PATIENCE: Final = 4.0
"""After drawing a page, wait this many times as long before drawing it again."""


class LivePage:
    """The page of a folder, drawn again when the journal has grown, but not too often."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._html = ""
        self._state = ""
        self._next = 0.0
        self._begin()

    def _begin(self) -> None:
        self._fold, self._lines, self._size = Fold(self._folder), NewLines(self._folder), 0

    @property
    def state(self) -> str:
        """A tag of the journal's content: if it changes, the page may have changed."""
        with self._lock:
            return self._state if time.monotonic() < self._next else self._now()[1]

    @property
    def html(self) -> str:
        """The current page. Raise RunError."""
        with self._lock:
            size, state = self._now()
            if state != self._state and time.monotonic() >= self._next:
                begun = time.monotonic()
                self._html = page_of(self._read(size), live=True, state=state)
                self._state = state
                took = time.monotonic() - begun
                self._next = time.monotonic() + _PATIENCE * took
            return self._html

    def _read(self, size: int) -> Run:
        """Read the new lines and return the run."""
        if size < self._size:  # the journal was replaced
            self._begin()
        self._size = size
        try:
            for line in self._lines:
                self._fold.take(line)
            return self._fold.result()
        except RunError:
            self._begin()  # start over, so that the next request fails, too
            raise

    def _now(self) -> tuple[int, str]:
        sizes = [path.stat().st_size for path in journal_of(self._folder).parts]
        return sum(sizes), f"{len(sizes)}-{sum(sizes)}"


def server(folder: Path, port: int) -> ThreadingHTTPServer:
    """Create a server on the loopback interface; port 0 takes a free one. Raise CoevoError, RunError."""
    live = LivePage(folder)
    live.html  # noqa: B018  raises now if the run cannot be read

    class Handler(_Handler):
        live_page = live

    try:
        return ThreadingHTTPServer((_HOST, port), Handler)
    except (OSError, OverflowError) as error:
        raise CoevoError(
            f"the port {port} cannot be served: {error}; give another one with --port"
        ) from None


class _Handler(BaseHTTPRequestHandler):
    live_page: LivePage
    server_version = "prompt-coevo"
    sys_version = ""
    timeout = 30

    def do_GET(self) -> None:
        if not self._is_ours():
            # DNS rebinding: another site's name may resolve to this machine.
            self._answer(403, "text/plain", "this server answers to localhost alone\n")
            return
        try:
            if self.path == "/":
                self._answer(200, "text/html", self.live_page.html)
            elif self.path == "/state":
                self._answer(200, "text/plain", self.live_page.state)
            else:
                self._answer(404, "text/plain", "there is only /\n")
        except (CoevoError, OSError) as error:
            self._answer(503, "text/plain", f"{error}\n")

    def do_HEAD(self) -> None:
        self.do_GET()

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: the terminal belongs to the user."""

    def _is_ours(self) -> bool:
        # At any port: a tunnel may lead here from another one.
        return (self.headers.get("Host") or "").partition(":")[0] in (_HOST, "localhost")

    def _answer(self, status: int, kind: str, text: str) -> None:
        body = text.encode("utf-8", "replace")
        try:
            self.send_response(status)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.send_header("X-Frame-Options", "DENY")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)
        except ConnectionError:
            self.close_connection = True
