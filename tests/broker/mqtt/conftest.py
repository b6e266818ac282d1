"""A client of the MQTT door without its line: it asks a simulated node, and what is written to it is kept."""

from collections.abc import Callable

import pytest

from broker.core.node import NodeCore
from broker.core.sessions.rights import FULL, Rights
from broker.core.sessions.sessions import Connection
from broker.mqtt.names import DoorNames
from broker.mqtt.publishing import Publishing
from broker.mqtt.reading import MqttReading
from sapwood.protocol.session_frames import (
    VERSION,
    ClientFrame,
    Confirm,
    Deliver,
    Failed,
    Login,
    NodeFrame,
    Reject,
)
from simulation.forest import Forest


class DoorClient:
    """One client; `written` to it so far."""

    client_id = "till"
    is_5 = False
    most_packet = 1 << 32
    is_explained = True
    failure = ""

    def __init__(self, forest: Forest, rights: Rights) -> None:
        self.forest = forest
        self.names = DoorNames("queue/", "hq")
        self.connection = Connection(self._said, "test", "mqtt", rights)
        self.written = b""
        self._requests = self._failures = 0
        self.ask(Login(VERSION, "mqtt/till"))
        self.publishing = Publishing(self)
        self.reading = MqttReading(self)

    @property
    def core(self) -> NodeCore:
        return self.forest["hq"].core

    @property
    def session(self) -> str:
        assert self.connection.session is not None
        return self.connection.session.token

    def ask(self, *frames: ClientFrame) -> bool:
        failures = self._failures
        self.core.switch.receive(self.connection, list(frames))
        return self._failures == failures

    def new_request(self) -> int:
        self._requests += 1
        return self._requests

    def write(self, data: bytes) -> None:
        self.written += data

    def after_commit(self, call: Callable[[], None]) -> None:
        self.core.switch.when_committed(call)

    def heard(self) -> bytes:
        """What was written once all is on disk; then it is forgotten."""
        self.forest.settle()
        self.reading.flush()
        self.forest.settle()
        said, self.written = self.written, b""
        return said

    def _said(self, frame: NodeFrame) -> None:
        match frame:
            case Deliver():
                self.reading.deliver(frame)
            case Confirm(through=through):
                self.publishing.confirmed(through)
            case Reject():
                self.publishing.rejected(frame)
            case Failed():
                self._failures += 1
                self.failure = frame.code


@pytest.fixture
def forest() -> Forest:
    made = Forest()
    made.add("hq", subscription_retention=1000.0)
    return made


@pytest.fixture
def door_client(forest: Forest) -> Callable[..., DoorClient]:
    def make(rights: Rights = FULL) -> DoorClient:
        return DoorClient(forest, rights)

    return make
