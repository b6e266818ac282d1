"""A start: the rows on disk become the same state that made them."""

from typing import TYPE_CHECKING, Final

from broker.core.links.neighbour import Neighbour
from broker.core.messages.custody import DOUBTED, SUBSCRIPTION, Queue, StoredBundle
from broker.core.messages.pages import Covered, Page
from broker.core.messages.queue_names import SITE, is_of_a_session
from broker.core.neighbours.admission import ENDED
from broker.core.routing.topics import Subscription
from broker.core.rows import (
    FORMER,
    BundleRow,
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
)
from broker.core.site.site import TAKEN
from treeconnector.bundles import decode_header
from treeconnector.destinations import Destination, Kind
from treeconnector.names import LOCAL
from treeconnector.relations import Relation

if TYPE_CHECKING:
    from broker.core.node import NodeCore, Rows

_RECOVERED = "recovered"
_AT_ONCE: Final = 1024


def restore(core: "NodeCore", loaded: "Rows") -> None:
    """Fill a new core. Links are down, local routes are recovering until their consumers come back."""
    meta = _meta(core, loaded)
    _neighbours(core, loaded)
    core.ancestry.restore(meta.get("chain"))
    core.links.restore(any(row.name == ENDED for row in loaded.rows(MetaRow)))
    core.static_routing.restore(loaded.rows(MetaRow))
    for row in loaded.rows(QueueRow):
        core.switch.local_queues.restore(row)
    for producer in loaded.rows(ProducerRow):
        core.switch.sending.restore(producer)
    for rejected in loaded.rows(RejectedRow):
        core.switch.sending.restore_rejected(rejected)
    for retained in loaded.rows(RetainedRow):
        for gone in core.topics.retained.put(retained.topic, decode_header(retained.header), retained.body):
            core.custody.transaction.delete(RetainedRow, gone)
            core.renewal.forgotten(gone)
    for seen in sorted(loaded.rows(SeenRow), key=lambda row: row.at):
        core.arrivals.seen.restore(seen)
    _subscriptions(core, loaded)
    _custody(core, loaded)


def _meta(core: "NodeCore", loaded: "Rows") -> dict[str, bytes]:
    meta: dict[str, bytes] = {row.name: row.value for row in loaded.rows(MetaRow)}
    core.site.restore_taken(row for row in loaded.rows(MetaRow) if row.name.startswith(TAKEN))
    core.renewal.restore(loaded.rows(MetaRow))
    core.permitting.restore(loaded.rows(MetaRow))
    core.start_transfer_ids(int(meta.get("transfer", b"1")))
    core.root.restore(meta.get("root"))
    core.mesh.restore(meta)
    core.custody.restore_doubt(int(meta.get(DOUBTED, b"0")))
    return meta


def _neighbours(core: "NodeCore", loaded: "Rows") -> None:
    links: list[LinkRow] = loaded.rows(LinkRow)
    for link in links:
        core.neighbourhood.add(link.name, Relation(link.relation)).restore(link)
    routes: dict[str, list[RouteRow]] = {}
    for row in loaded.rows(RouteRow):
        routes.setdefault(row.gateway, []).append(row)
    local = [Destination(Kind(row.kind), row.name) for row in routes.pop(LOCAL, [])]
    core.interests.recover((key for key in local if key.kind != Kind.DOMAIN), core.clock.now)
    for name, held in routes.items():
        if name in core.neighbours:
            core.neighbours[name].held.restore(row for row in held if row.declined != FORMER)
            left = [(row.reads or int(core.clock.now), row.name) for row in held if row.declined == FORMER]
            core.neighbours[name].former = {former: since for since, former in sorted(left)}
    core.neighbourhood.look_again()
    for neighbour in core.neighbours.values():
        neighbour.detail.down_since = neighbour.detail.down_since or max(core.clock.now, 0.001)
        neighbour.broken_at = core.clock.now
        core.touch(neighbour)
        core.neighbourhood.rest_while_down(neighbour)


def _subscriptions(core: "NodeCore", loaded: "Rows") -> None:
    """Durable subscriptions are interests by themselves; plain ones wait for their session to come back."""
    plain: list[Subscription] = []
    for row in loaded.rows(SubscriptionRow):
        if row.session == SITE:
            core.site.restore_consumer(row)
            continue
        subscription = core.topics.restore(row)
        key = Destination(Kind.TOPIC, subscription.pattern)
        if subscription.name:
            core.interests.add(key, subscription.id, _RECOVERED, core.clock.now)
        else:
            plain.append(subscription)

    def give_up() -> None:
        for subscription in plain:
            if not subscription.attached and core.topics.subscriptions.get(subscription.id) is subscription:
                core.topics.end(subscription)

    core.clock.after(core.settings.reattach_time, give_up)


def _custody(core: "NodeCore", loaded: "Rows") -> None:
    """Most of what waits is in pages, and is not read. All else is; where many wait, as at the first start of
    a version that has pages, they leave memory again on the way.
    """
    rows: list[PageRow] = loaded.rows(PageRow)
    orphaned: dict[Queue, None] = {}
    pages = [_load_page(core, row, orphaned) for row in rows]
    shared: dict[int, StoredBundle | None] = {} if rows else dict.fromkeys(loaded.shared_bundles())
    core.custody.paging.unsure = shared
    for number, each in enumerate(loaded.copies(Covered(pages))):
        _load_copy(core, each, shared, orphaned, share=bool(rows))
        if number % _AT_ONCE == 0 and not rows:
            core.custody.paging.cool()
    core.custody.paging.unsure = ()
    for row_number in () if rows else loaded.lone_bundles():
        core.custody.transaction.delete(BundleRow, row_number)
    for neighbour in core.neighbours.values():
        ordered = sorted(neighbour.outbox, key=lambda entry: entry.number)
        neighbour.outbox.clear()
        neighbour.outbox.extend(ordered)
        neighbour.outbox_bytes = sum(entry.stored.size for entry in ordered)
    for queue in orphaned:
        core.removal.end_orphans(queue)


def _load_page(core: "NodeCore", row: PageRow, orphaned: dict[Queue, None]) -> Page:
    if row.place == SUBSCRIPTION + SITE:
        core.site.reads_topics()
    is_orphan = _is_orphan(core, row.place)
    page = core.custody.load_page(row)
    if is_orphan:
        orphaned[page.queue] = None
    return page


def _load_copy(
    core: "NodeCore",
    found: StoredEntry,
    shared: dict[int, StoredBundle | None],
    orphaned: dict[Queue, None],
    *,
    share: bool,
) -> None:
    """`shared`: bundles of which there are further entries, or may be; all are, if `share`."""
    row = found.copy
    if row.place == SUBSCRIPTION + SITE:
        core.site.reads_topics()
    bundle = shared.get(row.bundle) or _bundle(core, found)
    if share or row.bundle in shared:
        shared[row.bundle] = bundle
    if bundle is None:
        core.custody.transaction.delete(CopyRow, row.row)
    elif _is_orphan(core, row.place):
        orphaned[core.custody.load_copy(row._replace(number=0), bundle).queue] = None
    else:
        entry = core.custody.load_copy(row, bundle)
        if row.number:
            _outbox(core, row).outbox.append(entry)


def _bundle(core: "NodeCore", found: StoredEntry) -> StoredBundle | None:
    if not found.header:
        return None
    return core.custody.load_bundle(found.copy.bundle, decode_header(found.header), found.size)


def _outbox(core: "NodeCore", row: CopyRow) -> Neighbour:
    return core.neighbours[row.place.removeprefix("link:")]


def _is_orphan(core: "NodeCore", name: str) -> bool:
    """Is the queue in which an entry waits none any more?"""
    if is_of_a_session(name, core.identity.name):
        plain = core.custody.queues.get(name.rpartition("@")[0])
        return plain is None or not plain.created
    if name.startswith("link:"):
        return name.removeprefix("link:") not in core.neighbours
    return name.startswith(SUBSCRIPTION) and name.removeprefix(SUBSCRIPTION) not in core.topics.subscriptions
