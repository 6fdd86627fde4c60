"""The deployment that internal/test/e2e/packages_test.go starts, and a proxy before its API."""

import os
import urllib.error
import urllib.request
from contextlib import AbstractContextManager

import stub

API, TOKEN, SECRET = os.environ["DUETIME_API"], os.environ["DUETIME_TOKEN"], os.environ["DUETIME_SECRET"]
LISTEN = os.environ["DUETIME_LISTEN_PYTHON"]


def forward(path: str, body: bytes) -> stub.Answer:
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}
    try:
        with urllib.request.urlopen(urllib.request.Request(API + path, body, headers)) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def faulty(*faults: stub.Fault) -> AbstractContextManager[stub.Faulty]:
    """A proxy before the API."""
    return stub.faulty(*faults, carry_out=forward)
