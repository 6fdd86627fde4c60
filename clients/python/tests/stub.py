"""A server in place of the API, or before it."""

import http.server
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from duetime import Duetime

Answer: TypeAlias = tuple[int, str]
LOST: Answer = (0, "")  # the request is carried out, and its answer lost
Fault: TypeAlias = Answer | Callable[[], object]  # or it is answered so, or carried out after this was done


def refusing(status: int, code: str, reason: str) -> Answer:
    """An answer with an error of duetime's."""
    details = [{"type": "google.rpc.ErrorInfo", "debug": {"reason": reason, "domain": "duetime"}}]
    return status, json.dumps({"code": code, "message": reason, "details": details})


class Faulty(http.server.ThreadingHTTPServer):
    """Its first requests meet the faults."""

    def __init__(self, faults: list[Fault], carry_out: Callable[[str, bytes], Answer]) -> None:
        super().__init__(("127.0.0.1", 0), FaultyRequest)
        self.faults, self.requests, self.carry_out = faults, 0, carry_out
        self.client = Duetime(f"http://127.0.0.1:{self.server_port}/", "stub-0123456789abcdef")


class FaultyRequest(http.server.BaseHTTPRequestHandler):
    server: Faulty

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests += 1
        fault = self.server.faults.pop(0) if self.server.faults else lambda: None
        if callable(fault):
            fault()
        status, text = self.server.carry_out(self.path, body) if callable(fault) or fault == LOST else fault
        if fault == LOST:
            self.close_connection = True
            return
        self.send_response(status)
        self.send_header("Location", self.path)  # of a redirect
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def faulty(*faults: Fault, carry_out: Callable[[str, bytes], Answer] = lambda *_: (200, "{}")) -> Iterator[Faulty]:
    with Faulty(list(faults), carry_out) as server:
        threading.Thread(target=server.serve_forever, args=[0.02], daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()
