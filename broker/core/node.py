"""A node's pure core: what comes in changes memory and a transaction; what may be told waits for its commit.

The driver's loop is short: tell the core what came (`receive`, `handle_timer`, the switch's calls), then
`take` a turn, commit its transaction, and report `committed`. Between two commits everything gathers.

Law: nothing leaves this node before what it rests on is on disk, but for deliveries of messages that the
upstream node has committed, and for non-persistent messages.
"""

from collections.abc import Callable, Iterator
from typing import Final

from broker.core.clients import duplicate_injection
from broker.core.clients.batching import Batching
from broker.core.clients.kept_sessions import KeptSessions
from broker.core.clients.mandatory import MandatoryNotices
from broker.core.clock import Clock
from broker.core.commit import CommitBatch, LinkAccount, NextCommit
from broker.core.context import AdvisoryRecorder, Context
from broker.core.custody.custody import Custody, ReadBodies
from broker.core.custody.paging import ReadCopies
from broker.core.delivery.delivery import Dispatcher
from broker.core.housekeeping import Housekeeping
from broker.core.links.neighbour import Neighbour
from broker.core.lookup import Lookup
from broker.core.messages.trace import Trace
from broker.core.neighbours.admission import LinkAdmission, Secrets
from broker.core.neighbours.advertising import Advertising
from broker.core.neighbours.channels import Channels
from broker.core.neighbours.demand import Demand
from broker.core.neighbours.following import Following
from broker.core.neighbours.handover import Handover
from broker.core.neighbours.link_custody import LinkCustody
from broker.core.neighbours.link_maker import LinkMaker
from broker.core.neighbours.mesh import OwnMesh
from broker.core.neighbours.neighbourhood import Neighbourhood
from broker.core.neighbours.relocation import Relocation
from broker.core.operations.dead_letters import Redrive
from broker.core.operations.moving import Moving
from broker.core.operations.removal import Removal
from broker.core.operations.static_routing import StaticRouting
from broker.core.policies.backpressure import Backpressure
from broker.core.policies.loans import Loans
from broker.core.policies.permits import ChildPermits
from broker.core.policies.replies import Replies
from broker.core.policies.statistics import COUNTED, Statistics
from broker.core.policy import Policies, Policy
from broker.core.restore import Restoration, Rows
from broker.core.routing.addresses import LogicalAddresses
from broker.core.routing.admission import MessageAdmission
from broker.core.routing.arrivals import Arrivals
from broker.core.routing.forwarding import Forwarder
from broker.core.routing.topics import Topics
from broker.core.routing.upward import Upward
from broker.core.rows import KEYS, BundleRow, CopyRow, LinkRow, MetaRow, PageRow, SeenRow
from broker.core.settings import CoreSettings, MeshSettings
from broker.core.site.retained_interest import RetainedInterest
from broker.core.site.site import SiteClient
from broker.core.site.site_intake import SiteIntake
from broker.core.tree.ancestry import Ancestry
from broker.core.tree.below import NodesBelow
from broker.core.tree.offers import Offers
from broker.core.tree.open_links import OpenLinks
from broker.core.tree.root import ChainRoot
from sapwood.protocol import bundles
from sapwood.protocol.destinations import Destination, domain
from sapwood.protocol.errors import Refusal, RemoteError
from sapwood.protocol.names import LOCAL
from treeconnector.identity import BundleIds, Identity
from treeconnector.interests import Interests
from treeconnector.link import Link, LinkSettings
from treeconnector.link_events import Acked, BundleArrived, OfStream, VolatileArrived, parts
from treeconnector.roles import Role, role_of
from treeconnector.routes import Route, RoutingTable

_TICKS_EVERY: Final = 1.0
_TICKS_AT_LEAST: Final = 10.0
_PATIENT: Final = frozenset((BundleRow, CopyRow, PageRow, SeenRow))
_URGENT: Final = tuple(table for table in KEYS if table not in _PATIENT)


class NodeCore:
    """One node, without I/O.

    `secret_of`, `secret_of_core`: see `LinkAdmission.configure`. `fine_clock`: for the trace alone, seconds
    of running time that go on between two calls of `advance`.
    """

    __slots__ = (
        *("_changed_routes", "_link_custody", "_ticks", "_unsaid", "admission", "advertising", "ancestry"),
        *("arrivals", "batching", "below", "channels", "clock", "context", "counters", "custody"),
        *("dead_letters", "demand", "dispatcher", "following", "forwarder", "handover", "housekeeping"),
        *("interests", "kept_sessions", "link_maker", "links", "loans", "logical_addresses", "lookup"),
        *("mandatory", "mesh", "message_admission", "moving", "neighbourhood", "neighbours", "offers"),
        *("permits", "policies", "relocation", "removal", "retained_interest", "role", "root", "settings"),
        *("site", "static_routing", "statistics", "switch", "table", "topics", "trace", "upward"),
    )

    def __init__(
        self,
        identity: Identity,
        settings: CoreSettings,
        link_settings: LinkSettings,
        *,
        now: float,
        random_bytes: Callable[[int], bytes],
        read_bodies: ReadBodies,
        read_copies: ReadCopies,
        secret_of: Secrets,
        secret_of_core: Secrets | None = None,
        fine_clock: Callable[[], float] | None = None,
        chronicle: AdvisoryRecorder,
        zone: str = "",
        mesh: MeshSettings = MeshSettings(),  # noqa: B008 - frozen
    ) -> None:
        name = identity.name
        self.settings = settings
        self.role: Role = role_of(identity.role)
        self.clock = Clock(now)
        self.counters = dict.fromkeys(COUNTED, 0)
        self.neighbours: dict[str, Neighbour] = {}
        self.trace = Trace(self.clock, identity.start, settings.trace_events, fine_clock)
        self.custody = Custody(name, read_bodies, read_copies, self.trace, settings)
        self.statistics = Statistics(self.clock, self.custody, self.counters, self.neighbours)
        self.policies = Policies()
        self.table = RoutingTable()
        self.interests = Interests(self.table, name, settings.reattach_time)
        self.context = context = Context(
            identity,
            self.role,
            settings,
            self.clock,
            self.custody,
            self.table,
            self.neighbours,
            {},
            {},
            {},
            NextCommit(self.custody.transaction),
            self.counters,
            random_bytes,
            self.policies,
            chronicle,
        )
        self.below = NodesBelow(context)
        lookup = self.lookup = Lookup(context, zone)
        dispatcher = self.dispatcher = Dispatcher(context, lookup)
        forwarder = self.forwarder = Forwarder(context, lookup, dispatcher)
        upward = self.upward = Upward(context, lookup)
        topics = self.topics = Topics(context, forwarder, lookup, upward)
        may_enter = self.message_admission = MessageAdmission(context, lookup, topics)
        arrivals = self.arrivals = Arrivals(context, forwarder, lookup, dispatcher, topics, may_enter)
        ids = BundleIds(random_bytes)
        batching = self.batching = Batching(identity, ids, lookup.address, arrivals.enter, self.trace.entered)
        switch = self.switch = duplicate_injection.switch_for(settings)(
            context, forwarder, dispatcher, topics, self.interests, batching, may_enter
        )
        self.kept_sessions = KeptSessions(context, topics, switch.producers)
        removal = self.removal = Removal(context, dispatcher, topics, switch)
        self.moving = Moving(context, dispatcher, arrivals, may_enter, removal, ids)
        static_routing = self.static_routing = StaticRouting(context, forwarder, lookup)
        dead_letters = self.dead_letters = Redrive(
            context, forwarder, lookup, topics, arrivals, may_enter, removal
        )
        self.mandatory = MandatoryNotices(context, lookup, dispatcher, batching)
        logical_addresses = LogicalAddresses(context, forwarder, lookup, dispatcher)
        self.logical_addresses = logical_addresses
        links = self.links = OpenLinks(context)
        backpressure = Backpressure(context, lookup, may_enter, links)
        offers = self.offers = Offers(context)
        root = self.root = ChainRoot(context)
        ancestry = self.ancestry = Ancestry(context, links, root)
        loans = self.loans = Loans(context, dead_letters)
        replies = Replies(context, may_enter)
        permits = self.permits = ChildPermits(context, may_enter, ancestry, loans, replies)
        following = self.following = Following(context, forwarder, lookup, arrivals, upward)
        demand = self.demand = Demand(context, forwarder, lookup, topics, upward, following)
        relocation = self.relocation = Relocation(context, links, loans, following, demand)
        handover = self.handover = Handover(context, forwarder, lookup, loans, following)
        neighbourhood = self.neighbourhood = Neighbourhood(
            context, forwarder, lookup, ancestry, permits, static_routing, handover
        )
        self.advertising = Advertising(context, topics, offers, permits, following, relocation, neighbourhood)
        own_mesh = self.mesh = OwnMesh(
            context, links, logical_addresses, ancestry, offers, relocation, neighbourhood, mesh
        )
        self.channels = Channels(context, lookup, permits, may_enter)
        self.link_maker = LinkMaker(
            context, link_settings, zone, links, ancestry, logical_addresses, own_mesh
        )
        link_custody = self._link_custody = LinkCustody(context, forwarder, arrivals, loans, following)
        self.admission = LinkAdmission(
            context,
            lookup,
            topics,
            links,
            link_custody,
            ancestry,
            permits,
            relocation,
            neighbourhood,
            own_mesh,
            secret_of,
            secret_of_core,
        )
        retained_interest = self.retained_interest = RetainedInterest(context, topics, offers)
        intake = SiteIntake(context, arrivals, batching, switch)
        self.site = SiteClient(
            context, forwarder, dispatcher, topics, self.interests, switch, retained_interest, intake
        )
        self.housekeeping = Housekeeping(
            context, lookup, dispatcher, topics, arrivals, switch, relocation, backpressure
        )
        self._changed_routes: dict[Destination, None] = {}
        self._unsaid, self._ticks = True, now
        self.table.watch(self._route_changed)
        add = self.policies.add  # all that decide about messages, or are told of them, in the order of asking
        add((permits, loans, replies, logical_addresses, backpressure, self.mandatory, retained_interest))
        add((ancestry, self.advertising, static_routing, neighbourhood, own_mesh, self.site))
        add((self.site.greetings, relocation, following, demand, handover, removal, self.kept_sessions))
        add((self.channels, self.statistics))
        self.table.put(Route(domain(name), LOCAL, True, name, "start", bundles.VERSION))

    def __repr__(self) -> str:
        return f"<NodeCore {self.identity.name} {self.role.name} neighbours={len(self.neighbours)}>"

    @property
    def identity(self) -> Identity:
        """As it is now: a node that a parent does not know under its incarnation takes another."""
        return self.logical_addresses.identity

    @property
    def parent(self) -> Neighbour | None:
        """The parent, of several the first whose link is up. For people: messages choose by destination."""
        parents = self.context.parents.values()
        return next((parent for parent in parents if parent.up), next(iter(parents), None))

    # --- start

    def start(self, loaded: Rows, least_transfer: int = 1) -> None:
        """Put back what was on disk, before anything else is called. What it offered counts as told.

        `least_transfer`: no message that is given now has a lower transfer id.
        """
        meta: dict[str, bytes] = {row.name: row.value for row in loaded.rows(MetaRow)}
        self.dispatcher.transfer_ids.begin(int(meta.get("transfer", b"1")), least_transfer)
        Restoration(
            self.context,
            self.interests,
            self.topics,
            self.arrivals,
            self.switch,
            self.kept_sessions,
            self.removal,
            self.static_routing,
            self.ancestry,
            self.neighbourhood,
            self.following,
            self.site,
        ).run(meta, loaded)
        self.mandatory.begin()
        self.statistics.begin()
        self.logical_addresses.begin()
        self.offers.begin()
        self.advertising.begin()
        self.mesh.begin()
        if not self.role.has_parent:
            for parent in self.neighbourhood.parents():
                self.relocation.forget(parent, moved=False)
        self.permits.begin()
        self.upward.begin()
        self.topics.fan_out.begin()
        self.following.begin()
        self._settle()
        for queue in list(self.custody.queues.values()):
            self.forwarder.dispatch(queue)

    # --- links

    def receive(self, link: Link, packet: bytes) -> None:
        for _ in self.hear(link, packet):
            pass

    def hear(self, link: Link, packet: bytes) -> Iterator[bool | None]:
        """Receive a packet, step after step; others may have their turn in between. Each says whether
        somebody may wait for what it changed; for what an acknowledgement ends nobody does. None: it
        changed nothing that is kept.
        """
        for piece in link.pieces(packet):
            said = link.receive(piece, self.clock.now)
            if len(said) > 1:
                yield False
            for event in said:
                if type(event) is not BundleArrived:
                    for part in parts(event):
                        if link not in self.links:
                            return
                        if type(part) is VolatileArrived:
                            self._settle()  # it may go on before the next turn: not ahead of a route
                        self.admission.handle(link, [part])
                        yield None if isinstance(part, OfStream) else type(part) is not Acked
                elif (peer := self.links.peers.get(link)) is not None:
                    self._arrived(link, peer.name, event)
                    yield True

    def _arrived(self, link: Link, name: str, event: BundleArrived) -> None:
        """The next bundle of a neighbour: its number goes to disk with it."""
        neighbour = self.neighbours.get(name)
        if neighbour is None or neighbour.link is not link:
            return
        if event.number != neighbour.received + 1:
            return  # one before it was left there, and with it all that follows on this link
        if why := self.message_admission.why_beyond_share(neighbour):
            self.permits.refused(neighbour, event.header.destination, why)
            return
        try:
            neighbour.received = event.number
            self.context.touched[neighbour.name] = neighbour
            doubted = event.number <= neighbour.doubted
            self.arrivals.from_neighbour(
                neighbour, event.header, event.body, event.header_bytes, doubted=doubted
            )
        except RemoteError as error:
            self.links.refuse(link, Refusal.PROTOCOL, str(error))

    def lost(self, link: Link, text: str) -> None:
        """The carrier has gone."""
        if link in self.links:
            self.admission.handle(link, link.transport_closed(text))

    # --- time and turns

    def _route_changed(self, key: Destination, cause: str, origin: str) -> None:
        self._changed_routes[key] = None
        self._unsaid = True
        self.site.route_changed(key)

    def advance(self, now: float) -> None:
        """Time has passed; `now` never goes back."""
        self.clock.now = max(now, self.clock.now)

    def handle_timer(self) -> None:
        """Do what is due."""
        for link in list(self.links.peers):
            deadline = link.next_deadline()
            if deadline is not None and deadline <= self.clock.now:
                self.admission.handle(link, link.handle_timer(self.clock.now))
        self.clock.run_due()
        for key in self.interests.expire(self.clock.now):
            self.policies.tell(Policy.local_route_changed, key)
        if self.clock.now >= self.housekeeping.next:
            self._keep_ticks(_TICKS_AT_LEAST)
            self.housekeeping.run()
        self._settle()

    def next_deadline(self) -> float:
        """When `handle_timer` has something to do."""
        links = (link.next_deadline() for link in self.links.peers)
        times = [self.soonest(), self.interests.next_deadline(), self.housekeeping.next, *links]
        return min(time for time in times if time is not None)

    def soonest(self) -> float | None:
        """The next of what may have to be done within a fraction of a second."""
        soon = self.clock.next
        if self._unsaid:
            offered = self.advertising.next_deadline()
            return min((time for time in (soon, offered) if time is not None), default=None)
        return soon

    def _settle(self) -> None:
        """Let what changed have its effects: routes on what waits, offers on the neighbours."""
        while self._changed_routes:
            changed, self._changed_routes = self._changed_routes, {}
            self.forwarder.routes_changed(changed)
        if self._unsaid:
            self.advertising.flush()
            self._unsaid = self.offers.pending
        if self.demand.changed or self.upward.unasked:
            self.demand.settle()
        if self.logical_addresses.news or self.logical_addresses.questions.unsent:
            self.logical_addresses.settle()

    def is_urgent(self) -> bool:
        """Does anybody wait for the next commit? What only removes may wait, and then costs nothing."""
        if self.batching.open:
            self.batching.seal()
        self._settle()
        if self.context.next_commit.batch or self.custody.fresh:
            return True
        if any(map(self.custody.transaction.changes.get, _URGENT)):
            return True
        return any(neighbour.is_owed for neighbour in self.context.touched.values())

    def take(self) -> CommitBatch | None:
        """Everything since the last turn, to be committed; None if there is nothing."""
        if self.batching.open:
            self.batching.seal()
        self._settle()
        context, custody, ids = self.context, self.custody, self.dispatcher.transfer_ids
        turn, first = context.next_commit.batch, ids.next
        for queue in turn.queues.values():
            self.dispatcher.number(queue)
        turn.numbered = range(first, ids.next)
        for name, neighbour in context.touched.items():
            if self.neighbours.get(name) is neighbour:
                custody.transaction.changes[LinkRow][name] = neighbour.row()
                up_to = neighbour.epoch, neighbour.assigned, neighbour.received
                turn.accounts.append(LinkAccount(neighbour, neighbour.link, *up_to))
        context.touched.clear()
        if ids.next >= ids.low_at:
            ids.reserve(custody.transaction)
        if not (turn.accounts or turn or custody.transaction or custody.fresh):
            return None
        self._keep_ticks(_TICKS_EVERY)
        turn.fresh = custody.take()
        turn.next_transfer = ids.next
        context.next_commit.batch = CommitBatch(custody.transaction)
        return turn

    def _keep_ticks(self, older: float) -> None:
        """Keep the running time on disk if what is there is older than so many seconds: an idle node too."""
        if self.clock.now - self._ticks >= older:
            self._ticks = self.clock.now
            ticks = MetaRow("ticks", str(int(self._ticks * 1000)).encode())
            self.custody.transaction.changes[MetaRow][ticks.name] = ticks

    def committed(self, turn: CommitBatch) -> None:
        """The turn is on disk: tell everybody."""
        self.custody.committed(turn.fresh)
        ids = self.dispatcher.transfer_ids
        ids.known, ids.numbered_now = turn.next_transfer, turn.numbered
        for account in turn.accounts:
            self._link_custody.committed(account)
        for queue in turn.queues.values():
            self.forwarder.dispatch(queue)
        ids.numbered_now = range(0)
        self.switch.producers.confirm(turn.confirms)
        for call in turn.after:
            call()
        self.loans.tell()  # after the calls: some of them are of loans that have come back
