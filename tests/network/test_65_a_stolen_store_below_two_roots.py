"""A stolen store below two roots: over the second it reads and writes no more than over the first."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from harness import Network, receiving, until_count
from hostile import WITNESS, undisturbed
from meshes import add_mesh
from thieves import PERSISTENT, Thief, advise, thief

from sapwood.protocol import bundles
from sapwood.protocol.bundles import Flag
from treeconnector import frames
from treeconnector.frames import Member
from treeconnector.link_events import BundleArrived

CORES = ("hq", "hq-2")
PERMITS: dict[str, Any] = {
    "consume": ["prices/#", "queue:orders"],
    "send": ["store/{name}/#", "queue:last-word"],
}
FORBIDDEN = (
    "topic:#",
    "topic:payroll/#",
    "queue:till",
    "queue:System@hq-2",
    f"domain:{WITNESS}",
    "domain:hq",
)


async def start(network: Network) -> None:
    add_mesh(network, *CORES, permits=PERMITS)
    network.add(WITNESS, "hq")
    await network.start()
    for name in CORES:
        await network.until_child(name, WITNESS)


@asynccontextmanager
async def both(network: Network) -> AsyncIterator[dict[str, Thief]]:
    async with thief(network) as one, thief(network, parent="hq-2") as other:
        yield dict(zip(CORES, (one, other), strict=True))


async def test_over_the_second_it_reads_and_writes_no_more(network: Network) -> None:
    await start(network)
    async with (
        undisturbed(network),
        both(network) as thieves,
        network.client(WITNESS) as leeds,
        network.client("hq-2") as beside,
        receiving(leeds, "queue:till") as till,
        receiving(beside, "queue:payroll") as payroll,
    ):
        for made in thieves.values():
            await made.say(advise(*FORBIDDEN, "topic:prices/#", "queue:orders"))
            await made.say(
                frames.Mesh([Member("hq-2", [])], [WITNESS]), frames.Given([(b"i" * 16, b"d" * 16)])
            )
            await made.until(lambda made=made: len(made.refused()) >= 4, "told what is refused")
        for name in CORES:
            await network.send(name, "topic:payroll/june", [b"secret"])
            await network.send(name, "queue:orders", [b"an order"])
        for made in thieves.values():
            await made.until(made.read, "given what it may read")
        for made, other in zip(thieves.values(), reversed(thieves.values()), strict=True):
            assert set(made.read()) == {"queue:orders"}
            await lie(made, other)
        for name in CORES:
            await network.until(name, lambda status: status["counters"]["refused"] >= 7, "refusing lies")
        assert till == payroll == []
        await network.send("hq", f"queue:till@{WITNESS}", [b"true"])
        await until_count(till, 1)
        assert [each.payload for each in till] == [b"true"]


async def lie(made: Thief, other: Thief) -> None:
    """Send what is not its own, and give back what it was given otherwise than it was."""
    (given, *_) = other.heard(BundleArrived)
    back = {"id": given.header.id, "origin": given.header.origin, "flags": PERSISTENT | int(Flag.REROUTED)}
    text = bundles.join([bundles.encode_message(bundles.Message(b"forged"))])
    await made.say(
        made.bundle("queue:payroll", b"forged"),
        made.bundle(f"queue:till@{WITNESS}", b"forged"),
        made.bundle("topic:store/mallory/x", b"forged", origin=WITNESS),
        made.bundle("topic:store/mallory/x", b"forged", origin="hq-2"),
        made.bundle("queue:till", b"forged", **back),
        made.bundle("queue:orders", b"forged", **back, body=text),
        made.bundle(f"queue:System@{WITNESS}", b"{}", origin="hq"),
    )
