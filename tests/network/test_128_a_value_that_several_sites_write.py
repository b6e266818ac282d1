"""A retained topic that several sites write: who comes later is given the last value, or none.

Nobody reads the topic at the site that had written it before.
"""

from collections.abc import Callable
from typing import Any

from harness import Network
from mosquitto_clients import Listener, joined, publish, takes
from mosquitto_server import MosquittoServer

Start = Callable[..., MosquittoServer]


async def until_given(network: Network, name: str, count: int) -> None:
    """Wait until a node has given so much to its broker, and has taken out what nobody there reads."""

    def settled(status: dict[str, Any]) -> bool:
        site = status["site_broker"]
        rest = site["waiting"] + site["unanswered"] + site["retained_from_tree"]
        return site["state"] == "running" and site["given"] >= count and not rest

    await network.until(name, settled, f"having given {count}")


async def until_answered(network: Network, name: str) -> None:
    """Wait until the broker has confirmed all: a node that is killed before gives it again."""
    await network.until(name, lambda status: not status["site_broker"]["waiting"], "answered by its broker")


async def given_later(network: Network, york: MosquittoServer, hq: MosquittoServer, count: int) -> list[str]:
    with Listener(york.port, "-t", "prices/#", "-q", "1", "-i", "late") as late:
        await takes(network, "hq", "prices/#")
        await late.until(count)
        publish(hq.port, "prices/end", b"end")
        await late.until(count + 1)
        return sorted(late.payloads())


async def test_what_is_changed_or_cleared_where_it_is_read_is_so_where_it_was_written(
    network: Network, pair: tuple[MosquittoServer, MosquittoServer]
) -> None:
    hq, york = pair
    with Listener(hq.port, "-t", "prices/#", "-q", "1", "-i", "office") as office:
        await takes(network, "york", "prices/#")
        for name in ("tea", "milk", "rum"):
            publish(york.port, f"prices/{name}", f"{name} of york".encode(), "-r")
        await office.until(3)
        await takes(network, "hq", "prices/tea")
        await takes(network, "hq", "prices/milk")
        publish(hq.port, "prices/tea", b"tea of hq", "-r")
        publish(hq.port, "prices/milk", b"", "-r")
        await until_given(network, "york", 2)
        assert await given_later(network, york, hq, 2) == ["end", "rum of york", "tea of hq"]


async def test_it_is_so_though_the_line_was_down_and_both_nodes_are_killed(
    network: Network, pair: tuple[MosquittoServer, MosquittoServer]
) -> None:
    hq, york = pair
    with Listener(hq.port, "-t", "prices/#", "-q", "1", "-i", "office") as office:
        await takes(network, "york", "prices/#")
        for name in ("tea", "milk"):
            publish(york.port, f"prices/{name}", b"of york", "-r")
        await office.until(2)
        await until_answered(network, "hq")
        await takes(network, "hq", "prices/tea")
        await takes(network, "hq", "prices/milk")
        network.kill("york")
        publish(hq.port, "prices/tea", b"", "-r")
        publish(hq.port, "prices/milk", b"of hq", "-r")
        await network.until("north", lambda status: status["retained"] == 0, "told")
        for name in ("hq", "north"):
            network.kill(name)
        await network.start("hq", "north", "york")
        await joined(network, "hq", "york")
        await until_given(network, "york", 2)
        assert await given_later(network, york, hq, 1) == ["end", "of hq"]


async def test_siblings_have_one_truth_with_scope_tree(network: Network, broker: Start) -> None:
    servers = {name: broker(name) for name in ("hq", "york", "leeds")}
    for name, server in servers.items():
        network.add(
            name,
            "" if name == "hq" else "hq",
            site_broker={"uri": server.uri},
            delivery={"destinations": [{"pattern": "topic:prices/#", "scope": "tree"}]},
        )
    await network.start()
    await joined(network, *servers)
    for name in ("york", "leeds"):
        await takes(network, name, "prices/#")
    publish(servers["york"].port, "prices/tea", b"of york", "-r")
    await network.until("hq", lambda status: status["retained"] == 1, "told of york's")
    publish(servers["leeds"].port, "prices/tea", b"of leeds", "-r")
    await until_given(network, "york", 1)
    for name in ("york", "leeds", "hq"):
        with Listener(servers[name].port, "-t", "prices/#", "-q", "1", "-i", "late") as late:
            await late.until(1)
            assert set(late.payloads()) == {"of leeds"}
    publish(servers["york"].port, "prices/tea", b"", "-r")
    await network.until("hq", lambda status: status["retained"] == 0, "told of the clearing")
    await network.until(
        "leeds", lambda status: status["retained"] == 0 and not status["site_broker"]["waiting"], "told, too"
    )
    with Listener(servers["leeds"].port, "-t", "prices/#", "-q", "1", "-i", "late") as late:
        await network.until(
            "leeds", lambda status: "topic:prices/#" in status["site_broker"]["consumers"], "reading"
        )
        publish(servers["hq"].port, "prices/end", b"end")
        publish(servers["leeds"].port, "prices/end", b"end")
        await late.until(1)
        assert set(late.payloads()) == {"end"}
