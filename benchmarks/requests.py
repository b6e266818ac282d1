"""Requests through the brokers of two sites, beside calls between applications at the nodes there.

`python -m benchmarks.requests --help`. HQ is the root, with a RabbitMQ; the store a leaf, with a Mosquitto.
A round trip of the tree is a call (`Rpc.call`) from a client of one node to a server at the other, and each
request follows one in the same direction, so that both find the same machine. The forms are:

- `topic`: the store asks HQ by MQTT 5, with a response topic that it has read since the start
- `new-topic`: the same, with a new response topic for each request, which it subscribes to before it asks
- `reply-to`: HQ asks the store by AMQP, with a `reply_to` that is its own queue
- `direct`: the same, with direct reply-to, on a new channel for each request

Requesters and responders are paho-mqtt and pika, as the tests have them.
"""

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from statistics import quantiles
from typing import Any, Final, NamedTuple

from benchmarks.processes import PATIENCE, ROOT, Processes, free_port, get_json, machine, until
from sapwood import Rpc, connect
from sapwood.protocol.errors import SapwoodError

sys.path.insert(0, str(ROOT / "tests" / "brokers"))
sys.path.insert(0, str(ROOT / "tests" / "network"))

from callers import AmqpRequester, AmqpResponder, MqttRequester, MqttResponder
from mosquitto_server import DISCOVERY, MosquittoServer
from rabbitmq_server import RabbitServer
from rabbitmq_site import Applications

Row = dict[str, Any]
FORMS: Final = ("topic", "new-topic", "reply-to", "direct")


class Sites(NamedTuple):
    """Both nodes, by their ports, and both brokers."""

    hq: int
    store: int
    rabbit: RabbitServer
    mosquitto: MosquittoServer


def _site(folder: Path, name: str, port: int, broker: str, **more: Any) -> Path:
    made = {
        "name": name,
        "data": str(folder / f"data-{name}"),
        "listener": {"port": port},
        "site_broker": {"uri": broker} | more.pop("at", {}),
        "log": {"level": "warning"},
    }
    file = folder / f"{name}.yaml"
    file.write_text(json.dumps({"broker": made | more}))
    return file


def start(processes: Processes, folder: Path, rabbit: RabbitServer, mosquitto: MosquittoServer) -> Sites:
    """Start both nodes; returns when they are linked and at their brokers."""
    sites = Sites(free_port(), free_port(), rabbit, mosquitto)
    permits = {"consume": ["#"], "send": ["#", "#@*"], "nodes": ["*"]}
    parent = [{"nodetype": "leaf", "uri": f"ws://127.0.0.1:{sites.hq}/link"}]
    at = {"management": rabbit.management_uri}
    files = {
        "hq": _site(folder, "hq", sites.hq, rabbit.uri(), permits=permits, at=at),
        "store": _site(folder, "store", sites.store, mosquitto.uri, tree_connectors=parent),
    }
    for name, file in files.items():
        processes.python(name, "benchmarks.node_process", str(file))
    until("the node at hq", partial(_is_up, sites.hq), PATIENCE)
    until("the node at the store", partial(_is_up, sites.store, linked=True), PATIENCE)
    return sites


def _status(port: int) -> dict[str, Any]:
    return get_json(f"http://127.0.0.1:{port}/api/status") or {}


def _is_up(port: int, *, linked: bool = False) -> bool:
    status = _status(port)
    parent = (status.get("parent") or {}).get("state") == "running"
    return (parent or not linked) and (status.get("site_broker") or {}).get("state") == "running"


def _takes(port: int, name: str) -> bool:
    """Does this node take the queue from its broker?"""
    site = _status(port).get("site_broker") or {}
    return name in {*site.get("taking_queues", ()), *site.get("taking", ())}


async def _called(rpc: Rpc, service: str) -> float:
    """One round trip of the tree."""
    began = time.monotonic()
    assert await rpc.call(service, "answer", number=1) == 1
    return time.monotonic() - began


async def _until_served(rpc: Rpc, service: str) -> None:
    """The route is known; then the first calls are over, which make what later ones find."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await _called(rpc, service)
                return
            except SapwoodError:
                await asyncio.sleep(0.1)


def _row(form: str, asked: list[float], called: list[float]) -> Row:
    row: Row = {"form": form, "requests": len(asked)}
    for name, times in (("", asked), ("tree_", called)):
        cuts = quantiles(times, n=100, method="inclusive")
        row |= {f"{name}p50_ms": round(1000 * cuts[49], 2), f"{name}p99_ms": round(1000 * cuts[98], 2)}
    row["p50_times"] = round(row["p50_ms"] / row["tree_p50_ms"], 2)
    row["p99_times"] = round(row["p99_ms"] / row["tree_p99_ms"], 2)
    return row


async def _measured(form: str, count: int, rpc: Rpc, service: str, ask: Callable[[int], float]) -> Row:
    """A tenth more is asked first, and left out."""
    asked, called = [], []
    for number in range(count + count // 10 + 1):
        trip = await _called(rpc, service)
        answered = await asyncio.to_thread(ask, number)
        if number > count // 10:
            called.append(trip)
            asked.append(answered)
    return _row(form, asked, called)


async def measure(sites: Sites, forms: list[str], count: int) -> list[Row]:
    """A row for each form."""
    hq, rows = Applications(sites.rabbit, "/"), []
    try:
        async with AsyncExitStack() as stack:
            ends = [await stack.enter_async_context(connect(f"http://127.0.0.1:{at}")) for at in sites[:2]]
            at_hq, at_store = [await stack.enter_async_context(Rpc(each)) for each in ends]
            for rpc, service in ((at_hq, "at-hq"), (at_store, "at-store")):
                await stack.enter_async_context(rpc.serve(service, {"answer": _answer}))
            await _until_served(at_store, "at-hq")
            await _until_served(at_hq, "at-store")
            stack.enter_context(AmqpResponder(hq, "stock"))
            stack.enter_context(MqttResponder(sites.mosquitto, "prices", "$share/g/queue/prices"))
            hq.channel().queue_declare("prices", durable=True)
            until("the store taking requests", partial(_takes, sites.store, "queue/stock"), PATIENCE)
            until("hq taking requests", partial(_takes, sites.hq, "prices"), PATIENCE)
            for form in forms:
                if form.endswith("topic"):
                    with _till(sites.mosquitto, form) as till:
                        ask = partial(till.ask, "queue/stock")
                        rows.append(await _measured(form, count, at_store, "at-hq", ask))
                else:
                    asker = AmqpRequester(hq, "own" if form == "reply-to" else form)
                    ask = partial(asker.ask, "prices")
                    rows.append(await _measured(form, count, at_hq, "at-store", ask))
    finally:
        hq.close()
    return rows


async def _answer(number: int) -> int:
    return number


def _till(mosquitto: MosquittoServer, form: str) -> MqttRequester:
    return MqttRequester(mosquitto, form, lambda number: f"answers/{number if form != 'topic' else 'mine'}")


def main(words: list[str] | None = None, say: Callable[[str], object] = print) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--requests", type=int, default=1000, help="of each form")
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=[*FORMS])
    parser.add_argument("--directory", type=Path, help="where stores and brokers have their files")
    parser.add_argument("--json", type=Path, help="file for the rows")
    options = parser.parse_args(words)
    about = machine()
    folder = Path(tempfile.mkdtemp(prefix="sapwood-requests-", dir=options.directory))
    rabbit, mosquitto = RabbitServer(folder / "rabbit"), MosquittoServer(folder / "mosquitto", *DISCOVERY)
    try:
        with Processes(folder) as processes:
            rabbit.start()
            mosquitto.start()
            sites = start(processes, folder, rabbit, mosquitto)
            rows = asyncio.run(measure(sites, options.forms, options.requests))
    finally:
        rabbit.stop()
        mosquitto.stop()
        shutil.rmtree(folder, ignore_errors=True)
    for row in rows:
        say(json.dumps(row))
    if options.json:
        options.json.write_text(json.dumps({"machine": about, "rows": rows}, indent=2))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
