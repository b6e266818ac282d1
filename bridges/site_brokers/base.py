"""The port between a node and the broker that its site's applications use.

A bridge knows one kind of broker and nothing of the tree; the node's desk knows the tree and nothing of
brokers. All names here are as the site's applications know them, in our spelling (`treeconnector.patterns`,
`sapwood.protocol.destinations`); renaming is the desk's. `docs/site-brokers.md` tells the whole contract.

Law: everything runs on one event loop, and all calls but `run` and `inspect` are synchronous, buffered and
quick. A bridge lives as long as the node; a *connection* is one call of `run`. All that the desk handed over
(`deliver`) and was handed (`take`) is void when that call ends: deliveries come again, and `done` of
an earlier connection must be ignored. Third-party exceptions never leave a bridge.

Errors:

    SapwoodError
      SiteBrokerError          the connection is lost or could not be made; the desk tries again
        SiteBrokerRefused      another node holds this broker, a wrong password: trying again is no use
"""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from config.site_brokers import SiteBroker
from sapwood.protocol.destinations import Destination
from sapwood.protocol.errors import SapwoodError
from treeconnector.edge import CREDIT, BrokerConsumer, BrokerDelivery, Taken

__all__ = [
    "CREDIT",
    "Bridge",
    "BrokerConsumer",
    "BrokerDelivery",
    "Desk",
    "Finding",
    "NotTaken",
    "Setup",
    "SiteBrokerError",
    "SiteBrokerRefused",
    "Taken",
    "in_parts",
    "unanswerable",
]

_log = logging.getLogger("sapwood.site")
_PART: Final = 1000
Item = TypeVar("Item")


class SiteBrokerError(SapwoodError):
    """No connection to the site's broker, or no more. The text says what was tried, and what to look at."""


class SiteBrokerRefused(SiteBrokerError):
    """Trying again does not help: the node stops if this comes at its start, and says so later."""


def unanswerable(reply_to: str) -> str:
    """The reason of the dead letter that a request becomes that wants its answer at a name beyond reach."""
    return f"UNANSWERABLE: {reply_to[:80]!r}, where the answer is to go, has no name across the site's broker"


class Finding(NamedTuple):
    """One finding of `sapwood node check` about a broker. `lines`: what to add there, ready to be copied.

    `fatal`: the bridge cannot work like that; else it works with what `text` says it lacks.
    """

    fatal: bool
    text: str
    lines: tuple[str, ...] = ()


async def in_parts(items: Iterable[Item]) -> AsyncIterator[list[Item]]:
    """All of them, so many at once that others have their turns between."""
    rest = iter(items)
    while part := list(islice(rest, _PART)):
        yield part
        if len(part) == _PART:
            await asyncio.sleep(0)


class NotTaken:
    """Names that are wanted and not taken from the broker, with the reason: each is said in the log, once.

    `reasons`: by name, for people; `most` of them are kept. `what`: of names of which something else is to be
    said.
    """

    def __init__(self, most: int, what: str = "is not taken from the site's broker") -> None:
        self.reasons: dict[str, str] = {}
        self._most = most
        self._what = what

    def note(self, name: str, why: str) -> None:
        if self.reasons.get(name) != why and len(self.reasons) < self._most:
            self.reasons[name] = why
            _log.warning("! %s %s: %s", name, self._what, why, extra={"reason": why})

    def is_over(self, name: str) -> None:
        """It is taken now."""
        self.reasons.pop(name, None)


class Desk(Protocol):
    """The calls that a bridge may make, from `run` on until it ends."""

    def connected(self, text: str) -> None:
        """The broker is there, and is ours alone. `text` says which broker this is. Deliveries begin."""

    def complete(self, consumers: Iterable[BrokerConsumer]) -> None:
        """All consumers that there are now: those that are not among them have gone. At any time again."""

    def came(self, consumer: BrokerConsumer) -> None:
        """A consumer came. Twice is no error."""

    def went(self, consumer: BrokerConsumer) -> None:
        """A consumer went. Once is enough, and twice is no error."""

    def take(self, batch: Sequence[Taken], done: Callable[[], None]) -> None:
        """Messages were taken from the broker, in order; `done` is called once they are in our custody:
        answer the broker then. While the node is full that takes time: bound what is unanswered (prefetch).
        A later batch may be done sooner, where a destination of this one has no room.
        """

    def confirm(self, ids: Sequence[int]) -> None:
        """The broker has these deliveries: they are removed here."""

    def refuse(self, id: int, reason: str) -> None:
        """The broker will not have this one: it is a dead letter. `reason`: `CODE` or `CODE: text`."""

    def again(self, delivery: BrokerDelivery) -> None:
        """The broker threw this one away, and it is read there now. Nothing happens if its readers were told
        to have gone meanwhile: it is with others then."""

    @property
    def is_told(self) -> bool:
        """Does the node hear now who reads what elsewhere in the tree?"""

    def has_room(self, destination: Destination) -> bool:
        """Would a message of this enter the node now? Where none would, it is better left at the broker."""

    def outdated(self, topics: Iterable[str]) -> list[str]:
        """Of these topics, which the broker retains as it was given them, those of which it hears no more.

        They are to be taken out there, and are given again when somebody there wants them.
        """


class Bridge(Protocol):
    """One kind of site broker."""

    async def run(self, desk: Desk) -> None:
        """Connect and work until the connection is lost; raise `SiteBrokerError` then, always.

        Cancelled: say goodbye to the broker and end. The bridge keeps what it learned for the next call.
        """

    def want(self, wanted: frozenset[Destination]) -> None:
        """Take messages of exactly these queues and topic filters, from now on and after a reconnect.

        Called before `run`, and whenever that changes. A queue is not among them while it has a consumer
        at the broker. A message that nobody wants stays where it is. One that is directed to another node
        (`queue:NAME@NODE`) is always taken, where the broker has a way to say that.
        """

    def deliver(self, batch: Sequence[BrokerDelivery]) -> None:
        """Give these to the broker, in order; confirm or refuse each, in any order. At most `CREDIT` for one
        queue, and as many for all topics, are unanswered at once; and half as many that are for one consumer
        `alone`.
        """

    def greets(self, consumer: BrokerConsumer) -> bool:
        """Can a consumer that comes be given alone what is retained? Not where the broker does that."""

    @property
    def retains(self) -> bool:
        """Does the broker keep what is retained, and say it to whoever subscribes, the node too?"""

    def review(self, pattern: str) -> None:
        """Consumers of these topics came or went: what the broker retains of them may be `Desk.outdated`."""

    async def leave(self) -> None:
        """The node leaves for good, and the broker is there: stop taking, take what the broker keeps for the
        node, and have it forget the node. All that was taken is in custody then. Raises `SiteBrokerError`.

        The next connection begins as if it had not been.
        """

    def farewell(self) -> list[str]:
        """The commands with which people have the broker forget the node, where `leave` could not."""

    def status(self) -> dict[str, Any]:
        """Facts that people may want to know, JSON-able: among it `discovery`, how consumers are learned."""

    async def inspect(self) -> list[Finding]:
        """Connect, look at what the broker lacks, and disconnect; raise `SiteBrokerError` if it is not there.
        Changes nothing, and may run beside a node that works."""


@dataclass(frozen=True, slots=True)
class Setup:
    """All that a bridge is made with. `directory`: for what it keeps on disk; there when `run` is called.

    `store`: identifies the node's database, over restarts. `timeout`: seconds for a connection. `password`
    and `tls` read the files.
    """

    tree: str
    node: str
    store: str
    directory: Path
    settings: SiteBroker
    password: Callable[[], str | None] | None
    tls: Callable[[], ssl.SSLContext] | None
    timeout: float
    max_message: int
    max_consumers: int

    def context(self) -> ssl.SSLContext | None:
        """For a connection: the files may have been renewed since the last one. Raises `SiteBrokerError`."""
        return _read(self.tls) if self.tls is not None else None

    def secret(self) -> str | None:
        """For a connection: it may be another than at the last one. Raises `SiteBrokerError`."""
        return _read(self.password) if self.password is not None else None


def _read(files: Callable[[], Item]) -> Item:
    try:
        return files()
    except SapwoodError as error:
        raise SiteBrokerError(str(error)) from None
