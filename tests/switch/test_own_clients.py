"""What our own clients ask leads to the documentation as well."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable

import pytest

from broker.cli.errors import CommandError
from broker.cli.http import ask
from sapwood import ConnectFailed, connect

LINK = b'\r\nLink: </docs>; rel="help"\r\n'


async def open_a_session(url: str) -> None:
    with contextlib.suppress(ConnectFailed):
        await connect(url, session="t", timeout=5.0).open()


def ask_for_status(url: str) -> None:
    with contextlib.suppress(CommandError):
        ask(url, "/api/status")


@pytest.mark.parametrize("client", [lambda url: asyncio.run(open_a_session(url)), ask_for_status])
def test_every_request_says_where_the_protocol_is_described(client: Callable[[str], None]) -> None:
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                asked.append(connection.recv(1 << 16))
                connection.sendall(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        client(f"http://127.0.0.1:{listener.getsockname()[1]}")
        thread.join(10)
    (request,) = asked
    assert LINK in request
