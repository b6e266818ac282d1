"""The one model of a site's file. A name and a connector are enough: everything else has a default.

Law: everything here is immutable, durations are seconds, sizes are bytes, absent means None.
Each setting carries its meaning and its kind; readers, schemas and reference files derive from that.
A model made by a program is checked by `config.rules.check`, a file by its reader.
"""

from pathlib import Path
from typing import Final, Literal

from config.fields import part, parts, section, value, values
from config.kinds import Boolean, Choice, Duration, FilePath, Size, Text, Whole
from config.uris import ANNOUNCED_URI, BROKER_URI, EMBEDDED, HOST, LINK_URI, is_loopback

KIB: Final = 2**10
MIB: Final = 2**20
GIB: Final = 2**30
DAY: Final = 86_400.0

Role = Literal["leaf", "branch", "root"]

_NAME: Final = Text(
    "1 to 64 letters, digits, '.', '-' or '_', beginning with a letter or digit, and not 'local'",
    r"[A-Za-z0-9][A-Za-z0-9._\-]{0,63}",
    refused=("local",),
)
_VARIABLE: Final = Text(
    "the name of an environment variable, such as SAPWOOD_SECRET", "[A-Za-z_][A-Za-z0-9_]{0,127}"
)
_USER: Final = Text("a user name of 1 to 255 visible characters without spaces", r"[^\t\n\r ]{1,255}")
_PATTERN: Final = Text(
    "queue:PATTERN or topic:PATTERN; levels stand between '/', '+' is any one level, '#' any number of them",
    r"(queue|topic):([^/+#\t\n\r]*|\+|#)(/([^/+#\t\n\r]*|\+|#)){0,127}",
    refused=("queue:", "topic:"),
)
_NODETYPE: Final = Choice(
    ("leaf", "branch"), {"root": "a root has no tree connector: leave the connector out"}
)
_PATH: Final = FilePath()
_FLAG: Final = Boolean()
_TIME: Final = Duration()
_POSITIVE_TIME: Final = Duration(minimum=0.001)
_COUNT: Final = Whole(1)
_BYTES: Final = Size(1)


@section
class ClientTls:
    """TLS towards a server that this node dials."""

    ca: Path | None = value(
        _PATH,
        "file of the certificate authorities (PEM) that the server's certificate must come from; "
        "without it the system's",
        default=None,
        example="tls/ca.pem",
    )
    certificate: Path | None = value(
        _PATH, "file of this node's client certificate (PEM)", default=None, example="tls/node.pem"
    )
    key: Path | None = value(
        _PATH, "file of the private key of `certificate`", default=None, example="tls/node.key"
    )
    verify_hostname: bool = value(
        _FLAG, "whether the server's certificate must name the host that was dialled", default=True
    )


@section
class ServerTls:
    """TLS of the node's own port."""

    certificate: Path | None = value(
        _PATH,
        "file of the certificate chain (PEM); with it the port speaks wss and https only",
        default=None,
        example="tls/node.pem",
    )
    key: Path | None = value(
        _PATH, "file of the private key of `certificate`", default=None, example="tls/node.key"
    )
    client_ca: Path | None = value(
        _PATH,
        "file of the certificate authorities (PEM) that children's certificates must come from; "
        "with it every child needs a certificate",
        default=None,
        example="tls/children-ca.pem",
    )


@section
class SiteBroker:
    """The broker that the applications of this site use."""

    uri: str = value(
        BROKER_URI,
        "the broker: embedded, or mqtt:// (Mosquitto) or amqp:// (RabbitMQ)",
        default=EMBEDDED,
        example="mqtts://localhost:8883",
    )
    user: str | None = value(_USER, "user to log in as; needs a secret", default=None, example="sapwood")
    secret_env: str | None = value(
        _VARIABLE,
        "environment variable that holds the password",
        default=None,
        example="SITE_BROKER_PASSWORD",
    )
    secret_file: Path | None = value(
        _PATH, "file that holds the password; instead of the variable", default=None, aside=True
    )
    tls: ClientTls = part("TLS towards the broker (mqtts, amqps)", default=ClientTls())


@section
class TreeConnector:
    """The way to this node's parent."""

    nodetype: Literal["leaf", "branch"] | None = value(
        _NODETYPE,
        "what this node is: a leaf has no children, a branch may have some; required unless the file "
        "says `scheme`",
        default=None,
        example="branch",
    )
    uri: str = value(
        LINK_URI,
        "the parent: ws, wss (port 7600 and path /link unless given), mqtt, mqtts, amqp, amqps, "
        "or srv://DOMAIN, which is looked up in DNS",
        example="wss://hq.example.com:7600/link",
    )
    uris: tuple[str, ...] = values(
        LINK_URI,
        "further ways to the same parent, tried in this order after `uri`",
        item="uri",
        default=(),
        example=("wss://hq-backup.example.com:7600/link",),
    )
    user: str | None = value(_USER, "user to log in as at an MQTT or AMQP carrier", default=None, aside=True)
    secret_env: str | None = value(
        _VARIABLE,
        "environment variable that holds the secret which proves this node to its parent",
        default=None,
        example="SAPWOOD_SECRET",
    )
    secret_file: Path | None = value(
        _PATH, "file that holds the secret; instead of the variable", default=None, aside=True
    )
    tls: ClientTls = part("TLS towards the parent (wss, mqtts, amqps)", default=ClientTls())

    @property
    def ways(self) -> tuple[str, ...]:
        """All URIs of the parent, in the order in which to try them."""
        return (self.uri, *self.uris)


@section
class Listener:
    """The node's one port: children, applications, status and dashboard."""

    host: str = value(
        HOST,
        "address to listen on; 127.0.0.1 is reached from this machine only, 0.0.0.0 from everywhere",
        default="127.0.0.1",
    )
    port: int = value(Whole(0, 65535), "port to listen on; 0 takes any free one (for tests)", default=7600)
    public_uri: str | None = value(
        ANNOUNCED_URI,
        "address at which other nodes reach this one, announced in every handshake; "
        "made from host and port where it is absent",
        default=None,
        example="wss://uk.example.com:7600/link",
    )
    addresses: tuple[str, ...] = values(
        ANNOUNCED_URI,
        "further addresses to announce, for sites with several lines",
        item="address",
        default=(),
        example=("wss://uk-second-line.example.com:7600/link",),
    )
    allow_anonymous: bool = value(
        _FLAG,
        "whether children without a secret are accepted from other machines; from this machine they are",
        default=False,
    )
    tls: ServerTls = part("TLS of the port", default=ServerTls())

    @property
    def loopback(self) -> bool:
        """True when other machines cannot reach the port."""
        return is_loopback(self.host)


@section
class Child:
    """The permit of one child. Where a node has permits, a child without one is refused."""

    name: str = value(_NAME, "the child's name", example="store-0042")
    secret_env: str | None = value(
        _VARIABLE, "environment variable that holds the child's secret", default=None, aside=True
    )
    secret_file: Path | None = value(
        _PATH, "file that holds the child's secret", default=None, example="secrets/store-0042"
    )
    max_routes: int | None = value(
        _COUNT,
        "most routes that this child may advertise; without it `max_routes_per_link`",
        default=None,
        example=5000,
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
        _TIME,
        "how long a route without consumer stays advertised: a quick reconnect costs nothing",
        default=10.0,
    )
    route_retention: float = value(
        _POSITIVE_TIME, "how long routes of a child that is away are kept (running time)", default=30 * DAY
    )
    reattach_time: float = value(
        _TIME, "how long after a start routes stay advertised until their consumers are back", default=60.0
    )
    dormant_after: float = value(
        _TIME, "how long a child's line must be down before its queues are served elsewhere", default=30.0
    )


@section
class DestinationPolicy:
    """What holds for some destinations. The first policy of the list whose pattern matches counts."""

    pattern: str = value(_PATTERN, "queue:PATTERN or topic:PATTERN, MQTT spelling", example="topic:prices/#")
    scope: Literal["vertical", "tree"] | None = value(
        Choice(("vertical", "tree")),
        "how far topic messages travel: vertical (the subtree of the entry node and its ancestors) or tree "
        "(everywhere); without it vertical, or tree where the file says `scheme`",
        default=None,
        example="tree",
    )
    max_messages: int | None = value(
        _COUNT, "most messages that wait for one destination", default=None, example=100_000
    )
    max_bytes: int | None = value(
        _BYTES, "most bytes that wait for one destination", default=None, example=256 * MIB
    )
    policy: Literal["refuse", "drop-oldest", "drop-new"] = value(
        Choice(("refuse", "drop-oldest", "drop-new")),
        "what happens above that: the producer is refused, or the oldest or newest message is dead-lettered",
        default="refuse",
    )
    home: str | None = value(_NAME, "node on which these queues stay (queues only)", default=None, aside=True)


@section
class Delivery:
    """How long messages wait and when they are given up."""

    hold_time: float = value(
        _TIME,
        "how long the root keeps a queue message that nobody takes before it is a dead letter",
        default=7 * DAY,
    )
    dedup_window: float = value(
        _TIME, "how long ids are remembered to tell messages that may be duplicates", default=3600.0
    )
    subscription_retention: float = value(
        _POSITIVE_TIME, "how long a durable subscription without its reader is kept", default=7 * DAY
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
        _BYTES, "most bytes on their way up; without it half of all", default=None, example=4 * GIB
    )
    max_bytes_down: int | None = value(
        _BYTES, "most bytes on their way down; without it half of all", default=None, example=4 * GIB
    )
    max_bytes_rerouted: int | None = value(
        _BYTES,
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

    max_messages: int = value(_COUNT, "most dead letters that are kept", default=100_000)
    max_bytes: int = value(_BYTES, "most bytes of dead letters", default=256 * MIB)
    max_age: float = value(_POSITIVE_TIME, "longest time a dead letter is kept", default=30 * DAY)


@section
class Limits:
    """Bounds on everything that comes from outside."""

    max_frame: int = value(
        Size(KIB, 16 * MIB), "largest frame on a link; both sides agree on the smaller", default=64 * KIB
    )
    max_message: int = value(
        Size(KIB, GIB), "largest message; a larger one is a dead letter where it enters", default=16 * MIB
    )
    max_routes_per_link: int = value(_COUNT, "most routes that one neighbour may advertise", default=100_000)
    max_filter_length: int = value(Whole(1, 65535), "longest topic filter, in bytes", default=1024)
    max_levels: int = value(Whole(1, 128), "most levels of a topic or filter", default=32)
    max_frames_per_second: int = value(_COUNT, "most frames a second from one neighbour", default=20_000)
    send_window_bundles: int = value(
        Whole(1, 65535), "most bundles that are sent and not yet confirmed, per link", default=64
    )
    send_window_bytes: int = value(
        Size(KIB, GIB), "most bytes that are sent and not yet confirmed, per link", default=8 * MIB
    )
    disk_reserve: int = value(
        _BYTES,
        "free disk that is kept for positions and removals, so that a full node drains",
        default=64 * MIB,
    )
    queue_quota: int = value(
        _COUNT, "most messages of one session that wait in one queue of this node", default=100_000
    )
    spool: Spool = part("disk for waiting messages", default=Spool())
    dead_letter: DeadLetter = part("bound of the dead letters", default=DeadLetter())


@section
class Link:
    """The timing of links, to the parent and to children."""

    keep_alive: float = value(_POSITIVE_TIME, "silence after which a sign of life is asked for", default=10.0)
    dead_after: float = value(_POSITIVE_TIME, "silence after such a question that ends the link", default=2.0)
    connect_timeout: float = value(_POSITIVE_TIME, "longest time for connection and handshake", default=10.0)
    backoff_initial: float = value(_POSITIVE_TIME, "first pause before dialling again", default=0.25)
    backoff_max: float = value(_POSITIVE_TIME, "longest pause before dialling again", default=30.0)


@section
class AdvisoryLog:
    """The record of consumers and advisories that simulation and audit read."""

    enabled: bool = value(_FLAG, "whether it is written", default=True)
    directory: Path | None = value(
        _PATH,
        "its folder; without it `advisories` in the data folder",
        default=None,
        example="data/region-uk/advisories",
    )
    max_bytes_per_file: int = value(Size(KIB), "size at which a new file begins", default=16 * MIB)
    max_files: int = value(Whole(1, 10_000), "most files that are kept; the oldest goes", default=10)
    gzip: bool = value(_FLAG, "whether finished files are compressed", default=True)


@section
class Http:
    """Who may use status, administration and applications' sessions over HTTP."""

    token_env: str | None = value(
        _VARIABLE,
        "environment variable that holds the token for status and administration; without a token they "
        "answer this machine only",
        default=None,
        example="SAPWOOD_TOKEN",
    )
    token_file: Path | None = value(
        _PATH, "file that holds the token; instead of the variable", default=None, aside=True
    )
    session_secret_env: str | None = value(
        _VARIABLE,
        "environment variable that holds the secret which applications need to log in; without a secret "
        "they may log in from this machine only",
        default=None,
        example="SAPWOOD_SESSION_SECRET",
    )
    session_secret_file: Path | None = value(
        _PATH, "file that holds that secret; instead of the variable", default=None, aside=True
    )


@section
class Log:
    """What the node writes on standard error."""

    format: Literal["text", "json"] = value(Choice(("text", "json")), "how a line looks", default="text")
    level: Literal["debug", "info", "warning", "error"] = value(
        Choice(("debug", "info", "warning", "error")), "the least that is written", default="info"
    )


@section
class Site:
    """One node and its site: the element or key `broker` of a file."""

    name: str = value(_NAME, "the node's name, unique in its tree", example="region-uk")
    tree: str = value(_NAME, "the tree's name, the same at all its nodes", default="sapwood")
    data: Path | None = value(
        _PATH, "folder of the durable store; without it data/NAME", default=None, example="data/region-uk"
    )
    scheme: Literal["core", "satellite"] | None = value(
        Choice(("core", "satellite")),
        "the node's place in dCache's words; excludes `nodetype`",
        default=None,
        aside=True,
    )
    zone: str | None = value(
        _NAME,
        "the zone the node stands in; neighbours of one zone are preferred",
        default=None,
        example="london",
    )
    children_secrets: Path | None = value(
        _PATH,
        "file with one line NAME SECRET for each child: permits for thousands of children",
        default=None,
        example="secrets/children",
    )
    site_broker: SiteBroker = part("the broker of the site's applications", default=SiteBroker())
    tree_connectors: tuple[TreeConnector, ...] = parts(
        TreeConnector,
        "the way to the parent; without it the node is the root of its tree",
        item="tree_connector",
        default=(),
        maximum=1,
    )
    listener: Listener = part("the node's port", default=Listener())
    children: tuple[Child, ...] = parts(
        Child,
        "permits of children (branch and root only); with any permit, others are refused",
        item="child",
        default=(),
    )
    advisories: Advisories = part("what is said about consumers", default=Advisories())
    delivery: Delivery = part("how long messages wait", default=Delivery())
    limits: Limits = part("bounds on what comes from outside", default=Limits())
    link: Link = part("timing of links", default=Link())
    advisory_log: AdvisoryLog = part("the record of advisories", default=AdvisoryLog())
    http: Http = part("who may use the HTTP interface", default=Http())
    log: Log = part("what the node writes on standard error", default=Log())

    @property
    def connector(self) -> TreeConnector | None:
        """The way to the parent, if the node has one."""
        return self.tree_connectors[0] if self.tree_connectors else None

    @property
    def role(self) -> Role:
        """What the node is in its tree. A core stands at the root; a satellite is a leaf."""
        if self.scheme:
            return "root" if self.scheme == "core" else "leaf"
        return (self.connector.nodetype or "leaf") if self.connector else "root"

    @property
    def data_directory(self) -> Path:
        """Folder of the durable store; absolute once the site was loaded from a file."""
        return self.data or Path("data") / self.name

    @property
    def advisory_directory(self) -> Path:
        """Folder of the advisory log."""
        return self.advisory_log.directory or self.data_directory / "advisories"
