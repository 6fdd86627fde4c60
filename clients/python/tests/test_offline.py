"""Calls that need no deployment: a stub answers them."""

import json
import pickle
import re
import socket
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from stub import LOST, Answer, Fault, faulty, refusing

from duetime import Duetime, DuetimeError, NewTask, Snooze, new_id

HOUR = timedelta(hours=1)
ID = new_id()
TASK = {
    "taskId": ID, "kind": "order.expire", "owner": "python", "queue": "default", "state": "STATE_PENDING", "version": "1",
    "dueAt": "2027-01-01T00:00:00Z",
}
MADE: Answer = 200, json.dumps({"task": TASK, "outcome": "OUTCOME_MADE"})


def order(**more: Any) -> NewTask:
    return NewTask("order.expire", "python", {"order": 42}, due_in=HOUR, **more)


def meets(call: Callable[[Duetime], object], *faults: Fault) -> tuple[int, DuetimeError | None]:
    """The requests of a call that meets these faults, and the error in which it ends."""
    with faulty(*faults, MADE) as server:
        try:
            call(server.client)
        except DuetimeError as error:
            return server.requests, error
        return server.requests, None


def is_unknown(met: tuple[int, DuetimeError | None], requests: int) -> bool:
    return met[0] == requests and met[1] is not None and met[1].commit_unknown and not met[1].retryable


CHANGES: list[Callable[[Duetime], object]] = [
    lambda client: client.schedule(order(key="order-42", key_mode="KEY_MODE_MOVE")),
    lambda client: client.schedule_many([order(), order(key="order-42", key_mode="KEY_MODE_REPLACE")]),
    lambda client: client.reschedule(ID, due_in=HOUR),
    lambda client: client.reschedule(ID, due_at=datetime.now(UTC)),
    lambda client: client.reschedule(ID, due_in=HOUR, version=2),
    lambda client: client.shift(ID, HOUR),
    lambda client: client.call("GroupService/SealGroup", {"name": "siege"}),
]


def schedules(**more: Any) -> Callable[[Duetime], object]:
    return lambda client: client.schedule(order(**more))


def shift(client: Duetime) -> object:
    return client.shift(ID, HOUR)


@pytest.mark.parametrize("call", CHANGES)
def test_a_call_that_changes_anothers_task_is_not_repeated_after_a_lost_answer(call: Callable[[Duetime], object]) -> None:
    assert is_unknown(meets(call, LOST), 1)


@pytest.mark.parametrize("call", [
    schedules(), schedules(key="order-42"), schedules(key="order-42", key_mode="KEY_MODE_KEEP"),
    schedules(key="order-42", key_mode="KEY_MODE_WINDOW"), lambda client: client.get(ID), lambda client: client.cancel(ID), lambda client: client.await_due("python"),
    lambda client: client.call("TaskService/List", {}), lambda client: client.call("GroupService/GetGroup", {"name": "siege"}),
])
def test_other_calls_are_repeated(call: Callable[[Duetime], object]) -> None:
    assert meets(call, LOST) == (2, None)


def test_a_repeated_call_has_the_same_id_in_each_try() -> None:
    ids: list[str] = []

    def keep(path: str, body: bytes) -> Answer:
        ids.append(json.loads(body)["task"]["task_id"])
        return MADE

    with faulty(LOST, carry_out=keep) as server:
        server.client.schedule(order())
    assert len(ids) == 2 and ids[0] == ids[1]


@pytest.mark.parametrize("refusal", [
    (404, "<html>"), (401, '{"code": "unauthenticated"}'), refusing(403, "permission_denied", "ROLE"),
    refusing(400, "failed_precondition", "OWNER_BLOCKED"),
])
def test_a_refusal_after_a_lost_answer_leaves_open_what_the_lost_try_did(refusal: Answer) -> None:
    assert is_unknown(meets(lambda client: client.schedule(order()), LOST, refusal), 2)
    away = refusing(503, "unavailable", "DATABASE_AWAY")
    assert meets(lambda client: client.schedule(order()), LOST, away, away) == (4, None)
    assert is_unknown(meets(lambda client: client.schedule(order()), LOST, away, refusal), 3)


@pytest.mark.parametrize("answer", [
    (502, "<html>"), (408, ""), (504, '{"code": "GATEWAY_TIMEOUT"}'), (504, '{"code": "not_found"}'), (500, '{"code": 7}'),
    *((503, f'{{"code": "unavailable", "details": {details}}}') for details in ("null", '"none"', '["none", null, {"debug": 7}]')),
    (200, "<html>"), (200, "[]"), (200, "{}"), (200, '{"task": null}'), (200, '{"task": {"version": "x"}}'),
])
def test_an_answer_that_is_not_duetimes_is_known_by_its_status(answer: Answer) -> None:
    assert is_unknown(meets(shift, answer), 1)


def test_an_answer_that_says_that_nothing_was_changed() -> None:
    for answer in ((429, ""), refusing(503, "unavailable", "TRY_LATER")):
        assert meets(shift, answer) == (2, None)
    for status in (302, 308, 404, 413):
        requests, error = meets(shift, (status, ""))
        assert requests == 1 and error and (error.code, error.commit_unknown) == ("unimplemented", False)
    assert is_unknown(meets(lambda client: client.schedule_many([order()]), (200, '{"results": []}')), 1)


def test_a_cancel_whose_answer_was_lost_tells_what_has_become_of_the_task() -> None:
    def cancel(client: Duetime) -> object:
        return client.cancel(ID)

    cancelled, late = (refusing(400, "failed_precondition", reason) for reason in ("ALREADY_CANCELLED", "ALREADY_DONE"))
    assert meets(cancel, LOST, cancelled) == (3, None)
    for faults, requests, reason in (
        ([LOST, cancelled, (404, "")], 3, "ALREADY_CANCELLED"), ([cancelled], 1, "ALREADY_CANCELLED"), ([LOST, late], 2, "ALREADY_DONE"),
    ):
        met, error = meets(cancel, *faults)
        assert met == requests and error and (error.reason, error.commit_unknown) == (reason, False)


def test_a_connection_that_was_not_made_changed_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    with pytest.raises(DuetimeError) as away:
        Duetime(f"http://127.0.0.1:{port}", timeout=0.3).shift(ID, HOUR)
    assert (away.value.code, away.value.commit_unknown, away.value.retryable) == ("unavailable", False, True)
    assert pauses


class Enough(Exception):
    pass


def test_a_proxy_gets_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[bytes, bytes]] = []

    def tunnel(listener: socket.socket) -> None:
        for _ in range(3):
            connection = listener.accept()[0]
            with connection, connection.makefile("rb") as lines:
                asked = lines.readline().split(b" HTTP/")[0]
                while lines.readline().strip():
                    pass
                connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                seen.append((asked, lines.read(1)))

    def pause(_: float) -> None:
        if len(seen) == 3:
            raise Enough

    monkeypatch.setattr(time, "sleep", pause)
    monkeypatch.delenv("no_proxy", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{listener.getsockname()[1]}")
        threading.Thread(target=tunnel, args=[listener], daemon=True).start()
        with pytest.raises(Enough):
            Duetime("https://duetime.example:8091", "secret-token").get(ID)
    assert seen == [(b"CONNECT duetime.example:8091", b"\x16")] * 3  # which begins TLS


@pytest.mark.parametrize(("text", "payload"), [("9007199254740993", 2**53 + 1), ("no JSON", None), ("[" * 2000 + "]" * 2000, None)])
def test_payloads_come_as_text_too(text: str, payload: object) -> None:
    with faulty((200, json.dumps({"task": TASK | {"payloadJson": text}}))) as server:
        task = server.client.get(ID)
    assert (task.payload, task.payload_json) == (payload, text)

    def keep(path: str, body: bytes) -> Answer:
        assert json.loads(body)["task"]["payload_json"] == text
        return MADE

    with faulty(carry_out=keep) as server:
        server.client.schedule(order(payload_json=text))


def test_what_cant_work_is_a_mistake_at_once() -> None:
    for url in ("duetime", "localhost:8091", "file:///etc/passwd", "https://user:secret@duetime.example"):
        with pytest.raises(ValueError, match="url must begin with https"):
            Duetime(url)
    for token in ("sec ret", "sec\nret", "secrät"):
        with pytest.raises(ValueError, match="^token must be ASCII without blanks$"):
            Duetime("http://127.0.0.1:1", token)
    client = Duetime("http://127.0.0.1:1")
    calls: list[Callable[[], object]] = [
        lambda: client.cancel(ID, version=0), lambda: client.shift(ID, HOUR, version=0),
        lambda: client.reschedule(ID, due_in=HOUR, version=0),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="version must be 1 or more, and is 0"):
            call()


def test_the_token_may_end_with_its_line() -> None:
    assert Duetime("http://127.0.0.1:1", " secret-token\n")._headers["Authorization"] == "Bearer secret-token"


def test_errors_can_be_sent_to_another_process() -> None:
    error = DuetimeError("aborted", "it is stale", {"domain": "duetime", "reason": "STALE_VERSION", "metadata": {"version": "3"}})
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.reason, again.version, vars(again)) == ("it is stale", "STALE_VERSION", 3, vars(error))
    snooze = pickle.loads(pickle.dumps(Snooze(HOUR, "too early")))
    assert (str(snooze), snooze.delay) == ("too early", HOUR)


def test_ids_are_uuids_of_version_7() -> None:
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", new_id())
    assert abs(int(new_id().replace("-", "")[:12], 16) - time.time() * 1000) < 60_000
