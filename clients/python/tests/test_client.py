import json
import re
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from conftest import API, LOST, TOKEN, faulty

from duetime import Duetime, DuetimeError, NewTask, Reason, new_id

duetime = Duetime(API, TOKEN)
HOUR = timedelta(hours=1)


def order(owner: str = "python", payload: object = {"order": 42}, **more: Any) -> NewTask:
    return NewTask("order.expire", owner, payload, **({"due_in": HOUR} | more))


def refused(reason: Reason) -> Any:
    return pytest.raises(DuetimeError, check=lambda error: error.reason == reason and not error.commit_unknown)


def test_a_task_is_scheduled_read_moved_and_cancelled() -> None:
    made = duetime.schedule(order(subject="order 42", labels={"shop": "7"}))
    task = made.task
    assert (made.outcome, task.state, task.version, task.payload) == ("OUTCOME_MADE", "STATE_PENDING", 1, {"order": 42})
    assert duetime.get(task.task_id).labels == {"shop": "7"}
    due_at = datetime.now(UTC).replace(microsecond=123_000) + 2 * HOUR
    assert duetime.reschedule(task.task_id, due_at=due_at, version=1).due_at == due_at
    sooner = duetime.shift(task.task_id, -HOUR / 2, due_within=3 * HOUR)
    assert sooner.due_at == due_at - HOUR / 2
    with refused("STALE_VERSION") as stale:
        duetime.cancel(task.task_id, version=1)
    assert (stale.value.code, stale.value.version) == ("aborted", 3)
    assert duetime.cancel(task.task_id).state == "STATE_CANCELLED"
    with refused("ALREADY_CANCELLED"):
        duetime.cancel(task.task_id)
    with refused("ALREADY_CANCELLED"):
        duetime.shift(task.task_id, HOUR)
    with refused("NO_TASK"):
        duetime.get(new_id())


def test_many_tasks_are_scheduled_or_none() -> None:
    made = duetime.schedule_many(order(payload={"order": i}) for i in range(20))
    assert [one.task.payload["order"] for one in made] == list(range(20))
    with pytest.raises(DuetimeError) as refusal:
        duetime.schedule_many([order(), order(owner="")])
    assert (refusal.value.code, refusal.value.field) == ("invalid_argument", "tasks[1].owner")


def test_a_key_finds_the_first_task() -> None:
    key = new_id()
    first, second = (duetime.schedule(order(payload=p, idempotency_key=key)) for p in ({"a": 1, "b": 2}, {"b": 2, "a": 1}))
    assert (second.task.task_id, second.outcome) == (first.task.task_id, "OUTCOME_KEPT")
    with refused("IDEMPOTENCY_KEY_TAKEN") as taken:
        duetime.schedule(order(payload={"a": 2}, idempotency_key=key))
    assert taken.value.field == "task.idempotency_key"


def test_payloads_come_back_as_they_were_sent() -> None:
    for payload in (None, "ü<&>", [1, {"deep": [True, None]}], list(range(300)), 2**63 + 1, {"price": 0.1}):
        task_id = duetime.schedule(order(payload=payload)).task.task_id
        assert duetime.get(task_id).payload == payload


def test_an_error_names_the_field_and_its_form() -> None:
    with pytest.raises(DuetimeError) as wrong:
        duetime.schedule(order(queue="nosuch"))
    assert (wrong.value.field, wrong.value.reason) == ("task.queue", None) and wrong.value.form
    with pytest.raises(DuetimeError) as twice:
        duetime.schedule(order(due_at=datetime.now(UTC)))
    assert twice.value.field == "task.due"
    with pytest.raises(ValueError, match="due_at must have a time zone"):
        duetime.reschedule(new_id(), due_at=datetime.now())
    with pytest.raises(DuetimeError) as stranger:
        Duetime(API, "nobody-0123456789").get(new_id())
    assert (stranger.value.code, stranger.value.commit_unknown) == ("unauthenticated", False)
    with pytest.raises(ValueError, match="url must begin with https"):
        Duetime("file:///etc/passwd")


def test_a_call_whose_answer_was_lost_is_repeated_and_has_its_effect_once() -> None:
    owner = new_id()
    with faulty(LOST, LOST) as proxy:
        made = proxy.client.schedule(order(owner))
    assert (made.outcome, proxy.requests) == ("OUTCOME_MADE", 3)
    assert [task["taskId"] for task in duetime.call("TaskService/List", {"owner": owner})["tasks"]] == [made.task.task_id]
    with faulty(LOST) as proxy:
        assert proxy.client.cancel(made.task.task_id).state == "STATE_CANCELLED"
    assert proxy.requests == 3  # the third one reads the task


def test_a_call_that_may_not_be_repeated_says_that_it_may_have_been_made() -> None:
    task_id = duetime.schedule(order()).task.task_id
    with faulty(LOST) as proxy, pytest.raises(DuetimeError) as shifted:
        proxy.client.shift(task_id, HOUR)
    with faulty(LOST) as other, pytest.raises(DuetimeError) as moved:
        other.client.reschedule(task_id, due_in=HOUR, version=2)
    assert shifted.value.commit_unknown and moved.value.commit_unknown and not shifted.value.repeated
    assert (proxy.requests, other.requests, duetime.get(task_id).version) == (1, 1, 3)


def test_every_call_is_repeated_after_an_answer_that_says_that_nothing_was_changed() -> None:
    task_id = duetime.schedule(order()).task.task_id
    debug = {"reason": "TRY_LATER", "domain": "duetime"}
    later = {"code": "unavailable", "message": "try again", "details": [{"type": "google.rpc.ErrorInfo", "debug": debug}]}
    with faulty((503, json.dumps(later))) as proxy:
        assert proxy.client.shift(task_id, HOUR).version == 2
    assert proxy.requests == 2


def test_a_proxys_own_answers_are_errors_too() -> None:
    with faulty((502, "<html>")) as proxy:
        proxy.client.schedule(order())
    assert proxy.requests == 2
    for status in (302, 404):
        with faulty((status, "<html>")) as proxy, pytest.raises(DuetimeError) as elsewhere:
            proxy.client.schedule(order())
        assert (elsewhere.value.code, elsewhere.value.commit_unknown, proxy.requests) == ("unimplemented", False, 1)


def test_a_call_ends_with_its_time() -> None:
    with pytest.raises(DuetimeError) as away:
        Duetime("http://127.0.0.1:1", timeout=0.3).get(new_id())
    assert (away.value.code, away.value.commit_unknown) == ("unavailable", True)


def test_ids_are_uuids_of_version_7() -> None:
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", new_id())
    assert abs(int(new_id().replace("-", "")[:12], 16) - time.time() * 1000) < 60_000
