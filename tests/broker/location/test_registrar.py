"""What a registrar removes and adds, on a directory in memory that answers as a zone does."""

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from dns.rdtypes.ANY.TXT import TXT
from dns.rdtypes.IN.SRV import SRV

from bridges.dns.errors import LocationError
from bridges.dns.records import NamedParent
from bridges.dns.zone import Records, records_of, understood
from broker.location.registrar import Registrar, own_places
from config.model import Link, Listener, Registration, Site

SITE = Site(
    name="north",
    tree="acme",
    listener=Listener(public_uri="wss://north.example.com", addresses=("mqtts://lte.example.com",)),
    registration=Registration(domain="uk.example.com", lease=100.0),
    link=Link(backoff_initial=0.001, backoff_max=0.001),
)
SIBLING = NamedParent("wss://south.example.com:7600/link", 10, 10, "acme", "south", "0f", "1", 100.0)


class Memory:
    """A domain's records in memory. `errors`: raised by the next calls, one each."""

    def __init__(self, *places: NamedParent) -> None:
        self.records: dict[str, Any] = {}
        self.errors: list[LocationError] = []
        self.changes = 0
        self._put(places)

    def _put(self, places: Iterable[NamedParent]) -> None:
        for place in places:
            for record in records_of(place):
                self.records[f"{type(record).__name__} {record.to_text()}"] = record

    async def read(self) -> Records:
        if self.errors:
            raise self.errors.pop(0)
        services = tuple(each for each in self.records.values() if isinstance(each, SRV))
        texts = tuple(each for each in self.records.values() if isinstance(each, TXT))
        return Records(services, tuple(understood(each, services) for each in texts))

    async def change(self, remove: Iterable[Any], add: Iterable[NamedParent], ttl: int) -> None:
        assert ttl == 25
        self.changes += 1
        for record in remove:
            del self.records[f"{type(record).__name__} {record.to_text()}"]
        self._put(add)

    def put(self, place: NamedParent) -> None:
        self._put([place])

    async def places(self) -> list[NamedParent]:
        found = await self.read()
        assert len(found.services) == len(found.texts)
        return [each.place for each in found.texts if each.place is not None]


def registrar(memory: Memory, now: list[float] | None = None, site: Site = SITE) -> Registrar:
    clock = now or [0.0]
    return Registrar(site, "aa" * 16, memory, lambda: clock[0])


async def test_every_address_is_registered_in_order() -> None:
    memory = Memory()
    await registrar(memory).renew()
    assert [(place.uri, place.priority, place.node, place.beat) for place in await memory.places()] == [
        ("wss://north.example.com:7600/link", 10, "north", "1"),
        ("mqtts://lte.example.com:8883", 11, "north", "1"),
    ]


async def test_a_renewal_changes_the_beat_and_leaves_nothing_behind() -> None:
    memory = Memory()
    keeper = registrar(memory)
    for _ in range(3):
        await keeper.renew()
    assert await memory.places() == own_places(SITE, "aa" * 16, 3)


async def test_what_an_earlier_start_has_left_goes_at_once() -> None:
    moved = replace(SITE, listener=Listener(public_uri="wss://elsewhere.example.com"))
    memory = Memory(*own_places(moved, "bb" * 16, 7), SIBLING)
    await registrar(memory).renew()
    assert {place.uri for place in await memory.places()} == {
        *("wss://north.example.com:7600/link", "mqtts://lte.example.com:8883", SIBLING.uri)
    }


async def test_a_sibling_is_swept_when_its_lease_is_over_and_not_before() -> None:
    memory, now = Memory(SIBLING), [0.0]
    keeper = registrar(memory, now)
    await keeper.renew()
    now[0] = 100.0
    await keeper.renew()
    assert SIBLING in await memory.places()
    now[0] = 126.0
    await keeper.renew()
    assert SIBLING not in await memory.places()
    assert keeper.status()["swept"] == 1


async def test_a_sibling_that_renews_stays() -> None:
    memory, now = Memory(SIBLING), [0.0]
    keeper = registrar(memory, now)
    for beat in range(1, 8):
        memory.records = {key: each for key, each in memory.records.items() if "south" not in key}
        memory.put(replace(SIBLING, beat=str(beat)))
        await keeper.renew()
        now[0] += 100.0
    assert keeper.swept == 0


async def test_what_was_written_by_hand_is_left_alone() -> None:
    by_hand = NamedParent("wss://hand.example.com:7600/link")
    memory, now = Memory(by_hand), [0.0]
    keeper = registrar(memory, now)
    await keeper.renew()
    now[0] = 1e9
    await keeper.renew()
    assert by_hand in [replace(place, lease=0.0) for place in await memory.places()]


async def test_a_service_that_two_nodes_name_stays_until_the_second_goes() -> None:
    """Behind one host and port, as after a takeover."""
    shared = replace(SIBLING, uri="wss://north.example.com:7600/link", node="south")
    memory = Memory(shared)
    keeper = registrar(memory)
    await keeper.renew()
    await keeper.withdraw()
    found = await memory.read()
    assert [each.place for each in found.texts] == [shared]
    assert len(found.services) == 1


async def test_cancelling_withdraws_only_what_this_start_has_registered() -> None:
    memory = Memory(SIBLING)
    keeper = registrar(memory)
    running = asyncio.create_task(keeper.run())
    while keeper.state != "registered":
        await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await memory.places() == [SIBLING]
    assert keeper.state == "withdrawn"


async def test_a_failure_is_kept_in_the_status_and_tried_again() -> None:
    memory = Memory()
    memory.errors = [LocationError("no"), LocationError("no")]
    keeper = registrar(memory)
    running = asyncio.create_task(keeper.run())
    while keeper.failures < 2:
        await asyncio.sleep(0)
    assert (keeper.state, keeper.error) == ("waiting", "no")
    while keeper.state != "registered":
        await asyncio.sleep(0)
    assert (keeper.failures, keeper.error) == (0, "")
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_what_was_never_registered_is_not_withdrawn() -> None:
    memory = Memory()
    memory.errors = [LocationError("no")] * 1000
    keeper = registrar(memory)
    running = asyncio.create_task(keeper.run())
    while keeper.failures < 1:
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert memory.changes == 0
    assert repr(keeper) == "<Registrar uk.example.com waiting renewals=0>"
