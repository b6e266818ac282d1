"""Names of services are looked up once at a time, and nobody else waits for them."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from broker.forwards.service_names import ServiceNames

FOUND = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 80))]


@pytest.fixture
def names() -> Iterator[ServiceNames]:
    made = ServiceNames()
    yield made
    made.close()


class Resolver:
    """Knows addresses at once, and answers a name when it is let."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[str] = []
        self.answers = threading.Event()
        self._real = socket.getaddrinfo
        monkeypatch.setattr(socket, "getaddrinfo", self.look_up)

    def look_up(self, host: str, port: int, **told: Any) -> Any:
        if told["flags"] & socket.AI_NUMERICHOST:
            return self._real(host, port, **told)
        self.asked.append(host)
        self.answers.wait(60)
        if host == "nobody.shop":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return FOUND


async def test_however_many_ask_for_a_host_one_question_is_under_way(
    names: ServiceNames, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolver = Resolver(monkeypatch)
    waiting = [asyncio.create_task(names.addresses("till.shop", 80)) for _ in range(500)]
    given_up = [asyncio.create_task(names.addresses("nobody.shop", 80)) for _ in range(500)]
    await asyncio.sleep(0)
    async with asyncio.timeout(60):
        assert await names.addresses("127.0.0.1", 80) == FOUND, "an address waits for no name"
        await asyncio.get_running_loop().run_in_executor(None, str), "nor does whoever needs a thread"
        for task in given_up[1:]:
            task.cancel()
        assert repr(names) == "<ServiceNames asked=2>"
        resolver.answers.set()
        assert await asyncio.gather(*waiting) == [FOUND] * 500
        with pytest.raises(OSError, match="Name or service not known"):
            await given_up[0]
    assert sorted(resolver.asked) == ["nobody.shop", "till.shop"]
    assert repr(names) == "<ServiceNames asked=0>"
    assert await names.addresses("till.shop", 80) == FOUND
    assert resolver.asked[2:] == ["till.shop"], "later it is asked anew"


async def test_a_name_that_no_resolver_takes_is_said(names: ServiceNames) -> None:
    with pytest.raises(UnicodeError):
        await names.addresses("till..shop", 80)
