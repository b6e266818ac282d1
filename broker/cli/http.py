"""Asks a node over HTTP, with nothing but the standard library: one request, one JSON answer."""

import json
import ssl
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPHandler, HTTPSHandler, OpenerDirector, ProxyHandler, Request, build_opener

from broker.cli.errors import FAILED, WRONG_USE, CommandError

TIMEOUT: Final = 30.0
MAX_ANSWER: Final = 64 * 1024 * 1024


def ask(
    url: str,
    path: str,
    *,
    method: str = "GET",
    token: str = "",
    ca: Path | None = None,
    timeout: float = TIMEOUT,
) -> Any:
    """Return the JSON answer of a node. Raises `CommandError` that says what to do.

    `url`: the node's, http:// or https://. `timeout`: seconds.
    """
    base = node_url(url)
    headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    request = Request(base + path, method=method, headers=headers, data=b"" if method == "POST" else None)  # noqa: S310 - node_url allows http and https only
    try:
        with _opener(base, ca).open(request, timeout=timeout) as answer:
            return json.loads(answer.read(MAX_ANSWER) or b"null")
    except HTTPError as error:
        with error:
            raise _refused(error, base, path) from None
    except (URLError, HTTPException, OSError) as error:
        reason = getattr(error, "reason", None) or error
        raise CommandError(f"{base} does not answer ({reason}): is the node running there?") from None
    except ValueError as error:
        raise CommandError(
            f"{base}{path} did not answer with JSON ({error}): is it a Sapwood node?"
        ) from None


def node_url(url: str) -> str:
    """Return `scheme://host:port`; raise `CommandError` where `url` is not the address of a node."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    scheme = {"ws": "http", "wss": "https"}.get(parts.scheme, parts.scheme)
    if scheme not in ("http", "https") or not parts.hostname:
        raise CommandError(
            f"{url!r} is no address of a node: expected http://HOST:PORT or https://…", WRONG_USE
        )
    return f"{scheme}://{parts.netloc}"


def _opener(base: str, ca: Path | None) -> OpenerDirector:
    """No proxy from the environment: a node is asked directly."""
    if not base.startswith("https:"):
        return build_opener(ProxyHandler({}), HTTPHandler())
    try:
        context = ssl.create_default_context(cafile=str(ca) if ca else None)
    except (OSError, ssl.SSLError) as error:
        raise CommandError(
            f"{ca}: no certificate authorities in it ({error}): expected PEM", WRONG_USE
        ) from None
    return build_opener(ProxyHandler({}), HTTPSHandler(context=context))


def _refused(error: HTTPError, base: str, path: str) -> CommandError:
    """What the node said, in its own words where it gave any."""
    text = error.read(4096).decode("utf-8", "replace").strip()
    try:
        found = json.loads(text)
        text = str(found.get("text") or found.get("error") or text) if isinstance(found, dict) else text
    except ValueError:
        pass
    if error.code in (401, 403):
        text = f"{text or 'no'}: give the node's token with --token or SAPWOOD_TOKEN"
    return CommandError(f"{base}{path}: {error.code} {text or error.reason}", FAILED)
