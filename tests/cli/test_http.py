"""Asking a node over HTTP: what is asked, and what is made of its answers."""

import json
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import trustme
from typer.testing import CliRunner

from broker.cli.app import app
from broker.cli.errors import WRONG_USE, CommandError
from broker.cli.http import _unanswered, ask, node_url

Request = tuple[str, str, str]


@contextmanager
def node(status: int, body: bytes) -> Iterator[tuple[str, list[Request]]]:
    """A server that answers everything alike; yields its URL and what it was asked."""
    asked: list[Request] = []

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            asked.append((self.command, self.path, self.headers.get("Authorization", "")))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = answer  # noqa: N815 - the library's names

        def log_message(self, *_: Any) -> None:
            """Nothing is logged."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_the_answer_is_returned_and_the_token_sent() -> None:
    with node(200, b'{"name": "hq"}') as (url, asked):
        assert ask(url, "/api/status", token="t") == {"name": "hq"}
    assert asked == [("GET", "/api/status", "Bearer t")]


@pytest.mark.parametrize(
    ("body", "text"), [(b'{"text": "not here"}', "404 not here"), (b"plain words", "404 plain words")]
)
def test_a_refusal_is_told_in_the_node_s_words(body: bytes, text: str) -> None:
    with node(404, body) as (url, _), pytest.raises(CommandError, match=text):
        ask(url, "/api/status")


def test_a_missing_token_is_explained() -> None:
    with node(403, b"") as (url, _), pytest.raises(CommandError, match="--token"):
        ask(url, "/api/status")


def test_a_token_that_is_needed_may_be_given_in_a_file(tmp_path: Path) -> None:
    body = b'{"code": "TOKEN_NEEDED", "text": "/api/status: needs the header"}'
    with node(403, body) as (url, _):
        found = CliRunner().invoke(app, ["status", "--url", url])
    assert "--token-file" in str(found.exception)
    file = tmp_path / "token"
    file.write_text("of the file\n")
    with node(200, b"{}") as (url, asked):
        CliRunner().invoke(app, ["queues", "--url", url, "--json", "--token-file", str(file)])
    assert {each[2] for each in asked} == {"Bearer of the file"}
    found = CliRunner().invoke(app, ["status", "--token-file", str(tmp_path / "none")])
    assert isinstance(found.exception, CommandError)
    assert (found.exception.exit_code, "cannot be read" in str(found.exception)) == (WRONG_USE, True)


def test_an_answer_that_is_no_json_is_no_node() -> None:
    with node(200, b"<html>") as (url, _), pytest.raises(CommandError, match="is it a Sapwood node"):
        ask(url, "/api/status")


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("localhost:7600", "http://localhost:7600"),
        ("https://hq:7600/any/path", "https://hq:7600"),
        ("ws://hq:1", "http://hq:1"),
        ("wss://hq:1/session", "https://hq:1"),
        ("hq", "http://hq:7600"),
        ("https://hq", "https://hq:7600"),
        ("https://[::1]", "https://[::1]:7600"),
    ],
)
def test_addresses_are_read_generously(given: str, url: str) -> None:
    assert node_url(given) == url


@pytest.mark.parametrize("given", ["ftp://hq", "http://", "", "http://hq:port", "http://hq:99999"])
def test_what_is_no_address_is_wrong_use(given: str) -> None:
    with pytest.raises(CommandError, match="no address") as refused:
        node_url(given)
    assert refused.value.exit_code == WRONG_USE


def test_a_page_is_not_repeated_as_an_error() -> None:
    with node(404, b"<html>nothing here") as (url, _), pytest.raises(CommandError) as told:
        ask(url, "/api/status")
    assert str(told.value) == f"{url}/api/status answered 404 and a page: is it a Sapwood node?"


def test_who_asks_without_tls_where_there_is_some_or_trusts_nobody_is_told_so(
    tmp_path: Path, serve: Callable[..., Any]
) -> None:
    authority = trustme.CA()
    both = tmp_path / "both.pem"
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(both)
    with serve(tmp_path / "data", certificate=both, key=both) as running:
        with pytest.raises(CommandError, match="does its port speak https"):
            ask(running.url, "/api/status")
        with pytest.raises(CommandError, match=r"certificate .* is not trusted .*--ca"):
            ask(running.url.replace("http:", "https:"), "/api/status")


@pytest.mark.parametrize(
    ("why", "told"),
    [
        ("certificate has expired", "has expired: renew it"),
        ("certificate is not yet valid", "does not hold yet: is the clock right"),
    ],
)
def test_who_asks_a_node_whose_certificate_does_not_hold_now_is_told_so(why: str, told: str) -> None:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_message = why
    assert _unanswered("https://hq", error).startswith(f"the certificate of https://hq {told}")


def test_who_asks_with_tls_where_there_is_none_is_told_so_at_once(running: Any) -> None:
    with pytest.raises(CommandError, match="does not speak TLS: write http://"):
        ask(running.url.replace("http:", "https:"), "/api/status")


def test_leave_and_forget_ask_the_node_to(capsys: pytest.CaptureFixture[str]) -> None:
    with node(200, b'{"left": true}') as (url, asked):
        for command in (["leave"], ["forget", "store-1"]):
            app(["node", *command, "--url", url, "--json"], standalone_mode=False)
    assert [(method, path) for method, path, _ in asked] == [
        ("POST", "/api/node/leave"),
        ("POST", "/api/node/forget/store-1"),
    ]
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [{"left": True}] * 2
