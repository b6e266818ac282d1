"""Children dial the port."""

import asyncio
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from bridges.carriers import websocket
from bridges.carriers.base import CarrierBroken
from broker.http import link_endpoint


@pytest.mark.parametrize("path", ["/link", "/link?from=proxy", "/link?a=1/2"])
async def test_a_carrier_reaches_the_node(port: Any, path: str) -> None:
    carrier = await websocket.connect(f"ws://127.0.0.1:{port.number}{path}")
    carrier.send([b"hello"])
    assert await carrier.receive() == [b"hello"]
    await carrier.close()
    assert port.node.linked == [[b"hello"]]


async def test_who_goes_while_it_asks_is_not_said_to_have_asked_for_no_link(
    port: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the node stood still: it reads the request and the line's end at once."""

    async def gone(request: web.Request, *_: object, **__: object) -> None:
        assert request.transport is not None
        request.transport.close()
        raise CarrierBroken("it went away while its WebSocket was opened")

    monkeypatch.setattr(link_endpoint, "accepted", gone)
    with pytest.raises(asyncio.IncompleteReadError):
        await (await port.dial()).ask("/link")
    assert port.node.sent_away == []


async def test_a_leaf_refuses_children(serve: Any) -> None:
    port = await serve(children=False)
    with pytest.raises(CarrierBroken, match="HTTP 403"):
        await websocket.connect(f"ws://127.0.0.1:{port.number}/link")
    assert b"is a leaf: it takes no children" in (await (await port.dial()).ask("/link")).body
    addresses, texts = zip(*port.node.sent_away, strict=True)
    assert texts == ("this node is a leaf: it takes no children",) * 2
    assert all(address.startswith("127.0.0.1:") for address in addresses)


async def test_where_certificates_are_asked_for_only_links_need_one(serve: Any) -> None:
    port = await serve(certificates=True)
    with pytest.raises(CarrierBroken, match=r"HTTP 401 .* it asks for a credential"):
        await websocket.connect(f"ws://127.0.0.1:{port.number}/link")
    client = await port.dial()
    refused = await client.ask("/link")
    assert refused.status == 401
    assert b"a child shows a certificate here" in refused.body
    assert (await client.ask("/healthz")).status == 200
    assert len(port.node.sent_away) == 2


async def test_the_agreed_frame_is_the_limit(serve: Any) -> None:
    port = await serve(max_frame=2000)
    carrier = await websocket.connect(f"ws://127.0.0.1:{port.number}/link", max_packet=2001)
    carrier.send([b"x" * 2000])
    assert await carrier.receive() == [b"x" * 2000]
    carrier.send([b"x" * 2001])
    with pytest.raises(CarrierBroken, match="code 1009"):
        await carrier.receive()
    await carrier.close()


async def test_pages_and_plain_requests_get_no_link(port: Any) -> None:
    assert (await (await port.dial()).ask("/link")).status == 426
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await session.ws_connect(f"{port.http}/link", origin="http://evil.example")
    assert caught.value.status == 403
