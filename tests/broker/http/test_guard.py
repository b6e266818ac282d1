"""Who may look at a node and administrate it: every way in, and every page that must stay out."""

from typing import Any

import pytest

from broker.http.guard import masked

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
    ["evil.example", "evil.example:7600", "10.0.0.1", "127.0.0.1.evil.example", "localhost.evil.example"],
)
async def test_a_name_that_was_made_to_mean_this_machine_is_refused(serve: Any, host: str) -> None:
    port = await serve(token="word")
    answer = await (await port.dial()).ask("/api/status", headers=(f"Host: {host}",))
    assert (answer.status, b"WRONG_HOST" in answer.body) == (403, True)
    assert await status(port, f"Host: {host}", "Authorization: Bearer word") == 200


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
