"""Makes `harness` importable for the numbered tests, marks them, and gives each a network of its own."""

import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

sys.path.insert(0, str(Path(__file__).parent))

from bind_server import KEY
from harness import Network
from mosquitto_clients import joined
from mosquitto_server import DISCOVERY, MosquittoServer
from mqtt_wire import DoorNode, door_node
from nursery import forked
from rabbitmq_chain import SITES, Chain
from rabbitmq_server import RabbitServer


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = str(Path(__file__).parent) + os.sep
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.network)


@pytest.fixture
def forked_channels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes beside channels are forks; `tests/sapwood/channels/test_ends.py` starts them as users do."""
    monkeypatch.setattr("sapwood.channels.ends.subprocess", forked())


@pytest_asyncio.fixture
async def network(tmp_path: Path) -> AsyncIterator[Network]:
    """An empty network; all its processes are gone afterwards."""
    async with Network(tmp_path) as made:
        yield made


@pytest_asyncio.fixture
async def tree(network: Network) -> Network:
    """HQ, a region and a store, one below the other."""
    network.add("hq")
    network.add("north", "hq", role="branch")
    network.add("york", "north")
    await network.start()
    return network


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DoorNode]:
    """A node with a door for MQTT, which all tests of a module share."""
    with door_node(tmp_path_factory.mktemp("door")) as made:
        yield made


@pytest.fixture
def key(tmp_path: Path) -> Path:
    """The file of the key that may change the zone of `bind`."""
    file = tmp_path / "dns.key"
    file.write_text(KEY)
    file.chmod(0o600)
    return file


@pytest.fixture
def chain(network: Network, rabbitmq: RabbitServer) -> Iterator[Chain]:
    rabbitmq.start()
    vhosts = {site: f"{site}-{network.folder.name}" for site in SITES}
    for vhost in vhosts.values():
        rabbitmq.add_vhost(vhost)
    made = Chain(network, rabbitmq, vhosts)
    yield made
    rabbitmq.start()
    for applications in made.at.values():
        applications.close()
    for vhost in vhosts.values():
        rabbitmq.delete_vhost(vhost)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Callable[..., MosquittoServer]]:
    """Starts a Mosquitto by name; all are gone afterwards."""
    made: list[MosquittoServer] = []

    def start(name: str, *lines: str) -> MosquittoServer:
        made.append(MosquittoServer(tmp_path / f"broker-{name}", *(lines or DISCOVERY)))
        made[-1].start()
        return made[-1]

    yield start
    for server in made:
        server.kill()


@pytest_asyncio.fixture
async def pair(
    network: Network, broker: Callable[..., MosquittoServer]
) -> tuple[MosquittoServer, MosquittoServer]:
    """The brokers of HQ and of a store; HQ, a region without a broker, and the store run."""
    hq, york = broker("hq"), broker("york")
    network.add("hq", site_broker={"uri": hq.uri})
    network.add("north", "hq", role="branch")
    network.add("york", "north", site_broker={"uri": york.uri})
    await network.start()
    await joined(network, "hq", "york")
    return hq, york
