"""A whole tree of node cores in memory: literal times, disks that are dicts, lines that can be cut anywhere.

A `Site` is what a machine is: a disk that outlives a core, a clock that goes on over restarts, the core
itself while it runs, and at most one turn whose commit is under way. A `Wire` joins two link machines and
holds the packets that are on their way. Nothing happens by itself: a test says who takes a turn, whose
commit returns, which packets arrive; `Forest.settle` lets everything happen until nothing more does.

Law: after each commit the disk is checked as the real store would check it: a header changes only where its
bundle is, and no copy refers to a bundle that has gone.
"""

import copy
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from broker.core.node import NodeCore
from broker.core.rows import KEYS, BundleRow, CopyRow, MetaRow, Transaction
from broker.core.sessions import Connection
from broker.core.settings import CoreSettings
from broker.core.turn import Turn
from broker.store.schema import StoredBundle
from treeconnector import bundles
from treeconnector.bundles import Flag, Message, Properties
from treeconnector.destinations import Destination, parse
from treeconnector.identity import Identity
from treeconnector.link import Link, LinkSettings
from treeconnector.session_frames import (
    VERSION,
    Acknowledge,
    ClientFrame,
    Confirm,
    Create,
    Deliver,
    Done,
    Ended,
    Failed,
    Login,
    Reject,
    Send,
    Subscribe,
    Unsubscribe,
    Welcome,
)

QUICK = CoreSettings(linger=0.0, dormant_after=1.0, reattach_time=5.0, probe_time=1.0)
LINKS = LinkSettings(window_bundles=8, keep_alive=5.0, dead_after=2.0, handshake_timeout=5.0)


class Disk:
    """What survives a crash: tables of committed rows, and who they belong to."""

    def __init__(self) -> None:
        self.tables: dict[type[Any], dict[Any, Any]] = {table: {} for table in KEYS}
        self.store_id = uuid.uuid4().bytes
        self.start = 0

    def __repr__(self) -> str:
        counts = (f"{table.__name__}={len(rows)}" for table, rows in self.tables.items() if rows)
        return f"<Disk start={self.start} {' '.join(counts)}>"

    def backup(self) -> "Disk":
        """A copy, as a disk image or yesterday's backup is one."""
        made = copy.copy(self)
        made.tables = {table: dict(rows) for table, rows in self.tables.items()}
        return made

    def apply(self, transaction: Transaction) -> None:
        for table, rows, gone in transaction.tables():
            for key in gone:
                self.tables[table].pop(key, None)
            for row in rows:
                if table is BundleRow and row.body is None:
                    assert row.row in self.tables[table], f"a header changes whose bundle is not there: {row}"
                    row = row._replace(body=self.tables[table][row.row].body)
                keys = KEYS[table]
                self.tables[table][row[0] if keys == 1 else row[:keys]] = row
        for row in self.tables[CopyRow].values():
            assert row.bundle in self.tables[BundleRow], f"a copy of a bundle that is not there: {row}"

    @property
    def bundles(self) -> list[StoredBundle]:
        rows = sorted(self.tables[BundleRow].values())
        return [StoredBundle(row.row, row.header, len(row.body)) for row in rows]

    def rows(self, table: type[Any]) -> list[Any]:
        found = self.tables[table]
        return [found[key] for key in sorted(found)]

    def bodies(self, rows: Iterable[int]) -> dict[int, bytes]:
        found = self.tables[BundleRow]
        return {row: found[row].body for row in rows if row in found}


class Silent:
    """An advisory log that keeps nothing."""

    def consumer(self, op: str, key: Destination, cause: str) -> None: ...
    def advisories(self, peer: str, direction: str, advices: list[Any]) -> None: ...
    def link(self, op: str, peer: str, direction: str) -> None: ...
    def chain(self, chain: list[str]) -> None: ...


class Site:
    """One machine. `parent`: the name that its file says; change it and boot again to move the site."""

    def __init__(
        self, forest: "Forest", name: str, parent: str, role: str, settings: CoreSettings, links: LinkSettings
    ) -> None:
        self.forest = forest
        self.name = name
        self.parent = parent
        self.role = role
        self.settings = settings
        self.links = links
        self.disk = Disk()
        self.maybe_core: NodeCore | None = None
        self.turn: Turn | None = None
        self.written = False
        self.errors: list[str] = []
        self._clock_base = 0.0

    def __repr__(self) -> str:
        return f"<Site {self.name} {'up' if self.running else 'down'} {self.disk}>"

    @property
    def core(self) -> NodeCore:
        assert self.maybe_core is not None, f"{self.name} does not run"
        return self.maybe_core

    @property
    def running(self) -> bool:
        return self.maybe_core is not None

    @property
    def now(self) -> float:
        """Running time: begins where the last start's ticks ended."""
        return self.forest.now - self._clock_base

    def boot(self) -> NodeCore:
        """Start a core from what is on the disk."""
        assert not self.running
        ticks = next((int(row.value) for row in self.disk.rows(MetaRow) if row.name == "ticks"), 0)
        self._clock_base = self.forest.now - ticks / 1000
        self.disk.start += 1
        identity = Identity(
            tree="test",
            name=self.name,
            role=self.role,
            store_id=self.disk.store_id,
            start=self.disk.start,
            incarnation=uuid.uuid4().bytes,
        )
        core = self.maybe_core = NodeCore(
            identity,
            self.settings,
            self.links,
            now=self.now,
            read_bodies=self.disk.bodies,
            secret_of=lambda name, dials, certified: None,
            chronicle=Silent(),
        )
        core.start(self.disk)
        return core

    # --- turns

    def take(self) -> bool:
        """Begin a commit, if none is under way and there is something to commit."""
        if self.turn is not None or not self.running:
            return False
        self.core.advance(self.now)
        turn = self.core.take()
        if turn is None:
            return False
        self.turn, self.written = turn, False
        self.forest.tell("taken", self)
        return True

    def write(self) -> bool:
        """The commit is on disk; the core does not know it yet."""
        if self.turn is None or self.written:
            return False
        self.disk.apply(self.turn.transaction)
        self.written = True
        self.forest.tell("committed", self)
        return True

    def report(self) -> bool:
        """The core learns that its commit is on disk."""
        if self.turn is None or not self.written:
            return False
        turn, self.turn = self.turn, None
        self.core.advance(self.now)
        self.core.committed(turn)
        return True

    def run(self) -> bool:
        """One whole turn."""
        began = self.take()
        return self.write() | self.report() | began

    def tick(self) -> None:
        self.core.advance(self.now)
        self.core.handle_timer()

    def crash(self) -> None:
        """The process is gone; what was not written is lost."""
        self.turn, self.maybe_core = None, None
        self.forest.crashed(self)

    # --- what a test asks

    def waiting(self) -> int:
        """Messages in custody, but for dead letters."""
        places = self.core.custody.places.values()
        return sum(place.messages for place in places if place is not self.core.custody.dead)

    def dead(self) -> list[tuple[str, Message]]:
        """Dead letters with their reasons."""
        found = []
        for letter in self.core.custody.dead.waiting:
            body = self.core.custody.body(letter)
            messages = bundles.unpack(letter.stored.header, body)
            found += [
                (letter.note, message) for i, message in enumerate(messages) if not letter.done >> i & 1
            ]
        return found


class Way(NamedTuple):
    """One direction of a wire."""

    source: Link
    target: Link
    packets: deque[bytes]


class Wire:
    """A connection between a child and its parent."""

    def __init__(self, child: Site, parent: Site) -> None:
        self.child, self.parent = child, parent
        dialled, accepted = child.core.dial(), parent.core.accept()
        self.up = Way(dialled, accepted, deque())
        self.down = Way(accepted, dialled, deque())

    def __repr__(self) -> str:
        return f"<Wire {self.child.name}-{self.parent.name} {self.up.source.state}/{self.down.source.state}>"

    def sides(self) -> list[tuple[Site, Site, Way]]:
        return [(self.child, self.parent, self.up), (self.parent, self.child, self.down)]

    def pull(self, budget: int = 1 << 18) -> bool:
        """Take what both machines have to say onto the line."""
        moved = False
        for source, _, way in self.sides():
            if source.running:
                packets = way.source.data_to_send(budget)
                way.packets.extend(packets)
                moved = moved or bool(packets)
        return moved

    def deliver(self, way: Way, target: Site, count: int = 1 << 30) -> bool:
        """Let packets arrive."""
        moved = False
        while way.packets and count and target.running:
            packet = way.packets.popleft()
            if way.target in target.core.open_links:
                target.core.advance(target.now)
                target.core.receive(way.target, packet)
            moved, count = True, count - 1
        return moved


class Forest:
    """All sites, wires and clients of one test, and the time."""

    def __init__(self, settings: CoreSettings = QUICK, links: LinkSettings = LINKS) -> None:
        self.now = 1000.0
        self.sites: dict[str, Site] = {}
        self.wires: list[Wire] = []
        self.clients: list[Client] = []
        self.settings, self.links = settings, links
        self.watchers: list[Callable[[str, Site], None]] = []

    # --- sites

    def add(self, name: str, parent: str = "", role: str = "", **changes: Any) -> Site:
        """A site that runs. `changes`: of its `CoreSettings`."""
        role = role or ("leaf" if parent else "root")
        links = changes.pop("links", self.links)
        site = self.sites[name] = Site(self, name, parent, role, replace(self.settings, **changes), links)
        site.boot()
        return site

    def __getitem__(self, name: str) -> Site:
        return self.sites[name]

    def tell(self, what: str, site: Site) -> None:
        """`what`: 'taken', 'committed' or 'crashed'."""
        for watcher in self.watchers:
            watcher(what, site)

    def crashed(self, site: Site) -> None:
        self.tell("crashed", site)
        for wire in list(self.wires):
            if site in (wire.child, wire.parent):
                self.cut(wire, lost={"up", "down"})
        for client in self.clients:
            if client.site is site:
                client.gone()

    # --- lines

    def wire_of(self, child: str) -> Wire | None:
        return next((wire for wire in self.wires if wire.child.name == child), None)

    def dial(self, child: str) -> Wire | None:
        """Connect a site with the parent that its file names, if both run and it has no wire."""
        site = self.sites[child]
        parent = self.sites.get(site.parent)
        if parent is None or not site.running or not parent.running or self.wire_of(child):
            return None
        wire = Wire(site, parent)
        self.wires.append(wire)
        return wire

    def dial_all(self) -> bool:
        dialled = [self.dial(name) for name in self.sites]
        return any(wire is not None for wire in dialled)

    def cut(self, wire: Wire, lost: Iterable[str] = ("up", "down")) -> None:
        """The line breaks. Packets on their way are lost, or arrive before it is noticed."""
        self.wires.remove(wire)
        for name, (_, target, way) in zip(("up", "down"), wire.sides(), strict=True):
            if name not in lost:
                wire.deliver(way, target)
        for source, _, way in wire.sides():
            if source.running:
                source.core.advance(source.now)
                source.core.lost(way.source, "the line was cut")

    def reap(self) -> bool:
        """End wires whose link is over at one end, as the drivers do: last words first."""
        moved = False
        for wire in list(self.wires):
            over = [way for site, _, way in wire.sides() if way.source not in site.core.open_links]
            if not over:
                continue
            wire.pull()
            for _, target, way in wire.sides():
                if way in over:
                    wire.deliver(way, target)
            for site, _, way in wire.sides():
                if way.source.end_text:
                    site.errors.append(way.source.end_text)
            self.cut(wire)
            moved = True
        for site in self.sites.values():
            if site.running:
                site.core.links.closing.clear()
        return moved

    # --- everything

    def step(self) -> bool:
        """Let everything that can happen now happen once. Whether anything did."""
        moved = self.reap()
        for site in self.sites.values():
            if site.running:
                moved |= site.run()
        for wire in list(self.wires):
            moved |= wire.pull()
            for _, target, way in wire.sides():
                moved |= wire.deliver(way, target)
        for client in self.clients:
            moved |= client.act()
        return moved

    def settle(self, seconds: float = 0.0) -> None:
        """Until nothing more happens, and then for `seconds` more, a fifth of a second at a time."""
        end = self.now + seconds
        while True:
            for _ in range(10_000):
                if not self.step():
                    break
            else:
                raise AssertionError("the tree does not come to rest")
            if self.now >= end:
                return
            self.pass_time(min(0.2, max(end - self.now, 0.001)))

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        for site in self.sites.values():
            if site.running:
                site.tick()

    def heal(self, seconds: float = 40.0) -> None:
        """Everything runs and is connected, for as long as everything needs to find its way."""
        for site in self.sites.values():
            if not site.running:
                site.boot()
        end = self.now + seconds
        while self.now < end:
            self.reap()
            self.dial_all()
            self.settle(1.0)

    # --- clients

    def producer(self, site: str, name: str = "producer") -> "Producer":
        return self._client(Producer(self, self.sites[site], name))

    def consumer(self, site: str, destination: str, name: str = "consumer", **options: Any) -> "Consumer":
        return self._client(Consumer(self, self.sites[site], destination, name, **options))

    def _client(self, client: Any) -> Any:
        self.clients.append(client)
        client.connect()
        return client


class Client:
    """A session at a site. It does not come back by itself."""

    def __init__(self, forest: Forest, site: Site, name: str) -> None:
        self.forest, self.site, self.name = forest, site, name
        self.connection: Connection | None = None
        self.failures: list[Failed] = []

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} at {self.site.name}>"

    def connect(self) -> None:
        if self.connection is None and self.site.running:
            connection = Connection(lambda frame: self._said(connection, frame), self.name)
            self.connection = connection
            self.opened()

    def _said(self, connection: Connection, frame: Any) -> None:
        """What the node says on a connection that is over comes to nobody."""
        if self.connection is connection:
            self.arrived(frame)

    def say(self, *frames: ClientFrame) -> None:
        assert self.connection is not None
        self.site.core.advance(self.site.now)
        self.site.core.switch.receive(self.connection, list(frames))

    def disconnect(self) -> None:
        connection, self.connection = self.connection, None
        if connection is not None:
            self.site.core.advance(self.site.now)
            self.site.core.switch.close(connection)
            self.gone()

    def gone(self) -> None:
        """The connection is over."""
        self.connection = None

    def act(self) -> bool:
        return False

    def opened(self) -> None:
        raise NotImplementedError

    def arrived(self, frame: Any) -> None:
        if isinstance(frame, Failed):
            self.failures.append(frame)


class Producer(Client):
    """Sends numbered messages; whatever is not confirmed is sent again on the next connection.

    Nothing is sent before the node has said how far it is: a number above it would confirm those below.
    """

    def __init__(self, forest: Forest, site: Site, name: str) -> None:
        super().__init__(forest, site, name)
        self.number = 0
        self.under_way: dict[int, Send] = {}
        self.confirmed: list[tuple[Destination, bytes]] = []
        self.rejected: list[Reject] = []
        self._refused: set[int] = set()
        self._again: list[Send] = []
        self._connecting = False
        self._welcome = False

    def opened(self) -> None:
        self._welcome = False
        self.say(Login(VERSION, self.name, producer=self.name))

    def send(self, destination: str, *payloads: bytes, **options: Any) -> None:
        """Send as one frame; `options` as of `Send`, or `expires_in` in ms."""
        expires = options.pop("expires_in", 0)
        messages = [Message(payload, Properties(expires_in=expires)) for payload in payloads]
        body = b"".join(map(bundles.encode_message, messages))
        frame = Send(self.number + 1, parse(destination), len(payloads), body, **options)
        self.number += len(payloads)
        self.under_way[frame.first] = frame
        if self.connection is not None and self._welcome:
            self.say(frame)

    def arrived(self, frame: Any) -> None:
        super().arrived(frame)
        match frame:
            case Welcome():
                for each in frame.rejected:
                    self._refused.update(range(each.first, each.last + 1))
                self._settled(frame.last)
                self._again = list(self.under_way.values())
                self._welcome = True
                if not self._connecting:
                    self._say_again()
            case Confirm(through):
                self._settled(through)
            case Reject(first, last, _, _):
                self.rejected.append(frame)
                self._refused.update(range(first, last + 1))

    def connect(self) -> None:
        """A Welcome arrives while the connection is still being opened, or later."""
        self._connecting = True
        super().connect()
        self._connecting = False
        self._say_again()

    def _say_again(self) -> None:
        again, self._again = self._again, []
        if self.connection is not None and again:
            self.say(*again)

    def _settled(self, through: int) -> None:
        for first, frame in sorted(self.under_way.items()):
            if first + frame.count - 1 <= through:
                del self.under_way[first]
                messages = bundles.decode_messages(frame.body, frame.count)
                for number, message in enumerate(messages, first):
                    if number not in self._refused:
                        self.confirmed.append((frame.destination, message.payload))


@dataclass
class Receipt:
    """One message as a consumer was given it. `settled`: its acknowledgement is on disk. `lost`: the node
    crashed before that. `again`: this consumer was given the same message before.
    """

    payload: bytes
    transfer: int
    bundle: bytes
    flags: int
    redelivered: bool
    at: int
    acknowledged: bool = False
    settled: bool = False
    lost: bool = False
    again: bool = False

    @property
    def flagged(self) -> bool:
        return self.redelivered or bool(self.flags & Flag.MAYBE_DUPLICATE)


class Consumer(Client):
    """Reads a queue or a topic. `auto`: acknowledges what it has whenever the forest takes a step."""

    def __init__(
        self,
        forest: Forest,
        site: Site,
        destination: str,
        name: str,
        *,
        credit: int = 1000,
        durable: str = "",
        auto: bool = True,
    ) -> None:
        super().__init__(forest, site, name)
        self.destination = parse(destination)
        self.credit, self.durable, self.auto = credit, durable, auto
        self.receipts: list[Receipt] = []
        self.open: list[Receipt] = []
        self._known: set[bytes] = set()
        self._unsettled: list[Receipt] = []
        self._in_turn: list[Receipt] = []
        forest.watchers.append(self._watch)

    def opened(self) -> None:
        self.say(Login(VERSION, self.name))
        if self.destination.kind == "queue" and not self.destination.node:
            self.say(Create(1, self.destination.name))
        self.say(Subscribe(2, 7, self.destination, self.credit, self.durable))

    def arrived(self, frame: Any) -> None:
        super().arrived(frame)
        if isinstance(frame, Ended):
            self.open = []
            return
        if not isinstance(frame, Deliver):
            assert isinstance(frame, Welcome | Done), frame
            return
        header = bundles.Header(
            id=frame.bundle,
            destination=frame.destination,
            flags=frame.flags,
            count=frame.count,
            size=frame.size,
        )
        for index, message in enumerate(bundles.unpack(header, frame.body)):
            receipt = Receipt(
                message.payload,
                frame.first + index,
                frame.bundle,
                frame.flags,
                frame.redelivered,
                len(self.receipts),
            )
            receipt.again = receipt.payload in self._known
            self._known.add(receipt.payload)
            self.receipts.append(receipt)
            self.open.append(receipt)

    def acknowledge(self, count: int) -> None:
        """Acknowledge the first `count` of what is not."""
        if self.connection is None or not count or not self.open:
            return
        taken, self.open = self.open[:count], self.open[count:]
        for receipt in taken:
            receipt.acknowledged = True
        self._unsettled += taken
        self.say(Acknowledge([(receipt.transfer, receipt.transfer) for receipt in taken]))

    def act(self) -> bool:
        if not self.auto or not self.open or self.connection is None:
            return False
        self.acknowledge(len(self.open))
        return True

    def unsubscribe(self) -> None:
        """Leave, with the connection open."""
        self.say(Unsubscribe(3, 7))
        self.gone()

    def gone(self) -> None:
        super().gone()
        self.open = []

    def _watch(self, what: str, site: Site) -> None:
        if site is not self.site:
            return
        if what == "taken":
            self._in_turn += self._unsettled
            self._unsettled = []
        elif what == "committed":
            for receipt in self._in_turn:
                receipt.settled = True
            self._in_turn = []
        elif what == "crashed":
            for receipt in self.receipts:
                receipt.lost = receipt.lost or not receipt.settled
            self._unsettled, self._in_turn = [], []

    @property
    def payloads(self) -> list[bytes]:
        return [receipt.payload for receipt in self.receipts]


def twice(payloads: Iterable[bytes]) -> dict[bytes, int]:
    return {payload: count for payload, count in Counter(payloads).items() if count > 1}
