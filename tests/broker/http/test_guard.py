"""Who may look at a node and administrate it: every way in, and every page that must stay out."""

from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request

from broker.entrance.operators import HERE as THIS_MACHINE
from broker.entrance.operators import Operators
from broker.http.guard import asker, masked

HERE = ("Host: 127.0.0.1:7600",)


async def status(port: Any, *headers: str) -> int:
    answer = await (await port.dial()).ask("/api/status", headers=headers)
    return int(answer.status)


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.8.8.8:7600", "localhost", "LOCALHOST:7600", "a.localhost", "[::1]:7600", "[::1]"],
)
async def test_over_loopback_under_a_name_of_this_machine(port: Any, host: str) -> None:
    assert await status(port, f"Host: {host}") == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:7600",
        "10.0.0.1",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "[::1].evil.example",
        "localhost:evil.example",
        "localhost@evil.example",
    ],
)
async def test_a_name_that_was_made_to_mean_this_machine_is_refused(serve: Any, port: Any, host: str) -> None:
    answer = await (await port.dial()).ask("/api/status", headers=(f"Host: {host}",))
    assert (answer.status, b"WRONG_HOST" in answer.body) == (403, True)
    with_token = await serve(token="word")
    assert await status(with_token, f"Host: {host}", "Authorization: Bearer word") == 200


@pytest.mark.parametrize(
    "path", ["/api/status", "/api/queues", "/api/live", "/api/trace/task/t", "/api/openapi.json", "/metrics"]
)
async def test_where_a_token_is_configured_every_request_has_it_from_this_machine_too(
    serve: Any, path: str
) -> None:
    port = await serve(token="word")
    for given in ((), ("Authorization: Bearer wrong",), ("Authorization: Basic word",)):
        answer = await (await port.dial()).ask(path, headers=(*HERE, *given))
        assert (answer.status, b"TOKEN_NEEDED" in answer.body) == (403, True)
    about = await (await port.dial()).ask("/", headers=HERE)
    assert (about.status, b"sessions" in about.body) == (200, False)


@pytest.mark.parametrize(
    "header",
    [
        "Forwarded: for=192.0.2.7",
        "X-Forwarded-For: 127.0.0.1",
        "X-Forwarded-Proto: https",
        "x-real-ip: 127.0.0.1",
        "Via: 1.1 proxy",
        "CF-Connecting-IP: 192.0.2.7",
        "CF-Ray: 1",
        "True-Client-IP: 192.0.2.7",
        "X-Client-IP: 192.0.2.7",
        "X-Cluster-Client-Ip: 192.0.2.7",
        "X-Original-Forwarded-For: 192.0.2.7",
        "X-Envoy-External-Address: 192.0.2.7",
        "Fastly-Client-IP: 192.0.2.7",
        "X-Amzn-Trace-Id: Root=1",
        "X-Forwarded-Anything-New: 1",
    ],
)
async def test_whoever_comes_through_a_proxy_is_not_this_machine(port: Any, header: str) -> None:
    assert await status(port, *HERE, header) == 403


async def test_a_proxy_that_says_nothing_of_itself_speaks_an_older_http(port: Any) -> None:
    client = await port.dial()
    client.writer.write(b"GET /api/status HTTP/1.0\r\nHost: 127.0.0.1:7600\r\nConnection: close\r\n\r\n")
    assert (await client.answer()).status == 403


@pytest.mark.parametrize(
    "header",
    [
        "Sec-Fetch-Site: cross-site",
        "Sec-Fetch-Site: same-site",
        "Origin: http://evil.example",
        "Origin: http://127.0.0.1:3000",
        "Origin: null",
        "Origin: http://[",
        "Referer: https://evil.example/page",
        "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:60.0) Gecko/20100101 Firefox/60.0",
        "Sec-Fetch-Site: something-new",
        "Origin: ",
    ],
)
async def test_a_page_of_another_origin_is_refused_with_and_without_the_token(
    serve: Any, header: str
) -> None:
    port = await serve(token="word")
    assert await status(port, *HERE, header) == 403
    assert await status(port, *HERE, header, "Authorization: Bearer word") == 403


async def test_the_node_s_own_page_may(port: Any) -> None:
    own = ("Sec-Fetch-Site: same-origin", "Origin: http://127.0.0.1:7600", "Referer: http://127.0.0.1:7600/x")
    assert await status(port, *HERE, *own) == 200
    assert await status(port, *HERE, "Sec-Fetch-Site: none") == 200
    older = ("User-Agent: Mozilla/5.0", "Referer: http://127.0.0.1:7600/dashboard/")
    assert await status(port, *HERE, *older) == 200


@pytest.mark.parametrize("header", ["User-Agent: Mozilla/5.0", "Sec-Fetch-Site: cross-site", "Origin: null"])
async def test_verbs_and_the_api_refuse_the_same_foreign_pages(port: Any, header: str) -> None:
    for path in ("/api/status", "/metrics", "/login/t", "/create/q", "/api/queues"):
        answer = await (await port.dial()).ask(path, headers=(*HERE, header))
        assert answer.status == 403, path


async def test_a_page_that_made_its_own_name_mean_this_machine_is_refused(port: Any) -> None:
    own = ("Host: evil.example", "Sec-Fetch-Site: same-origin", "Origin: http://evil.example")
    assert await status(port, *own) == 403


async def test_from_elsewhere_only_the_token_helps(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    port = await serve(token="word")
    monkeypatch.setattr("broker.http.guard.over_loopback", lambda request: False)
    assert await status(port) == 403
    assert await status(port, "Authorization: Bearer wrong") == 403
    assert await status(port, "Authorization: Basic word") == 403
    assert await status(port, "Authorization: Bearer word", "Host: hq.example") == 200


def test_a_masked_token_tells_sessions_apart_and_is_none() -> None:
    one, two = masked("till-7-secret-a"), masked("till-7-secret-b")
    assert one != two
    assert one == masked("till-7-secret-a")
    assert one.startswith("till…")
    assert "secret" not in one
    assert masked("ab").startswith("a…")
    assert masked("a").startswith("…")


def test_whose_token_has_just_ended_is_not_taken_for_this_machine() -> None:
    """A call looks at the token twice: whether it is good, and whose it is."""
    request = make_mocked_request("GET", "/api/status", headers={"Authorization": "Bearer ended"})
    assert asker(request, Operators()) == THIS_MACHINE
    found = asker(request, Operators("word"))
    assert (found.may("viewer"), found.may("operator"), found.until) == (True, False, 0.0)
