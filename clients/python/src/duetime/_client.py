import http.client
import json
import math
import random
import re
import secrets
import socket
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import fields
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Any

from ._error import DuetimeError, refusal, unreadable
from ._types import Left, NewTask, Scheduled, Task

_TRY_TIMEOUT = 21.0  # s: the server answers within 20 s
_FIRST_PAUSE = 0.1  # s between two tries
_MAX_PAUSE = 2.0  # s


class Duetime:
    """Calls the API. A call is tried until it is answered or its time is over, as far as it may be repeated.

    timeout is seconds for a call with all its tries; an answer that comes in very small parts may take longer. A client has no
    connections: make another one for another timeout. context has certificates of your own; proxies are those of the environment.
    Threads may share a client; in asyncio, call it by asyncio.to_thread.
    """

    def __init__(
        self, url: str, token: str | None = None, timeout: float = 30.0, *, context: ssl.SSLContext | None = None,
    ) -> None:
        base = urllib.parse.urlsplit(url)
        if base.scheme not in ("http", "https") or base.username:
            raise ValueError("url must begin with https:// or http://, without a user")
        self._url = url.rstrip("/")
        self._headers = {"Content-Type": "application/json", "User-Agent": "duetime-python"}
        token = (token or "").strip()
        if not re.fullmatch("[\x21-\x7e]*", token):
            raise ValueError("token must be ASCII without blanks")  # without the token itself
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._timeout = timeout
        self._opener = urllib.request.build_opener(_NoRedirects, urllib.request.HTTPSHandler(context=context))

    def schedule(self, task: NewTask) -> Scheduled:
        """Makes a task, or finds the one that has its key.

        After a lost answer it is repeated with the same id, by which it finds the task that an earlier try has made. With
        KEY_MODE_MOVE and KEY_MODE_REPLACE it is not repeated, as reschedule.
        """
        return _read_scheduled(self.call("TaskService/Schedule", {"task": _request(task)}, repeatable=_changes_none(task)))

    def schedule_many(self, tasks: Iterable[NewTask]) -> list[Scheduled]:
        """Makes up to 1,000 tasks: all or none. Where the answer would be larger than 2 MiB, payloads in it are None."""
        tasks = list(tasks)
        body = {"tasks": [_request(task) for task in tasks]}
        answer = self.call("TaskService/ScheduleMany", body, repeatable=all(map(_changes_none, tasks)))
        results = [_read_scheduled(one) for one in answer.get("results", ())]
        if len(results) != len(tasks):
            raise unreadable(f"{len(tasks)} results")
        return results

    def get(self, task_id: str) -> Task:
        return _read_task(self.call("TaskService/Get", {"task_id": task_id}))

    def reschedule(
        self, task_id: str, *, due_at: datetime | None = None, due_in: timedelta | None = None, version: int | None = None,
    ) -> Task:
        """Gives a pending task another time.

        It is not repeated after a lost answer: a second try might undo what another caller has changed since the first one, or
        meet a task that was done in time.
        """
        body = _present(task_id=task_id, due_at=due_at, due_in=due_in, version=_checked(version))
        return _read_task(self.call("TaskService/Reschedule", body))

    def shift(self, task_id: str, by: timedelta, *, version: int | None = None, due_within: timedelta | None = None) -> Task:
        """Moves a pending task. It is not repeated after a lost answer."""
        body = _present(task_id=task_id, by=by, version=_checked(version), due_within=due_within)
        return _read_task(self.call("TaskService/Shift", body))

    def cancel(self, task_id: str, *, version: int | None = None) -> Task:
        """Takes a pending task back. Raises ALREADY_DONE and its like if that is too late.

        After a lost answer it is repeated: then another caller may have cancelled the task.
        """
        body, ends = _present(task_id=task_id, version=_checked(version)), time.monotonic() + self._timeout
        try:
            return _read_task(self._call("TaskService/Cancel", body, True, ends))
        except DuetimeError as error:
            # A task that is cancelled stays so: what these say is what has become of an earlier try too.
            if error.reason in ("ALREADY_CANCELLED", "ALREADY_DONE", "ALREADY_DEAD", "STALE_VERSION"):
                repeated, error.commit_unknown = error.commit_unknown, False
                if repeated and error.reason == "ALREADY_CANCELLED":
                    with suppress(DuetimeError):
                        return _read_task(self._call("TaskService/Get", {"task_id": task_id}, True, ends))
            raise

    def await_due(self, owner: str, *, kind: str | None = None, timeout: timedelta | None = None) -> Left:
        """Waits until what is due of an owner has taken effect, for 2 s unless timeout says 0.1 to 10 s."""
        answer = self.call("OwnerService/AwaitDue", _present(owner=owner, kind=kind, timeout=timeout), repeatable=True)
        return Left(**{f.name: answer.get(f.name, 0) for f in fields(Left)})

    def call(self, call: str, body: Mapping[str, Any], *, repeatable: bool | None = None) -> dict[str, Any]:
        """Makes any call, such as "GroupService/GetGroup": body and answer are JSON, as docs/API.md has it.

        After a lost answer, reads and calls that are said to be repeatable are tried again.
        """
        if repeatable is None:
            repeatable = bool(re.search(r"/(Get|List)\w*$", call))
        return self._call(call, body, repeatable, time.monotonic() + self._timeout)

    def _call(self, call: str, body: Mapping[str, Any], repeatable: bool, ends: float) -> dict[str, Any]:
        text, pause = _dumps(dict(body)).encode(), _FIRST_PAUSE
        earlier = False  # try may have been carried out
        while True:
            try:
                return self._post(call, text, ends - time.monotonic())
            except DuetimeError as error:
                again = error.retryable or repeatable and error.commit_unknown
                error.commit_unknown = earlier = earlier or error.commit_unknown
                wait = pause * random.uniform(0.5, 1)  # callers that failed together come back apart
                if not again or time.monotonic() + wait >= ends:
                    raise
            time.sleep(wait)
            pause = min(2 * pause, _MAX_PAUSE)

    def _post(self, call: str, body: bytes, timeout: float) -> dict[str, Any]:
        timeout = min(max(timeout, 0.001), _TRY_TIMEOUT)
        headers = self._headers | {"Connect-Timeout-Ms": str(math.ceil(timeout * 1000))}
        request = urllib.request.Request(f"{self._url}/duetime.v1.{call}", body, headers)  # for each try: a proxy changes it
        try:
            try:
                with self._opener.open(request, timeout=timeout) as response:
                    status, text = 200, response.read()
            except urllib.error.HTTPError as error:
                with error:
                    status, text = error.code, error.read()
        except (OSError, http.client.HTTPException) as error:
            unsent = isinstance(getattr(error, "reason", None), (ConnectionRefusedError, socket.gaierror))
            raise DuetimeError("unavailable", f"{call} got no answer: {error}", commit_unknown=not unsent) from error
        answer = _loads(text)
        if status != HTTPStatus.OK or not isinstance(answer, dict):
            raise refusal(status, answer)
        return answer


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
    given["payload_json"] = task.payload_json or _dumps(task.payload)
    given["labels"] = task.labels and dict(task.labels)
    return _present(**given)


def _changes_none(task: NewTask) -> bool:
    """Repeated with its id, it changes no task: the try before has made the task of this id, or nothing."""
    return task.key_mode in (None, "KEY_MODE_KEEP", "KEY_MODE_WINDOW")


def _checked(version: int | None) -> int | None:
    if version is not None and version < 1:  # zero would be taken for none, and the change made to any version
        raise ValueError(f"version must be 1 or more, and is {version}")
    return version


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


def _loads(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _read_scheduled(answer: Mapping[str, Any]) -> Scheduled:
    return Scheduled(_read_task(answer), answer["outcome"])


def _read_task(answer: Mapping[str, Any]) -> Task:
    """Leaves out fields that a newer server has."""
    try:
        got = {re.sub("[A-Z]", lambda m: "_" + m[0].lower(), name): value for name, value in answer["task"].items()}
        got["version"] = int(got["version"])
        if "payload_json" in got:
            got["payload"] = _loads(got["payload_json"])
        for name in ("due_at", "run_at", "created_at", "updated_at", "finished_at"):
            if name in got:
                got[name] = datetime.fromisoformat(got[name])
        return Task(**{f.name: got[f.name] for f in fields(Task) if f.name in got})
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise unreadable("a task") from error
