"""RabbitMQ's management API, as far as it is needed: the queues of a virtual host, and bindings.

It tells what AMQP has no question for. Its counts of consumers lag by seconds and are used for streams only,
of which AMQP tells none.
"""

import ssl
from base64 import b64encode
from collections.abc import Callable
from typing import Any, Final, cast
from urllib.parse import quote

import aiohttp
import msgspec

from bridges.amqp.errors import ManagementError
from bridges.site_brokers.rabbitmq.consumers import Listed
from bridges.site_brokers.rabbitmq.exchanges import through
from bridges.site_brokers.rabbitmq.policies import Harm, Policy, harm_of
from sapwood.protocol.errors import SapwoodError

PORT: Final = 15672
TLS_PORT: Final = 15671
_PAGE: Final = 500
_MAX_ANSWER: Final = 64 * 1024 * 1024
MOST_LISTED: Final = 100_000
_MOST_SOURCES: Final = 1000
_MOST_BEHIND: Final = 1000
"""Bindings of exchanges to others that are followed."""


class _Queue(msgspec.Struct):
    name: str
    durable: bool = False
    exclusive: bool = False
    auto_delete: bool = False
    type: str = ""
    messages: int = 1


class _Page(msgspec.Struct):
    items: list[_Queue]
    page_count: int = 1


class _Binding(msgspec.Struct):
    destination: str
    destination_type: str
    routing_key: str


class _Source(msgspec.Struct):
    source: str


class _Exchange(msgspec.Struct):
    type: str


class _Reader(msgspec.Struct):
    consumer_tag: str


class _Readers(msgspec.Struct):
    consumer_details: list[_Reader] = []


class _Connected(msgspec.Struct):
    user_provided_name: str | None = None


class _User(msgspec.Struct):
    name: str
    tags: list[str] | str = ""


class Management:
    """Questions to one management API. `uri`: such as http://localhost:15672. Raises `ManagementError`.

    `password`: asked for each time, since a connection may have been made with an older one.
    """

    def __init__(
        self,
        uri: str,
        user: str,
        password: Callable[[], str],
        tls: ssl.SSLContext | None = None,
        timeout: float = 10.0,
    ) -> None:
        self.uri = uri.rstrip("/")
        self._user = user
        self._password = password
        self._tls = tls
        self._timeout = timeout

    def __repr__(self) -> str:
        return f"<Management {self.uri} as {self._user}>"

    async def tags(self) -> list[str]:
        """The rights of our user there, in the broker's words."""
        found = await self._get("/whoami", _User)
        return found.tags.split(",") if isinstance(found.tags, str) else found.tags

    async def queues(self, vhost: str) -> list[Listed]:
        """All queues of a virtual host."""
        found: list[Listed] = []
        page = pages = 1
        while page <= pages:
            path = f"/queues/{_quoted(vhost)}?page={page}&page_size={_PAGE}&pagination=true"
            answer = await self._get(
                path + "&columns=name,durable,exclusive,auto_delete,type,messages", _Page
            )
            found += (
                Listed(
                    each.name,
                    each.durable,
                    each.exclusive,
                    each.auto_delete,
                    each.type == "stream",
                    each.messages > 0,
                )
                for each in answer.items
            )
            if len(found) > MOST_LISTED or page * _PAGE > MOST_LISTED:
                raise ManagementError(f"{self.uri} lists more than {MOST_LISTED} queues")
            page, pages = page + 1, answer.page_count
        return found

    async def readers(self, vhost: str, name: str) -> list[str] | None:
        """The tags of a queue's consumers, some seconds late; None: there is no such queue."""
        try:
            answer = await self._get(
                f"/queues/{_quoted(vhost)}/{_quoted(name)}?columns=consumer_details", _Readers
            )
        except ManagementError as error:
            if error.status == 404:
                return None
            raise
        return [each.consumer_tag for each in answer.consumer_details]

    async def bindings(self, vhost: str, exchange: str) -> tuple[list[tuple[str, str]], set[str]]:
        """All bindings of queues to a topic exchange, directly and through other exchanges: (queue, key), the
        key as if it were bound directly; and these exchanges.
        """
        found: list[tuple[str, str]] = []
        left: list[tuple[str, str | None]] = [(exchange, None)]
        seen: set[tuple[str, str]] = set()
        known = {exchange: ("topic", await self._bound_to(vhost, exchange))}
        while left:
            name, key = left.pop()
            if name not in known:
                kind = await self.kind_of_exchange(vhost, name) or ""
                known[name] = kind, await self._bound_to(vhost, name)
            kind, bound = known[name]
            for each in bound:
                own = each.routing_key if key is None else through(key, kind, each.routing_key)
                there = each.destination, own or ""
                if own is not None and each.destination_type == "queue":
                    found.append((each.destination, own))
                elif own is not None and there not in seen and len(seen) < _MOST_BEHIND:
                    seen.add(there)
                    left.append(there)
        return found, {name for name, _ in seen}

    async def _bound_to(self, vhost: str, exchange: str) -> list[_Binding]:
        path = f"/exchanges/{_quoted(vhost)}/{_quoted(exchange)}/bindings/source"
        return cast("list[_Binding]", await self._of_exchange(path, list[_Binding]))

    async def _of_exchange(self, path: str, kind: Any) -> Any:
        """A list; empty where there is no such exchange, since one may be deleted while all runs."""
        try:
            return await self._get(path, kind)
        except ManagementError as error:
            if error.status == 404:
                return []
            raise

    async def sources(self, vhost: str, exchange: str) -> set[str]:
        """The exchanges from which messages come to an exchange, directly and through others."""
        found, left = set[str](), [exchange]
        while left and len(found) < _MOST_SOURCES:
            path = f"/exchanges/{_quoted(vhost)}/{_quoted(left.pop())}/bindings/destination"
            new = {each.source for each in await self._of_exchange(path, list[_Source])} - found - {exchange}
            found |= new
            left += new
        return found

    async def kind_of_exchange(self, vhost: str, name: str) -> str | None:
        """Its type; None: there is no such exchange."""
        try:
            answer = await self._get(f"/exchanges/{_quoted(vhost)}/{_quoted(name)}", _Exchange)
        except ManagementError as error:
            if error.status == 404:
                return None
            raise
        return str(answer.type)

    async def harm(self, vhost: str) -> Harm | None:
        """The harm of a policy to our queue of topics; None: none, or it does not say."""
        try:
            policies = await self._get(f"/policies/{_quoted(vhost)}", list[Policy])
            operators = await self._get(f"/operator-policies/{_quoted(vhost)}", list[Policy])
        except ManagementError as error:
            if error.status in (401, 403, 404):
                return None
            raise
        return harm_of(vhost, policies, operators)

    async def connections(self, vhost: str) -> set[str]:
        """The names that those who are connected to a virtual host gave themselves.

        Wrinkle: RabbitMQ writes an object without columns as an empty list.
        """
        path = f"/vhosts/{_quoted(vhost)}/connections?columns=user_provided_name"
        found: list[_Connected | list[Any]] = await self._get(path, list[_Connected | list[Any]])
        names = [each.user_provided_name for each in found if isinstance(each, _Connected)]
        return {name for name in names if name}

    def _credentials(self) -> str:
        try:
            return "Basic " + b64encode(f"{self._user}:{self._password()}".encode()).decode()
        except SapwoodError as error:
            raise ManagementError(str(error)) from None

    async def _get(self, path: str, kind: Any) -> Any:
        session = aiohttp.ClientSession(
            headers={"Authorization": self._credentials()},
            timeout=aiohttp.ClientTimeout(total=self._timeout),
        )
        try:
            async with session, session.get(f"{self.uri}/api{path}", ssl=self._tls or True) as answer:
                if answer.status != 200:
                    raise ManagementError(self._refusal(answer.status), answer.status)
                body = bytearray()
                while not answer.content.at_eof() and len(body) <= _MAX_ANSWER:
                    body += await answer.content.read(_MAX_ANSWER)
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise ManagementError(
                f"{self.uri} does not answer: {str(error) or type(error).__name__}"
            ) from None
        return self._read(body, kind)

    def _read(self, body: bytearray, kind: Any) -> Any:
        if len(body) > _MAX_ANSWER:
            raise ManagementError(f"{self.uri} answers with more than {_MAX_ANSWER} bytes")
        try:
            return msgspec.json.decode(body, type=kind)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise ManagementError(f"{self.uri} answers what no RabbitMQ answers: {error}") from None

    def _refusal(self, status: int) -> str:
        if status in (401, 403):
            return f"{self.uri} does not let user {self._user!r} in [{status}]"
        return f"{self.uri} answers with status {status}"


def _quoted(name: str) -> str:
    return quote(name, safe="")
