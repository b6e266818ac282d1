"""An application at a site reads a queue that is called like those by which nodes talk with each other."""

import asyncio
from typing import Any

import aiohttp
from harness import PATIENCE, Network
from rabbitmq_chain import Chain

TIMES = 20


async def asked(network: Network, path: str) -> tuple[int, Any]:
    async with aiohttp.ClientSession() as session, session.get(network.url("hq") + path) as answer:
        return answer.status, await answer.json()


async def test_it_gets_none_of_their_questions_and_takes_none_away(chain: Chain) -> None:
    await chain.start()
    nosy = [chain.reader("york", name, durable=True) for name in ("System", "RoutingMgr", "lm")]
    chain.reader("york", "orders", durable=True)
    await chain.network.until_known("hq", "queue:orders")
    status = await chain.network.status("york")
    assert set(status["site_broker"]["left_out"]) == {"queue:System", "queue:RoutingMgr", "queue:lm"}
    async with asyncio.timeout(PATIENCE):
        for _ in range(TIMES):
            code, answer = await asked(chain.network, "/api/ping?address=System@york")
            assert (code, answer["node"]) == (200, "york")
    for reader in nosy:
        reader.channel.connection.process_data_events(0.2)
    assert [reader.bodies for reader in nosy] == [[], [], []]
