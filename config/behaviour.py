"""The sections of a site's file that most sites leave alone: how a node behaves, and its bounds.

Durations are seconds, sizes are bytes, absent means None. `config.model` gathers these sections.
"""

from pathlib import Path
from typing import Literal

from config.fields import part, parts, section, value
from config.kinds import Choice, Duration, Size, Whole
from config.uris import DOMAIN, UPDATE_SERVER
from config.values import (
    BYTES,
    COUNT,
    DAY,
    FLAG,
    GIB,
    KEY_NAME,
    KIB,
    MIB,
    NAME,
    PATH,
    PATTERN,
    POSITIVE_TIME,
    PREFIX,
    SHARE,
    TIME,
    VARIABLE,
)


@section
class Advisories:
    """What this node says about its consumers, and how long it believes others."""

    advise_down: Literal["all", "topics", "none"] = value(
        Choice(("all", "topics", "none")),
        "which of the routes from here and above are told to the children; queue messages find their way "
        "up without it, but a child can then not tell that nobody serves a queue",
        default="all",
    )
    linger: float = value(
        TIME,
        "how long a route without consumer stays advertised: a quick reconnect costs nothing",
        default=10.0,
    )
    route_retention: float = value(
        POSITIVE_TIME, "how long routes of a child that is away are kept (running time)", default=30 * DAY
    )
    reattach_time: float = value(
        TIME, "how long after a start routes stay advertised until their consumers are back", default=60.0
    )
    dormant_after: float = value(
        TIME, "how long a child's line must be down before its queues are served elsewhere", default=30.0
    )


@section
class DestinationPolicy:
    """What holds for some destinations. The first policy of the list whose pattern matches counts."""

    pattern: str = value(PATTERN, "queue:PATTERN or topic:PATTERN, MQTT spelling", example="topic:prices/#")
    scope: Literal["vertical", "tree"] | None = value(
        Choice(("vertical", "tree")),
        "how far topic messages travel: vertical (the subtree of the entry node and its ancestors) or tree "
        "(everywhere): with vertical a store does not hear its siblings (`sapwood check-delivery` shows it); "
        "without it vertical, or tree where the file says `scheme`",
        default=None,
        example="tree",
    )
    max_messages: int | None = value(
        COUNT, "most messages that wait for one destination", default=None, example=100_000
    )
    max_bytes: int | None = value(
        BYTES, "most bytes that wait for one destination", default=None, example=256 * MIB
    )
    policy: Literal["refuse", "drop-oldest", "drop-new"] = value(
        Choice(("refuse", "drop-oldest", "drop-new")),
        "what happens above that: the producer is refused, or the oldest or newest message is dead-lettered",
        default="refuse",
    )
    home: str | None = value(NAME, "node on which these queues stay (queues only)", default=None, aside=True)


@section
class Delivery:
    """How long messages wait and when they are given up."""

    hold_time: float = value(
        TIME,
        "how long the root keeps a queue message that nobody takes before it is a dead letter",
        default=7 * DAY,
    )
    dedup_window: float = value(
        TIME, "how long ids are remembered to tell messages that may be duplicates", default=3600.0
    )
    subscription_retention: float = value(
        POSITIVE_TIME, "how long a durable subscription without its reader is kept", default=7 * DAY
    )
    max_deliveries: int = value(
        Whole(1, 1_000_000), "deliveries of one message before it is a dead letter", default=10
    )
    destinations: tuple[DestinationPolicy, ...] = parts(
        DestinationPolicy,
        "what holds for some destinations; the first that matches counts",
        item="destination",
        default=(),
    )


@section
class Spool:
    """The disk that waiting messages may use."""

    max_bytes: int = value(Size(MIB), "most bytes of all waiting messages", default=8 * GIB)
    max_bytes_up: int | None = value(
        BYTES, "most bytes on their way up; without it half of all", default=None, example=4 * GIB
    )
    max_bytes_down: int | None = value(
        BYTES, "most bytes on their way down; without it half of all", default=None, example=4 * GIB
    )
    max_bytes_rerouted: int | None = value(
        BYTES,
        "most bytes that had to be routed again; without it a quarter of all",
        default=None,
        example=2 * GIB,
    )

    @property
    def up(self) -> int:
        """Most bytes on their way up."""
        return self.max_bytes_up or self.max_bytes // 2

    @property
    def down(self) -> int:
        """Most bytes on their way down."""
        return self.max_bytes_down or self.max_bytes // 2

    @property
    def rerouted(self) -> int:
        """Most bytes that had to be routed again."""
        return self.max_bytes_rerouted or self.max_bytes // 4


@section
class DeadLetter:
    """The bound of the dead letters; what overflows is counted and gone."""

    max_messages: int = value(COUNT, "most dead letters that are kept", default=100_000)
    max_bytes: int = value(BYTES, "most bytes of dead letters", default=256 * MIB)
    max_age: float = value(POSITIVE_TIME, "longest time a dead letter is kept", default=30 * DAY)


@section
class Addresses:
    """The cache of logical addresses."""

    max_entries: int | None = value(
        Whole(10, 10_000_000),
        "most names and incarnations; without it twice the nodes below, and 1000 at least",
        default=None,
        example=10_000,
    )
    lifetime: float = value(
        POSITIVE_TIME, "for how long an answer of another node is believed", default=120.0
    )
    max_waiting: int = value(
        COUNT, "most messages that wait for incarnations which are being asked for", default=10_000
    )


@section
class Limits:
    """Bounds on everything that comes from outside."""

    max_frame: int = value(
        Size(32 * KIB, 16 * MIB),
        "largest frame on a link; both sides and the carrier agree on the smallest",
        default=MIB,
    )
    max_message: int = value(
        Size(KIB, GIB), "largest message; a larger one is a dead letter where it enters", default=16 * MIB
    )
    max_routes_per_link: int = value(COUNT, "most routes that one neighbour may advertise", default=100_000)
    max_filter_length: int = value(Whole(1, 65535), "longest topic filter, in bytes", default=1024)
    max_levels: int = value(Whole(1, 128), "most levels of a topic or filter", default=32)
    max_frames_per_second: int = value(
        COUNT, "most frames a second from one neighbour; an advisory counts as one", default=20_000
    )
    send_window_bundles: int = value(
        Whole(1, 65535), "most bundles that are sent and not yet confirmed, per link", default=2048
    )
    send_window_bytes: int = value(
        Size(KIB, GIB), "most bytes that are sent and not yet confirmed, per link", default=8 * MIB
    )
    disk_reserve: int = value(
        BYTES,
        "free disk that is kept for positions and removals, so that a full node drains",
        default=64 * MIB,
    )
    queue_quota: int = value(
        COUNT, "most messages of one session that wait in one queue of this node", default=100_000
    )
    connections: int = value(
        COUNT,
        "most connections at the node's ports together; fewer where the process may open fewer files. The "
        "last eighth is for links",
        default=20_000,
    )
    strangers: int = value(
        COUNT, "most of them that have not logged in; each may take 64 KiB of memory", default=1024
    )
    strangers_per_address: int = value(
        COUNT, "most of those from one address (IPv6: from one /64 network)", default=512
    )
    addresses: Addresses = part("what is known of names and incarnations", default=Addresses())
    spool: Spool = part("disk for waiting messages", default=Spool())
    dead_letter: DeadLetter = part("bound of the dead letters", default=DeadLetter())


@section
class Link:
    """The timing of links, to the parent and to children."""

    keep_alive: float = value(POSITIVE_TIME, "silence after which a sign of life is asked for", default=10.0)
    dead_after: float = value(POSITIVE_TIME, "silence after such a question that ends the link", default=2.0)
    connect_timeout: float = value(POSITIVE_TIME, "longest time for connection and handshake", default=10.0)
    backoff_initial: float = value(POSITIVE_TIME, "first pause before dialling again", default=0.25)
    backoff_max: float = value(POSITIVE_TIME, "longest pause before dialling again", default=10.0)


@section
class Registration:
    """The node's own records in DNS, for children that say srv://DOMAIN. Branch and root only."""

    domain: str | None = value(
        DOMAIN,
        "the domain under which children look for this node (srv://DOMAIN); with it the node registers the "
        "listener's `public_uri` and `addresses`",
        default=None,
        example="uk.example.com",
    )
    zone: str | None = value(
        DOMAIN,
        "the zone in which the domain lies; without it the domain is one itself",
        default=None,
        example="example.com",
    )
    server: str | None = value(
        UPDATE_SERVER,
        "the zone's server that takes updates (RFC 2136)",
        default=None,
        example="ns1.example.com",
    )
    key_name: str | None = value(
        KEY_NAME, "the name of the TSIG key that signs them", default=None, example="sapwood-uk"
    )
    key_algorithm: Literal["hmac-sha256", "hmac-sha384", "hmac-sha512"] = value(
        Choice(("hmac-sha256", "hmac-sha384", "hmac-sha512")),
        "the algorithm of that key",
        default="hmac-sha256",
    )
    key_env: str | None = value(
        VARIABLE,
        "environment variable that holds the key in base64, as tsig-keygen prints it",
        default=None,
        example="SAPWOOD_DNS_KEY",
    )
    key_file: Path | None = value(
        PATH, "file that holds the key; instead of the variable", default=None, aside=True
    )
    lease: float = value(
        Duration(minimum=2.0),
        "how long the records outlive a node that has crashed; it renews them four times as often",
        default=300.0,
    )
    priority: int = value(
        Whole(0, 65000),
        "of the SRV record of `public_uri`; the smallest is tried first, and `addresses` follow by one each",
        default=10,
    )
    weight: int = value(
        Whole(0, 65535), "of the SRV records: the share of children among equal priorities", default=10
    )


@section
class Mqtt:
    """A door for MQTT applications, at a site without a broker of its own."""

    port: int | None = value(
        Whole(0, 65535),
        "port for MQTT 3.1.1, at the listener's host and with its TLS; 0 takes any free one (for tests)",
        default=None,
        aside=True,
    )
    queue_prefix: str = value(
        PREFIX,
        "queue NAME is read by $share/GROUP/ and this and NAME, and sent to by this and NAME",
        default="queue/",
    )
    max_keep_alive: int | None = value(
        Whole(1, 65_535),
        "longest Keep Alive of a client of MQTT 5, in seconds, also of one that asks for none: it is"
        " told so, and is sent away after one and a half of it in silence; without it each may ask for any",
        default=None,
        example=60,
    )


@section
class AdvisoryLog:
    """The record of consumers and advisories that simulation and audit read."""

    enabled: bool = value(FLAG, "whether it is written", default=True)
    directory: Path | None = value(
        PATH,
        "its folder; without it `advisories` in the data folder",
        default=None,
        example="data/region-uk/advisories",
    )
    max_bytes_per_file: int = value(Size(KIB), "size at which a new file begins", default=16 * MIB)
    max_files: int = value(Whole(1, 10_000), "most files that are kept; the oldest goes", default=10)
    gzip: bool = value(FLAG, "whether finished files are compressed", default=True)


@section
class Trace:
    """What the node remembers of the messages that passed, in memory."""

    events: int = value(
        Whole(0, 1_000_000),
        "most events that are remembered; 0 = none, and nothing can be traced",
        default=20_000,
    )


@section
class Http:
    """Who may use status, administration and applications' sessions over HTTP."""

    token_env: str | None = value(
        VARIABLE,
        "environment variable that holds the token for status and administration, which each request then "
        "needs; without a token they answer this machine only",
        default=None,
        example="SAPWOOD_TOKEN",
    )
    token_file: Path | None = value(
        PATH, "file that holds the token; instead of the variable", default=None, aside=True
    )
    session_secret_env: str | None = value(
        VARIABLE,
        "environment variable that holds a secret with which applications log in, with every right; "
        "beside it `accounts` and client certificates prove them too",
        default=None,
        example="SAPWOOD_SESSION_SECRET",
    )
    session_secret_file: Path | None = value(
        PATH, "file that holds that secret; instead of the variable", default=None, aside=True
    )
    subscribe_creates: bool = value(
        FLAG,
        "whether `GET /subscribe/QUEUE` makes a queue that is not there, as clients of the message switch "
        "expect; else it answers 404",
        default=True,
    )


@section
class Metrics:
    """How many names `/metrics` shows; all others together are `other`."""

    max_queues: int = value(COUNT, "most queues with figures of their own", default=100)
    max_links: int = value(COUNT, "most links with figures of their own", default=200)
    max_sessions: int = value(COUNT, "most sessions with figures of their own", default=50)


@section
class History:
    """How the node's figures went, for charts and alarms: in a file of fixed size in its data folder."""

    enabled: bool = value(
        FLAG, "whether samples are taken at all; without them no alarm is raised", default=True
    )
    every: float = value(
        Duration(minimum=1.0, maximum=60.0),
        "how often a sample is taken; about an hour of these is kept, a day of three minutes, a week of a "
        "quarter of an hour",
        default=10.0,
    )


@section
class Debug:
    """For testing services, not for production: a node that does so says so in its status."""

    deliver_twice: float = value(
        SHARE,
        "share of the messages that this node gives to its readers twice, at random, so that services can "
        "test that they bear it",
        default=0.0,
    )
    seed: int = value(Whole(), "seed of that: the same one doubles the same messages of a queue", default=0)


@section
class Log:
    """What the node writes on standard error."""

    format: Literal["text", "json"] = value(Choice(("text", "json")), "how a line looks", default="text")
    level: Literal["debug", "info", "warning", "error"] = value(
        Choice(("debug", "info", "warning", "error")), "the least that is written", default="info"
    )
