import json
import time
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from threading import Thread
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest
from deployment import API, LISTEN, SECRET, TOKEN

from duetime import Discard, Duetime, NewTask, Push, Snooze, Task, wsgi_receiver

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
    payload = {"order": "plain"}
    assert push == Push(task.task_id, task.kind, task.owner, "50 %", task.due_at, payload, json.dumps(payload, separators=(",", ":")))
    assert duetime.await_due(task.owner, kind=task.kind).left == 0


def test_a_handler_that_raises_has_the_task_tried_again(endpoint: None) -> None:
    task = run("broken")
    assert (task.state, tries(task.task_id)) == ("STATE_DONE", 2)
    assert "LookupError: out of stock" in task.last_error


def test_a_handler_discards_and_snoozes(endpoint: None) -> None:
    dead, later = run("refused"), run("early")
    assert (dead.state, tries(dead.task_id)) == ("STATE_DEAD", 1) and "no such order" in dead.last_error
    assert (later.state, later.last_error, tries(later.task_id)) == ("STATE_DONE", "", 2)
