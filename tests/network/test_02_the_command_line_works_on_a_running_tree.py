"""HQ and a store as in the README, driven by nothing but the command line."""

import asyncio
import json
from typing import Any

from commands import ran
from harness import Network, child_state


async def answer(*arguments: str) -> Any:
    code, output, errors = await ran(*arguments, "--json")
    assert code == 0, errors.decode()
    return json.loads(output)


async def pair(network: Network) -> tuple[str, str]:
    """HQ and a store that is linked with it; their URLs."""
    network.add("hq")
    network.add("york", "hq")
    await network.start()
    return network.url("hq"), network.url("york")


async def look_at(network: Network, hq: str) -> None:
    """With a store that runs."""
    code, output, _ = await ran("status", hq)
    assert code == 0
    assert b"york" in output
    checked = await answer("node", "check", str(network.nodes["york"].file))
    found = {finding["subject"]: finding for finding in checked["findings"]}
    assert "in use by this node" in found["port"]["text"]
    assert "in use by process" in found["store"]["text"]
    assert found["parent"]["state"] == "ok"


async def test_what_is_sent_at_hq_is_received_in_the_store_and_does_not_come_again(network: Network) -> None:
    hq, york = await pair(network)
    assert (await answer("status", york))["chain"] == ["york", "hq"]
    await look_at(network, hq)
    waiting = asyncio.create_task(ran("receive", "queue:prices", "--url", york, "--wait", "30"))
    code, output, errors = await ran("send", "queue:prices", "four pence", "--url", hq)
    assert (code, output) == (0, b"1 message sent to queue:prices\n"), errors
    assert (await waiting)[:2] == (0, b"four pence\n")
    await ran("send", "queue:offers", "-", "--lines", "--url", hq, given=b"one\ntwo\nthree\n")
    assert (await ran("receive", "queue:offers", "--url", york))[1] == b"one\n"
    await network.restart("york")
    assert (await ran("receive", "queue:offers", "--count", "2", "--url", york))[1] == b"two\nthree\n"


async def test_lines_files_and_bytes_arrive_as_they_are_and_too_few_are_a_failure(network: Network) -> None:
    hq, york = await pair(network)
    code, _, errors = await ran("send", "queue:prices", "-", "--lines", "--url", hq, given=b"one\ntwo\n")
    assert code == 0, errors
    binary = network.folder / "binary"
    binary.write_bytes(b"\xff\x00")
    assert (await answer("send", "queue:prices", "--file", str(binary), "--url", hq))["sent"] == 1
    code, output, errors = await ran("receive", "queue:prices", "--count", "3", "--json", "--url", york)
    assert code == 0, errors
    got = [json.loads(line) for line in output.splitlines()]
    assert [message["payload"] for message in got] == ["one", "two", "/wA="]
    assert got[2]["encoding"] == "base64"
    assert {message["origin"] for message in got} == {"hq"}
    await ran("send", "queue:offers", "one", "--url", hq)
    code, output, errors = await ran("receive", "queue:offers", "--count", "2", "--wait", "1", "--url", hq)
    assert (code, output) == (1, b"one\n")
    assert b"1 of 2 messages came within 1 s" in errors


async def test_a_topic_that_is_published_says_how_far_it_goes(network: Network) -> None:
    hq, york = await pair(network)
    code, output, errors = await ran("send", "topic:prices", "four pence", "--url", york)
    assert code == 0, errors
    assert output.splitlines() == [
        b"1 message sent to topic:prices",
        b"0 readers here, 0 neighbours onward, scope vertical",
    ]
    reading = asyncio.create_task(ran("receive", "topic:prices", "--url", hq, "--count", "2", "--wait", "30"))
    await network.until("york", lambda status: status["parent"]["routes"], "hq asks for prices")
    told = await answer("send", "topic:prices", "five pence\nsix pence", "--lines", "--url", york)
    assert told["sent"] == 2
    assert told["reach"] == {"readers": 0, "onward": 1, "passed_by": 0, "scope": "vertical"}
    assert (await reading)[:2] == (0, b"five pence\nsix pence\n")


async def test_a_child_leaves_for_good_and_another_is_forgotten(network: Network) -> None:
    hq, york = await pair(network)
    network.add("bath", "hq")
    await network.start("bath")
    assert (await answer("node", "leave", "--url", york))["left"] == "hq"
    assert await network.nodes["york"].exited() == 0
    await network.until("hq", lambda status: child_state(status, "york") == "", "without york")
    code, _, errors = await ran("node", "forget", "bath", "--url", hq)
    assert code == 1
    assert b"is connected" in errors
    network.kill("bath")
    await network.until_child("hq", "bath", "down")
    await answer("node", "forget", "bath", "--url", hq)
    assert child_state(await network.status("hq"), "bath") == ""
