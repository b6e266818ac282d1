"""MQTT byte by byte, as a client of a real node's door: for tests that follow the specification."""

import json
import secrets
import socket
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

from harness import LoadedNode

from broker.cli.demo.plan import free_ports

PATIENCE = 180.0
CONNECT, CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP, SUBSCRIBE, SUBACK = range(1, 10)
UNSUBSCRIBE, UNSUBACK, PINGREQ, PINGRESP, DISCONNECT, AUTH = range(10, 16)


Properties = dict[int, Any]
"""By identifier; of user properties a list."""


class Packet(NamedTuple):
    """One packet of the node. `flags`: the lower half of its first byte."""

    kind: int
    flags: int
    body: bytes


def length(size: int) -> bytes:
    found = bytearray()
    while True:
        size, low = size >> 7, size & 0x7F
        found.append(low | (0x80 if size else 0))
        if not size:
            return bytes(found)


def text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return len(data).to_bytes(2) + data


def packet(kind: int, body: bytes = b"", flags: int = 0) -> bytes:
    return bytes((kind << 4 | flags,)) + length(len(body)) + body


def fresh(name: str) -> str:
    """A client id, or a topic, that no other test has."""
    return f"{name}-{secrets.token_hex(4)}"


class Wire:
    """One connection of a client that says what a test likes. `opened`: all that there were."""

    opened: ClassVar[list[socket.socket]] = []

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self.opened.append(self.socket)
        self._data = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    # --- bytes

    def say(self, *packets: bytes) -> None:
        self.socket.sendall(b"".join(packets))

    def _more(self) -> bool:
        try:
            data = self.socket.recv(65536)
        except ConnectionError:
            return False
        self._data += data
        return bool(data)

    def hear(self) -> Packet | None:
        """The next packet, None where the node has closed."""
        while True:
            found = self._parsed()
            if found is not None:
                return found
            if not self._more():
                return None

    def _parsed(self) -> Packet | None:
        size = shift = 0
        for place in range(1, min(len(self._data), 5)):
            size |= (self._data[place] & 0x7F) << shift
            shift += 7
            if not self._data[place] & 0x80:
                end = place + 1 + size
                if len(self._data) < end:
                    return None
                first, body = self._data[0], self._data[place + 1 : end]
                self._data = self._data[end:]
                return Packet(first >> 4, first & 15, body)
        return None

    def expect(self, kind: int) -> Packet:
        found = self.hear()
        assert found is not None, f"closed, and packet {kind} was expected"
        assert found.kind == kind, found
        return found

    def closed(self) -> None:
        """Nothing more comes, and the node closes."""
        assert self.hear() is None

    def break_off(self) -> None:
        """As a machine that is switched off."""
        self.socket.close()

    def silent(self) -> None:
        """A round trip brings nothing else: whatever was on its way would have come before."""
        self.say(packet(PINGREQ))
        self.expect(PINGRESP)


class Wire311(Wire):
    """A client of MQTT 3.1.1."""

    def connect(
        self,
        name: str,
        *,
        clean: bool = True,
        keep_alive: int = 0,
        will: tuple[str, bytes, int, bool] | None = None,
    ) -> Packet:
        flags = 2 * clean
        body = text(name)
        if will is not None:
            topic, payload, qos, retain = will
            flags |= 4 | qos << 3 | retain << 5
            body += text(topic) + text(payload)
        self.say(packet(CONNECT, text("MQTT") + bytes((4, flags)) + keep_alive.to_bytes(2) + body))
        return self.expect(CONNACK)

    def subscribe(self, *filters: tuple[str, int], number: int = 1) -> bytes:
        """The codes."""
        body = number.to_bytes(2) + b"".join(text(name) + bytes((qos,)) for name, qos in filters)
        self.say(packet(SUBSCRIBE, body, 2))
        found = self.expect(SUBACK)
        assert found.body[:2] == number.to_bytes(2)
        return found.body[2:]

    def publish(
        self,
        topic: str,
        payload: bytes,
        qos: int = 0,
        number: int = 0,
        *,
        retain: bool = False,
        dup: bool = False,
    ) -> None:
        identifier = number.to_bytes(2) if qos else b""
        self.say(packet(PUBLISH, text(topic) + identifier + payload, dup << 3 | qos << 1 | retain))

    def answer(self, kind: int, number: int) -> None:
        self.say(packet(kind, number.to_bytes(2), 2 if kind == PUBREL else 0))

    def confirmed(self, kind: int) -> int:
        """The identifier of the answer that comes next."""
        return int.from_bytes(self.expect(kind).body)

    def given(self) -> tuple[str, bytes, int, bool, bool, int]:
        """The PUBLISH that comes next: topic, payload, QoS, retain, DUP, identifier."""
        found = self.expect(PUBLISH)
        qos, size = found.flags >> 1 & 3, int.from_bytes(found.body[:2])
        name, rest = found.body[2 : 2 + size].decode(), found.body[2 + size :]
        number = int.from_bytes(rest[:2]) if qos else 0
        return name, rest[2 if qos else 0 :], qos, bool(found.flags & 1), bool(found.flags & 8), number


class Wire5(Wire):
    """A client of MQTT 5. Properties are bytes, as they stand in a packet, without their length."""

    def connect(
        self,
        name: str,
        *,
        clean: bool = True,
        said: bytes = b"",
        keep_alive: int = 0,
        will: tuple[str, bytes, int, bool, bytes] | None = None,
    ) -> tuple[bool, int, Properties]:
        """Session Present, the reason, the properties."""
        flags = 2 * clean
        body = length(len(said)) + said + text(name)
        if will is not None:
            topic, payload, qos, retain, wanted = will
            flags |= 4 | qos << 3 | retain << 5
            body += length(len(wanted)) + wanted + text(topic) + text(payload)
        self.say(packet(CONNECT, text("MQTT") + bytes((5, flags)) + keep_alive.to_bytes(2) + body))
        found = self.expect(CONNACK).body
        return bool(found[0]), found[1], properties(found[2:])[0]

    def subscribe(self, *filters: tuple[str, int], said: bytes = b"") -> bytes:
        """The codes. Each filter has its options."""
        body = b"\x00\x01" + length(len(said)) + said
        body += b"".join(text(name) + bytes((options,)) for name, options in filters)
        self.say(packet(SUBSCRIBE, body, 2))
        return properties(self.expect(SUBACK).body[2:])[1]

    def publish(
        self,
        topic: str,
        payload: bytes,
        qos: int = 0,
        number: int = 0,
        *,
        retain: bool = False,
        said: bytes = b"",
    ) -> None:
        identifier = number.to_bytes(2) if qos else b""
        body = text(topic) + identifier + length(len(said)) + said + payload
        self.say(packet(PUBLISH, body, qos << 1 | retain))

    def answer(self, kind: int, number: int, *reason: int) -> None:
        self.say(packet(kind, number.to_bytes(2) + bytes(reason), 2 if kind == PUBREL else 0))

    def confirmed(self, kind: int) -> tuple[int, int]:
        """The identifier and the reason of the answer that comes next."""
        found = self.expect(kind).body
        return int.from_bytes(found[:2]), found[2] if len(found) > 2 else 0

    def given(self) -> "Given":
        """The PUBLISH that comes next."""
        return self._read(self.expect(PUBLISH))

    def _read(self, found: Packet) -> "Given":
        qos, size = found.flags >> 1 & 3, int.from_bytes(found.body[:2])
        name, rest = found.body[2 : 2 + size].decode(), found.body[2 + size :]
        number = int.from_bytes(rest[:2]) if qos else 0
        said, payload = properties(rest[2 if qos else 0 :])
        return Given(name, payload, qos, bool(found.flags & 1), bool(found.flags & 8), number, said)

    def told(self) -> int:
        """The reason of the DISCONNECT that comes next; then the node closes."""
        found = self.expect(DISCONNECT).body
        self.closed()
        return found[0]


class Given(NamedTuple):
    """A PUBLISH of the node. `said`: its properties."""

    topic: str
    payload: bytes
    qos: int
    retain: bool
    dup: bool
    number: int
    said: Properties


def properties(data: bytes) -> tuple[Properties, bytes]:
    """Properties by their identifiers, and what comes behind them."""
    size, at = _variable(data, 0)
    end, found = at + size, Properties()
    while at < end:
        name, at = data[at], at + 1
        if name in (0x03, 0x08, 0x09, 0x12, 0x15, 0x16, 0x1A, 0x1C, 0x1F):
            stop = at + 2 + int.from_bytes(data[at : at + 2])
            value: Any = data[at + 2 : stop]
        elif name == 0x26:
            half = at + 2 + int.from_bytes(data[at : at + 2])
            stop = half + 2 + int.from_bytes(data[half : half + 2])
            value = (data[at + 2 : half], data[half + 2 : stop])
        elif name == 0x0B:
            value, stop = _variable(data, at)
        else:
            stop = at + _SIZES.get(name, 1)
            value = int.from_bytes(data[at:stop])
        if name == 0x26:
            found.setdefault(name, []).append(value)
        else:
            assert name not in found
            found[name] = value
        at = stop
    return found, data[end:]


_SIZES = {0x02: 4, 0x11: 4, 0x18: 4, 0x27: 4, 0x13: 2, 0x21: 2, 0x22: 2, 0x23: 2}


def _variable(data: bytes, at: int) -> tuple[int, int]:
    found = shift = 0
    while True:
        found |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if not data[at - 1] & 0x80:
            return found, at


class DoorNode:
    """A node with a door, as a process. `port`: of its door."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.http, self.port = free_ports(2)
        door = {"port": self.port} | settings.pop("mqtt", {})
        site = {"name": "hq", "tree": "test", "listener": {"port": self.http}, "mqtt": door}
        file = folder / "hq.yaml"
        file.write_text(json.dumps({"broker": site | settings}), encoding="utf-8")
        self.process = LoadedNode("hq", file, f"http://127.0.0.1:{self.http}")

    def start(self) -> Self:
        self.process.start(environment={"PYTHONWARNINGS": "error"})
        self.until(lambda: bool(self.ask("status")), "answering")
        return self

    def restart_after_kill(self) -> None:
        self.process.kill()
        self.start()

    def ask(self, path: str) -> Any:
        """An answer of the node's API, None while it has none."""
        try:
            with urllib.request.urlopen(f"{self.process.url}/api/{path}", timeout=60) as answer:
                return json.load(answer)
        except (OSError, ValueError):
            return None

    def until(self, holds: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + PATIENCE
        while not holds():
            assert self.process.running, self.process.last_words()
            assert time.monotonic() < end, f"not {what}: {self.process.last_words()}"
            time.sleep(0.05)

    def dead(self) -> dict[str, int]:
        """Dead letters by their reason."""
        found: dict[str, int] = self.ask("status")["dead"]["reasons"]
        return found


@contextmanager
def door_node(folder: Path, **settings: Any) -> Iterator[DoorNode]:
    made = DoorNode(folder, **settings)
    try:
        yield made.start()
        assert "Traceback" not in made.process.log.read_text(encoding="utf-8")
    finally:
        made.process.kill()
        while Wire.opened:
            Wire.opened.pop().close()
