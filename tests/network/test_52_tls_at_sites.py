"""A site's broker that speaks TLS and wants a certificate: who shows one is joined, others are told why."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
import trustme
from harness import Network
from mosquitto_clients import Listener, joined
from mosquitto_server import DISCOVERY, MosquittoServer
from rabbitmq_server import RabbitServer

from broker.cli.demo.plan import free_ports


class Certificates:
    """Files of a broker's certificate, of a node's, and of the authorities of both and of a stranger."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.renew()

    def renew(self) -> None:
        """All of them, by other authorities: those before are worth nothing."""
        folder = self.folder
        authority, stranger = trustme.CA(), trustme.CA()
        authority.cert_pem.write_to_path(folder / "authority.pem")
        stranger.cert_pem.write_to_path(folder / "stranger.pem")
        self._issue("broker", authority.issue_cert("127.0.0.1"))
        self._issue("node", authority.issue_cert("york.example.com"))
        self._issue("foreign", stranger.issue_cert("york.example.com"))

    def _issue(self, name: str, made: trustme.LeafCert) -> None:
        made.private_key_pem.write_to_path(self.folder / f"{name}.key")
        (self.folder / f"{name}.key").chmod(0o600)
        chain = b"".join(blob.bytes() for blob in made.cert_chain_pems)
        (self.folder / f"{name}.pem").write_bytes(chain)

    def node(self, certificate: str = "node", ca: str = "authority") -> dict[str, str]:
        own = {"certificate": f"{certificate}.pem", "key": f"{certificate}.key"} if certificate else {}
        return {"ca": f"{ca}.pem", **own}


@pytest.fixture
def certificates(network: Network) -> Certificates:
    return Certificates(network.folder)


async def until_told(network: Network, name: str, text: str) -> None:
    await network.until(name, lambda status: text in status["site_broker"]["error"], f"told that {text!r}")


Start = Callable[..., MosquittoServer]


async def test_a_mosquitto_that_wants_certificates(
    network: Network, certificates: Certificates, broker: Start
) -> None:
    (port,) = free_ports(1)
    files = certificates.folder
    server = broker(
        "york",
        *DISCOVERY,
        f"listener {port} 127.0.0.1",
        f"cafile {files}/authority.pem",
        f"certfile {files}/broker.pem",
        f"keyfile {files}/broker.key",
        "require_certificate true",
    )
    at = {"uri": f"mqtts://127.0.0.1:{port}"}
    network.add("hq")
    network.add("york", "hq", site_broker={**at, "tls": certificates.node()})
    await refuse_strangers(network, certificates, at)
    await network.start("hq", "york")
    await joined(network, "york")
    with Listener(server.port, "-t", "$share/g/queue/prices", "-q", "1", "-i", "till") as till:
        await network.until_known("hq", "queue:prices")
        await network.send("hq", "queue:prices", [b"1", b"2"])
        await till.until(2)
        assert till.payloads() == ["1", "2"]
    certificates.renew()
    server.stop()
    server.start()
    with Listener(server.port, "-t", "$share/g/queue/orders", "-q", "1", "-i", "till") as till:
        await network.until_known("hq", "queue:orders")
        await network.send("hq", "queue:orders", [b"3"])
        assert [each["payload"] for each in await till.until(1)] == ["3"]


async def refuse_strangers(network: Network, certificates: Certificates, at: dict[str, Any]) -> None:
    """Wrong authority, no certificate, a stranger's certificate: none is joined, and each is told why."""
    settings = {
        "doubting": (certificates.node(ca="stranger"), "is not trusted"),
        "bare": (certificates.node(certificate=""), "client certificate"),
        "foreign": (certificates.node(certificate="foreign"), "client certificate"),
    }
    for name, (tls, _) in settings.items():
        network.add(name, site_broker={**at, "tls": tls})
        await network.launch(name)
    for name, (_, text) in settings.items():
        await until_told(network, name, text)
        await network.stop(name)


@pytest.fixture
def rabbit(certificates: Certificates) -> Iterator[tuple[RabbitServer, int]]:
    (port,) = free_ports(1)
    files = certificates.folder
    server = RabbitServer(files / "rabbit", ("rabbitmq_management", "rabbitmq_event_exchange"))
    lines = (
        f"listeners.ssl.1 = 127.0.0.1:{port}",
        f"ssl_options.cacertfile = {files}/authority.pem",
        f"ssl_options.certfile = {files}/broker.pem",
        f"ssl_options.keyfile = {files}/broker.key",
        "ssl_options.verify = verify_peer",
        "ssl_options.fail_if_no_peer_cert = true",
    )
    with (files / "rabbit" / "rabbitmq.conf").open("a") as output:
        output.write("\n".join(lines) + "\n")
    server.start()
    yield server, port
    server.stop()


async def test_a_rabbitmq_that_wants_certificates(
    network: Network, certificates: Certificates, rabbit: tuple[RabbitServer, int]
) -> None:
    server, port = rabbit
    at = {"uri": f"amqps://127.0.0.1:{port}", "management": server.management_uri}
    network.add("hq")
    network.add("york", "hq", site_broker={**at, "tls": certificates.node()})
    await refuse_strangers(network, certificates, at)
    await network.start("hq", "york")
    await network.until("york", lambda status: status["site_broker"]["state"] == "running", "joined")
    connection = server.connect()
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("orders", durable=True)
    reports = network.collect("hq", "queue:orders", 20)
    channel.basic_publish("", "orders", b"0", pika.BasicProperties(delivery_mode=2))
    for number in range(1, 20):
        channel.basic_publish("", "orders", b"%d" % number, pika.BasicProperties(delivery_mode=2))
    assert await reports == [b"%d" % number for number in range(20)]
    connection.close()
