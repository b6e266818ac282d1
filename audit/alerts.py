"""Where alerts go: a file of JSON lines a batch, and on request a webhook or a destination of the tree
itself.

Law: an alert's `id` follows from what it says, and a batch that is repeated after a crash writes the same
file again. So the files hold each alert of a batch once, and whoever gets them elsewhere can tell a
repetition by its id: it is the `Idempotency-Key` of a webhook's request, and a message's correlation id.

Law: an alert that nobody takes is in its file all the same, and is counted; the stream does not stop for it.
One that is refused is passed over; a connection that fails ends what a receiver gets of a batch, so that a
dead one holds the stream up once a batch, not once an alert.
"""

import http.client
import json
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import SplitResult, quote, urlsplit

from audit.errors import UsageError
from audit.listing import results

Alert = dict[str, Any]
TIMEOUT: Final = 10.0


class Receiver(Protocol):
    """Somewhere that takes alerts. `deliver` returns why, once for each alert that it did not take."""

    def deliver(self, alerts: Sequence[Alert]) -> list[str]: ...


class WebhookRefused(Exception):
    """A request was answered, but not with what was asked for."""


class Webhook:
    """POSTs each alert to an address, as JSON. Raises `UsageError` if that is none."""

    def __init__(self, url: str) -> None:
        self._url = _web(url, "--webhook")

    def deliver(self, alerts: Sequence[Alert]) -> list[str]:
        path = (self._url.path or "/") + (f"?{self._url.query}" if self._url.query else "")

        def send(connection: http.client.HTTPConnection, alert: Alert) -> None:
            headers = {"Content-Type": "application/json", "Idempotency-Key": str(alert["id"])}
            _ask(connection, "POST", path, _json(alert), headers)

        return _deliver(self._url, alerts, send)


class Destination:
    """Sends each alert to a queue or topic at a node, as an application does (docs/protocol.md).

    `text`: `queue:NAME@http://HOST:PORT` or `topic:NAME@…`. `secret`: the node's session secret, if it has
    one.
    """

    def __init__(self, text: str, secret: str = "") -> None:
        name, _, url = text.partition("@http")
        kind, _, rest = name.partition(":")
        if kind not in ("queue", "topic") or not rest or not url:
            raise UsageError(f"--alert-to {text}: expected queue:NAME@http://HOST:PORT or topic:NAME@…")
        self._url = _web(f"http{url}", "--alert-to")
        self._name = quote(rest if kind == "queue" else name, safe=":")
        self._login = {"Authorization": f"Bearer {secret}"} if secret else {}

    def deliver(self, alerts: Sequence[Alert]) -> list[str]:
        """Wrinkle: a login is of its connection, which is another after a refusal."""

        def send(connection: http.client.HTTPConnection, alert: Alert) -> None:
            if connection.sock is None:
                self._log_in(connection)
            _ask(connection, "POST", f"/send/{self._name}/{alert['id']}", _json(alert), {})

        return _deliver(self._url, alerts, send)

    def _log_in(self, connection: http.client.HTTPConnection) -> None:
        """Without it nothing is taken: to be refused here is as good as no connection."""
        try:
            _ask(connection, "GET", "/login/sapwood-audit", None, self._login)
        except WebhookRefused as error:
            raise http.client.HTTPException(str(error)) from None


class Alerts:
    """Takes the alerts of each batch. `undelivered` counts what a receiver did not take."""

    def __init__(self, folder: Path, receivers: Sequence[Receiver] = ()) -> None:
        self.folder = folder
        self.receivers = receivers
        self.undelivered = 0
        self.last_error = ""
        results(folder)

    def __repr__(self) -> str:
        return f"<Alerts {self.folder} receivers={len(self.receivers)} undelivered={self.undelivered}>"

    def take(self, name: str, batch: int, alerts: Sequence[Alert]) -> None:
        """Write the alerts of a batch to `NAME-BATCH.jsonl`, whole or not at all, and hand them on."""
        if not alerts:
            return
        path = self.folder / f"{name}-{batch:09}.jsonl"
        part = path.with_name(f".{path.name}.part")
        part.write_bytes(b"".join(_json(alert) + b"\n" for alert in alerts))
        os.replace(part, path)
        for receiver in self.receivers:
            lost = receiver.deliver(alerts)
            self.undelivered += len(lost)
            self.last_error = lost[-1] if lost else self.last_error


def _json(alert: Alert) -> bytes:
    return json.dumps(alert, ensure_ascii=False, separators=(",", ":")).encode()


def _web(url: str, option: str) -> SplitResult:
    """Raises `UsageError` for one that no request can be made of: the first alert would end a stream."""
    try:
        parts = urlsplit(url)
        whole = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # of its port, or its brackets
        whole = False
    if not whole or not re.fullmatch(r"[!-~]*", parts.path + parts.query):
        raise UsageError(f"{option} {url}: expected an address such as http://HOST:PORT/PATH, quoted (%20)")
    return parts


def _connect(url: SplitResult) -> http.client.HTTPConnection:
    kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
    return kind(url.hostname or "", url.port, timeout=TIMEOUT)


def _deliver(
    url: SplitResult, alerts: Sequence[Alert], send: Callable[[http.client.HTTPConnection, Alert], None]
) -> list[str]:
    """Send each alert over one connection; return why those that were not taken were not."""
    lost: list[str] = []
    connection = _connect(url)
    try:
        for place, alert in enumerate(alerts):
            try:
                send(connection, alert)
            except WebhookRefused as error:
                lost.append(str(error))
            except (OSError, http.client.HTTPException) as error:
                return [*lost, *([str(error) or type(error).__name__] * (len(alerts) - place))]
    finally:
        connection.close()
    return lost


def _ask(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: bytes | None,
    headers: dict[str, str],
) -> None:
    """Wrinkle: some who refuse a request close the connection and do not say so; the rest of a long answer
    stays in it. So the next request makes a new one."""
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    told = answer.read(65536)
    if answer.status >= 300 or not answer.isclosed():
        connection.close()
    if answer.status >= 300:
        text = told[:200].decode("utf-8", "replace")
        raise WebhookRefused(f"{method} {path}: {answer.status} {text}")
