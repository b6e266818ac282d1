"""The AMQP carrier at a real RabbitMQ: TLS, logins, virtual hosts, and errors that help."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme
from brokered_harness import PATIENCE, TREE, broker_at, linked
from rabbitmq_server import RabbitServer

from bridges.carriers.amqp import AmqpBroker
from bridges.carriers.base import CarrierBroken
from bridges.carriers.brokered import listener
from bridges.carriers.brokered.carrier import connect
from bridges.carriers.brokered.line import BrokerAccess
from bridges.carriers.brokered.names import Queues
from bridges.tls import TlsSettings
from broker.cli.demo.plan import free_ports

AUTHORITY = trustme.CA()


@asynccontextmanager
async def encrypting(port: int) -> AsyncIterator[int]:
    """A port that speaks TLS before `port`, as a balancer does."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    AUTHORITY.issue_cert("localhost").configure_cert(context)
    joined: set[asyncio.Task[None]] = set()

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", port)
        joined.update({asyncio.create_task(pipe(reader, back)), asyncio.create_task(pipe(there, writer))})

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await asyncio.gather(*joined, return_exceptions=True)


async def test_a_link_rides_on_amqps_in_a_virtual_host(
    rabbitmq: RabbitServer, vhost: str, tmp_path: Path
) -> None:
    AUTHORITY.cert_pem.write_to_path(tmp_path / "ca.pem")
    async with encrypting(rabbitmq.port) as port:
        access = BrokerAccess("localhost", port, tls=TlsSettings(ca=tmp_path / "ca.pem"), vhost=vhost)
        broker = AmqpBroker(access, TREE)
        assert broker.uri == f"amqps://localhost:{port}/{vhost}"
        async with linked(broker) as (near, far):
            near.send([b"up"])
            far.send([b"down"])
            async with asyncio.timeout(PATIENCE):
                assert [await near.receive(), await far.receive()] == [[b"down"], [b"up"]]
        with pytest.raises(CarrierBroken, match="is not trusted"):
            await connect(
                AmqpBroker(BrokerAccess("localhost", port, tls=TlsSettings()), TREE), "york", timeout=5
            )


async def test_virtual_hosts_do_not_hear_each_other(rabbitmq: RabbitServer, vhost: str) -> None:
    async with linked(broker_at(rabbitmq)):
        with pytest.raises(CarrierBroken, match="no node listens behind this broker"):
            await connect(broker_at(rabbitmq, vhost=vhost), "york", timeout=PATIENCE)


async def test_a_login_that_is_refused_is_explained(rabbitmq: RabbitServer) -> None:
    rabbitmq.start()
    cases = [
        (broker_at(rabbitmq, user="york", password="wrong"), ": refuses user 'york': check"),
        (broker_at(rabbitmq, vhost="nowhere"), "virtual host 'nowhere'|nowhere not found"),
        (
            AmqpBroker(BrokerAccess("127.0.0.1", free_ports(1)[0]), TREE),
            "cannot be reached: Connection refused",
        ),
    ]
    for broker, expected in cases:
        with pytest.raises(CarrierBroken, match=expected):
            await connect(broker, "york", timeout=PATIENCE)


async def test_a_full_queue_refuses_instead_of_dropping(rabbitmq: RabbitServer, vhost: str) -> None:
    """A sender that does not keep to the window is told so by the broker."""
    async with linked(broker_at(rabbitmq, vhost=vhost)) as (near, far):
        line = near._line
        assert line is not None
        held = asyncio.Event()
        far._line._channel._raw.basic_qos(prefetch_count=1)  # type: ignore[union-attr]
        far.heard = lambda child, message: held.set()  # type: ignore[method-assign]
        far._line._acknowledge = lambda: None  # type: ignore[union-attr,method-assign]
        for _ in range(1000):
            line.say(b"x")
        with pytest.raises(CarrierBroken, match="full, or has failed: the broker refused a message"):
            await asyncio.wait_for(near.receive(), PATIENCE)


async def test_a_parent_whose_exchange_somebody_deletes_hears_of_it(
    rabbitmq: RabbitServer, vhost: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its line stays open, and no child would ever be heard."""
    monkeypatch.setattr(listener, "CLAIMED_EVERY", 0.1)
    broker = AmqpBroker(BrokerAccess("127.0.0.1", rabbitmq.port, vhost=vhost), TREE)
    listening = asyncio.Event()
    hearing = asyncio.create_task(listener.Listener(broker, "hq", lambda *_: None).run(listening.set))
    async with asyncio.timeout(PATIENCE):
        await listening.wait()
        await asyncio.to_thread(rabbitmq.api, "DELETE", f"/exchanges/{vhost}/{Queues(TREE).exchange}")
        with pytest.raises(CarrierBroken, match="NOT_FOUND"):
            await hearing
