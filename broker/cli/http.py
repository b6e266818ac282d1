"""Asks a node over HTTP, with nothing but the standard library: one request, one JSON answer."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException, RemoteDisconnected
from ssl import SSLCertVerificationError
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPHandler, HTTPSHandler, OpenerDirector, ProxyHandler, Request, build_opener

from bridges.tls import is_not_tls, untimely
from broker.cli.errors import FAILED, WRONG_USE, CommandError
from broker.cli.tls import Tls
from config.schemes import DIRECT

PORT: Final = DIRECT.port
TIMEOUT: Final = 30.0
SILENCE: Final = 30.0
_LONGEST: Final = 256 * 1024
"""Bytes of an error's text: one may list all that is wrong with a file."""
DOCUMENTATION: Final = '</docs>; rel="help"'
"""Every request of ours says where the protocol is described."""
MAX_ANSWER: Final = 64 * 1024 * 1024
MAX_LINE: Final = 1024 * 1024
_GIVE: Final = "give the node's token with --token-file or SAPWOOD_TOKEN"


def ask(
    url: str,
    path: str,
    *,
    method: str = "GET",
    token: str = "",
    tls: Tls | None = None,
    timeout: float = TIMEOUT,
    body: Any = None,
) -> Any:
    """Return the JSON answer of a node. Raises `CommandError` that says what to do.

    `url`: the node's, http:// or https://. `timeout`: seconds. `body`: sent as JSON, None = nothing.
    """
    with _answer(url, path, method, token, tls, timeout, body) as answer:
        try:
            return json.loads(answer.read(MAX_ANSWER) or b"null")
        except (ValueError, RecursionError) as error:
            raise CommandError(
                f"{node_url(url)}{path} did not answer with JSON ({error}): is it a Sapwood node?"
            ) from None


def lines(
    url: str, path: str, *, token: str = "", tls: Tls | None = None, silence: float = SILENCE
) -> Iterator[Any]:
    """The objects of a stream of JSON lines, as they come. Ends with the stream; raises `CommandError`.

    `silence`: seconds without a sign of life after which the node is thought gone.
    """
    with _answer(url, path, "GET", token, tls, silence, None) as answer:
        while line := answer.readline(MAX_LINE):
            if line.strip():
                yield json.loads(line)


def why_not_ready(url: str, tls: Tls | None = None) -> str:
    """Why a node takes no messages, '' if it does. A satellite without a core takes them."""
    try:
        with _answer(url, "/readyz", "GET", "", tls, TIMEOUT, None):
            return ""
    except CommandError as error:
        return "" if "disconnected" in str(error) else str(error)


@contextmanager
def _answer(
    url: str, path: str, method: str, token: str, tls: Tls | None, timeout: float, body: Any
) -> Iterator[Any]:
    base = node_url(url)
    headers = {"Accept": "application/json", "Link": DOCUMENTATION} | (
        {"Authorization": f"Bearer {token}"} if token else {}
    )
    data = None if method == "GET" else b"" if body is None else json.dumps(body).encode()
    request = Request(base + path, method=method, headers=headers, data=data)  # noqa: S310 - node_url allows http and https only
    request.add_unredirected_header("Content-Type", "application/json")
    try:
        with _opener(base, tls or Tls()).open(request, timeout=timeout) as answer:
            yield answer
    except HTTPError as error:
        with error:
            raise refused(error.code, error.read(_LONGEST), error.reason, base, path) from None
    except (URLError, HTTPException, OSError) as error:
        raise CommandError(_unanswered(base, getattr(error, "reason", None) or error)) from None


def node_url(url: str) -> str:
    """Return `scheme://host:port`; raise `CommandError` where `url` is not the address of a node."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), 0
    scheme = {DIRECT.scheme: "http", DIRECT.tls_scheme: "https"}.get(parts.scheme, parts.scheme)
    if scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise CommandError(
            f"{url!r} is no address of a node: expected http://HOST:PORT or https://…", WRONG_USE
        )
    return f"{scheme}://{parts.netloc.removesuffix(':')}" + ("" if port else f":{PORT}")


def _unanswered(base: str, reason: object) -> str:
    """Why no answer came, and what to look at."""
    text = getattr(reason, "strerror", None) or str(reason)
    if isinstance(reason, SSLCertVerificationError):
        why = reason.verify_message
        wrong = f"the certificate of {base} is not trusted ({why}): name its authority with --ca"
        return untimely(base, why) or wrong
    if is_not_tls(reason):
        return f"{base} does not speak TLS: write http://"
    if isinstance(reason, RemoteDisconnected | ConnectionResetError | BrokenPipeError) and base.startswith(
        "http:"
    ):
        return f"{base} ended the connection: is a node there, and does its port speak https?"
    return f"{base} does not answer ({text}): is the node running there?"


def _opener(base: str, tls: Tls) -> OpenerDirector:
    """No proxy from the environment: a node is asked directly."""
    if not base.startswith("https:"):
        return build_opener(ProxyHandler({}), HTTPHandler())
    return build_opener(ProxyHandler({}), HTTPSHandler(context=tls.context()))


def refused(code: int, body: bytes, reason: str, base: str, path: str) -> CommandError:
    """What the node said, in its own words where it gave any."""
    text = body[:_LONGEST].decode("utf-8", "replace").strip()
    found: object = None
    try:
        found = json.loads(text)
        text = str(found.get("text") or found.get("error") or text) if isinstance(found, dict) else text
    except (ValueError, RecursionError):
        pass
    if isinstance(found, dict) and found.get("code") == "TOKEN_NEEDED":
        text += "; " + _GIVE
    if text.lstrip()[:1] == "<":
        return CommandError(f"{base}{path} answered {code} and a page: is it a Sapwood node?", FAILED)
    if code in (401, 403) and "oken" not in text:
        text = f"{text or 'no'}: {_GIVE}"
    exit_code = WRONG_USE if code == 400 else FAILED
    return CommandError(f"{base}{path}: {code} {text or reason}", exit_code)
