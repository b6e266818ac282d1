"""Operators have tokens and roles of their own; what they change stands in a trail, here and below."""

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import aiohttp
from commands import sapwood
from harness import PATIENCE, Network
from quick import QUICK_SITE


async def made(name: str, role: str) -> tuple[str, dict[str, str]]:
    """A token, and the operator of a site's file."""
    code, output, errors = await sapwood("operator", "token", name, "--role", role, "--json")
    assert code == 0, errors
    found = json.loads(output)
    return found.pop("token"), found


async def asked(
    network: Network, node: str, token: str, method: str, path: str, body: Any = None
) -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.request(method, network.url(node) + path, json=body) as answer,
    ):
        return answer.status, json.loads(await answer.read())


async def until(network: Network, token: str, path: str) -> None:
    """Ask hq until it answers."""
    async with asyncio.timeout(PATIENCE):
        while True:
            with contextlib.suppress(aiohttp.ClientError):
                if (await asked(network, "hq", token, "GET", path))[0] == 200:
                    return
            await asyncio.sleep(0.05)


async def test_roles_hold_changes_are_written_down_and_who_is_taken_out_is_out(
    network: Network, tmp_path: Path
) -> None:
    tokens, operators = {}, []
    for name, role in (("vera", "viewer"), ("otto", "operator"), ("ada", "administrator")):
        tokens[name], listed = await made(name, role)
        operators.append(listed)
    network.add("hq", operators=operators, **QUICK_SITE)
    network.add("york", "hq", role="branch", operators=operators, **QUICK_SITE)
    network.nodes["hq"].start()
    network.nodes["york"].start()
    await until(network, tokens["vera"], "/api/ping?address=System@york")

    async def answers(name: str, method: str, path: str, body: Any = None) -> tuple[int, str]:
        status, found = await asked(network, "hq", tokens.get(name, name), method, path, body)
        return status, found.get("code", "")

    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {tokens['otto']}"}) as session:
        for text in ("one", "two"):
            url = f"{network.url('hq')}/api/publish/queue:orders"
            async with session.post(url, data=text) as answer:
                assert answer.status == 200, await answer.text()
    assert await answers("", "GET", "/api/status") == (403, "TOKEN_NEEDED")
    assert await answers("guess", "GET", "/api/status") == (403, "TOKEN_NEEDED")
    assert await answers("vera", "GET", "/api/queues/orders") == (200, "")
    for method, path in (
        ("GET", "/api/queues/orders/messages"),
        ("GET", "/api/dead"),
        ("GET", "/api/follow"),
        ("DELETE", "/api/queues/orders"),
        ("POST", "/api/permits/reload"),
    ):
        assert await answers("vera", method, path) == (403, "ROLE_NEEDED"), path
    _, found = await asked(network, "hq", tokens["otto"], "GET", "/api/queues/orders/messages")
    assert [each["preview"] for each in found["messages"]] == ["one", "two"]
    assert await answers("otto", "POST", "/api/permits", {"child": "york"}) == (403, "ROLE_NEEDED")
    assert await answers("otto", "DELETE", "/api/queues/nobody") == (404, "NOT_FOUND")
    assert await answers("otto", "DELETE", "/api/queues/orders") == (200, "")
    permit = {"child": "leeds", "node": "york", "send": ["sales/#"]}
    assert await answers("ada", "POST", "/api/permits", permit) == (200, "")

    _, trail = await asked(network, "hq", tokens["vera"], "GET", "/api/trail")
    told = [(each["who"], each["role"], each["operation"], each["result"]) for each in trail["changes"]]
    assert told[:3] == [
        ("ada", "administrator", "POST /api/permits", "done"),
        ("otto", "operator", "DELETE /api/queues/{name}", "done"),
        ("otto", "operator", "DELETE /api/queues/{name}", "node hq has no queue 'nobody'"),
    ]
    assert trail["changes"][1]["said"] == {"name": "orders"}
    assert trail["changes"][1]["address"].startswith("127.0.0.1:")
    secret = tmp_path / "vera"
    secret.write_text(tokens["vera"])
    code, output, errors = await sapwood(
        *("trail", "--node", "york", "--json", "--url", network.url("hq"), "--token-file", str(secret))
    )
    assert code == 0, errors
    (below,) = json.loads(output)["changes"]
    assert below["role"] == "administrator"
    assert (below["who"], below["operation"], below["result"]) == ("ada at hq", "POST /api/permits", "done")
    assert below["said"]["child"] == "leeds"

    network.nodes["hq"].kill()
    network.configure("hq", operators=operators[1:], **QUICK_SITE)
    network.nodes["hq"].start()
    await until(network, tokens["ada"], "/api/status")
    assert await answers("vera", "GET", "/api/status") == (403, "TOKEN_NEEDED")
    network.configure("hq", operators=operators[2:], **QUICK_SITE)
    assert await answers("otto", "GET", "/api/status") == (200, "")
    assert await answers("ada", "POST", "/api/permits/reload") == (200, "")
    assert await answers("otto", "GET", "/api/status") == (403, "TOKEN_NEEDED")
    _, trail = await asked(network, "hq", tokens["ada"], "GET", "/api/trail?limit=2")
    assert [each["who"] for each in trail["changes"]] == ["ada", "ada"]
    assert trail["changes"][0]["seq"] == trail["changes"][1]["seq"] + 1
    _, older = await asked(network, "hq", tokens["ada"], "GET", f"/api/trail?limit=2&after={trail['next']}")
    assert [each["who"] for each in older["changes"]] == ["otto", "otto"]
