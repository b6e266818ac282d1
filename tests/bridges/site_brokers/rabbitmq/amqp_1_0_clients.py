"""Applications that speak AMQP 1.0, with qpid-proton for Python, at a real RabbitMQ with a bridge beside it.

    tox -e amqp_1_0

These are not among the other tests: qpid-proton is in no wheel, so each environment would compile it. With
RabbitMQ 3 they go through its plugin; 4 speaks AMQP 1.0 itself (`RABBITMQ_SERVER` names another program).
"""

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest
from proton import Message
from proton.utils import BlockingConnection
from rabbitmq_server import PLUGINS, RabbitServer
from rabbitmq_site import Applications

Result = TypeVar("Result")
READER = """
import sys
from proton.utils import BlockingConnection
port, vhost, queue = sys.argv[1:]
place = f"amqp://guest:guest@127.0.0.1:{port}"
line = BlockingConnection(place, virtual_host=f"vhost:{vhost}", allowed_mechs="PLAIN")
line.create_receiver(f"/amq/queue/{queue}")
line.wait(lambda: False)
"""
"""An application that reads a queue until it is killed."""


@pytest.fixture(scope="session")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitServer]:
    server = RabbitServer(tmp_path_factory.mktemp("rabbitmq") / "server", (*PLUGINS, "rabbitmq_amqp1_0"))
    try:
        server.start()
        yield server
    finally:
        server.stop()


class Application:
    """A blocking program of AMQP 1.0, whose steps run in a thread of their own while the bridge works."""

    def __init__(self, server: RabbitServer, vhost: str) -> None:
        self._place = f"amqp://guest:guest@127.0.0.1:{server.port}"
        self._vhost = f"vhost:{vhost}"
        self._line: BlockingConnection | None = None

    async def do(self, step: Callable[[BlockingConnection], Result]) -> Result:
        return await asyncio.to_thread(lambda: step(self._open()))

    def _open(self) -> BlockingConnection:
        if self._line is None:
            self._line = BlockingConnection(
                self._place, virtual_host=self._vhost, allowed_mechs="PLAIN", timeout=60
            )
        return self._line

    def close(self) -> None:
        if self._line is not None:
            self._line.close()


@pytest.fixture
def modern(rabbitmq: RabbitServer, vhost: str) -> Iterator[Application]:
    made = Application(rabbitmq, vhost)
    yield made
    made.close()


def declared(applications: Applications, *names: str, kind: str = "classic") -> None:
    for name in names:
        applications.channel().queue_declare(name, durable=True, arguments={"x-queue-type": kind})


@pytest.mark.parametrize("kind", ["classic", "quorum"])
async def test_a_consumer_is_found_and_missed_when_it_is_killed(
    york: Any, applications: Applications, rabbitmq: RabbitServer, vhost: str, kind: str
) -> None:
    declared(applications, "orders", kind=kind)
    reader = subprocess.Popen([sys.executable, "-c", READER, str(rabbitmq.port), vhost, "orders"])
    try:
        await york.desk.until_consumers("queue:orders")
    finally:
        reader.kill()
        reader.wait()
    await york.desk.until_consumers()


async def test_a_message_of_the_tree_reaches_it_with_its_properties(
    york: Any, applications: Applications, modern: Application
) -> None:
    declared(applications, "orders")
    receiver = await modern.do(lambda line: line.create_receiver("/amq/queue/orders"))
    await york.desk.until_consumers("queue:orders")
    number = york.deliver(
        "queue:orders", b"tea", content_type="text/plain", message_id="m1", correlation_id=7, priority=3
    )
    await york.until_answered(number)
    got = await modern.do(lambda _: receiver.receive(timeout=60))
    receiver.accept()
    assert bytes(got.body) == b"tea"
    assert (got.content_type, got.id, got.priority) == ("text/plain", "m1", 3)
    assert str(got.correlation_id) == "7"


@pytest.mark.parametrize(
    ("message", "payload", "content_type"),
    [
        (Message(body=b"\x00tea", inferred=True), b"\x00tea", ""),
        (Message(body="two teas"), b"two teas", "text/plain"),
        (Message(body=b"\x01tea"), b"\x01tea", ""),
    ],
    ids=["data", "a text", "bytes as a value"],
)
async def test_what_it_sends_goes_into_the_tree_as_such(
    york: Any,
    applications: Applications,
    modern: Application,
    message: Message,
    payload: bytes,
    content_type: str,
) -> None:
    declared(applications, "orders")
    york.want("queue:orders")
    message.id, message.durable = "m2", True
    await modern.do(lambda line: line.create_sender("/amq/queue/orders").send(message))
    await york.desk.until(lambda: bool(york.desk.taken), "given it")
    (taken,) = york.desk.taken
    assert (taken.message.payload, taken.message.properties.content_type) == (payload, content_type)
    assert taken.message.properties.message_id == "m2"


async def test_the_answer_to_its_request_reaches_the_queue_that_it_named(
    york: Any, applications: Applications, modern: Application
) -> None:
    declared(applications, "prices", "answers")
    york.want("queue:prices")
    receiver = await modern.do(lambda line: line.create_receiver("/amq/queue/answers"))
    request = Message(body=b"tea?", inferred=True, reply_to="/amq/queue/answers", durable=True)
    await modern.do(lambda line: line.create_sender("/amq/queue/prices").send(request))
    await york.desk.until(lambda: bool(york.desk.taken), "given the request")
    assert york.desk.taken[0].message.properties.reply_to == "answers@york"
    await york.until_answered(york.deliver("queue:answers", b"3.20"))
    got = await modern.do(lambda _: receiver.receive(timeout=60))
    assert bytes(got.body) == b"3.20"
