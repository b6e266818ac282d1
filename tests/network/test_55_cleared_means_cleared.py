"""Who joins later is given the last retained message or none, whatever happened while nobody read there."""

from collections.abc import Callable
from typing import Any

from harness import Network
from mosquitto_clients import Listener, joined, knows, publish, retains, takes
from mosquitto_server import MosquittoServer


async def nobody_reads(network: Network, *names: str) -> None:
    """Wait until nothing is taken for anybody, and the brokers have lost what they had of the tree."""

    def holds(status: dict[str, Any]) -> bool:
        site = status["site_broker"]
        return site["taking"] == ["node/+/#"] and not site["wanted"] and not site["retained_from_tree"]

    for name in names:
        await network.until(name, holds, "alone with its broker")


async def given_later(
    network: Network, hq: MosquittoServer, york: MosquittoServer, retained: int = 0
) -> list[str]:
    """What who joins at the store now is given: so much that is retained, then what is published at HQ."""
    with Listener(york.port, "-t", "prices/#", "-q", "1", "-i", "second") as second:
        await takes(network, "hq", "prices/#")
        await second.until(retained)
        publish(hq.port, "prices/end", b"end")
        await second.until(retained + 1)
        return second.payloads()


async def test_what_was_cleared_or_changed_while_nobody_read_it_is_not_given_as_it_was(
    network: Network, pair: tuple[MosquittoServer, MosquittoServer]
) -> None:
    hq, york = pair
    for name in ("tea", "milk", "rum"):
        publish(hq.port, f"prices/{name}", b"old", "-r")
    with Listener(york.port, "-t", "prices/#", "-q", "1", "-i", "first") as first:
        await first.until(3)
        publish(hq.port, "prices/rum", b"", "-r")
        await first.until(4)
        await network.until(
            "york", lambda status: status["site_broker"]["retained_from_tree"] == 2, "left with two"
        )
    await nobody_reads(network, "hq", "york")
    publish(hq.port, "prices/milk", b"", "-r")
    publish(hq.port, "prices/tea", b"new", "-r")
    assert await given_later(network, hq, york, 1) == ["new", "end"]
    for name in ("hq", "north", "york"):
        await network.until(name, lambda status: status["retained"] == 0, "free of what nobody asks for")


async def test_what_an_application_retained_in_its_place_stays(
    network: Network, pair: tuple[MosquittoServer, MosquittoServer]
) -> None:
    hq, york = pair
    for name in ("tea", "milk"):
        publish(hq.port, f"prices/{name}", b"from hq", "-r")
    with Listener(york.port, "-t", "prices/#", "-q", "1", "-i", "first") as first:
        await first.until(2)
        publish(york.port, "prices/tea", b"of york itself", "-r")
        await first.until(3)
    await nobody_reads(network, "hq", "york")
    publish(hq.port, "prices/tea", b"", "-r")
    with Listener(york.port, "-t", "prices/+", "-q", "1", "-i", "second") as second:
        await second.until(2)
        assert sorted(second.payloads()) == ["from hq", "of york itself"]


async def test_what_was_given_just_before_the_node_was_killed_is_known_to_be_from_the_tree(
    network: Network, pair: tuple[MosquittoServer, MosquittoServer]
) -> None:
    hq, york = pair
    with Listener(york.port, "-t", "prices/#", "-q", "1", "-i", "first") as first:
        await takes(network, "hq", "prices/#")
        publish(hq.port, "prices/tea", b"old", "-r")
        await first.until(1)
        network.kill("york")
    await network.start("york")
    await joined(network, "york")
    await nobody_reads(network, "hq", "york")
    publish(hq.port, "prices/tea", b"", "-r")
    assert await given_later(network, hq, york) == ["end"]


async def test_what_went_out_of_date_while_the_node_was_away_is_taken_out_when_it_is_back(
    network: Network, pair: tuple[MosquittoServer, MosquittoServer]
) -> None:
    hq, york = pair
    publish(hq.port, "prices/tea", b"old", "-r")
    with Listener(york.port, "-t", "prices/#", "-q", "1", "-i", "first") as first:
        await first.until(1)
        await network.until("york", lambda status: status["site_broker"]["retained_from_tree"] == 1, "told")
        await network.stop("york")
        first.stop()
    publish(hq.port, "prices/tea", b"", "-r")
    await network.start("york")
    await joined(network, "york")
    await knows(network, "york")
    await nobody_reads(network, "hq", "york")
    assert await given_later(network, hq, york) == ["end"]


async def test_what_another_site_clears_or_changes_is_so_at_its_source_that_is_a_consumer_of_the_topic(
    network: Network, broker: Callable[..., MosquittoServer]
) -> None:
    hq, york = broker("hq"), broker("york")
    network.add("hq", site_broker={"uri": hq.uri, "consumers": ["topic:prices/#"]})
    network.add("york", "hq", site_broker={"uri": york.uri})
    await network.start()
    await joined(network, "hq", "york")
    for name in ("tea", "milk"):
        publish(hq.port, f"prices/{name}", b"old", "-r")
    with Listener(york.port, "-t", "prices/#", "-q", "1", "-i", "first") as first:
        await first.until(2)
    await network.until("york", lambda status: not status["site_broker"]["retained_from_tree"], "rid of both")
    publish(york.port, "prices/tea", b"", "-r")
    publish(york.port, "prices/milk", b"new", "-r")
    await retains(hq.port, "prices/tea", None)
    await retains(hq.port, "prices/milk", "new")
    with Listener(hq.port, "-t", "prices/#", "-q", "1", "-i", "second") as second:
        await second.until(1)
        publish(hq.port, "prices/end", b"end")
        await second.until(2)
        assert second.payloads() == ["new", "end"]
