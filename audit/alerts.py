"""Where alerts go: a file of JSON lines a batch, and on request a webhook or a destination of the tree
itself.

Law: an alert's `id` follows from what it says, and a batch that is repeated after a crash writes the same
file again. So the files hold each alert of a batch once, and whoever gets them elsewhere can tell a
repetition by its id: it is the `Idempotency-Key` of a webhook's request, and a message's correlation id.

Law: an alert that nobody takes is in its file all the same, and is counted; the stream does not stop for it.
"""

import http.client
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import SplitResult, quote, urlsplit

from audit.errors import UsageError
from audit.listing import results

Alert = dict[str, Any]
TIMEOUT: Final = 10.0


class Receiver(Protocol):
    """Somewhere that takes alerts. `deliver` raises `OSError` or `HTTPException` if it does not."""

    def deliver(self, alerts: Sequence[Alert]) -> None: ...


class Webhook:
    """POSTs each alert to an address, as JSON. Raises `UsageError` if that is none."""

    def __init__(self, url: str) -> None:
        self._url = _web(url, "--webhook")

    def deliver(self, alerts: Sequence[Alert]) -> None:
        connection = _connect(self._url)
        try:
            for alert in alerts:
                headers = {"Content-Type": "application/json", "Idempotency-Key": str(alert["id"])}
                path = (self._url.path or "/") + (f"?{self._url.query}" if self._url.query else "")
                _ask(connection, "POST", path, _json(alert), headers)
        finally:
            connection.close()


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

    def deliver(self, alerts: Sequence[Alert]) -> None:
        connection = _connect(self._url)
        try:
            _ask(connection, "GET", "/login/sapwood-audit", None, self._login)
            for alert in alerts:
                _ask(connection, "POST", f"/send/{self._name}/{alert['id']}", _json(alert), {})
        finally:
            connection.close()


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
            try:
                receiver.deliver(alerts)
            except (OSError, http.client.HTTPException) as error:
                self.undelivered += len(alerts)
                self.last_error = str(error)


def _json(alert: Alert) -> bytes:
    return json.dumps(alert, ensure_ascii=False, separators=(",", ":")).encode()


def _web(url: str, option: str) -> SplitResult:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"{option} {url}: expected an address such as http://HOST:PORT")
    return parts


def _connect(url: SplitResult) -> http.client.HTTPConnection:
    kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
    return kind(url.hostname or "", url.port, timeout=TIMEOUT)


def _ask(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: bytes | None,
    headers: dict[str, str],
) -> None:
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    told = answer.read(65536)
    if answer.status >= 300:
        text = told[:200].decode("utf-8", "replace")
        raise http.client.HTTPException(f"{method} {path}: {answer.status} {text}")
