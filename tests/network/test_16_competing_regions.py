"""Of two readers of one queue in two regions, one gets everything new while the other's region is away."""

from harness import Network, until_count, waiting
from quick import QUICK_SITE, Record, numbers, recording

from broker.cli.demo.processes import Status


def _dormant(status: Status, child: str) -> bool:
    return any(link["name"] == child and link["dormant"] for link in status["children"])


def _got(*records: Record) -> list[bytes]:
    """What all readers together got, in a fixed order."""
    return sorted(payload for record in records for payload in record.payloads)


async def test_the_other_region_serves_what_is_new_and_nothing_is_lost(network: Network) -> None:
    network.add("hq", **QUICK_SITE)
    for region, store in (("north", "york"), ("south", "bath")):
        network.add(region, "hq", role="branch", line=True, **QUICK_SITE)
        network.add(store, region, **QUICK_SITE)
    await network.start()
    async with (
        network.client("hq") as hq,
        network.client("york") as york,
        network.client("bath") as bath,
        recording(york, "queue:orders") as at_york,
    ):
        await network.until_known("hq", "queue:orders")
        async with recording(bath, "queue:orders") as at_bath:
            await network.until("hq", lambda status: _routes(status) == 2, "told of both readers")
            for burst in range(20):
                await hq.send_many("queue:orders", numbers(10, f"both-{burst}-"))
            both = [payload for burst in range(20) for payload in numbers(10, f"both-{burst}-")]
            await until_all(both, at_york, at_bath)
            assert min(len(at_york.payloads), len(at_bath.payloads)) >= 50
            await network.line("north").cut()
            await hq.send_many("queue:orders", numbers(300, "cut-"))
            await network.until("hq", lambda status: _dormant(status, "north"), "sure that north is away")
            served = len(at_bath.payloads)
            await hq.send_many("queue:orders", numbers(500, "away-"))
            await until_count(at_bath.payloads, served + 500)
            assert set(numbers(500, "away-")) <= set(at_bath.payloads)
        await network.until("hq", lambda status: _routes(status) == 1, "told that bath reads no more")
        await hq.send_many("queue:orders", numbers(200, "nobody-"))
        kept = await network.status("hq")
        assert waiting(kept) >= 200
        await network.line("north").restore()
        everything = both + numbers(300, "cut-") + numbers(500, "away-") + numbers(200, "nobody-")
        await until_all(everything, at_york, at_bath)
        assert set(numbers(200, "nobody-")) <= set(at_york.payloads)
        assert not at_york.twice
        assert not at_bath.twice
    for name in ("hq", "north", "south", "york", "bath"):
        await network.until_drained(name)


def _routes(status: Status) -> int:
    """How many child routes a node has for queues."""
    return sum(count for key, count in status["routes"].items() if key.startswith("queue/"))


async def until_all(payloads: list[bytes], *records: Record) -> None:
    """Wait until the readers together have these messages, each once."""
    arrived = _Together(records)
    await until_count(arrived, len(payloads))
    assert _got(*records) == sorted(payloads)


class _Together:
    """The length of several records together."""

    def __init__(self, records: tuple[Record, ...]) -> None:
        self._records = records

    def __len__(self) -> int:
        return sum(len(record.payloads) for record in self._records)
