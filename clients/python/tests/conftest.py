"""The deployment that internal/test/e2e/packages_test.go starts, and a proxy before its API."""

import http.server
import os
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from duetime import Duetime

API, TOKEN, SECRET = os.environ["DUETIME_API"], os.environ["DUETIME_TOKEN"], os.environ["DUETIME_SECRET"]
LISTEN = os.environ["DUETIME_LISTEN_PYTHON"]

LOST = (0, "")  # the request is carried out, and its answer lost


class Faulty(http.server.ThreadingHTTPServer):
    """A proxy before the API whose first requests meet faults: LOST, or a status and a body without reaching the API."""

    def __init__(self, faults: list[tuple[int, str]]) -> None:
        super().__init__(("127.0.0.1", 0), FaultyRequest)
        self.faults, self.requests = faults, 0
        self.client = Duetime(f"http://127.0.0.1:{self.server_port}/")


class FaultyRequest(http.server.BaseHTTPRequestHandler):
    server: Faulty

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests += 1
        status, text = self.server.faults.pop(0) if self.server.faults else (200, "")
        if (status, text) == LOST:
            self.forward(body)
            self.close_connection = True
            return
        answer = text.encode()
        if status == 200:
            status, answer = self.forward(body)
        self.send_response(status)
        self.send_header("Location", self.path)  # of a redirect
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def forward(self, body: bytes) -> tuple[int, bytes]:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}
        try:
            with urllib.request.urlopen(urllib.request.Request(API + self.path, body, headers)) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def faulty(*faults: tuple[int, str]) -> Iterator[Faulty]:
    with Faulty(list(faults)) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
