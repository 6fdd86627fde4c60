import base64
import hashlib
import hmac
import inspect
import json
import logging
import math
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import unquote

_TOLERANCE = 300  # s that the sender's clock may be off
_log = logging.getLogger("duetime")
_MAX_BODY = 64 * 1024  # bytes; a payload has at most 4 KiB


@dataclass(frozen=True, slots=True)
class Push:
    """A due task, as a request delivers it. docs/PUSH.md says what the endpoint's answers do to the task."""

    id: str  #: The task's id, the same in each try: write it where the effect is written, and skip an id that is there.
    #: Not signed, nor are owner, subject and due_at: kinds that must not be taken for each other have a secret each.
    kind: str
    owner: str
    subject: str
    due_at: datetime
    payload: Any
    payload_json: str  #: The payload as it came, with all digits of its numbers.


class SignatureError(Exception):
    """The request is not one of duetime's, is too old, or can't be read."""


class Discard(Exception):
    """Raised by a handler: the task is dead at once."""


class Snooze(Exception):
    """Raised by a handler: the task runs again after this time, at most an hour; uncharged, until a day after it was due."""

    def __init__(self, delay: timedelta, message: str = "not yet") -> None:
        super().__init__(delay, message)
        if not timedelta(0) < delay <= timedelta(hours=1):
            raise ValueError(f"delay must be at most an hour, and is {delay}")
        self.delay = delay

    def __str__(self) -> str:
        return str(self.args[1])


def verify(headers: Mapping[str, str], body: bytes, secrets: str | Sequence[str], now: float | None = None) -> Push:
    """Checks the request of a due task: body is what came, before it is parsed; now is as time.time has it.

    Secrets (whsec_…) are a list, or a text that has them parted by spaces: while one is rotated, the old and the new one. The
    signature covers the id, the time and the payload, and not the kind, the owner, the subject and the due time: these are as
    safe as the connection.
    """
    keys = _keys(secrets)
    got = {name.lower(): value for name, value in headers.items()}
    id, sent = got.get("webhook-id", ""), got.get("webhook-timestamp", "")
    now = time.time() if now is None else now
    if not id or "." in id:  # a dot ends it in what is signed
        raise SignatureError("webhook-id must be there, without a dot")
    if not (re.fullmatch("[0-9]{1,12}", sent) and abs(now - int(sent)) <= _TOLERANCE):
        raise SignatureError(f"webhook-timestamp must be a time in seconds, at most {_TOLERANCE} s off")
    wanted = [hmac.new(key, f"{id}.{sent}.".encode() + body, hashlib.sha256).digest() for key in keys]
    signatures = [b"v1," + base64.b64encode(digest) for digest in wanted]
    listed = got.get("webhook-signature", "").split(" ")
    if not any(hmac.compare_digest(want, one.encode(errors="replace")) for want in signatures for one in listed):
        raise SignatureError("webhook-signature has no signature by a secret of this endpoint")
    kind, owner, subject, due = (got.get(f"ce-{name}", "") for name in ("type", "owner", "subject", "time"))
    if not (kind and owner and due):
        raise SignatureError("ce-type, ce-owner and ce-time must be there")
    try:
        return Push(id, kind, unquote(owner), unquote(subject), datetime.fromisoformat(due), json.loads(body), body.decode())
    except (ValueError, RecursionError) as error:
        raise SignatureError(f"ce-time or the payload can't be read: {error}") from error


def _keys(secrets: str | Sequence[str]) -> list[bytes]:
    listed = " ".join([secrets] if isinstance(secrets, str) else secrets).split()
    return [_key(secret, number) for number, secret in enumerate(listed or [""], 1)]


def _key(secret: str, number: int) -> bytes:
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True) if secret.startswith("whsec_") else b""
    except ValueError:
        key = b""
    if not key:
        raise ValueError(f"secret {number} must be whsec_ and base64")  # without the secret itself
    return key


def _answer(error: Exception | None) -> tuple[str, list[tuple[str, str]], bytes]:
    """The status, further headers and body that a handler's end means. The body stands in the task's last error."""
    text = b"" if error is None else f"{type(error).__name__}: {error}".encode(errors="replace")
    match error:
        case None:
            return "204 No Content", [], text
        case SignatureError():
            _log.warning("a request was refused: %s", error)
            return "401 Unauthorized", [], text
        case Discard():
            return "410 Gone", [], text
        case Snooze():
            return "503 Service Unavailable", [("Retry-After", str(math.ceil(error.delay.total_seconds())))], text
    _log.error("a handler failed", exc_info=error)
    return "500 Internal Server Error", [], text


def wsgi_receiver(
    secrets: str | Sequence[str], handle: Callable[[Push], None],
) -> Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]:
    """Makes a WSGI application. A handler that returns ends the task; one that raises has it tried again."""
    _keys(secrets)
    if inspect.iscoroutinefunction(handle):
        raise TypeError("handle must be a plain function: asgi_receiver takes a coroutine function")

    def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        failed: Exception | None = None
        try:
            headers = {name[5:].replace("_", "-"): value for name, value in environ.items() if name.startswith("HTTP_")}
            handled: object = handle(verify(headers, _wsgi_body(environ), secrets))  # type: ignore[func-returns-value]
            if inspect.isawaitable(handled):
                if inspect.iscoroutine(handled):
                    handled.close()
                raise TypeError("handle must be a plain function, and has returned an awaitable")
        except Exception as error:
            failed = error
        status, more, text = _answer(failed)
        start_response(status, more)
        return [text]

    return app


def asgi_receiver(
    secrets: str | Sequence[str], handle: Callable[[Push], Awaitable[object] | None],
) -> Callable[..., Awaitable[None]]:
    """Makes an ASGI application of a coroutine function, to be mounted in Starlette, FastAPI and others.

    A plain function may be given too: it runs in the event loop.
    """
    _keys(secrets)

    async def app(
        scope: Mapping[str, Any], receive: Callable[[], Awaitable[Mapping[str, Any]]],
        send: Callable[[dict[str, Any]], Awaitable[None]],
    ) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"{scope['type']} is not served here")
        failed: Exception | None = None
        try:
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
            handled = handle(verify(headers, await _read_body(receive), secrets))
            if inspect.isawaitable(handled):
                await handled
        except Exception as error:
            failed = error
        status, more, text = _answer(failed)
        encoded = [(name.lower().encode(), value.encode()) for name, value in more]
        await send({"type": "http.response.start", "status": int(status[:3]), "headers": encoded})
        await send({"type": "http.response.body", "body": text})

    return app


def _wsgi_body(environ: Mapping[str, Any]) -> bytes:
    length: str = environ.get("CONTENT_LENGTH") or ""
    if not length.isdecimal() and not environ.get("wsgi.input_terminated"):
        raise SignatureError("the request must have a Content-Length")
    most = _MAX_BODY + 1
    body: bytes = environ["wsgi.input"].read(min(int(length), most) if length.isdecimal() else most)
    return _bounded(body)


def _bounded(body: bytes) -> bytes:
    if len(body) > _MAX_BODY:
        raise SignatureError(f"the body has more than {_MAX_BODY} bytes")
    return body


async def _read_body(receive: Callable[[], Awaitable[Mapping[str, Any]]]) -> bytes:
    body, more = b"", True
    while more:
        part = await receive()
        body, more = _bounded(body + part.get("body", b"")), part.get("more_body", False)
    return body
