from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, get_args

from ._types import Code, Reason


class DuetimeError(Exception):
    """A call that was refused, or got no answer."""

    code: Code
    reason: Reason | None  #: None if a field is not as it must be, or if there was no answer. A newer server may have more.
    field: str | None  #: The field that is wrong or taken: "task.due_in", "tasks[3].owner".
    form: str | None  #: What the field must be, for people.
    version: int | None  #: Of STALE_VERSION: the version that the task has.
    #: The change may have been made, by this try or by an earlier one: look, or repeat a call that may be repeated.
    commit_unknown: bool

    def __init__(
        self, code: Code, message: str, details: Mapping[str, Any] | None = None, commit_unknown: bool = False,
    ) -> None:
        super().__init__(code, message, details, commit_unknown)  # what pickle makes it of again
        details = details or {}
        metadata = details.get("metadata", {})
        violation: Mapping[str, str] = next(iter(details.get("fieldViolations", [])), {})
        self.code = code
        self.reason = details.get("reason") if details.get("domain") == "duetime" else None
        self.field = violation.get("field", metadata.get("field"))
        self.form = violation.get("description")
        self.version = int(metadata["version"]) if "version" in metadata else None
        self.commit_unknown = commit_unknown if self.reason is None else self.reason == "COMMIT_UNKNOWN"

    def __str__(self) -> str:
        return str(self.args[1])

    @property
    def retryable(self) -> bool:
        """Nothing was changed, and the call may succeed later."""
        return self.code in ("unavailable", "deadline_exceeded") and not self.commit_unknown


def refusal(status: int, body: Any) -> DuetimeError:
    """Reads an answer that is no success. One without an error of duetime's is a proxy's, or the URL leads elsewhere."""
    # A proxy says so too, while the server may commit.
    unsure = status >= 499 or status in (HTTPStatus.OK, HTTPStatus.REQUEST_TIMEOUT)
    if isinstance(body, dict) and body.get("code") in get_args(Code):
        details: dict[str, Any] = {}
        listed = body.get("details")
        for detail in listed if isinstance(listed, list) else ():
            if isinstance(detail, dict) and isinstance(detail.get("debug"), dict):
                details |= detail["debug"]
        return DuetimeError(body["code"], str(body.get("message", "")), details, unsure)
    code: Code = "unavailable" if unsure or status == HTTPStatus.TOO_MANY_REQUESTS else "unimplemented"
    return DuetimeError(code, f"the answer is {status}, without an error of duetime's", commit_unknown=unsure)


def unreadable(wanted: str) -> DuetimeError:
    return DuetimeError("unknown", f"the answer is 200, without {wanted}", commit_unknown=True)
