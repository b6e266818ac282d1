"""Status for people and supervisors, and who may ask."""

import json
from typing import Any

import pytest


async def test_status_is_json(port: Any) -> None:
    answer = await (await port.dial()).ask("/api/status")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("application/json")
    assert json.loads(answer.body) == {"name": "here", "links": []}


async def test_health_and_readiness(port: Any) -> None:
    client = await port.dial()
    assert (await client.ask("/healthz")).status == 200
    assert (await client.ask("/readyz")).status == 200
    port.node.ready = False
    assert (await client.ask("/healthz")).status == 200
    assert (await client.ask("/readyz")).status == 503
    port.node.ready, port.node.disconnected = True, True
    answer = await client.ask("/readyz")
    assert (answer.status, answer.body) == (503, b"disconnected\n")


async def test_from_elsewhere_status_needs_the_token(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    port = await serve(token="word")
    monkeypatch.setattr("broker.http.guard.over_loopback", lambda request: False)
    client = await port.dial()
    assert (await client.ask("/api/status")).status == 403
    assert (await client.ask("/api/status", headers=("Authorization: Bearer wrong",))).status == 403
    assert (await client.ask("/api/status", headers=("Authorization: Bearer word",))).status == 200
    assert (await client.ask("/healthz")).status == 200


async def test_without_a_token_nobody_from_elsewhere_gets_in(
    port: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.http.guard.over_loopback", lambda request: False)
    client = await port.dial()
    assert (await client.ask("/api/status", headers=("Authorization: Bearer ",))).status == 403


@pytest.mark.parametrize("header", ["X-Forwarded-For: 192.0.2.1", "Sec-Fetch-Site: cross-site"])
async def test_a_proxy_or_another_site_is_not_this_machine(port: Any, header: str) -> None:
    assert (await (await port.dial()).ask("/api/status", headers=(header,))).status == 403
