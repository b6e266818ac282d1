"""A client of the link-level protocol, written from its text alone: sockets, HTTP by hand, JSON.

It knows nothing of this project's packages. It sends no Host header, reads every answer by its Content-Length
and fails on anything else, and checks on each answer that it leads to the documentation.
"""

import contextlib
import json
import re
import socket
import struct
from dataclasses import dataclass
from typing import Any, Self

PATIENCE = 180.0


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def note(self) -> str:
        """Says apart what is 200 for old clients' sake."""
        return self.headers.get("sapwood-note", "")


class Link:
    """One connection. `send_raw` and `answer` may be used apart, for requests that are under way together."""

    def __init__(self, port: int, timeout: float = PATIENCE) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.data = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def reset(self) -> None:
        """Go without a word: the peer gets a reset."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def send_raw(self, data: bytes) -> None:
        self.socket.sendall(data)

    def begin(
        self,
        path: str | bytes,
        body: bytes | None = None,
        *headers: str,
        method: str = "",
        version: str = "1.1",
    ) -> None:
        """Send a request: GET, or POST where there is a body."""
        method = method or ("GET" if body is None else "POST")
        raw = path.encode() if isinstance(path, str) else path
        lines = list(headers)
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        head = b"%b %b HTTP/%b\r\n" % (method.encode(), raw, version.encode())
        self.send_raw(head + "".join(f"{line}\r\n" for line in lines).encode() + b"\r\n" + (body or b""))

    def ask(self, path: str | bytes, body: bytes | None = None, *headers: str, **more: str) -> Answer:
        self.begin(path, body, *headers, **more)
        return self.answer()

    def answer(self) -> Answer:
        head = self._until(b"\r\n\r\n").decode()
        first, *lines = head.rstrip("\r\n").split("\r\n")
        found = re.fullmatch(r"HTTP/1\.1 (\d{3}) .+", first)
        assert found, first
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        assert "transfer-encoding" not in headers, head
        assert headers["link"] == '</docs>; rel="help"', head
        return Answer(int(found[1]), headers, self._exactly(int(headers["content-length"])))

    def ended(self) -> bool:
        """Has the node closed the connection? Waits for that."""
        self.socket.settimeout(PATIENCE)
        with contextlib.suppress(ConnectionResetError):
            return self.socket.recv(1) == b""
        return True

    def _until(self, end: bytes) -> bytes:
        while end not in self.data:
            self._more()
        found, _, self.data = self.data.partition(end)
        return found + end

    def _exactly(self, size: int) -> bytes:
        while len(self.data) < size:
            self._more()
        found, self.data = self.data[:size], self.data[size:]
        return found

    def _more(self) -> None:
        data = self.socket.recv(1 << 16)
        if not data:
            raise ConnectionError(f"closed after {self.data!r}")
        self.data += data

    # --- the verbs

    def well(self, path: str | bytes, body: bytes | None = None, *headers: str) -> str:
        """Ask for something that must be granted; returns the answer's body."""
        answer = self.ask(path, body, *headers)
        assert answer.status == 200, (path, answer)
        return answer.text

    def login(self, token: str, *headers: str) -> Self:
        assert self.well(f"/login/{token}", None, *headers) == ""
        return self

    def create(self, name: str = "") -> str:
        return self.well(f"/create/{name}" if name else "/create")

    def subscribe(self, name: str) -> None:
        assert self.well(f"/subscribe/{name}") == ""

    def read(self, name: str) -> None:
        """Create a queue and subscribe to it."""
        self.create(name)
        self.subscribe(name)

    def send(self, name: str, payload: bytes = b"x", cid: int = 1, reply_to: str = "") -> None:
        path = f"/send/{name}/{cid}" + (f"/{reply_to}" if reply_to else "")
        assert self.well(path, payload) == ""

    def ack(self, number: int) -> None:
        assert self.well(f"/ack/{number}") == ""

    def transfer(self, ack_to: int = -1, timeout: float = 0.0) -> list[tuple[int, dict[str, Any]]]:
        return messages(self.ask(f"/transfer/{ack_to}/{timeout}"))

    def begin_transfer(self, ack_to: int = -1, timeout: float = PATIENCE) -> None:
        self.begin(f"/transfer/{ack_to}/{timeout}")

    def mail(self) -> list[tuple[int, dict[str, Any]]]:
        """The answer of a transfer that was begun."""
        return messages(self.answer())


def messages(answer: Answer) -> list[tuple[int, dict[str, Any]]]:
    """The messages of a transfer's answer, whose form is checked."""
    assert answer.status == 200, answer
    body = json.loads(answer.body)
    assert list(body) == ["messages"]
    found = [(number, message) for number, message in body["messages"]]
    numbers = [number for number, _ in found]
    assert all(type(number) is int for number in numbers)
    assert numbers == sorted(set(numbers))
    for _, message in found:
        assert {"payload", "correlation_id"} <= set(message), message
        optional = {"reply_to", "encoding", "task_id", "origin", "redelivered"}
        assert set(message) <= {"payload", "correlation_id"} | optional, message
        assert message.get("redelivered", True) is True
        assert type(message["correlation_id"]) is int
    return found


def again(found: list[tuple[int, dict[str, Any]]]) -> list[tuple[int, dict[str, Any]]]:
    """The same messages, as an answer tells of them that may be a repetition."""
    return [(number, message | {"redelivered": True}) for number, message in found]


def payloads(found: list[tuple[int, dict[str, Any]]]) -> list[str]:
    return [message["payload"] for _, message in found]


def ids(found: list[tuple[int, dict[str, Any]]]) -> list[int]:
    return [number for number, _ in found]
