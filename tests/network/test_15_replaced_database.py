"""A machine that is replaced, a database put back from a backup, a disk image that is started twice."""

import json
import shutil
from pathlib import Path

from harness import Network, child_state, receiving, until_count

NUMBERS = [str(number).encode() for number in range(200)]
QUICKLY = {"link": {"keep_alive": "1s", "dead_after": "5s"}, "advisories": {"dormant_after": "300ms"}}


def _gaps(status: dict[str, object], child: str) -> int:
    children = status["children"]
    assert isinstance(children, list)
    return next(int(each["gaps"]) for each in children if each["name"] == child)


def _add_secret(network: Network, name: str) -> None:
    """Let the node prove itself with the secret in the file `secret`."""
    site = network.nodes[name].file
    broker = json.loads(site.read_text(encoding="utf-8"))["broker"]
    broker["tree_connectors"][0]["secret_file"] = "secret"
    site.write_text(json.dumps({"broker": broker}), encoding="utf-8")


def _twin(network: Network, name: str, data: Path) -> str:
    """A second machine with the same file, but for its port and its data."""
    twin = f"{name}-twin"
    network.add(twin, network.parents[name])
    broker = json.loads(network.nodes[name].file.read_text(encoding="utf-8"))["broker"]
    broker |= {"data": str(data), "listener": {"port": network.ports[twin]}}
    network.nodes[twin].file.write_text(json.dumps({"broker": broker}), encoding="utf-8")
    return twin


async def test_a_machine_is_replaced(network: Network) -> None:
    """Empty database, same name and credential: it takes the old one's place, and what was kept comes."""
    secrets = network.folder / "secret"
    secrets.write_text("a shared secret", encoding="utf-8")
    network.add("hq", children=[{"name": "york", "secret_file": "secret"}], **QUICKLY)
    network.add("york", "hq", **QUICKLY)
    _add_secret(network, "york")
    await network.start()
    async with network.client("york") as york, receiving(york, "queue:prices") as prices:
        await network.send("hq", "queue:prices", NUMBERS)
        await until_count(prices, 200)
        await network.until_drained("hq")
        await network.until_drained("york")
    network.kill("york")
    await network.until_child("hq", "york", "down")
    await network.send("hq", "queue:prices@york", NUMBERS)
    shutil.rmtree(network.data("york"))
    await network.start("york")
    assert await network.collect("york", "queue:prices", 200) == NUMBERS
    await network.send("york", "queue:sales", NUMBERS)
    assert await network.collect("hq", "queue:sales", 200) == NUMBERS
    await network.until_drained("york")
    status = await network.until_drained("hq")
    assert child_state(status, "york") == "running"
    assert status["dead"]["messages"] == 0


async def test_a_database_is_restored_from_yesterdays_backup(network: Network) -> None:
    """What both did since does not match: it is counted, nothing new is taken for known, work goes on."""
    network.add("hq", **QUICKLY)
    network.add("york", "hq", **QUICKLY)
    await network.start()
    await network.send("york", "queue:sales", NUMBERS[:50])
    assert await network.stop("york") == 0
    backup = network.folder / "backup"
    shutil.copytree(network.data("york"), backup)
    await network.start("york")
    await network.send("york", "queue:sales", NUMBERS[50:100])
    await network.send("hq", "queue:prices@york", NUMBERS[:50])
    assert await network.collect("york", "queue:prices", 50) == NUMBERS[:50]
    await network.until("hq", lambda status: status["queues"][0]["messages"] == 100, "given all sales")
    await network.until("hq", lambda status: not status["children"][0]["outbox"], "told that york has them")
    network.kill("york")
    shutil.rmtree(network.data("york"))
    shutil.copytree(backup, network.data("york"))
    await network.start("york")
    status = await network.until("hq", lambda status: _gaps(status, "york") == 1, "aware of the gap")
    assert status["children"][0]["epoch"] == 1
    await network.send("york", "queue:sales", NUMBERS[100:])
    await network.send("hq", "queue:prices@york", NUMBERS[50:])
    assert await network.collect("hq", "queue:sales", 200) == NUMBERS
    assert await network.collect("york", "queue:prices", 150) == NUMBERS[50:]


async def test_a_disk_image_is_started_twice(network: Network) -> None:
    """The first keeps its link; the second is refused, and both sides say why."""
    network.add("hq", **QUICKLY)
    network.add("york", "hq", **QUICKLY)
    network.add("leeds", "hq", **QUICKLY)
    await network.start()
    assert await network.stop("york") == 0
    image = network.folder / "data" / "clone"
    shutil.copytree(network.data("york"), image)
    await network.start("york")
    why = "a copy of its database is running already"
    clone = _twin(network, "york", image)
    await network.launch(clone)
    await network.until(
        clone,
        lambda status: why in status["parent"]["dialling"]["error"],
        "refused as a clone",
    )
    status = await network.until_child("hq", "york")
    assert _gaps(status, "york") == 0
    assert why in network.nodes["hq"].last_words(50)
    await network.send("york", "queue:sales", NUMBERS)
    assert await network.collect("hq", "queue:sales", 200) == NUMBERS
    network.kill("york")
    await network.nodes.until_linked(clone)
