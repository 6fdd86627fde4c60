import http.client
import json
import random
import re
import secrets
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import fields
from datetime import datetime, timedelta
from typing import Any

from ._error import DuetimeError, refusal
from ._types import Left, NewTask, Scheduled, Task

_TRY_TIMEOUT = 21.0  # s: the server answers within 20 s
_FIRST_PAUSE = 0.1  # s between two tries
_MAX_PAUSE = 2.0  # s


class Duetime:
    """Calls the API. A call is tried until it is answered or its time is over, as far as it may be repeated.

    timeout is seconds for a call with all its tries. Threads may share a client; in asyncio, call it by asyncio.to_thread.
    """

    def __init__(self, url: str, token: str | None = None, timeout: float = 30.0) -> None:
        if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
            raise ValueError(f"url must begin with https:// or http://, and is {url!r}")
        self._url = url.rstrip("/")
        self._headers = {"Content-Type": "application/json"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._timeout = timeout
        self._opener = urllib.request.build_opener(_NoRedirects)

    def schedule(self, task: NewTask) -> Scheduled:
        """Makes a task, or finds the one that has its key. A repeated try finds the task of the first one, by its id."""
        return _read_scheduled(self.call("TaskService/Schedule", {"task": _request(task)}, repeatable=True))

    def schedule_many(self, tasks: Iterable[NewTask]) -> list[Scheduled]:
        """Makes up to 1,000 tasks: all or none. Where the answer would be larger than 2 MiB, payloads in it are None."""
        answer = self.call("TaskService/ScheduleMany", {"tasks": [_request(task) for task in tasks]}, repeatable=True)
        return [_read_scheduled(one) for one in answer["results"]]

    def get(self, task_id: str) -> Task:
        return _read_task(self.call("TaskService/Get", {"task_id": task_id}, repeatable=True)["task"])

    def reschedule(
        self, task_id: str, *, due_at: datetime | None = None, due_in: timedelta | None = None, version: int | None = None,
    ) -> Task:
        """Gives a pending task another time. With a version it is tried once: a second try would meet the first one."""
        body = _present(task_id=task_id, due_at=due_at, due_in=due_in, version=version)
        return _read_task(self.call("TaskService/Reschedule", body, repeatable=version is None)["task"])

    def shift(self, task_id: str, by: timedelta, *, version: int | None = None, due_within: timedelta | None = None) -> Task:
        """Moves a pending task. It is repeated only after an answer that says that nothing was changed."""
        body = _present(task_id=task_id, by=by, version=version, due_within=due_within)
        return _read_task(self.call("TaskService/Shift", body)["task"])

    def cancel(self, task_id: str, *, version: int | None = None) -> Task:
        """Takes a pending task back. Raises ALREADY_DONE and its like if that is too late."""
        body = _present(task_id=task_id, version=version)
        try:
            return _read_task(self.call("TaskService/Cancel", body, repeatable=True)["task"])
        except DuetimeError as error:
            if error.repeated and error.reason == "ALREADY_CANCELLED":
                return self.get(task_id)
            raise

    def await_due(self, owner: str, *, kind: str | None = None, timeout: timedelta | None = None) -> Left:
        """Waits until what is due of an owner has taken effect, for 2 s unless timeout says 0.1 to 10 s."""
        answer = self.call("OwnerService/AwaitDue", _present(owner=owner, kind=kind, timeout=timeout), repeatable=True)
        return Left(**{f.name: answer.get(f.name, 0) for f in fields(Left)})

    def call(self, call: str, body: Mapping[str, Any], *, repeatable: bool = False) -> dict[str, Any]:
        """Makes any call, such as "GroupService/GetGroup": body and answer are JSON, as docs/API.md has it.

        One that is not repeatable is tried again only after an answer that says that nothing was changed.
        """
        request = urllib.request.Request(f"{self._url}/duetime.v1.{call}", _dumps(body).encode(), self._headers)
        ends, pause, repeated = time.monotonic() + self._timeout, _FIRST_PAUSE, False
        while True:
            try:
                return self._post(request, ends - time.monotonic())
            except DuetimeError as error:
                error.repeated = repeated
                wait = pause * random.uniform(0.5, 1)  # callers that failed together come back apart
                allowed = error.retryable or repeatable and error.commit_unknown
                if not allowed or time.monotonic() + wait >= ends:
                    raise
                repeated = repeated or error.commit_unknown
            time.sleep(wait)
            pause = min(2 * pause, _MAX_PAUSE)

    def _post(self, request: urllib.request.Request, timeout: float) -> dict[str, Any]:
        try:
            try:
                with self._opener.open(request, timeout=min(max(timeout, 0.001), _TRY_TIMEOUT)) as response:
                    answer: dict[str, Any] = json.load(response)
                    return answer
            except urllib.error.HTTPError as error:
                with error:
                    status, text = error.code, error.read()
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise DuetimeError("unavailable", f"{request.selector} got no answer: {error}") from error
        try:
            body = json.loads(text)
        except ValueError:
            body = None
        raise refusal(status, body)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect is an answer like any other: the token goes nowhere else."""

    def redirect_request(self, *_: object) -> None:
        return None


def new_id() -> str:
    """Makes a UUIDv7. As task_id it makes a call repeatable beyond this process: keep it with your row, before you schedule."""
    ms = time.time_ns() // 1_000_000
    return str(uuid.UUID(int=ms << 80 | 7 << 76 | secrets.randbits(12) << 64 | 2 << 62 | secrets.randbits(62)))


def _request(task: NewTask) -> dict[str, Any]:
    given = {f.name: getattr(task, f.name) for f in fields(task) if f.name != "payload"}
    given["task_id"] = task.task_id or new_id()
    # As text, whole numbers of any size come through; sorted, an equal payload is the same text.
    given["payload_json"] = _dumps(task.payload)
    return _present(**given)


def _present(**given: Any) -> dict[str, Any]:
    """The fields that are given, in the API's forms."""
    return {name: _form(name, value) for name, value in given.items() if value is not None}


def _form(name: str, value: Any) -> Any:
    if isinstance(value, timedelta):
        us = value // timedelta(microseconds=1)
        return f"{'-' if us < 0 else ''}{abs(us) // 1_000_000}.{abs(us) % 1_000_000:06}s"
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            raise ValueError(f"{name} must have a time zone, as datetime.now(UTC) has, and is {value!r}")
        return value.isoformat()
    return value


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True)


def _read_scheduled(answer: Mapping[str, Any]) -> Scheduled:
    return Scheduled(_read_task(answer["task"]), answer["outcome"])


def _read_task(answer: Mapping[str, Any]) -> Task:
    """Leaves out fields that a newer server has."""
    got = {re.sub("[A-Z]", lambda m: "_" + m[0].lower(), name): value for name, value in answer.items()}
    got["version"] = int(got["version"])
    if "payload_json" in got:
        got["payload"] = json.loads(got["payload_json"])
    for name in ("due_at", "run_at", "created_at", "updated_at", "finished_at"):
        if name in got:
            got[name] = datetime.fromisoformat(got[name])
    return Task(**{f.name: got[f.name] for f in fields(Task) if f.name in got})
