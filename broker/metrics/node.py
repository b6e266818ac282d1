"""The node as a whole: who it is, what went through it, its store, its disk, its routes."""

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from broker.core.node import NodeCore
from broker.core.policies.statistics import LATENCY_BOUNDS
from broker.metrics import intake, process
from broker.metrics.exposition import Family, counter, gauge, histogram, info
from broker.report import NodeReport

COUNTERS: Final = {
    "entered": ("messages_entered", "Messages that applications of this node sent and that were taken."),
    "in": ("messages_received", "Messages that came over links."),
    "out": ("messages_sent", "Messages that went over links."),
    "delivered": ("messages_delivered", "Messages that were given to readers here, again ones included."),
    "acknowledged": ("messages_acknowledged", "Messages that readers here have dealt with."),
    "unmatched": ("messages_unmatched", "Messages of topics that nobody was subscribed to."),
    "unsubscribed": (
        "messages_unsubscribed",
        "Messages that waited for a topic subscription when it ended.",
    ),
    "rerouted": ("messages_rerouted", "Messages that were sent back to where they came from, or elsewhere."),
    "volatile_dropped": (
        "messages_volatile_dropped",
        "Messages that are not persistent and that nobody could take at once.",
    ),
    "duplicates_dropped": ("messages_duplicates_dropped", "Messages that had been here before."),
    "buried": ("messages_given_up", "Messages that waited too long: expired, or nobody took them."),
    "declined": ("routes_declined", "Routes over a limit, that this node or a neighbour did not take."),
    "dead_overflow": ("dead_letters_overflowed", "Dead letters that are gone, since there were too many."),
    "dead_returned": ("dead_letters_returned", "Dead letters that an operator moved back."),
    "dead_deleted": ("dead_letters_deleted", "Dead letters that an operator deleted."),
    "deleted": ("messages_deleted", "Messages that an operator deleted, with a queue or one by one."),
    "moved": ("messages_moved", "Messages that an operator moved to another queue, or behind all others."),
    "transient_ended": (
        "messages_transient_ended",
        "Messages that were in a session's transient queues when it ended.",
    ),
    "retained_overflow": (
        "retained_messages_overflowed",
        "Retained messages that are gone, since there were too many.",
    ),
    "out_of_order": ("messages_out_of_order", "Messages that came after younger ones of their sender."),
    "files_fetched": ("files_fetched", "Files of this node's folders that others have fetched, whole."),
    "files_brought": ("files_brought", "Files that others have brought to this node's folders, whole."),
    "file_copies_failed": ("file_copies_failed", "Files of these that were asked for and not copied whole."),
    "refused": ("bundles_refused", "Bundles of children that their permits do not allow."),
    "refused_unkept": (
        "bundles_refused_unkept",
        "Those of them that are not among the dead letters, since there were too many.",
    ),
    "unreadable": ("messages_unreadable", "Messages that could not be unpacked here."),
    "wills_refused": ("wills_refused", "Last wills of MQTT clients that were not taken when they ended."),
    "channels_opened": ("channels_opened", "Channels that were opened through this node."),
    "channels_refused": ("channels_refused", "Channels that were asked for and did not come about."),
    "channels_broken": ("channels_broken", "Channels that ended before their time, as with a broken line."),
    "channel_bytes": ("channel_bytes", "Bytes that came on channels, in both directions."),
    "nobody_serves": ("messages_nobody_serves", "Requests that were answered: nobody serves that queue."),
}
REASONS: Final = (
    *("EXPIRED", "QUEUE_DOES_NOT_EXIST", "QUEUE_FULL", "TOO_LARGE", "TOO_MANY_DELIVERIES"),
    *("UNREADABLE", "DESTINATION", "ORIGIN", "PERMIT", "UNKNOWN_INCARNATION"),
)
_REFUSALS: Final = ("QUEUE_FULL", "TOO_LARGE", "REFUSED")
_DOORS: Final = ("http", "session", "mqtt", "api")
_MOST_REASONS: Final = 32


def families(report: NodeReport) -> list[Family]:
    core = report.core
    return [
        *_identity(report),
        *_totals(core.counters),
        _by_reason(
            "sapwood_dead_letters",
            "Messages that became dead letters, by reason.",
            "reason",
            REASONS,
            core.custody.buried,
        ),
        _by_reason(
            "sapwood_messages_refused",
            "Messages of applications that were not taken, by the code that they were told.",
            "code",
            _REFUSALS,
            core.message_admission.refused,
        ),
        *intake.families(report.room.intake),
        _by_reason(
            "sapwood_failed_logins",
            "Logins of applications that were refused, by protocol, and requests with a wrong token (api).",
            "by",
            _DOORS,
            report.access.entrance.failed,
        ),
        *_dead(core),
        histogram(
            "sapwood_message_latency_seconds",
            "Time of a message from its arrival at this node to its acknowledgement by a reader here.",
        ).observe(LATENCY_BOUNDS, core.statistics.latency.counts, round(core.statistics.latency.total, 6)),
        *_store(report),
        *_below(core),
        *_routes(core),
    ]


def _identity(report: NodeReport) -> list[Family]:
    core, identity = report.core, report.core.identity
    parent = core.parent
    found = [
        info("sapwood_build", "What runs here.").add(1, **process.build(_version())),
        info("sapwood_node", "Which node this is.").add(
            1,
            node=identity.name,
            tree=identity.tree,
            role=identity.role,
            parent=parent.name if parent is not None else "",
            store_id=identity.store_id.hex(),
        ),
        gauge("sapwood_ready", "1 if the node takes messages.").add(int(report.driver.ready)),
        gauge("sapwood_refusing", "1 if it takes none for want of disk.").add(
            int(bool(core.message_admission.closed))
        ),
        gauge("sapwood_uptime_seconds", "Time since the node started.").add(report.uptime),
        counter("sapwood_starts", "How often this store was started, ever.").add(identity.start),
        gauge("sapwood_tree_depth", "Links between this node and the root, as far as it knows.").add(
            len(core.ancestry.chain) - 1
        ),
    ]
    main = report.diallers.main
    if main is not None:
        found += [
            gauge("sapwood_parent_up", "1 if the link to the parent is up.").add(
                int(parent is not None and parent.up)
            ),
            gauge("sapwood_parent_failed_dials", "Attempts to reach the parent since the last success.").add(
                main.failures
            ),
        ]
    return found + (_link_brokers(report) if report.link_brokers else [])


def _link_brokers(report: NodeReport) -> list[Family]:
    """Where children dial beside the port."""
    found = [
        gauge("sapwood_link_broker_up", "1 if the node hears children at this broker."),
        gauge("sapwood_link_broker_links", "Links of children over this broker."),
        counter("sapwood_link_broker_refused", "Knocks of children that were not answered: too many."),
        counter("sapwood_link_broker_strangers", "Envelopes that were ignored, being of an earlier link."),
    ]
    for broker in report.link_brokers:
        figures = (broker.state == "listening", broker.links, broker.refused, broker.strangers)
        for family, figure in zip(found, figures, strict=True):
            family.add(int(figure), broker=broker.uri)
    return found


def _totals(counters: Mapping[str, int]) -> list[Family]:
    """Each counter of the core; one that has no name here yet keeps its own."""
    found = []
    for key in {**COUNTERS, **counters}:
        name, text = COUNTERS.get(key, (key, f"What this node counts as {key!r}."))
        found.append(counter(f"sapwood_{name}", text).add(counters.get(key, 0)))
    return found


def _by_reason(name: str, text: str, label: str, known: tuple[str, ...], counts: Mapping[str, int]) -> Family:
    """Known ones from the start, as 0; what is made up later is bounded."""
    family = counter(name, text)
    found = {**dict.fromkeys(known, 0), **dict(list(counts.items())[:_MOST_REASONS])}
    for reason, count in found.items():
        family.add(count, **{label: reason})
    return family


def _dead(core: NodeCore) -> list[Family]:
    dead, settings = core.custody.dead, core.settings
    oldest = dead.waiting.since
    return [
        gauge("sapwood_dead_letter_messages", "Dead letters that are kept.").add(dead.messages),
        gauge("sapwood_dead_letter_bytes", "Bytes of their bundles.").add(dead.size),
        gauge("sapwood_dead_letter_oldest_age_seconds", "How long the oldest bundle of them was here.").add(
            0 if oldest is None else max(round(core.clock.now - oldest, 3), 0.0)
        ),
        gauge("sapwood_dead_letter_messages_limit", "Most dead letters that are kept.").add(
            settings.dead_messages
        ),
    ]


def _store(report: NodeReport) -> list[Family]:
    driver = report.driver
    core, committer, store = driver.core, driver.committer, driver.store
    durations = committer.durations
    spool = gauge("sapwood_spool_bytes", "Bytes of all bundles that are kept, by direction.")
    limits = gauge("sapwood_spool_limit_bytes", "Most bytes of them, by direction.")
    most: dict[Any, int] = {
        "up": core.settings.spool_up,
        "down": core.settings.spool_down,
        "rerouted": core.settings.spool_rerouted,
    }
    for direction, size in core.custody.spools.items():
        spool.add(size, direction=str(direction))
        limits.add(most[str(direction)], direction=str(direction))
    return [
        histogram("sapwood_store_commit_duration_seconds", "Time of a commit, with its fsync.").observe(
            durations.bounds, durations.counts, round(durations.total, 6)
        ),
        counter("sapwood_store_transactions", "Transactions; several may be one commit.").add(
            committer.transactions
        ),
        gauge("sapwood_store_used_bytes", "Bytes of the store's pages that are in use.").add(
            store.used_bytes()
        ),
        gauge("sapwood_disk_free_bytes", "Free space where the store is.").add(store.disk_free()),
        gauge("sapwood_disk_reserve_bytes", "Free space below which no messages are taken.").add(
            report.room.disk_reserve
        ),
        spool,
        limits,
    ]


def _below(core: NodeCore) -> list[Family]:
    longest = core.below.longest
    since = 0.0 if longest is None else round(core.clock.now - longest, 3)
    return [
        gauge("sapwood_nodes_below", "Nodes below this one.").add(len(core.below)),
        gauge("sapwood_nodes_below_down", "Those of them that cannot be reached.").add(len(core.below.away)),
        gauge(
            "sapwood_nodes_below_down_longest_seconds",
            "For how long the longest of them has been down.",
        ).add(since),
    ]


def _routes(core: NodeCore) -> list[Family]:
    routes = gauge("sapwood_routes", "Routes by kind.")
    kinds: dict[str, int] = dict.fromkeys(("queue", "topic", "domain"), 0)
    for (kind, _), count in core.table.counts().items():
        kinds[str(kind)] = kinds.get(str(kind), 0) + count
    for name, count in kinds.items():
        routes.add(count, kind=name)
    heard = counter("sapwood_advisories_received", "Advisories that neighbours sent; up: from a child.")
    told = counter("sapwood_advisories_sent", "Advisories sent to neighbours; up: to the parent.")
    for direction in ("up", "down", "mesh"):
        heard.add(core.advertising.heard[direction], direction=direction)
        told.add(core.advertising.told[direction], direction=direction)
    return [
        routes,
        gauge(
            "sapwood_routes_offered",
            "Routes that are offered to the parents (up), to children (down), in the mesh (mesh).",
        )
        .add(core.offers.up.count, direction="up")
        .add(core.offers.down.count if core.offers.down is not None else 0, direction="down")
        .add(core.offers.beside.count if core.offers.beside is not None else 0, direction="mesh"),
        heard,
        told,
    ]


def _version() -> str:
    try:
        return version("sapwood-node")
    except PackageNotFoundError:
        return "unknown"
