"""Small messages that trickle in one by one wait in a queue of a real node, hardly any of them in its memory.

The kernel says how much memory the node has had at most, which needs no rights to limit it. A node that kept
what waits in memory took more than 600 bytes for each.
"""

from collections import Counter
from pathlib import Path

from harness import Network

MESSAGES = 160_000
MOST = 24 * 1024 * 1024
"""How much larger the second half makes a node whose caches are full: half of what 600 bytes each would."""
CREDIT = 1000


def peak(network: Network, name: str) -> int:
    """Most bytes that were ever resident."""
    lines = Path(f"/proc/{network.nodes[name].pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


async def send(network: Network, first: int, last: int) -> None:
    """Each is a bundle of its own: `queue:small` and `queue:small@hq` have the same readers."""
    async with network.client("hq", session=f"producer-{first}") as client:
        await client.create("small")
        for number in range(first, last):
            queue = "queue:small" if number % 2 else "queue:small@hq"
            await client.send_many(queue, [b"%05d" % number], wait=False)
        await client.flush()


async def test_small_messages_wait_on_disk_and_drain(tmp_path: Path) -> None:
    async with Network(tmp_path) as network:
        network.add("hq")
        await network.start()
        await send(network, 0, MESSAGES // 2)
        half = peak(network, "hq")
        await send(network, MESSAGES // 2, MESSAGES)
        assert peak(network, "hq") - half < MOST
        network.kill("hq")
        await network.start("hq")
        found: Counter[bytes] = Counter()
        came = 0
        async with network.client("hq", session="consumer") as client:
            async for batch in client.subscribe("queue:small", credit=CREDIT).batches():
                found.update(batch.payloads)
                came += len(batch.payloads)  # `total` adds them all up, once for each of them
                batch.ack()
                if came >= MESSAGES:
                    break
        assert found == Counter(b"%05d" % number for number in range(MESSAGES))
        assert peak(network, "hq") - half < MOST
