"""A Mosquitto that was started again has forgotten its shared subscriptions until their clients are back.

It answers for a queue's message with 'nobody reads it' and throws it away; the node keeps it.
"""

from collections.abc import Callable
from typing import Any

from harness import Network, waiting
from mosquitto_clients import Listener, joined
from mosquitto_server import DISCOVERY, MosquittoServer
from quick import numbers

SAFE = (*DISCOVERY, "autosave_on_changes true", "autosave_interval 1")
READER = ("-t", "$share/tills/queue/labels", "-q", "1", "-c", "-i", "printer", "-x", "3600")


def _state(status: dict[str, Any]) -> str:
    return str(status["site_broker"]["state"])


async def test_what_the_broker_throws_away_comes_when_its_reader_is_back(
    network: Network, broker: Callable[..., MosquittoServer]
) -> None:
    york = broker("york", *SAFE)
    network.add("hq")
    network.add("york", "hq", site_broker={"uri": york.uri})
    await network.start()
    await joined(network, "york")
    with Listener(york.port, *READER) as printer:
        await network.until_known("hq", "queue:labels")
        await network.send("hq", "queue:labels", [b"first"])
        await printer.until(1)
        york.stop()
        printer.kill()
        await network.until("york", lambda status: _state(status) == "waiting", "without its broker")
        await network.send("hq", "queue:labels", numbers(30))
        await network.until("york", lambda status: waiting(status) == 30, "keeping all for the printer")
        york.start()
        await network.until("york", lambda status: _state(status) == "running", "with its broker")
        await joined(network, "york")
        await network.until(
            "york", lambda status: not status["site_broker"]["unanswered"], "told that nobody reads"
        )
        printer.start()
        await printer.until(31)
        assert sorted(printer.payloads()) == sorted(["first", *(each.decode() for each in numbers(30))])
    for name in ("hq", "york"):
        assert (await network.status(name))["dead"]["messages"] == 0
