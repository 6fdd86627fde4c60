from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from deployment import API, TOKEN, faulty
from stub import LOST

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


def test_a_call_whose_answer_was_lost_is_repeated_and_has_its_effect_once() -> None:
    owner = new_id()
    with faulty(LOST, LOST) as proxy:
        made = proxy.client.schedule(order(owner))
    assert (made.outcome, proxy.requests) == ("OUTCOME_MADE", 3)
    assert [task["taskId"] for task in duetime.call("TaskService/List", {"owner": owner})["tasks"]] == [made.task.task_id]
    with faulty(LOST) as proxy:
        assert proxy.client.cancel(made.task.task_id).state == "STATE_CANCELLED"
    assert proxy.requests == 3  # the third one reads the task


def test_a_task_of_a_key_is_made_once_though_it_has_ended_before_the_call_is_repeated() -> None:
    keyed = order(new_id(), key="order-42")

    def ids() -> list[str]:
        return [task["taskId"] for task in duetime.call("TaskService/List", {"owner": keyed.owner})["tasks"]]

    with faulty(LOST, lambda: [duetime.cancel(id) for id in ids()]) as proxy:
        made = proxy.client.schedule(keyed)
    assert (made.task.state, made.outcome, proxy.requests) == ("STATE_CANCELLED", "OUTCOME_MADE", 2)
    assert ids() == [made.task.task_id]


def test_a_call_that_may_not_be_repeated_says_that_it_may_have_been_made() -> None:
    task = duetime.schedule(order(new_id(), key="order-42")).task
    calls: list[Callable[[Duetime], object]] = [
        lambda client: client.shift(task.task_id, HOUR),
        lambda client: client.reschedule(task.task_id, due_in=HOUR),
        lambda client: client.reschedule(task.task_id, due_in=HOUR, version=3),
        lambda client: client.schedule(order(task.owner, key="order-42", key_mode="KEY_MODE_MOVE")),
    ]
    for version, call in enumerate(calls, 2):
        with faulty(LOST) as proxy, pytest.raises(DuetimeError) as lost:
            call(proxy.client)
        assert lost.value.commit_unknown
        assert (proxy.requests, duetime.get(task.task_id).version) == (1, version)
