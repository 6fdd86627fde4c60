import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from threading import Thread
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest
from conftest import API, LISTEN, SECRET, TOKEN

from duetime import Discard, Duetime, NewTask, Push, SignatureError, Snooze, Task, asgi_receiver, verify, wsgi_receiver

duetime = Duetime(API, TOKEN)
pushes: list[Push] = []


def tries(id: str) -> int:
    return Counter(push.id for push in pushes)[id]


def handle(push: Push) -> None:
    pushes.append(push)
    match push.payload["order"], tries(push.id):
        case "refused", _:
            raise Discard("no such order")
        case "early", 1:
            raise Snooze(timedelta(seconds=0.5))
        case "broken", 1:
            raise LookupError("out of stock")


class Silent(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def endpoint() -> Iterator[None]:
    host, port = LISTEN.rsplit(":", 1)
    app = wsgi_receiver(["whsec_bmV3ZXIgc2VjcmV0IG9mIDI0IGJ5dGVzISEh", SECRET], handle)
    with make_server(host, int(port), app, handler_class=Silent) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield
        server.shutdown()


def run(order: str) -> Task:
    """Schedules a task that is due now, and waits until it has ended."""
    task = duetime.schedule(NewTask(
        "client.python", f"ann ü {order}", {"order": order}, queue="push", subject="50 %", due_in=timedelta())).task
    while task.state == "STATE_PENDING":
        duetime.await_due(task.owner, timeout=timedelta(seconds=1))
        time.sleep(0.05)
        task = duetime.get(task.task_id)
    return task


def test_a_handler_that_returns_ends_the_task(endpoint: None) -> None:
    task = run("plain")
    (push,) = (push for push in pushes if push.id == task.task_id)
    assert task.state == "STATE_DONE"
    assert push == Push(task.task_id, task.kind, task.owner, "50 %", task.due_at or datetime.min, {"order": "plain"})
    assert duetime.await_due(task.owner, kind=task.kind).left == 0


def test_a_handler_that_raises_has_the_task_tried_again(endpoint: None) -> None:
    task = run("broken")
    assert (task.state, tries(task.task_id)) == ("STATE_DONE", 2)
    assert "LookupError: out of stock" in task.last_error


def test_a_handler_discards_and_snoozes(endpoint: None) -> None:
    dead, later = run("refused"), run("early")
    assert (dead.state, tries(dead.task_id)) == ("STATE_DEAD", 1) and "no such order" in dead.last_error
    assert (later.state, later.last_error, tries(later.task_id)) == ("STATE_DONE", "", 2)


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
    push = Push("msg_p5jXN8AQM9LWM0D4loKWxJek", "order.expire", "customer 7", "", due_at, {"test": 2432232314})
    assert verify(HEADERS, BODY, PUBLISHED, SENT) == push
    assert verify({name.upper(): value for name, value in HEADERS.items()}, BODY, f"{OTHER}\n{PUBLISHED}", SENT + 299) == push


@pytest.mark.parametrize("change", [
    {"body": BODY + b" "}, {"secrets": OTHER}, {"now": SENT + 301}, {"now": SENT - 301},
    *({name: ""} for name in HEADERS),
    {"Webhook-Id": "7"}, *({"Webhook-Timestamp": text} for text in ("now", "1614265331", "1.6e9", "²", "9" * 5000)),
    *({"Webhook-Signature": signature.format("g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ")} for signature in ("{}1OE=", "v2,{}1OE=", "v1,{}")),
    {"Webhook-Signature": "v1,ü"}, {"Webhook-Signature": "v1,\udc80"},
], ids=str)
def test_all_else_is_refused(change: dict[str, Any]) -> None:
    given: dict[str, Any] = {"body": BODY, "secrets": PUBLISHED, "now": SENT} | change
    headers = {name: given.get(name, value) for name, value in HEADERS.items()}
    with pytest.raises(SignatureError):
        verify(headers, given["body"], given["secrets"], given["now"])


async def nothing(push: Push) -> None:
    pass


def test_a_secret_of_another_form_is_a_mistake() -> None:
    calls: list[Callable[[str | list[str]], object]] = [
        lambda secrets: verify(HEADERS, BODY, secrets, SENT), lambda secrets: wsgi_receiver(secrets, handle),
        lambda secrets: asgi_receiver(secrets, nothing),
    ]
    for secrets in ([], "", f"{PUBLISHED} whsec_?", [PUBLISHED, PUBLISHED.removeprefix("whsec_")], "whsec_"):
        for call in calls:
            with pytest.raises(ValueError, match="^secret [12] must be whsec_ and base64$"):
                call(secrets)


@pytest.mark.parametrize(("failure", "status", "said"), [
    (None, HTTPStatus.NO_CONTENT, b""), (Discard("no"), HTTPStatus.GONE, b"Discard: no"),
    (Snooze(timedelta(seconds=6.5)), HTTPStatus.SERVICE_UNAVAILABLE, b"Snooze: not yet"), (KeyError("a"), HTTPStatus.INTERNAL_SERVER_ERROR, b"KeyError: 'a'"),
])
def test_asgi(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, failure: Exception | None, status: int, said: bytes,
) -> None:
    async def act(push: Push) -> None:
        assert push.payload == {"test": 2432232314}
        if failure:
            raise failure

    monkeypatch.setattr(time, "time", lambda: SENT)
    start, body = ask(asgi_receiver([PUBLISHED], act), BODY[:5], BODY[5:])
    assert (start["status"], body["body"]) == (status, said)
    assert dict(start["headers"]).get(b"retry-after") == (b"7" if isinstance(failure, Snooze) else None)
    assert len(caplog.records) == (status == HTTPStatus.INTERNAL_SERVER_ERROR)
    assert ask(asgi_receiver([OTHER], act), BODY)[0]["status"] == HTTPStatus.UNAUTHORIZED
    large = [b" " * 1024] * 100
    assert ask(asgi_receiver([PUBLISHED], act), *large)[0]["status"] == HTTPStatus.UNAUTHORIZED


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
