"""Channels of applications at the node's port: how many, for whom, and who goes in the wrong moment."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from nodes import running_node

from broker.core.errors import SwitchError
from broker.core.sessions.rights import Rights
from broker.entrance.entrance import Entrance
from broker.http.offer_endpoint import _taken
from broker.node import Node
from config.channels import AppChannels
from config.model import AdvisoryLog, Listener, Site
from sapwood.channels.pipes import PipeBroken
from sapwood.channels.websocket_pipe import WebSocketPipe
from treeconnector.permits import Grant, Permit, Rules

NAME = f"channel-{'0' * 32}"
OPEN_TO_ALL = AppChannels(offered_to=("*",), taken_from=("*",))


@asynccontextmanager
async def started(folder: Path) -> AsyncIterator[tuple[Node, str, aiohttp.ClientSession]]:
    log = AdvisoryLog(enabled=False)
    async with (
        running_node(
            Site(name="hq", data=folder, listener=Listener(port=0), advisory_log=log, channels=OPEN_TO_ALL)
        ) as node,
        aiohttp.ClientSession() as session,
    ):
        yield node, f"http://127.0.0.1:{node.port}/channel", session


async def test_applications_leave_half_of_the_places_to_operators(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.http.channel_endpoint.MOST", 2)
    async with started(tmp_path) as (_, url, session), session.ws_connect(url) as first:
        assert "channel-" in await first.receive_str()
        for path in (url, f"{url}/hq/{NAME}"):
            with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
                await session.ws_connect(path)
            assert caught.value.status == 503
        async with session.ws_connect(f"{url}/hq/till") as operator:
            assert "offers nothing as till" in await operator.receive_str()


async def test_who_speaks_before_a_channel_is_taken_has_none(tmp_path: Path) -> None:
    async with started(tmp_path) as (node, url, session), session.ws_connect(url) as maker:
        await maker.receive_str()
        await maker.send_bytes(b"anything")
        assert (await maker.receive_str()).startswith("error ")
        assert "0 wait" in repr(node.report.access.forwards.applications)


async def test_a_certificate_takes_no_channels_that_its_child_may_not_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grant = Grant("hq", "shop", (), (), opens=("till@york",))
    shop = Rights("certificate shop", "shop:", Permit([Rules(grant)]), is_of_child=True)

    async def admitted(*_: Any) -> Rights:
        return shop

    monkeypatch.setattr(Entrance, "admitted", admitted)
    async with started(tmp_path) as (_, url, session), session.ws_connect(f"{url}/york/{NAME}") as taker:
        assert "PERMIT: hq lets shop open channels to till@york" in await taker.receive_str()


@pytest.mark.parametrize(("serves", "is_offered"), [((), False), (("channel-*@hq",), True)])
async def test_a_certificate_offers_no_channels_that_its_child_may_not_serve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, serves: tuple[str, ...], *, is_offered: bool
) -> None:
    grant = Grant("hq", "shop", (), (), serves=serves)
    shop = Rights("certificate shop", "shop:", Permit([Rules(grant)]), is_of_child=True)

    async def admitted(*_: Any) -> Rights:
        return shop

    monkeypatch.setattr(Entrance, "admitted", admitted)
    async with started(tmp_path) as (_, url, session), session.ws_connect(url) as maker:
        assert ("channel-" in await maker.receive_str()) is is_offered


async def test_a_stranger_is_not_told_whether_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(*_: Any) -> Rights:
        raise SwitchError("who are you?")

    monkeypatch.setattr("broker.http.channel_endpoint.MOST", 0)
    monkeypatch.setattr(Entrance, "admitted", refused)
    async with started(tmp_path) as (_, url, session):
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await session.ws_connect(url)
        assert caught.value.status != 503


async def test_whoever_takes_a_channel_of_one_that_goes_just_then_is_told(tmp_path: Path) -> None:
    class Gone(WebSocketPipe):
        def __init__(self) -> None:
            pass

        async def hear(self) -> str | bytes:
            raise PipeBroken("gone")

    async with started(tmp_path) as (node, _, _):
        forwards = node.report.access.forwards
        offer = forwards.applications.offer(NAME, "a test")
        end = forwards.reach("hq", NAME, "another")
        assert not isinstance(end, str)
        with pytest.raises(PipeBroken):
            await _taken(Gone(), forwards.applications, offer)
        assert not await end.until_open(60)
        assert end.why == "a test has gone"
        assert not forwards.ends.open
