"""A store that starts with a large backlog is ready again quickly, and drains it completely.

26,500 messages is what AWS Greengrass was measured to load for about five minutes. Here each is a bundle of
its own, which is the worst case: together they would be a hundred.
"""

import asyncio
import time
from pathlib import Path
from secrets import token_bytes

from harness import Network, receiving, until_count

from broker.core.rows import BundleRow, CopyRow, Transaction
from broker.store import Store
from sapwood.protocol import bundles
from sapwood.protocol.bundles import Flag, Header, Message
from sapwood.protocol.destinations import queue
from treeconnector.identity import BundleIds

BACKLOG = 26_500


def _fill(directory: Path, count: int) -> None:
    """Put messages for `queue:sales` into the database of a node that has stopped."""
    store = Store.open(directory, tree="test", node="york")
    ids, transaction = BundleIds(token_bytes), Transaction()
    try:
        for number in range(1, count + 1):
            body = bundles.encode_message(Message(str(number - 1).encode()))
            header = Header(
                id=ids.next(),
                destination=queue("sales"),
                flags=int(Flag.PERSISTENT),
                size=len(body),
                origin_store=store.store_id,
                origin="york",
            )
            transaction.put(BundleRow(number, bundles.encode_header(header), body))
            transaction.put(CopyRow(number, number, "queue:sales", 0, b"", "", 0, 0, 0, ""))
        store.apply(transaction)
    finally:
        store.close()


async def test_a_store_is_ready_and_drains_although_it_starts_with_26500_messages(network: Network) -> None:
    network.add("hq")
    network.add("york", "hq", line=True)
    await network.start()
    assert await network.stop("york") == 0
    await asyncio.to_thread(_fill, network.data("york"), BACKLOG)
    await network.line("york").cut()
    began = time.monotonic()
    await network.launch("york")
    status = await network.status("york")
    taken = time.monotonic() - began
    assert status["ready"]
    assert sum(queue["messages"] for queue in status["queues"]) == BACKLOG
    print(f"\nready {taken:.2f} s after its process was started, with {BACKLOG} messages")
    async with network.client("hq") as hq, receiving(hq, "queue:sales") as sales:
        began = time.monotonic()
        await network.line("york").restore()
        await until_count(sales, BACKLOG)
        print(f"drained in {time.monotonic() - began:.2f} s")
        assert [int(delivery.payload) for delivery in sales] == list(range(BACKLOG))
    await network.until_drained("york")
