"""Requests to an endpoint, without a deployment."""

import asyncio
import base64
import functools
import hashlib
import hmac
import io
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any

import pytest

from duetime import Discard, Push, SignatureError, Snooze, asgi_receiver, verify, wsgi_receiver

# The example that Standard Webhooks publishes.
PUBLISHED, OTHER = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_bmV3ZXIgc2VjcmV0IG9mIDI0IGJ5dGVzISEh"
BODY, SENT = b'{"test": 2432232314}', 1614265330
HEADERS = {
    "Webhook-Id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "Webhook-Timestamp": str(SENT),
    "Webhook-Signature": "v1,AAAA v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    "Ce-Type": "order.expire", "Ce-Owner": "customer%207", "Ce-Time": "2026-11-27T10:10:00.5Z",
}


def test_a_genuine_request_is_read() -> None:
    due_at = datetime(2026, 11, 27, 10, 10, 0, 500_000, UTC)
    push = Push("msg_p5jXN8AQM9LWM0D4loKWxJek", "order.expire", "customer 7", "", due_at, {"test": 2432232314}, BODY.decode())
    assert verify(HEADERS, BODY, PUBLISHED, SENT) == push
    assert verify({name.upper(): value for name, value in HEADERS.items()}, BODY, f"{OTHER}\n{PUBLISHED}", SENT + 299) == push


@pytest.mark.parametrize("change", [
    {"body": BODY + b" "}, {"secrets": OTHER}, {"now": SENT + 301}, {"now": SENT - 301}, {"now": float("nan")},
    *({name: ""} for name in HEADERS),
    {"Webhook-Id": "7"}, *({"Webhook-Timestamp": text} for text in ("now", "1614265331", "1.6e9", "²", "9" * 5000)),
    *({"Webhook-Signature": signature.format("g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ")} for signature in ("{}1OE=", "v2,{}1OE=", "v1,{}")),
    {"Ce-Time": "today"}, {"Webhook-Signature": "v1,ü"}, {"Webhook-Signature": "v1,\udc80"},
], ids=str)
def test_all_else_is_refused(change: dict[str, Any]) -> None:
    given: dict[str, Any] = {"body": BODY, "secrets": PUBLISHED, "now": SENT} | change
    headers = {name: given.get(name, value) for name, value in HEADERS.items()}
    with pytest.raises(SignatureError):
        verify(headers, given["body"], given["secrets"], given["now"])


def signed(body: bytes, id: str = "7", at: str = str(SENT)) -> dict[str, str]:
    digest = hmac.new(base64.b64decode(PUBLISHED.removeprefix("whsec_")), f"{id}.{at}.".encode() + body, hashlib.sha256).digest()
    return HEADERS | {"Webhook-Id": id, "Webhook-Timestamp": at, "Webhook-Signature": f"v1,{base64.b64encode(digest).decode()}"}


@pytest.mark.parametrize(("headers", "body"), [
    # Signed as U.T.1614265330.75: a payload that is a number passes for the end of the time.
    (signed(b"75", "U.T"), b"75"), (signed(b"75", ""), b"75"),
    (signed(b"no JSON"), b"no JSON"), (signed(b'"\xff"'), b'"\xff"'), (signed(b"[" * 4000), b"[" * 4000),
], ids=repr)
def test_what_cant_be_read_is_refused(headers: dict[str, str], body: bytes) -> None:
    with pytest.raises(SignatureError):
        verify(headers, body, PUBLISHED, SENT)


def plain(push: Push) -> None:
    acted.append(push.id)


async def coroutine(push: Push) -> None:
    acted.append(push.id)


acted: list[str] = []


def test_a_secret_of_another_form_is_a_mistake() -> None:
    calls: list[Callable[[str | list[str]], object]] = [
        lambda secrets: verify(HEADERS, BODY, secrets, SENT), lambda secrets: wsgi_receiver(secrets, plain),
        lambda secrets: asgi_receiver(secrets, coroutine),
    ]
    for secrets in ([], "", f"{PUBLISHED} whsec_?", [PUBLISHED, PUBLISHED.removeprefix("whsec_")], "whsec_"):
        for call in calls:
            with pytest.raises(ValueError, match="^secret [12] must be whsec_ and base64$"):
                call(secrets)


@pytest.fixture
def on_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: SENT)
    acted.clear()


@pytest.mark.parametrize(("failure", "status", "said"), [
    (None, HTTPStatus.NO_CONTENT, b""), (Discard("no"), HTTPStatus.GONE, b"Discard: no"),
    (Snooze(timedelta(seconds=6.5)), HTTPStatus.SERVICE_UNAVAILABLE, b"Snooze: not yet"), (KeyError("a"), HTTPStatus.INTERNAL_SERVER_ERROR, b"KeyError: 'a'"),
])
def test_asgi(
    on_time: None, caplog: pytest.LogCaptureFixture, failure: Exception | None, status: int, said: bytes,
) -> None:
    async def act(push: Push) -> None:
        assert push.payload == {"test": 2432232314}
        if failure:
            raise failure

    start, body = ask(asgi_receiver([PUBLISHED], act), BODY[:5], BODY[5:])
    assert (start["status"], body["body"]) == (status, said)
    assert dict(start["headers"]).get(b"retry-after") == (b"7" if isinstance(failure, Snooze) else None)
    assert len(caplog.records) == (status == HTTPStatus.INTERNAL_SERVER_ERROR)
    caplog.clear()
    assert ask(asgi_receiver([OTHER], act), BODY)[0]["status"] == HTTPStatus.UNAUTHORIZED
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    large = [b" " * 1024] * 100
    assert ask(asgi_receiver([PUBLISHED], act), *large)[0]["status"] == HTTPStatus.UNAUTHORIZED


def test_asgi_runs_plain_functions_too(on_time: None) -> None:
    def number(push: Push) -> Any:
        acted.append(push.id)
        return 7

    for handle in (plain, coroutine, functools.partial(coroutine), number):
        assert ask(asgi_receiver(PUBLISHED, handle), BODY)[0]["status"] == HTTPStatus.NO_CONTENT
    assert acted == [HEADERS["Webhook-Id"]] * 4


def test_wsgi_answers_no_success_for_a_coroutine(on_time: None) -> None:
    app: Callable[..., Any] = wsgi_receiver
    with pytest.raises(TypeError, match="^handle must be a plain function"):
        app(PUBLISHED, coroutine)
    status, text = ask_wsgi(app(PUBLISHED, lambda push: coroutine(push)), BODY, CONTENT_LENGTH=str(len(BODY)))
    assert status.startswith("500 ") and text.startswith(b"TypeError: handle must be a plain function") and not acted


@pytest.mark.parametrize(("environment", "status"), [
    ({"CONTENT_LENGTH": str(len(BODY))}, "204 "), ({"wsgi.input_terminated": True}, "204 "), ({}, "401 "), ({"CONTENT_LENGTH": "-1"}, "401 "),
    ({"CONTENT_LENGTH": "-1", "wsgi.input_terminated": True}, "204 "), ({"CONTENT_LENGTH": str(2**40)}, "401 "),
])
def test_wsgi_reads_the_body(on_time: None, environment: dict[str, Any], status: str) -> None:
    body = BODY if environment.get("CONTENT_LENGTH") != str(2**40) else b" " * 100_000
    answer, text = ask_wsgi(wsgi_receiver(PUBLISHED, plain), body, **environment)
    assert answer.startswith(status) and len(acted) == (status == "204 ")
    assert environment or text == b"SignatureError: the request must have a Content-Length"


@pytest.mark.parametrize("delay", [timedelta(0), timedelta(seconds=-1), timedelta(seconds=3601), 60])
def test_a_snooze_is_a_second_to_an_hour(delay: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        Snooze(delay)


def ask_wsgi(app: Callable[..., Any], body: bytes, **environment: Any) -> tuple[str, bytes]:
    """Sends a request, of which no more than 64 KiB and a byte may be read."""
    said: list[str] = []
    headers = {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in HEADERS.items()}
    given = io.BytesIO(body)
    text = b"".join(app({**headers, **environment, "wsgi.input": given}, lambda status, _: said.append(status)))
    assert given.tell() <= 64 * 1024 + 1
    return said[0], text


def ask(app: Callable[..., Any], *parts: bytes) -> list[dict[str, Any]]:
    """Sends a request of these parts, and returns the messages of the answer."""
    left, sent = list(parts), list[dict[str, Any]]()

    async def receive() -> dict[str, Any]:
        part = left.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(left)}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    headers = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
    asyncio.run(app({"type": "http", "headers": headers}, receive, send))
    return sent
