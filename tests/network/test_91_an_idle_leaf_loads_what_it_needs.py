"""A leaf that has nothing to do beside its Mosquitto has loaded what it needs, and nothing else.

Proven here: which large packages the process of a linked leaf has, by its own list of modules; and that it
serves pages all the same once somebody asks for one, and has loaded what serves them then.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from harness import Network
from mosquitto_server import MosquittoServer

from broker.cli.demo.plan import free_ports

ASKED_FOR = ("aiohttp", "broker.api.operation", "broker.api.table", "broker.http.app")
NOT_NEEDED = (
    *ASKED_FOR, "bridges.carriers.brokered.carrier", "bridges.dns.records", "broker.cli.app",
    "broker.rotating", "broker.store.recovery", "cryptography", "dns.resolver", "lark",
    "logging.handlers", "pika", "prompt_toolkit", "pyarrow", "rich", "typer", "typing_extensions",
    "websockets.asyncio", "websockets.server", "zoneinfo",
    *("bz2", "gzip", "lzma", "shutil", "tempfile"),
    *("email", "http.client", "importlib.metadata", "urllib.request", "zipfile"),  # paho and websockets ask
)  # fmt: skip
LEAF = """
import atexit, json, sys
atexit.register(lambda: print(json.dumps(list(sys.modules))))
from broker.cli.program import main
main()
"""


@pytest.mark.parametrize("asks", [False, True], ids=["nobody asks", "somebody asks"])
async def test_an_idle_leaf_has_loaded_what_it_needs(
    network: Network, mosquitto: MosquittoServer, tmp_path: Path, asks: bool
) -> None:
    network.add("hq")
    await network.start()
    mosquitto.start()
    (port,) = free_ports(1)
    link = network.url("hq").replace("http", "ws") + "/link"
    site = {
        "name": "york",
        "tree": "test",
        "data": str(tmp_path / "york"),
        "listener": {"port": port},
        "site_broker": {"uri": mosquitto.uri},
        "tree_connectors": [{"nodetype": "leaf", "uri": link}],
    }
    file = tmp_path / "york.yaml"
    file.write_text(json.dumps({"broker": site}))
    command = [sys.executable, "-c", LEAF, "node", "run", str(file)]
    root = str(Path(__file__).parents[2])
    leaf = subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": root})
    try:
        await network.until_child("hq", "york")
        if asks:
            page = f"http://127.0.0.1:{port}/docs"
            assert b"message switch" in await asyncio.to_thread(lambda: urllib.request.urlopen(page).read())
        leaf.send_signal(signal.SIGTERM)
        said, _ = await asyncio.to_thread(leaf.communicate, timeout=60)
    finally:
        leaf.kill()
    loaded = set(json.loads(said))
    assert {"paho", "websockets.client"} <= loaded
    assert loaded & set(ASKED_FOR if asks else NOT_NEEDED) == (set(ASKED_FOR) if asks else set())
