"""Permits are shown and changed on a running tree, by command and by signal; no link is dropped."""

import asyncio
import json
import signal
from typing import Any

from commands import ran
from harness import Network, receiving, until_count
from hostile import WITNESS, undisturbed, until_logged
from quick import QUICK_LINK, numbers

SITE: dict[str, Any] = {"link": QUICK_LINK | {"dead_after": "20s"}}
SEND = ["store/{name}/#", "queue:last-word"]
PERMITS: dict[str, Any] = {"consume": ["prices/#"], "send": SEND}


async def sapwood(*arguments: str) -> tuple[int, str]:
    """Run a command; return exit code, and output with errors."""
    code, output, _ = await ran(*arguments, together=True)
    return code, output.decode()


async def answer(*arguments: str) -> Any:
    code, output, errors = await ran(*arguments, "--json")
    assert code == 0, errors
    return json.loads(output)


def routes(status: Any, name: str) -> int:
    return int(status["routes"].get(f"topic/{name}", 0))


async def chain(network: Network) -> None:
    """hq with permits; below it uk, with its stores york and the witness."""
    network.add("hq", permits=PERMITS | {"nodes": ["york", WITNESS]}, **SITE)
    network.add(
        "uk", "hq", role="branch", permits={"consume": ["prices/#", "payroll/#"], "send": SEND}, **SITE
    )
    for store in ("york", WITNESS):
        network.add(store, "uk", **SITE)
    await network.start()


async def nobody_had(network: Network, count: int) -> None:
    """Wait until so many messages of topics found no subscriber, at headquarters or at uk."""
    async with asyncio.timeout(180):
        unmatched = 0
        while unmatched < count:
            both = [await network.status(name) for name in ("hq", "uk")]
            unmatched = sum(status["counters"]["unmatched"] for status in both)


async def test_routes_go_and_come_back_as_permits_change(network: Network) -> None:
    await chain(network)
    uk = network.url("uk")
    async with (
        undisturbed(network, "uk"),
        network.client("york") as york,
        receiving(york, "topic:prices/#") as prices,
        receiving(york, "topic:payroll/#") as payroll,
    ):
        await network.until("uk", lambda status: routes(status, "york") == 1, "with york's prices")
        await network.send("hq", "topic:prices/tea", numbers(3))
        await until_count(prices, 3)

        shown = await answer("permits", "show", "york", "--url", uk)
        (child,) = shown["children"]
        assert [grant["by"] for grant in child["grants"]] == ["uk", "hq"]
        assert [grant["by"] for grant in shown["granted"]] == ["hq"]
        assert "PERMIT: hq lets uk consume prices/#" in [each["rule"] for each in child["refusals"]]
        itself = await answer("permits", "show", "--url", network.url("york"))
        assert [(grant["by"], grant["child"]) for grant in itself["granted"]] == [
            ("uk", "york"),
            ("hq", "uk"),
        ]

        done = await answer("permits", "set", "york", "--consume", "nothing", "--url", uk)
        assert done["set"]
        assert done["grants"][0]["consume"] == ["nothing"]
        await network.until("uk", lambda status: routes(status, "york") == 0, "without york's prices")
        await network.send("hq", "topic:prices/tea", numbers(3))
        await nobody_had(network, 3)

        code, text = await sapwood("permits", "unset", "york", "--node", "uk", "--url", network.url("hq"))
        assert code == 0, text
        assert "york (running)" in text
        await network.until("uk", lambda status: routes(status, "york") == 1, "with york's prices again")
        await network.send("hq", "topic:prices/tea", [b"last"])
        await until_count(prices, 4)
        assert [each.payload for each in prices] == [*numbers(3), b"last"]

        changed = PERMITS | {"nodes": ["*"], "consume": ["payroll/#"]}
        network.configure("hq", permits=changed)
        network.nodes["hq"].signal(signal.SIGHUP)
        await until_logged(network, "hq", "the file was read again")
        await network.until("uk", lambda status: routes(status, "york") == 1, "with york's payroll")
        await network.until("hq", lambda status: routes(status, "uk") == 1, "with uk's payroll")
        await network.send("hq", "topic:payroll/may", numbers(2))
        await network.send("hq", "topic:prices/tea", numbers(2))
        await until_count(payroll, 2)
        assert len(prices) == 4
        await until_logged(network, "york", "refuses")


async def test_commands_say_what_is_wrong(network: Network) -> None:
    await chain(network)
    uk, york = network.url("uk"), network.url("york")
    for arguments, expected, text in (
        (("set", "york"), 2, "nothing to set"),
        (("set", "york", "--consume", "till@hq"), 2, "its own nodes"),
        (("set", "york", "--send", "a+"), 2, "is no permit"),
        (("unset", "york"), 1, "no permit was set for 'york'"),
        (("show", "a b"), 2, "no node name"),
    ):
        code, said = await sapwood("permits", *arguments, "--url", uk)
        assert (code, text in said) == (expected, True), said
    code, said = await sapwood("permits", "show", "--url", uk)
    assert code == 0
    assert f"{WITNESS} (running)" in said
    code, said = await sapwood("permits", "show", "--url", york)
    assert "york itself may do what all of these allow" in said
    file = network.nodes["uk"].file
    right = file.read_text(encoding="utf-8")
    file.write_text(right.replace("payroll/#", "payroll/#/+x"), encoding="utf-8")
    code, said = await sapwood("permits", "reload", "--url", uk)
    assert code == 1
    assert "payroll/#/+x" in said
    file.write_text(right, encoding="utf-8")
    assert await answer("permits", "reload", "--url", uk) == {
        "node": "uk",
        "enforced": True,
        "turned_away": [],
        "needs_restart": [],
    }


async def test_a_store_that_the_file_names_no_more_is_turned_away_at_once(network: Network) -> None:
    named = [{"name": name} for name in ("york", WITNESS)]
    network.add("hq", children=named, **SITE)
    for store in ("york", WITNESS):
        network.add(store, "hq", **SITE)
    await network.start()
    async with undisturbed(network):
        network.configure("hq", children=named[1:])
        done = await answer("permits", "reload", "--url", network.url("hq"))
        assert done["turned_away"] == ["york"]
        await network.until_child("hq", "york", "down")
        await network.until(
            "york", lambda status: "no permit" in str(status["parent"]), "told that it has no permit"
        )


async def test_a_branch_that_was_cut_off_still_keeps_to_what_it_was_granted(network: Network) -> None:
    await chain(network)
    async with network.client("york") as york, receiving(york, "topic:payroll/#") as payroll:
        assert await network.stop("hq") == 0
        assert await network.stop("uk") == 0
        await network.launch("uk")
        await network.until_child("uk", "york")
        await network.send("uk", "topic:payroll/may", numbers(2))
        await network.send("uk", "queue:till@york", numbers(1))
        assert await network.collect("york", "queue:till", 1) == numbers(1)
        assert payroll == []
