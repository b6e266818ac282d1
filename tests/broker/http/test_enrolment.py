"""The paths where nodes join: bounded in size and in tries, and closed to web pages."""

from collections.abc import AsyncIterator

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer

from broker.enrolment.errors import EnrolmentRefused
from broker.enrolment.messages import MAX_BODY, Granted
from broker.http.enrolment import PER_SECOND, TRIES, EnrolmentEndpoint, RequestAllowance

JOIN = {"invitation": "AAAA", "request": "AAAA", "proof": "AAAA"}


class FakeOffice:
    authority = type("Authority", (), {"trusted": b"-----BEGIN CERTIFICATE-----"})

    def __init__(self) -> None:
        self.asked: list[object] = []

    async def join(self, asked: object) -> Granted:
        self.asked.append(asked)
        return Granted(certificate="one", authorities="two", ways=["three"])

    async def renew(self, asked: object) -> Granted:
        raise EnrolmentRefused("ENDED", "the grace is over")


@pytest.fixture
def office() -> FakeOffice:
    return FakeOffice()


@pytest.fixture
async def url(office: FakeOffice) -> AsyncIterator[str]:
    app = web.Application(client_max_size=2**30)
    EnrolmentEndpoint(office).add_to(app.router)  # type: ignore[arg-type]
    async with TestServer(app) as server:
        yield str(server.make_url(""))


async def test_who_asks_is_answered(url: str, office: FakeOffice) -> None:
    async with ClientSession() as http:
        async with http.get(f"{url}/enrol/authorities") as answer:
            assert await answer.read() == b"-----BEGIN CERTIFICATE-----"
        async with http.post(f"{url}/enrol/join", json=JOIN) as answer:
            assert await answer.json() == {"certificate": "one", "authorities": "two", "ways": ["three"]}
        async with http.post(f"{url}/enrol/renew", json={"request": "", "signature": ""}) as answer:
            assert (answer.status, await answer.json()) == (
                410,
                {"code": "ENDED", "text": "the grace is over"},
            )


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"invitation": 7}', b"[" * 10_000])
async def test_nonsense_is_refused(url: str, office: FakeOffice, body: bytes) -> None:
    async with ClientSession() as http, http.post(f"{url}/enrol/join", data=body) as answer:
        assert (answer.status, (await answer.json())["code"]) == (400, "BAD_REQUEST")
    assert not office.asked


async def test_a_long_body_is_not_read_to_its_end(url: str, office: FakeOffice) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b"x" * MAX_BODY

    async with ClientSession() as http:
        for body in (b"x" * (MAX_BODY + 1), chunks()):
            async with http.post(f"{url}/enrol/join", data=body) as answer:
                assert answer.status == 400
                assert f"expected {MAX_BODY} bytes at most" in (await answer.json())["text"]


async def test_a_page_in_a_browser_joins_nothing(url: str, office: FakeOffice) -> None:
    headers = {"Origin": "https://example.com"}
    async with ClientSession() as http, http.post(f"{url}/enrol/join", json=JOIN, headers=headers) as answer:
        assert answer.status == 403
    assert not office.asked


async def test_an_address_has_a_few_tries(url: str, office: FakeOffice) -> None:
    async with ClientSession() as http:
        statuses = []
        for _ in range(4 * TRIES):
            async with http.post(f"{url}/enrol/join", json=JOIN) as answer:
                statuses.append(answer.status)
                if answer.status == 429:
                    assert answer.headers["Retry-After"] == "60"
                    break
        assert statuses[:TRIES] == [200] * TRIES
        assert statuses[-1] == 429


async def test_who_asks_for_the_authorities_takes_no_try_from_who_joins(url: str, office: FakeOffice) -> None:
    """Of 150 machines behind one address six had joined after a minute, and not one each two seconds."""
    async with ClientSession() as http:
        for _ in range(4 * TRIES):
            async with http.get(f"{url}/enrol/authorities") as answer:
                assert answer.status == 200
        async with http.post(f"{url}/enrol/join", json=JOIN) as answer:
            assert answer.status == 200


def test_tries_come_back_and_are_counted_for_each_address() -> None:
    now = [0.0]
    tries = RequestAllowance(lambda: now[0])
    assert [tries.take("10.0.0.1") for _ in range(TRIES + 1)] == [True] * TRIES + [False]
    assert tries.take("10.0.0.2")
    now[0] += 1 / PER_SECOND
    assert [tries.take("10.0.0.1") for _ in range(2)] == [True, False]


def test_all_of_an_ipv6_network_have_the_tries_of_one_address() -> None:
    tries = RequestAllowance(lambda: 0.0)
    assert sum(tries.take(f"2001:db8::{number:x}") for number in range(2 * TRIES)) == TRIES
    assert tries.take("2001:db8:0:1::1")


def test_addresses_that_are_remembered_are_bounded() -> None:
    tries = RequestAllowance(lambda: 0.0)
    for number in range(10_000):
        tries.take(f"10.0.{number >> 8}.{number & 255}")
    assert len(tries._left) <= 4096
