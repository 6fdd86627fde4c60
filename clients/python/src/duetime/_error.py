from collections.abc import Mapping
from typing import Any

from ._types import Code, Reason

# Codes that a client or a proxy makes too, while the server may commit.
_UNSURE = ("deadline_exceeded", "unavailable", "canceled", "internal", "unknown")


class DuetimeError(Exception):
    """A call that was refused, or got no answer."""

    code: Code
    reason: Reason | None  #: None if a field is not as it must be, or if there was no answer. A newer server may have more.
    field: str | None  #: The field that is wrong or taken: "task.due_in", "tasks[3].owner".
    form: str | None  #: What the field must be, for people.
    version: int | None  #: Of STALE_VERSION: the version that the task has.
    repeated: bool  #: An earlier try of this call got no answer, and may have been carried out.

    def __init__(self, code: Code, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        details = details or {}
        metadata = details.get("metadata", {})
        violation: Mapping[str, str] = next(iter(details.get("fieldViolations", [])), {})
        self.code = code
        self.reason = details.get("reason") if details.get("domain") == "duetime" else None
        self.field = violation.get("field", metadata.get("field"))
        self.form = violation.get("description")
        self.version = int(metadata["version"]) if "version" in metadata else None
        self.repeated = False

    @property
    def retryable(self) -> bool:
        """Nothing was changed, and the call may succeed later."""
        return self.reason is not None and self.code in ("unavailable", "deadline_exceeded")

    @property
    def commit_unknown(self) -> bool:
        """The change may have been made, by this try or by an earlier one: look, or repeat a call that may be repeated."""
        if self.reason is None:
            return self.code in _UNSURE
        return self.reason == "COMMIT_UNKNOWN" or self.repeated and self.retryable


def refusal(status: int, body: Any) -> DuetimeError:
    """Reads an answer other than 200. One without an error of duetime's is a proxy's, or the URL leads elsewhere."""
    if isinstance(body, dict) and isinstance(body.get("code"), str):
        details: dict[str, Any] = {}
        for detail in body.get("details", []):
            details |= detail.get("debug", {})
        return DuetimeError(body["code"], str(body.get("message", "")), details)
    code: Code = "unavailable" if status >= 500 or status == 429 else "unimplemented"
    return DuetimeError(code, f"the answer is {status}, without an error of duetime's")
