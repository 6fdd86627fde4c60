"""What calls take and answer: proto/openapi.yaml has the same names, in camel case. A test of the repository compares both."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias

Code: TypeAlias = Literal[
    "canceled", "unknown", "invalid_argument", "deadline_exceeded", "not_found", "already_exists", "permission_denied",
    "resource_exhausted", "failed_precondition", "aborted", "out_of_range", "unimplemented", "internal", "unavailable",
    "data_loss", "unauthenticated",
]
Reason: TypeAlias = Literal[
    "ALREADY_CANCELLED", "ALREADY_DEAD", "ALREADY_DONE", "ALREADY_DUE", "CALL_TIMEOUT", "COMMIT_UNKNOWN", "CONTENT_TYPE",
    "DATABASE_AWAY", "DATABASE_FULL", "GROUP_SEALED", "HTTP_METHOD", "IDEMPOTENCY_KEY_TAKEN", "ID_TAKEN", "KEY_TAKEN",
    "NAME_TAKEN", "NOT_DEAD", "NOT_DUE_SOON", "NO_CALL", "NO_GROUP", "NO_OPERATION", "NO_RECURRENCE", "NO_TASK",
    "OPERATION_OVER", "OUT_OF_SCOPE", "OWNER_BLOCKED", "QUEUE_USED", "ROLE", "STALE_VERSION", "STOPPING", "TASK_RUNNING",
    "TOO_MANY_WATCHES",
    "TRY_LATER",
]
State: TypeAlias = Literal["STATE_PENDING", "STATE_DONE", "STATE_CANCELLED", "STATE_DEAD"]
Outcome: TypeAlias = Literal["OUTCOME_MADE", "OUTCOME_KEPT", "OUTCOME_MOVED", "OUTCOME_REPLACED"]
KeyMode: TypeAlias = Literal["KEY_MODE_KEEP", "KEY_MODE_MOVE", "KEY_MODE_REPLACE", "KEY_MODE_WINDOW"]


@dataclass(frozen=True, slots=True)
class NewTask:
    """A task to be scheduled, with due_at or due_in, which counts from now on the database's clock.

    Its kind needs a handler or an endpoint, whose queue is to be named. The payload is what json.dumps takes, or payload_json its
    text, for numbers with more digits than a float keeps.
    """

    kind: str
    owner: str
    payload: Any = None
    _: KW_ONLY
    due_at: datetime | None = None
    due_in: timedelta | None = None
    queue: str | None = None
    max_attempts: int | None = None
    subject: str | None = None
    labels: Mapping[str, str] | None = None
    idempotency_key: str | None = None
    key: str | None = None
    key_mode: KeyMode | None = None
    window: timedelta | None = None
    task_id: str | None = None
    order_key: str | None = None
    payload_json: str | None = None
    max_wait: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task as it stands. Only get reads labels."""

    task_id: str
    kind: str
    owner: str
    queue: str
    state: State
    version: int
    due_at: datetime
    payload: Any = None
    #: There where floats of payload may have lost digits, and where payload is None, since SQL has written what is no JSON.
    payload_json: str = ""
    run_at: datetime | None = None
    subject: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    attempt: int = 0
    max_attempts: int = 0
    last_error: str = ""
    created_at: datetime | None = None
    updated_at: datetime | None = None
    finished_at: datetime | None = None
    group: str = ""
    order_key: str = ""


@dataclass(frozen=True, slots=True)
class Scheduled:
    """The task that stands now, and what scheduling did."""

    task: Task
    outcome: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """Tasks that were due at the call and are pending still. With left at 0, what is read now is fresh."""

    left: int = 0
    failed: int = 0
    paused: int = 0
    limited: int = 0
