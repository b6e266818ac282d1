"""Discovery before it is known how the broker writes its log, and where its answers overtake that."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest
from rabbitmq_site import FakeDesk

from bridges.site_brokers.base import BrokerDelivery, Setup
from bridges.site_brokers.mosquitto import discovery
from bridges.site_brokers.mosquitto.connection import Received
from bridges.site_brokers.mosquitto.consumers import ClientOnDisk
from bridges.site_brokers.mosquitto.discovery import Fate, LogDiscovery
from bridges.site_brokers.mosquitto.log_lines import SUBSCRIBE
from bridges.site_brokers.mosquitto.names import Names
from config.model import SiteBroker
from sapwood.protocol.bundles import Message, Properties
from sapwood.protocol.destinations import parse

READS: Final = "$share/tills/queue/labels"
LABEL: Final = BrokerDelivery(1, parse("queue:labels"), Message(b"x", Properties()), True, False, False)


async def made() -> LogDiscovery:
    setup = SimpleNamespace(max_consumers=100, settings=SimpleNamespace(discovery="automatic"))
    memory = SimpleNamespace(clients={})
    return LogDiscovery(
        cast("Any", setup), cast("Any", None), cast("Any", memory), cast("Any", None), lambda: None
    )


async def heard(found: LogDiscovery, count: int, line: bytes) -> list[tuple[str, bytes]]:
    for _ in range(count):
        found.heard(Received(discovery.LOGS[0], line, 0, False, False, 0, cast("Any", None), ()))
    return found._early


async def test_lines_that_cannot_be_read_yet_are_kept_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "_MOST_EARLY", 10)
    assert len(await heard(await made(), 50, b"New client connected")) == 10


async def test_lines_that_cannot_be_read_yet_are_kept_up_to_a_size() -> None:
    """Whoever writes there writes lines of a megabyte."""
    early = await heard(await made(), 50, bytes(1024 * 1024))
    assert 14 * 1024 * 1024 < sum(len(payload) for _, payload in early) <= 16 * 1024 * 1024


async def with_reader(desk: FakeDesk) -> LogDiscovery:
    """One that knows till-1 as a reader of queue:labels from the connection before this one."""
    setup = Setup(
        "test", "york", "store", Path("unused"), SiteBroker(uri="mqtt://x"), None, None, 5.0, 1, 100
    )
    kept = {"till-1": ClientOnDisk([READS], False, True)}
    memory = cast("Any", SimpleNamespace(clients=kept))
    found = LogDiscovery(setup, Names(setup.settings, setup.node), memory, desk, lambda: None)
    found.tells = found._began = True
    desk.complete(found._consumers())
    return found


def subscribes(found: LogDiscovery, client: str) -> None:
    line = f"1700000000: {client} 1 {READS}".encode()
    found.heard(Received(SUBSCRIBE, line, 0, False, False, 0, cast("Any", None), ()))


async def test_lines_from_before_a_gap_make_nobody_sure() -> None:
    """The broker kept the first lines of our absence and not the others, as where our rights were taken away:
    of who is in them it is not known any better whether he is there.
    """
    desk = FakeDesk()
    found = await with_reader(desk)
    found.tells = found._began = False
    found._ear, found.table.own = cast("Any", SimpleNamespace(id="ear")), {"ear"}
    subscribes(found, "gone")
    subscribes(found, "ear")
    assert found.table.counted(True, 1) == []
    assert [client for client, _ in found.table.consumers()] == ["till-1", "gone"]


async def test_who_subscribed_again_before_the_answer_to_a_message_from_before_stays() -> None:
    """The broker has started: it throws away what it is given until till-1 is back, and its answers come on
    another line than its log.
    """
    desk = FakeDesk()
    found = await with_reader(desk)
    since = found.table.moment
    subscribes(found, "till-1")
    assert found.nobody(LABEL, "queue/labels", since) == Fate.AGAIN
    assert desk.destinations == {"queue:labels"}
    assert found.nobody(LABEL, "queue/labels", found.table.moment) == Fate.ELSEWHERE
    assert desk.destinations == set()


async def test_who_has_not_subscribed_again_is_withdrawn_and_the_others_stay() -> None:
    desk = FakeDesk()
    found = await with_reader(desk)
    since = found.table.moment
    subscribes(found, "till-2")
    assert found.nobody(LABEL, "queue/labels", since) == Fate.AGAIN
    assert {consumer.id for consumer in desk.consumers} == {f"till-2 {READS}"}
