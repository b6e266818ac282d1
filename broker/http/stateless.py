"""Without a session: publish, receive and acknowledge, each in one request, for scripts and any language.

Law: a publish is answered when the message is on disk, an acknowledgement when that is. A receive lends its
messages: each lease is a session of its own, which ends with its last message, when its time is over, or when
whoever asked has gone before the answer; what is not acknowledged by then is given again, and marked so.

A caller proves it as for any session: an account, the session secret, a certificate, this very machine where
nothing is configured; or, for programs and the node's own pages, the token of the administration.
"""

import asyncio
import base64
import math
import secrets
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

import msgspec
from aiohttp import web

from broker.api.operation import Operation
from broker.api.stateless import ACKNOWLEDGE, PUBLISH, RECEIVE, Acknowledged, Published, Receipts, Received
from broker.core.clients.transfers import Fetched
from broker.core.errors import TOO_MANY, BadRequest, Busy, NotFound, SwitchError
from broker.core.sessions.rights import FULL, Rights
from broker.core.sessions.sessions import Connection
from broker.http.answers import answer_of, error_of
from broker.http.bindings import Bindings, HttpLine, nothing_is_pushed
from broker.http.guard import PageOrigin, address, asker, page_of, why_not
from broker.http.ports import NodePort
from broker.http.refusals import cut_when_refused, plain_body
from broker.http.settings import HttpSettings
from broker.http.verbs import STATUS, facts_of
from sapwood.protocol.bundles import Message, Properties
from sapwood.protocol.errors import SapwoodError

MOST_LEASES: Final = 1000
MOST_OF_ONE: Final = 500
_FORM: Final = "application/x-www-form-urlencoded"
"""Said by curl of whatever it posts, so it says nothing."""
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Lease:
    """Messages that somebody has until they are acknowledged, at most until the lease ends."""

    def __init__(self, node: NodePort, rights: Rights, address: str, ended: Callable[[str], object]) -> None:
        self.name = secrets.token_hex(16)
        self.rights = rights
        self.numbers: set[int] = set()
        self._node = node
        self._ended = ended
        self._timer: asyncio.TimerHandle | None = None
        self.connection = Connection(nothing_is_pushed, address, "http", rights, lambda why: self.end())

    def __repr__(self) -> str:
        return f"<Lease of {len(self.numbers)} messages to {self.rights!r}>"

    def begin(self, found: list[Fetched], seconds: float) -> None:
        self.numbers = {each.number for each in found}
        self._timer = asyncio.get_running_loop().call_later(seconds, self.end)

    async def fetch(self, line: HttpLine, wait: float) -> list[Fetched]:
        """Messages that are there; where there are none, as soon as there is, for `wait` seconds at most."""
        loop, switch = asyncio.get_running_loop(), self._node.switch
        end = loop.time() + wait
        while not (found := switch.transfer(self.connection, -1)) and loop.time() < end and not line.gone:
            woken = asyncio.Event()
            waiter = switch.wait(self.connection, -1, woken.set)
            line.watch(woken.set)
            self._node.wake()
            try:
                async with asyncio.timeout_at(end):
                    await woken.wait()
            except TimeoutError:
                pass
            finally:
                line.unwatch(woken.set)
                switch.cancel(waiter)
        told = asyncio.Event()
        switch.when_told(found, told.set)
        self._node.wake()
        await told.wait()
        return found

    def end(self) -> None:
        """Give back what was not acknowledged. Calling it again does nothing."""
        if self._timer is not None:
            self._timer.cancel()
        self._ended(self.name)
        self._node.switch.close(self.connection)
        self._node.wake()


class Stateless:
    """Serves the operations of `broker.api.stateless`."""

    def __init__(self, node: NodePort, settings: HttpSettings, bindings: Bindings) -> None:
        self._node = node
        self._settings = settings
        self._bindings = bindings
        self._leases: dict[str, Lease] = {}

    def __repr__(self) -> str:
        return f"<Stateless with {len(self._leases)} leases>"

    def add_to(self, app: web.Application) -> None:
        router = app.router
        router.add_post("/api/publish/{destination:.+}", self._answering(self._publish))
        router.add_get("/api/receive/{queue:.+}", self._answering(self._receive), allow_head=False)
        router.add_post("/api/ack/{receipt}", self._answering(self._acknowledge))
        app.on_shutdown.append(self._end)

    def _answering(self, work: Callable[[web.Request, HttpLine, Rights], Awaitable[Any]]) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            try:
                line = self._bindings.line(request)
                rights = await self._rights(request, line)
                with self._while_it_may(request):
                    answer = await work(request, line, rights)
            except SapwoodError as error:
                return error_of(error, STATUS)
            return answer_of(answer)

        return handle

    async def _rights(self, request: web.Request, line: HttpLine) -> Rights:
        """Before anything of a body is read. Raises `SwitchError`."""
        if self._is_of_operator(request):
            rights = FULL
        else:
            facts = facts_of(request)
            if facts.refused:
                raise SwitchError(facts.refused)
            caller = line.caller(facts.account, facts.secret, near=facts.here)
            rights = await self._node.entrance.admitted(caller)
        if line.guest is not None:
            if not line.guest.may_log_in:
                raise Busy(TOO_MANY)
            line.guest.prove()
        return rights

    def _is_of_operator(self, request: web.Request) -> bool:
        operators = self._settings.operators
        if why_not(request, operators, "operator") is not None:
            return False
        return operators.ask_all or page_of(request) is PageOrigin.OWN

    def _write_down(self, request: web.Request, asked: dict[str, Any], size: int) -> None:
        """A person publishes by the node's own page. Those of programs are as many as messages are."""
        if page_of(request) is PageOrigin.OWN and self._is_of_operator(request):
            who = asker(request, self._settings.operators)
            said = {name: value for name, value in asked.items() if value} | {"size": size}
            call = f"{PUBLISH.method} {PUBLISH.path}"
            self._node.running.trail.add(who.name, who.role, address(request), call, said)

    def _while_it_may(self, request: web.Request) -> AbstractContextManager[None]:
        """An operator waits no longer than the file allows. The session of an account ends by itself."""
        if self._is_of_operator(request):
            return cut_when_refused(request, self._settings.operators, "operator")
        return nullcontext()

    # --- what is asked

    async def _publish(self, request: web.Request, line: HttpLine, rights: Rights) -> Published:
        asked = _read(PUBLISH, request)
        payload = await plain_body(request, self._settings.max_message)
        said = request.headers.get("Content-Type", "")
        properties = Properties(
            correlation_id=asked["correlation_id"],
            reply_to=asked["reply_to"],
            expires_in=math.ceil(asked["expires_in"] * 1000),
            message_id=asked["message_id"],
            headers=_headers(asked["headers"]),
            content_type="" if said == _FORM else said,
        )
        switch, connection = self._node.switch, _connection(line, rights)
        stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done(error: SwitchError | None) -> None:
            if not stored.done():
                stored.set_result(None) if error is None else stored.set_exception(error)

        switch.login(connection, "publish")
        try:
            message = Message(payload, properties)
            switch.send(connection, asked["destination"], message, done, retained=asked["retained"])
            self._node.wake()
            await stored
        finally:
            switch.close(connection)
            self._node.wake()
        self._write_down(request, asked, len(payload))
        return Published(destination=asked["destination"])

    async def _receive(self, request: web.Request, line: HttpLine, rights: Rights) -> Receipts:
        asked = _read(RECEIVE, request)
        queue = asked["queue"].removeprefix("queue:")
        of_one = sum(each.rights.who == rights.who for each in self._leases.values())
        if len(self._leases) >= MOST_LEASES or of_one >= MOST_OF_ONE:
            raise Busy(f"{of_one} leases of yours, {len(self._leases)} of all: acknowledge, or wait")
        lease = Lease(self._node, rights, line.address, self._forget)
        self._leases[lease.name] = lease
        found: list[Fetched] = []
        try:
            self._node.switch.login(lease.connection, lease.name)
            if asked["create"]:
                self._node.switch.create(lease.connection, queue)
            self._node.switch.subscribe(lease.connection, queue, asked["count"])
            found = await lease.fetch(line, min(asked["wait"], self._settings.max_wait))
        finally:
            if found and not line.gone:
                lease.begin(found, asked["lease"])
            else:
                lease.end()
        return Receipts(messages=[_received(lease, each) for each in found], lease_s=asked["lease"])

    async def _acknowledge(self, request: web.Request, line: HttpLine, rights: Rights) -> Acknowledged:
        receipt = _read(ACKNOWLEDGE, request)["receipt"]
        name, _, number = receipt.partition("-")
        lease = self._leases.get(name)
        found = [each for each in lease.numbers if str(each) == number] if lease is not None else []
        if lease is None or not found or lease.rights.who != rights.who:
            raise NotFound("no such receipt: its lease has ended, and the message is given again")
        done = asyncio.Event()
        self._node.switch.acknowledge(lease.connection, found[0], lambda error: done.set())
        lease.numbers.discard(found[0])
        self._node.wake()
        await done.wait()
        if not lease.numbers:
            lease.end()
        return Acknowledged(acknowledged=receipt)

    def _forget(self, name: str) -> None:
        self._leases.pop(name, None)

    async def _end(self, _app: web.Application) -> None:
        for lease in list(self._leases.values()):
            lease.end()


def _read(operation: Operation, request: web.Request) -> dict[str, Any]:
    return operation.read(request.match_info, request.query, b"")


def _headers(text: str) -> dict[str, Any]:
    """Raises `BadRequest` for what is no object, or no message can carry."""
    if not text:
        return {}
    try:
        found = msgspec.json.decode(text, type=dict[str, Any])
        msgspec.msgpack.encode(found)  # JSON has larger integers
    except (msgspec.DecodeError, RecursionError, OverflowError) as error:
        raise BadRequest(f"headers={text[:40]!r}: expected a JSON object: {error}") from None
    return found


def _connection(line: HttpLine, rights: Rights) -> Connection:
    return Connection(nothing_is_pushed, line.address, "http", rights)


def _received(lease: Lease, fetched: Fetched) -> Received:
    message, properties = fetched.message, fetched.message.properties
    try:
        payload, is_text = message.payload.decode(), True
    except UnicodeDecodeError:
        payload, is_text = base64.b64encode(message.payload).decode(), False
    return Received(
        receipt=f"{lease.name}-{fetched.number}",
        payload=payload,
        encoding="utf-8" if is_text else "base64",
        redelivered=fetched.redelivered,
        correlation_id=properties.correlation_id,
        reply_to=properties.reply_to,
        message_id=properties.message_id,
        content_type=properties.content_type,
        headers=properties.headers,
    )
