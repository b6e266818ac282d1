"""`sapwood send` and `sapwood receive`: an application's session from the command line."""

import asyncio
import sys
from base64 import b64encode
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from broker.cli.errors import WRONG_USE, CommandError, read_given
from broker.cli.http import node_url, why_not_ready
from broker.cli.output import note, patience, print_json
from broker.cli.tls import Tls
from sapwood.client import Client, connect
from sapwood.options import PropertyOptions
from sapwood.options import properties_of as properties_from
from sapwood.protocol.bundles import Scope
from sapwood.protocol.destinations import Destination, Kind, parse
from sapwood.protocol.errors import InvalidName, PatternError
from treeconnector.patterns import check_topic
from treeconnector.wording import counted

if TYPE_CHECKING:
    from sapwood.inbox import Delivery
    from sapwood.options import Reach
    from sapwood.subscription import Subscription

Result = TypeVar("Result")
CONNECT_TIMEOUT: Final = 10.0
CREDIT: Final = 256
_ASKS_EVERY: Final = 30.0
"""Seconds without a confirmation after which a node is asked whether it takes messages at all."""
_ASKS_AGAIN: Final = 10.0
"""Seconds after which it is asked once more: it may just be started again, and confirm in a moment."""


@dataclass(frozen=True, slots=True)
class Login:
    """Where and as whom to log in. `secret`: the node's, or with `account` its password."""

    url: str
    session: str
    secret: str
    tls: Tls | None = None
    account: str = ""

    def client(self) -> Client:
        return connect(
            node_url(self.url),
            session=self.session,
            secret=None if self.account else self.secret or None,
            account=self.account,
            password=self.secret if self.account else None,
            timeout=CONNECT_TIMEOUT,
            tls=self.tls.context() if self.tls and node_url(self.url).startswith("https:") else None,
        )


@dataclass(frozen=True, slots=True)
class SendOptions:
    """What to send. The payload comes from the argument, standard input ('-' or nothing) or a file."""

    destination: str
    payload: str | None
    file: Path | None
    lines: bool
    persistent: bool
    retained: bool
    properties: PropertyOptions = field(default_factory=PropertyOptions)


def properties_of(
    headers: list[str], reply_to: str, correlation_id: int | None, expires_in: float, content_type: str
) -> PropertyOptions:
    """The properties that options name. Raises `CommandError` for what no message can have."""
    found: PropertyOptions = {}
    if headers:
        pairs = [each.partition("=") for each in headers]
        wrong = next((name for name, equals, _ in pairs if not (name and equals)), None)
        if wrong is not None:
            raise CommandError(f"--header {wrong!r}: expected NAME=VALUE", WRONG_USE)
        found["headers"] = {name: value for name, _, value in pairs}
    if reply_to:
        found["reply_to"] = reply_to
    if correlation_id is not None:
        found["correlation_id"] = correlation_id
    if expires_in:
        found["expires_in"] = expires_in * 1000
    if content_type:
        found["content_type"] = content_type
    try:
        properties_from(**found)
    except ValueError as error:
        raise CommandError(str(error), WRONG_USE) from error
    return found


@dataclass(frozen=True, slots=True)
class ReceiveOptions:
    """What to receive. `wait`: seconds for all `count` messages; not used with `follow`."""

    destination: str
    count: int
    wait: float
    follow: bool
    durable: str


def send_all(login: Login, what: SendOptions, *, as_json: bool) -> None:
    """Send, and return when the node has everything on its disk. Raises `CommandError` or `ClientError`."""
    destination = _destination(what.destination)
    if destination.kind is Kind.TOPIC:
        check_topic(destination.name)
    if what.retained and destination.kind is not Kind.TOPIC:
        raise CommandError("--retained is for topics: a queue keeps its messages anyway", WRONG_USE)
    payloads = list(_payloads(what))
    number = counted(len(payloads), "message")
    with patience(f"sending {number} to {destination}"):
        reach = asyncio.run(_send(login, destination, payloads, what))
    if as_json:
        said = {"destination": str(destination), "sent": len(payloads), "persistent": what.persistent}
        print_json(said if reach is None else said | {"reach": _reach(reach)})
    else:
        print(f"{number} sent to {destination}")
        if reach is not None:
            there = f"{counted(reach.readers, 'reader')} here, {counted(reach.onward, 'neighbour')} onward"
            print(f"{there}, scope {_reach(reach)['scope']}")
            if reach.passed_by:
                print(f"children that ask for it and are passed by: {reach.passed_by}")


async def _send(
    login: Login, destination: Destination, payloads: list[bytes], what: SendOptions
) -> "Reach | None":
    """Returns how far the last message of a topic goes, as far as the node says it."""
    options: dict[str, Any] = {"persistent": what.persistent, "retained": what.retained, **what.properties}
    async with login.client() as client:
        if destination.kind is not Kind.TOPIC or not payloads:
            await _confirmed(client.send_many(destination, payloads, **options), login)
            return None
        await _confirmed(client.send_many(destination, payloads[:-1], **options), login)
        return await _confirmed(client.send(destination, payloads[-1], **options), login)


async def _confirmed(sending: Coroutine[Any, Any, Result], login: Login) -> Result:
    """Its result, unless the node is one that takes nothing: it may never confirm what it has."""
    task, why = asyncio.ensure_future(sending), ""
    try:
        while not (await asyncio.wait((task,), timeout=_ASKS_AGAIN if why else _ASKS_EVERY))[0]:
            before, why = why, await asyncio.to_thread(why_not_ready, login.url, login.tls)
            if before and why:
                raise CommandError(f"not confirmed, and whether the node has it on disk is not known: {why}")
        return task.result()
    finally:
        task.cancel()


def _reach(reach: "Reach") -> dict[str, Any]:
    return reach._asdict() | {"scope": Scope(reach.scope).name.lower()}


def _payloads(what: SendOptions) -> Iterator[bytes]:
    if what.file is not None and what.payload is not None:
        raise CommandError("a payload and --file exclude each other: give one of them", WRONG_USE)
    if what.file is not None:
        data = read_given(what.file)
    elif what.payload is None or what.payload == "-":
        data = sys.stdin.buffer.read()
    else:
        data = what.payload.encode()
    yield from data.splitlines() if what.lines else (data,)


def receive_all(login: Login, what: ReceiveOptions, *, as_json: bool) -> None:
    """Print and acknowledge messages as they come. Raises `CommandError` if too few came in time."""
    destination = _destination(what.destination)
    if what.durable and destination.kind is not Kind.TOPIC:
        raise CommandError("--durable is for topics: a queue keeps its messages anyway", WRONG_USE)
    printer = _Printer(None if what.follow else what.count, as_json)
    try:
        asyncio.run(_receive(login, destination, what, printer))
    except KeyboardInterrupt:
        if what.follow:
            return  # that is how following ends
        raise
    if not what.follow and printer.received < what.count:
        raise CommandError(
            f"{printer.received} of {counted(what.count, 'message')} came within {what.wait:g} s"
        )


async def _receive(login: Login, destination: Destination, what: ReceiveOptions, printer: "_Printer") -> None:
    """The subscription ends with the session, after the last acknowledgements.

    A queue is made where it is not there: who receives is often the first.
    """
    credit = CREDIT if what.follow else min(CREDIT, what.count)
    async with login.client() as client:
        if destination.kind is Kind.QUEUE:
            await client.create(str(destination).removeprefix("queue:"))
        subscription = client.subscribe(destination, credit=credit, durable=what.durable)
        await subscription.ready()
        if sys.stderr.isatty():
            note(f"waiting for messages of {destination} …")
        with suppress(TimeoutError):
            async with asyncio.timeout(None if what.follow else what.wait):
                await printer.print_all(subscription)


class _Printer:
    """Prints and acknowledges up to `count` messages (None: for ever). `received`: how many it has."""

    def __init__(self, count: int | None, as_json: bool) -> None:
        self.received = 0
        self._count = count
        self._as_json = as_json

    async def print_all(self, subscription: "Subscription") -> None:
        async for delivery in subscription:
            _print(delivery, self._as_json)
            delivery.ack()
            self.received += 1
            if self.received == self._count:
                return


def _print(delivery: "Delivery", as_json: bool) -> None:
    if as_json:
        print_json(as_fields(delivery))
        return
    sys.stdout.buffer.write(delivery.payload + b"\n")
    sys.stdout.flush()


def as_fields(delivery: "Delivery") -> dict[str, Any]:
    """A message for JSON; a payload that is no UTF-8 comes as base64 and says so."""
    fields: dict[str, Any] = {
        "destination": str(delivery.destination),
        "message_id": delivery.message_id,
        "transfer_id": delivery.transfer_id,
        "redelivered": delivery.redelivered,
        "origin": delivery.origin,
    }
    try:
        fields["payload"] = delivery.payload.decode()
    except UnicodeDecodeError:
        fields |= {"payload": b64encode(delivery.payload).decode(), "encoding": "base64"}
    properties = delivery.properties
    for name in ("correlation_id", "reply_to", "task_id", "content_type"):
        if (value := getattr(properties, name)) not in (None, ""):
            fields[name] = value
    return fields


def _destination(text: str) -> Destination:
    try:
        return parse(text)
    except (InvalidName, PatternError) as error:
        raise CommandError(str(error), WRONG_USE) from None
