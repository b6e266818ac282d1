"""With the printed permissions a child has its link and nothing else: a hostile child tries it."""

import asyncio
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import paho.mqtt.client as paho
import pika
import pytest
from brokered_harness import parent_at
from mosquitto_server import MosquittoServer
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.reasoncodes import ReasonCode
from pika.exceptions import ChannelClosedByBroker, UnroutableError
from rabbitmq_server import RabbitServer

from bridges.carriers.amqp import AmqpBroker
from bridges.carriers.base import CarrierBroken
from bridges.carriers.brokered import permissions
from bridges.carriers.brokered.carrier import BrokeredCarrier, connect
from bridges.carriers.brokered.line import Broker, BrokerAccess
from bridges.carriers.mqtt import MqttBroker

TREE, NODE = "acme", "hq"
CHILDREN = ("york", "leeds.north")
PASSWORD = "pass-word"


async def talks(carrier: BrokeredCarrier, other: BrokeredCarrier) -> None:
    """Both directions work."""
    carrier.send([b"up"])
    other.send([b"down"])
    async with asyncio.timeout(60):
        assert await other.receive() == [b"up"]
        assert await carrier.receive() == [b"down"]


async def everybody_has_a_link(of_node: Broker, of_children: dict[str, Broker]) -> None:
    async with parent_at(of_node) as hq:
        assert hq.listener.hears_itself
        for number, (name, broker) in enumerate(of_children.items()):
            carrier = await connect(broker, name, timeout=20)
            await talks(carrier, hq.carriers[number])
            await carrier.close()


# --- Mosquitto


def run(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture
def with_acl_file(tmp_path: Path) -> Iterator[MosquittoServer]:
    """A Mosquitto with an `acl_file` as printed."""
    passwords, rules = tmp_path / "passwords", tmp_path / "acl"
    passwords.touch(mode=0o600)
    for user in (NODE, *CHILDREN):
        run("mosquitto_passwd", "-b", str(passwords), user, PASSWORD)
    rules.write_text("\n".join(permissions.acl_file(TREE, NODE)) + "\n")
    rules.chmod(0o600)
    lines = ("allow_anonymous false", f"password_file {passwords}", f"acl_file {rules}")
    server = MosquittoServer(tmp_path / "server", *lines)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def with_dynamic_security(tmp_path: Path) -> Iterator[MosquittoServer]:
    """A Mosquitto to whose dynamic-security plugin the printed commands were given."""
    state = tmp_path / "dynamic-security.json"
    run("mosquitto_ctrl", "dynsec", "init", str(state), "admin", PASSWORD)
    plugin = next(Path("/usr/lib").glob("*/mosquitto_dynamic_security.so"))
    lines = ("per_listener_settings false", "allow_anonymous false", f"plugin {plugin}")
    server = MosquittoServer(tmp_path / "server", *lines, f"plugin_opt_config_file {state}")
    server.start()
    for line in permissions.dynamic_security(TREE, NODE, CHILDREN):
        if not line.startswith("#"):
            program, *words = shlex.split(line)
            login = ["-h", "127.0.0.1", "-p", str(server.port), "-u", "admin", "-P", PASSWORD]
            given = ["-p", PASSWORD] if "createClient" in words else []
            run(program, *login, *words, *given)
    yield server
    server.stop()


def on_mqtt(server: MosquittoServer, user: str) -> MqttBroker:
    return MqttBroker(BrokerAccess("127.0.0.1", server.port, user, PASSWORD), TREE, 65536)


class Hostile:
    """A child's own MQTT program, which tries what it should not."""

    def __init__(self, server: MosquittoServer, user: str) -> None:
        self.got: list[str] = []
        self._reasons: list[ReasonCode] = []
        self._client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
        self._client.username_pw_set(user, PASSWORD)
        self._client.on_subscribe = lambda _c, _d, _m, reasons, _p: self._reasons.extend(reasons)
        self._client.on_publish = lambda _c, _d, _m, reason, _p: self._reasons.append(reason)
        self._client.on_message = lambda _c, _d, message: self.got.append(message.topic)
        self._client.connect("127.0.0.1", server.port)
        self.until(self._client.is_connected)

    def until(self, holds: Callable[[], object]) -> None:
        for _ in range(500):
            self._client.loop(timeout=0.02)
            if holds():
                return
        raise AssertionError("nothing came")

    def subscribe(self, topic: str) -> ReasonCode:
        self._client.subscribe(topic, qos=1)
        self.until(lambda: self._reasons)
        return self._reasons.pop()

    def publish(self, topic: str) -> ReasonCode:
        self._client.publish(topic, b"x", qos=1)
        self.until(lambda: self._reasons)
        return self._reasons.pop()

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop(timeout=0.02)


@pytest.mark.parametrize("kind", ["with_acl_file", "with_dynamic_security"])
async def test_on_mosquitto_each_child_has_its_link_and_nothing_else(
    kind: str, request: pytest.FixtureRequest
) -> None:
    server: MosquittoServer = request.getfixturevalue(kind)
    await everybody_has_a_link(on_mqtt(server, NODE), {name: on_mqtt(server, name) for name in CHILDREN})
    async with parent_at(on_mqtt(server, NODE)) as hq:
        with pytest.raises(CarrierBroken, match=r"does not let 'york' (publish|read)"):
            await connect(on_mqtt(server, "york"), "leeds.north", timeout=20)
        link = await connect(on_mqtt(server, "leeds.north"), "leeds.north", timeout=20)
        await talks(link, hq.carriers[0])
        await asyncio.to_thread(eavesdrop, server, kind)
        await talks(link, hq.carriers[0])
        assert link.strangers == hq.carriers[0].strangers == 0
        await link.close()


def eavesdrop(server: MosquittoServer, kind: str) -> None:
    hostile = Hostile(server, "york")
    all_of_it = "sapwood/acme/link"
    for topic in (f"{all_of_it}/leeds.north/down", f"{all_of_it}/+/up/#", f"{all_of_it}/parents", "#"):
        reason = hostile.subscribe(topic)
        if kind == "with_dynamic_security":
            assert reason.is_failure, topic
    others = ("leeds.north/up", "leeds.north/up/knock", "leeds.north/down", "york/down", "parents")
    for topic in others:
        assert hostile.publish(f"{all_of_it}/{topic}").is_failure, topic
    assert not hostile.publish(f"{all_of_it}/york/up").is_failure, "its own topic, or the test shows nothing"
    assert not hostile.got
    hostile.close()


# --- RabbitMQ


@pytest.fixture
def at_rabbitmq(rabbitmq: RabbitServer, vhost: str) -> Iterator[RabbitServer]:
    """RabbitMQ with the printed permissions in `vhost`; the commands are read, and said to its API."""
    for line in permissions.rabbitmq(TREE, vhost, NODE, CHILDREN):
        match shlex.split(line, comments=True):
            case ["rabbitmqctl", "add_user", user]:
                rabbitmq.api("PUT", f"/users/{user}", {"password": PASSWORD, "tags": ""})
            case ["rabbitmqctl", "set_permissions", "-p", place, user, configure, write, read]:
                assert place == vhost
                rabbitmq.permit(vhost, user, configure, write, read)
            case ["rabbitmqctl", "set_topic_permissions", "-p", place, user, exchange, write, read]:
                body = {"exchange": exchange, "write": write, "read": read}
                rabbitmq.api("PUT", f"/topic-permissions/{quote(place, safe='')}/{user}", body)
            case []:
                pass
            case words:
                raise AssertionError(words)
    yield rabbitmq
    for user in (NODE, *CHILDREN):
        rabbitmq.api("DELETE", f"/users/{user}")


def on_amqp(server: RabbitServer, vhost: str, user: str) -> AmqpBroker:
    return AmqpBroker(BrokerAccess("127.0.0.1", server.port, user, PASSWORD, vhost=vhost), TREE)


async def test_on_rabbitmq_each_child_has_its_link_and_nothing_else(
    at_rabbitmq: RabbitServer, vhost: str
) -> None:
    server = at_rabbitmq
    of_node = on_amqp(server, vhost, NODE)
    await everybody_has_a_link(of_node, {name: on_amqp(server, vhost, name) for name in CHILDREN})
    async with parent_at(of_node) as hq:
        with pytest.raises(CarrierBroken, match=r"ACCESS_REFUSED.*sapwood config acl"):
            await connect(on_amqp(server, vhost, "york"), "leeds.north", timeout=20)
        link = await connect(on_amqp(server, vhost, "leeds.north"), "leeds.north", timeout=20)
        await talks(link, hq.carriers[0])
        queues = [one["name"] for one in server.api("GET", f"/queues/{vhost}")]
        assert len(queues) == 3
        await asyncio.to_thread(trespass, server, vhost, queues)
        await talks(link, hq.carriers[0])
        assert link.strangers == hq.carriers[0].strangers == 0
        await link.close()


def trespass(server: RabbitServer, vhost: str, queues: list[str]) -> None:
    exchange, own = "sapwood.acme.link", "sapwood.acme.link.york.down.0123456789abcdef"
    tries = [
        lambda channel: channel.basic_publish(exchange, "leeds.north.up", b"x", mandatory=True),
        lambda channel: channel.basic_publish(exchange, "leeds.north.up.knock", b"x", mandatory=True),
        lambda channel: channel.basic_publish(exchange, "x.york.up.knock", b"x", mandatory=True),
        lambda channel: channel.basic_publish(exchange, "parents", b"x", mandatory=True),
        lambda channel: channel.queue_declare("sapwood.acme.link.york.down", exclusive=True),
        lambda channel: channel.queue_declare("anything", exclusive=True),
        lambda channel: channel.exchange_delete(exchange),
        lambda channel: bind_own(channel, own, exchange),
    ]
    for queue in queues:
        tries += [
            lambda channel, queue=queue: channel.basic_publish("", queue, b"x", mandatory=True),
            lambda channel, queue=queue: channel.basic_get(queue),
            lambda channel, queue=queue: channel.queue_delete(queue),
            lambda channel, queue=queue: channel.queue_purge(queue),
        ]
    for attempt in tries:
        with pika.BlockingConnection(server.parameters(vhost, "york", PASSWORD)) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            with pytest.raises(ChannelClosedByBroker) as refused:
                attempt(channel)
            assert refused.value.reply_code in (403, 405)
    with pika.BlockingConnection(server.parameters(vhost, "york", PASSWORD)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare(own, exclusive=True)
        with pytest.raises(UnroutableError):
            channel.basic_publish(exchange, "york.up", b"x", mandatory=True)


def bind_own(channel: "pika.adapters.blocking_connection.BlockingChannel", queue: str, exchange: str) -> None:
    channel.queue_declare(queue, exclusive=True)
    channel.queue_bind(queue, exchange, "#")


def test_the_programs_that_the_lines_name_are_those_of_the_brokers() -> None:
    assert shutil.which("mosquitto_ctrl")
    assert shutil.which("rabbitmqctl", path="/usr/sbin:/usr/bin:/usr/lib/rabbitmq/bin")
