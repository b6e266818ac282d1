"""A start: the rows on disk become the same state that made them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Protocol

import msgspec

from broker.core.clients.kept_sessions import KeptSessions
from broker.core.clients.switch import Switch
from broker.core.context import Context
from broker.core.custody.custody import DOUBTED
from broker.core.custody.loading import load_bundle, load_copy, load_page
from broker.core.links.neighbour import Neighbour
from broker.core.messages.pages import Covered
from broker.core.messages.queue import Page, Queue, StoredBundle
from broker.core.messages.queue_names import SITE, SUBSCRIPTION, is_of_a_session
from broker.core.neighbours.following import Following
from broker.core.neighbours.neighbourhood import Neighbourhood
from broker.core.operations.removal import Removal
from broker.core.operations.static_routing import StaticRouting
from broker.core.policy import Policy
from broker.core.routing.arrivals import Arrivals
from broker.core.routing.subscriptions import SHARED, Subscription
from broker.core.routing.topics import Topics
from broker.core.rows import (
    ENDED,
    FORMER,
    BundleRow,
    ClientRow,
    CopyRow,
    LinkRow,
    MetaRow,
    PageRow,
    ProducerRow,
    QueueRow,
    RejectedRow,
    RetainedRow,
    RouteRow,
    SeenRow,
    StoredEntry,
    SubscriptionRow,
    own_header,
)
from broker.core.site.site import SiteClient
from broker.core.tree.ancestry import Ancestry
from sapwood.protocol.destinations import Destination, Kind
from sapwood.protocol.names import LOCAL
from treeconnector.interests import Interests
from treeconnector.relations import Relation

_RECOVERED = "recovered"
_AT_ONCE: Final = 1024


class Rows(Protocol):
    """What a start loads: all rows of a table; but of entries and bundles, there may be millions of them, one
    entry after the other, with its bundle's header (empty, if there is none) and size, and not those that are
    in pages.

    `shared_bundles`: those with several entries; `lone_bundles`: with none.
    """

    def rows(self, table: type[Any]) -> list[Any]: ...
    def copies(self, but: Covered) -> Iterator[StoredEntry]: ...
    def shared_bundles(self) -> Iterable[int]: ...
    def lone_bundles(self) -> Iterable[int]: ...


class Restoration:
    """Fills a new core. Links are down, local routes are recovering until their consumers come back."""

    def __init__(
        self,
        context: Context,
        interests: Interests,
        topics: Topics,
        arrivals: Arrivals,
        switch: Switch,
        kept_sessions: KeptSessions,
        removal: Removal,
        static_routing: StaticRouting,
        ancestry: Ancestry,
        neighbourhood: Neighbourhood,
        following: Following,
        site: SiteClient,
    ) -> None:
        self._context = context
        self._custody = context.custody
        self._interests = interests
        self._topics = topics
        self._arrivals = arrivals
        self._switch = switch
        self._kept_sessions = kept_sessions
        self._removal = removal
        self._static_routing = static_routing
        self._ancestry = ancestry
        self._neighbourhood = neighbourhood
        self._following = following
        self._site = site
        self._orphaned: dict[Queue, None] = {}

    def __repr__(self) -> str:
        return f"<Restoration of {self._context.name}>"

    def run(self, meta: Mapping[str, bytes], loaded: Rows) -> None:
        """`meta`: the values among the rows, by their names."""
        policies = self._context.policies
        policies.tell(Policy.restore, meta)
        self._custody.restore_doubt(int(meta.get(DOUBTED, b"0")))
        self._neighbours(loaded, meta.get(ENDED))
        self._ancestry.restore_chain(meta)
        self._static_routing.restore_routes(meta)
        for row in loaded.rows(QueueRow):
            self._switch.local_queues.restore(row)
        for producer in sorted(loaded.rows(ProducerRow), key=lambda row: row.seen):
            self._switch.producers.restore(producer)
        for rejected in loaded.rows(RejectedRow):
            self._switch.producers.restore_rejected(rejected)
        for retained in loaded.rows(RetainedRow):
            header = own_header(retained.header)
            for gone in self._topics.retained.put(retained.topic, header, retained.body):
                self._custody.transaction.delete(RetainedRow, gone)
                policies.tell(Policy.forgotten, gone)
        for seen in sorted(loaded.rows(SeenRow), key=lambda row: row.at):
            self._arrivals.seen.restore(seen)
        self._subscriptions(loaded)
        self._topics.greetings.restore(meta)
        self._topics.earlier_writers.restore(meta)
        for client in loaded.rows(ClientRow):
            self._kept_sessions.restore_row(client)
        self._entries(loaded)

    def _neighbours(self, loaded: Rows, ended: bytes | None) -> None:
        """`ended`: the names of those whose doubts the last start left to this one; None: it was killed."""
        context = self._context
        links: list[LinkRow] = loaded.rows(LinkRow)
        for link in links:
            self._neighbourhood.add(link.name, Relation(link.relation)).restore(link)
        routes: dict[str, list[RouteRow]] = {}
        for row in loaded.rows(RouteRow):
            routes.setdefault(row.gateway, []).append(row)
        local = [Destination(Kind(row.kind), row.name) for row in routes.pop(LOCAL, [])]
        self._interests.recover((key for key in local if key.kind != Kind.DOMAIN), context.clock.now)
        for name, held in routes.items():
            if name in context.neighbours:
                context.neighbours[name].held.restore(row for row in held if row.declined != FORMER)
                now = int(context.clock.now)
                left = [(row.reads or now, row.name) for row in held if row.declined == FORMER]
                context.neighbours[name].former = {former: since for since, former in sorted(left)}
        self._neighbourhood.look_again()
        in_doubt = msgspec.msgpack.decode(ended, type=list[str]) if ended else []
        for neighbour in context.neighbours.values():
            neighbour.detail.down_since = neighbour.detail.down_since or max(context.clock.now, 0.001)
            neighbour.broken_at, neighbour.away_since = context.clock.now, neighbour.detail.down_since
            neighbour.held_before.node_started()
            neighbour.crashed = ended is None or neighbour.name in in_doubt
            context.touch(neighbour)
            self._neighbourhood.rest_while_down(neighbour)
        self._custody.transaction.delete(MetaRow, ENDED)

    def _subscriptions(self, loaded: Rows) -> None:
        """Durable ones are interests by themselves; plain ones wait for their session to come back."""
        clock = self._context.clock
        plain: list[Subscription] = []
        for row in loaded.rows(SubscriptionRow):
            if row.session == SITE:
                self._site.restore_consumer(row)
                continue
            subscription = self._topics.restore(row)
            key = Destination(Kind.TOPIC, subscription.pattern)
            if subscription.name:
                self._interests.add(key, subscription.id, _RECOVERED, clock.now)
            if not subscription.name or SHARED in subscription.session:
                plain.append(subscription)

        def give_up() -> None:
            for subscription in plain:
                if (
                    not (subscription.attached or subscription.lasts)
                    and self._topics.subscriptions.get(subscription.id) is subscription
                ):
                    if subscription.name:
                        self._switch.interest.end(subscription)
                    else:
                        self._topics.end(subscription)

        if plain:
            clock.after(self._context.settings.reattach_time, give_up)

    def _entries(self, loaded: Rows) -> None:
        """Most of what waits is in pages, and is not read. All else is; where many wait, as at the first
        start of a version that has pages, they leave memory again on the way.
        """
        rows: list[PageRow] = loaded.rows(PageRow)
        pages = [self._load_page(row) for row in rows]
        shared: dict[int, StoredBundle | None] = {} if rows else dict.fromkeys(loaded.shared_bundles())
        self._custody.paging.unsure = shared
        for number, each in enumerate(loaded.copies(Covered(pages))):
            self._load_copy(each, shared, share=bool(rows))
            if number % _AT_ONCE == 0 and not rows:
                self._custody.paging.cool()
        self._custody.paging.unsure = ()
        for row_number in () if rows else loaded.lone_bundles():
            self._custody.transaction.delete(BundleRow, row_number)
        for neighbour in self._context.neighbours.values():
            neighbour.outbox.sort(key=lambda entry: entry.number)
            neighbour.outbox_bytes = sum(entry.stored.size for entry in neighbour.outbox)
        for queue in self._orphaned:
            self._removal.end_orphans(queue)

    def _load_page(self, row: PageRow) -> Page:
        if row.place == SUBSCRIPTION + SITE:
            self._site.reads_topics()
        is_orphan = self._is_orphan(row.place)
        page = load_page(self._custody, row)
        if is_orphan:
            self._orphaned[page.queue] = None
        return page

    def _load_copy(self, found: StoredEntry, shared: dict[int, StoredBundle | None], *, share: bool) -> None:
        """`shared`: bundles of which there are further entries, or may be; all are, if `share`."""
        row = found.copy
        if row.place == SUBSCRIPTION + SITE:
            self._site.reads_topics()
        bundle = shared.get(row.bundle) or self._bundle(found)
        if share or row.bundle in shared:
            shared[row.bundle] = bundle
        if bundle is None:
            self._custody.transaction.delete(CopyRow, row.row)
        elif self._is_orphan(row.place):
            self._orphaned[load_copy(self._custody, row._replace(number=0), bundle).queue] = None
        else:
            entry = load_copy(self._custody, row, bundle)
            if row.number:
                self._outbox(row).outbox.append(entry)

    def _bundle(self, found: StoredEntry) -> StoredBundle | None:
        if not found.header:
            return None
        return load_bundle(self._custody, found.copy.bundle, own_header(found.header), found.size)

    def _outbox(self, row: CopyRow) -> Neighbour:
        return self._context.neighbours[row.place.removeprefix("link:")]

    def _is_orphan(self, name: str) -> bool:
        """Is the queue in which an entry waits none any more?"""
        if is_of_a_session(name, self._context.name):
            plain = self._custody.queues.get(name.rpartition("@")[0])
            return plain is None or not plain.created
        if name.startswith("link:"):
            is_neighbour = name.removeprefix("link:") in self._context.neighbours
            return not is_neighbour and not self._following.was_neighbour(name)
        return (
            name.startswith(SUBSCRIPTION)
            and name.removeprefix(SUBSCRIPTION) not in self._topics.subscriptions
        )
