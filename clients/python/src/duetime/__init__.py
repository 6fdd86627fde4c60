"""Durable delayed tasks: schedules, moves and cancels them through the API of duetime, and receives those that are due."""

from ._client import Duetime, new_id
from ._error import DuetimeError
from ._receive import Discard, Push, SignatureError, Snooze, asgi_receiver, verify, wsgi_receiver
from ._types import Code, KeyMode, Left, NewTask, Outcome, Reason, Scheduled, State, Task

__all__ = [
    "Code", "Discard", "Duetime", "DuetimeError", "KeyMode", "Left", "NewTask", "Outcome", "Push", "Reason", "Scheduled",
    "SignatureError", "Snooze", "State", "Task", "asgi_receiver", "new_id", "verify", "wsgi_receiver",
]
