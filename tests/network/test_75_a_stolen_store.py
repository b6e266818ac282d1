"""A store is stolen: it reads and writes nothing beyond its permits, and harms neither parent nor siblings.

The thief is a program that speaks the protocol over a real WebSocket to a real node, and lies in every field.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from harness import Network, receiving, until_count
from hostile import WITNESS, undisturbed, until_logged
from quick import QUICK_LINK, numbers
from thieves import MIB, PERSISTENT, Thief, advise, thief

from sapwood.protocol import bundles
from sapwood.protocol.bundles import Flag
from sapwood.protocol.destinations import Destination, Kind
from treeconnector import frames
from treeconnector.frames import Advice, Advise, Bundle, Frame, Position
from treeconnector.link import Standing
from treeconnector.link_events import Advised, PeerGrants

PERMITS: dict[str, Any] = {
    "consume": ["prices/#", "store/{name}/#"],
    "send": ["store/{name}/#", "queue:orders", "queue:last-word"],
    "max_waiting": "1MiB",
}
SITE: dict[str, Any] = {
    "link": QUICK_LINK | {"dead_after": "20s"},
    "limits": {"max_message": "4MiB", "spool": {"max_bytes": "256MiB"}},
}
GENEROUS_MEMORY = 400 * MIB
GENEROUS_DISK = 400 * MIB


async def chain(network: Network) -> None:
    network.add("hq", permits=PERMITS, **SITE)
    network.add(WITNESS, "hq", **SITE)
    await network.start()


async def test_a_thief_reads_what_the_store_might_and_nothing_else(network: Network) -> None:
    await chain(network)
    async with undisturbed(network), network.client("hq") as hq, thief(network) as mallory:
        secret = ["topic:#", "topic:+/#", "topic:payroll/#", "topic:store/leeds/#", "topic:store/+/x"]
        secret += ["queue:payroll", "domain:leeds", "domain:hq"]
        await mallory.say(advise(*secret, "topic:prices/#", "domain:mallory"))
        await mallory.say(advise("topic:store/mallory/#", origin=WITNESS))
        await mallory.until(lambda: len(mallory.refused()) >= 9, "declined")
        assert set(mallory.refused()) == {*secret, "topic:store/mallory/#"}
        assert "PERMIT: hq lets mallory consume prices/#, store/{name}/#" in mallory.refused()["topic:#"]
        async with (
            receiving(hq, "topic:payroll/#"),
            receiving(hq, "queue:orders"),
            receiving(hq, "topic:store/#"),
        ):
            for topic in ("payroll/may", "store/leeds/x", "prices/uk", "store/mallory/x"):
                await network.send("hq", f"topic:{topic}", numbers(3))
            await network.send("hq", "queue:payroll@leeds", numbers(3))
            await network.send("hq", "queue:payroll", numbers(3))
            await mallory.until(lambda: "topic:prices/uk" in mallory.read(), "given prices")
        await network.send("hq", "topic:prices/last", numbers(1))
        await mallory.until(lambda: "topic:prices/last" in mallory.read(), "given the last price")
        assert set(mallory.read()) == {"topic:prices/uk", "topic:prices/last"}
        heard = {advice.name for event in mallory.heard(Advised) for advice in event.advices}
        assert heard <= {"orders", "store/#", "last-word"}
        (granted,) = mallory.heard(PeerGrants)
        assert [rules.grant.by for rules in granted.rules] == ["hq"]


async def test_a_thief_writes_what_the_store_might_and_nothing_else(network: Network) -> None:
    await chain(network)
    forbidden = ["topic:payroll/x", "topic:store/leeds/x", "topic:prices/uk", "topic:$SYS/x", "queue:payroll"]
    forbidden += ["queue:till@leeds", "queue:System@hq", "queue:RoutingMgr@hq", "queue:orders@leeds"]
    async with undisturbed(network), network.client("hq") as hq, network.client(WITNESS) as leeds:
        async with (
            receiving(hq, "topic:#") as everything,
            receiving(hq, "queue:payroll") as payroll,
            receiving(hq, "queue:orders") as orders,
            receiving(leeds, "topic:prices/#") as prices,
            receiving(leeds, "queue:till") as till,
            thief(network) as mallory,
        ):
            await mallory.say(
                advise("topic:prices/#"), advise("domain:leeds"), advise("domain:leeds", op="remove")
            )
            flags = (0, Flag.RETAINED, Flag.REROUTED, Flag.MAYBE_DUPLICATE, Flag.NOTICE, Flag.TELL, 1 << 40)
            both = [(where, PERSISTENT | flag) for where in forbidden for flag in flags]
            lies = [mallory.bundle(where, b"lie", flags=flag) for where, flag in both]
            forged = [{"origin": who} for who in ("hq", WITNESS, "")]
            forged += [{"origin": "hq", "flags": PERSISTENT | each} for each in flags[2:4]]
            lies += [mallory.bundle("queue:orders", b"lie", **forgery) for forgery in forged]
            moved = [Destination(Kind.TOPIC, "prices/x", node) for node in (WITNESS, "hq")]
            lies += [mallory.bundle(where, b"lie", flags=PERSISTENT | Flag.REROUTED) for where in moved]
            await mallory.say(*lies)
            await mallory.say(*(frames.Volatile(lie.header, lie.body) for lie in lies))
            await mallory.say(*odd(mallory))
            for where in ("queue:orders", "topic:store/mallory/x"):
                await mallory.say(mallory.bundle(where, b"true"))
            await until_count(orders, 1)
            await mallory.until(lambda: b"true" in [each.payload for each in everything], "what is true")
            status = await network.until(
                "hq", lambda status: status["counters"]["refused"] >= 2 * len(lies), "refusing all lies"
            )
            got = [each.payload for each in (*orders, *everything)]
            assert got.count(b"true") == 2
            assert b"lie" not in got
            assert (payroll, prices, till) == ([], [], [])
            assert not mallory.end
        assert status["retained"] == 0
        reasons = {reason.partition(":")[0] for reason in status["dead"]["reasons"]}
        assert {"PERMIT", "ORIGIN"} <= reasons <= {"PERMIT", "ORIGIN", "UNREADABLE", "EXPIRED"}
        (link,) = [link for link in status["children"] if link["name"] == "mallory"]
        assert link["refused"] >= 2 * len(lies)
        assert any(
            "hq lets mallory send to store/{name}/#" in refusal["rule"] for refusal in link["refusals"]
        )
        await until_logged(network, "hq", "link mallory: refused")


def odd(mallory: Thief) -> Iterable[Frame]:
    """Bundles for where the store may send, that are not what they say."""
    here = "topic:store/mallory/odd"
    yield mallory.bundle(here, b"x", count=200)
    yield mallory.bundle(here, b"x", size=7)
    yield mallory.bundle(
        here, b"x", size=4 * MIB, flags=PERSISTENT | Flag.COMPRESSED, body=b"\x28\xb5\x2f\xfd"
    )
    yield mallory.bundle(here, *numbers(9), done=b"\xff\x01")
    yield mallory.bundle(here, b"x", expires_first=(1 << 53) - 1, expires_last=1)
    yield mallory.bundle(here, b"", reroutes=(1 << 53) - 1, flags=PERSISTENT | Flag.REROUTED | Flag.RETAINED)
    yield mallory.bundle(here, b"x", origin_store=bytes(4000))


def _lying(**lies: Any) -> Callable[[Thief], list[Frame]]:
    return lambda mallory: [mallory.bundle("queue:orders", b"x", **lies)]


def _saying(*said: Frame) -> Callable[[Thief], list[Frame]]:
    return lambda _mallory: list(said)


ENDS: dict[str, tuple[Callable[[Thief], list[Frame]], str]] = {
    "a number from the future": (lambda mallory: [Bundle(7, *_of(mallory))], "bundle 7: expected 1"),
    "an ack of what was never sent": (_saying(frames.Ack(1 << 60)), "an ack of"),
    "a mask that is too long": (_lying(done=b"\xff" * 9), "a mask of 9 bytes"),
    "a count that cannot be": (_lying(count=257), "`int` <= 256"),
    "an expiry that overflows": (_lying(expires_last=1 << 63), "`int` <= 9007199254740991"),
    "reroutes that overflow": (_lying(reroutes=(1 << 64) - 1), "`int` <= 9007199254740991"),
    "flags that overflow": (_lying(flags=1 << 62), "`int` <= 9007199254740991"),
    "a bundle of nothing": (_saying(Bundle(1, b"", b"")), "0 bytes"),
    "a part out of nowhere": (_saying(frames.Part(1, b"", 9, 4, b"x")), "without those before it"),
    "a part of too much": (_saying(frames.Part(1, b"h", 1 << 40, 0, b"x")), "takes 4194304 at most"),
    "a bundle in a bundle": (
        lambda mallory: [frames.Part(1, b"h", 9, 0, b"x"), Bundle(1, *_of(mallory))],
        "between the pieces",
    ),
    "a snapshot in a snapshot": (_saying(*[frames.SnapshotBegin(1)] * 2), "within a snapshot"),
    "a snapshot that lies": (_saying(frames.SnapshotBegin(9), frames.SnapshotEnd(b"")), "lacks 9 advices"),
    "an advice of nothing": (_saying(Advise([Advice("own", Kind.QUEUE, "x")])), "'own'"),
    "an endless name": (_saying(advise(f"topic:{'a' * 5000}")), "4096 at most"),
    "what only a parent says": (_saying(frames.Moved(WITNESS)), "Moved frame"),
    "a conflict": (_saying(frames.Conflict(WITNESS, "")), "Conflict frame"),
    "a chain": (_saying(frames.Chain(["mallory", "hq"])), "Chain frame"),
    "grants": (_saying(frames.Granted(b"\x90")), "Granted frame"),
    "an endless hold": (_saying(frames.Hold(f"topic:{'a' * 5000}")), "4096 at most"),
    "a pong to no ping": (_saying(frames.Pong(1 << 60)), "Pong for ping"),
}


def _of(mallory: Thief) -> tuple[bytes, bytes]:
    lie = mallory.bundle("queue:orders", b"x")
    return lie.header, lie.body


async def test_what_no_node_says_ends_the_thiefs_link_alone(network: Network) -> None:
    await chain(network)
    async with undisturbed(network):
        for number, (what, (said, text)) in enumerate(ENDS.items()):
            async with thief(network, f"mallory-{number}") as mallory:
                await mallory.say(*said(mallory))
                assert text in await mallory.until_ended(), what
        async with thief(network, "mallory") as mallory:
            await mallory.say(mallory.bundle("queue:orders", b"true"))
        assert await network.collect("hq", "queue:orders", 1) == [b"true"]


async def test_a_position_from_the_future_begins_anew_and_loses_nothing(network: Network) -> None:
    await chain(network)
    async with undisturbed(network):
        url = f"ws://127.0.0.1:{network.ports['hq']}/link"
        far = (1 << 53) - 2
        lies = (Position(7, far, far, far, 1, 1), Position(0, 0, far, 0), Position(far, 5, 9, 9, far, far))
        for number, position in enumerate(lies):
            async with aiohttp.ClientSession() as session, session.ws_connect(url) as socket:
                mallory = Thief(socket, f"mallory-{number}")
                await mallory.shake_hands(Standing(position, far, b"\xff" * 16))
                await socket.close()
        async with thief(network) as mallory:
            await mallory.say(mallory.bundle("queue:orders", b"true"))
            assert await network.collect("hq", "queue:orders", 1) == [b"true"]


# --- floods


def memory(network: Network) -> int:
    """Bytes that the parent's process has in memory."""
    text = Path(f"/proc/{network.nodes['hq'].pid}/status").read_text(encoding="ascii")
    return int(next(line.split()[1] for line in text.splitlines() if line.startswith("VmRSS:"))) * 1024


def disk(network: Network) -> int:
    found = 0
    for file in network.data("hq").rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # a log that is turned is renamed
            found += file.stat().st_size if file.is_file() else 0
    return found


@asynccontextmanager
async def bounded(network: Network) -> AsyncIterator[None]:
    """Assert that the parent's memory and disk stay within generous bounds, and siblings' traffic goes on."""
    before, most = memory(network), [0, 0]
    done = asyncio.Event()

    async def watch() -> None:
        while not done.is_set():
            most[0], most[1] = max(most[0], memory(network)), max(most[1], disk(network))
            await asyncio.sleep(0.1)

    async with (
        network.client("hq") as hq,
        network.client(WITNESS) as leeds,
        receiving(hq, "queue:orders") as up,
        receiving(leeds, "topic:prices/#") as down,
    ):
        watching = asyncio.create_task(watch())
        talking = asyncio.create_task(_talk(hq, leeds, done))
        try:
            yield
        finally:
            done.set()
            sent = await talking
            await watching
        await until_count(up, sent)
        await until_count(down, sent)
        assert sorted(int(each.payload) for each in up) == list(range(sent))
        assert [int(each.payload) for each in down] == list(range(sent))
    assert most[0] - before < GENEROUS_MEMORY, f"{most[0] // MIB} MiB, {before // MIB} before"
    assert most[1] < GENEROUS_DISK, f"{most[1] // MIB} MiB on disk"


async def _talk(hq: Any, leeds: Any, done: asyncio.Event) -> int:
    """Send up and down until told, one by one: how many of each."""
    sent = 0
    while not done.is_set():
        await leeds.send_many("queue:orders", [b"%d" % sent])
        await hq.send_many("topic:prices/uk", [b"%d" % sent])
        sent += 1
        await asyncio.sleep(0.01)
    return sent


def _names(count: int, length: int, root: str) -> list[str]:
    return [f"{root}{number:06d}{'n' * (length - len(root) - 6)}" for number in range(count)]


async def test_a_flood_of_advisories_is_bounded(network: Network) -> None:
    await chain(network)
    async with undisturbed(network), bounded(network):
        async with thief(network) as mallory:
            with contextlib.suppress(ConnectionError):
                for start in range(0, 40_000, 10):
                    await mallory.say(advise(*(f"topic:{name}" for name in _names(10, 4000, f"{start}-"))))
                    if mallory.end:
                        break
            assert "goes on after" in await mallory.until_ended()
        async with thief(network, "mallory-deep") as mallory:
            root = "store/mallory-deep/"
            deep = [
                f"topic:{root}{number}/{'/'.join(f'{number}{level}' for level in range(28))}"
                for number in range(5000)
            ]
            for start in range(0, len(deep), 100):
                await mallory.say(advise(*deep[start : start + 100], origin="mallory-deep"))
            await mallory.say(advise("topic:prices/#", origin="mallory-deep"))
            for _ in range(200):
                await mallory.say(advise("queue:store/mallory-deep/x", origin="mallory-deep"))
                await mallory.say(advise("queue:store/mallory-deep/x", op="remove"))
            await mallory.until(lambda: "topic:prices/uk" in mallory.read(), "given prices")


async def test_a_flood_of_bundles_is_bounded(network: Network) -> None:
    await chain(network)
    async with undisturbed(network), bounded(network):
        for name, each in (("mallory-many", _many), ("mallory-large", _large)):
            async with thief(network, name) as mallory:
                with contextlib.suppress(ConnectionError):
                    async for frame in each(mallory):
                        if mallory.end:
                            break
                        await mallory.say(frame)
                assert "the window is" in await mallory.until_ended()
                assert mallory.is_left_unread
        async with thief(network, "mallory-bombs") as mallory:
            for bomb in _bombs(mallory):
                await mallory.say(bomb)
            await mallory.until(lambda: mallory.acked == mallory.number, "taking bombs")
            assert not mallory.end


async def _many(mallory: Thief) -> AsyncIterator[Frame]:
    """Small ones, each for a queue that nobody reads; it does not keep them, though it is asked."""
    for number in range(20_000):
        yield mallory.bundle(f"queue:store/{mallory.hello.name}/{number}", b"x")
        await mallory.until_room()


async def _large(mallory: Thief) -> AsyncIterator[Frame]:
    """Some megabytes in all that are refused, then what it may send."""
    refused = bytes(50_000)
    for _ in range(1000):
        yield mallory.bundle("queue:payroll", refused)
        await mallory.until_room()
    for _ in range(2000):
        yield mallory.bundle(f"topic:store/{mallory.hello.name}/x", refused, flags=PERSISTENT)
        await mallory.until_room()
        yield mallory.bundle(f"queue:store/{mallory.hello.name}/x", refused, flags=PERSISTENT)
        await mallory.until_room()


def _bombs(mallory: Thief) -> Iterable[Frame]:
    """What is small on the line and large in memory."""
    topic, name = f"topic:store/{mallory.hello.name}/x", f"queue:store/{mallory.hello.name}/x"
    for plain in (bytes(4 * MIB - 100), _properties(4 * MIB - 100)):
        body, flag = bundles.compress(plain)
        for where, more in ((topic, Flag.RETAINED), (name, Flag.TELL), (topic, 0)):
            for size in (len(plain), len(plain) // 2, 1 << 40):
                yield mallory.bundle(where, b"", body=body, size=size, flags=PERSISTENT | flag | more)


def _properties(size: int) -> bytes:
    """One message with nothing but empty dictionaries, a byte each, in its headers."""
    headers = {"x": [{}] * (size - 100)}
    return msgspec.msgpack.encode([b"", {"headers": headers}])


async def test_a_flood_of_holds_is_bounded(network: Network) -> None:
    await chain(network)
    async with undisturbed(network), bounded(network), thief(network) as mallory:
        with contextlib.suppress(ConnectionError):
            for number in range(40_000):
                await mallory.say(frames.Hold(f"queue:{number}"))
                if mallory.end:
                    break
        assert "holds more than" in await mallory.until_ended()


async def test_a_flood_of_long_holds_is_bounded_in_bytes(network: Network) -> None:
    await chain(network)
    async with undisturbed(network), bounded(network), thief(network) as mallory:
        with contextlib.suppress(ConnectionError):
            for number in range(5_000):
                await mallory.say(frames.Hold(f"topic:{number}{'n' * 4000}"))
                if mallory.end:
                    break
        assert "4194304 bytes of them" in await mallory.until_ended()
