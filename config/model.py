"""The one model of a site's file. A name and a connector are enough: everything else has a default.

Law: everything here is immutable, durations are seconds, sizes are bytes, absent means None.
Each setting carries its meaning and its kind; readers, schemas and reference files derive from that.
A model made by a program is checked by `config.rules.check`, a file by its reader.
"""

from pathlib import Path
from typing import Literal

from config.accounts import APPLICATIONS, Account, Applications
from config.alarms import Alarms
from config.behaviour import (
    Advisories,
    AdvisoryLog,
    DeadLetter,
    Debug,
    Delivery,
    DestinationPolicy,
    History,
    Http,
    Limits,
    Link,
    Log,
    Metrics,
    Mqtt,
    Registration,
    Spool,
    Trace,
)
from config.channels import AppChannels, Folder, Forward
from config.children import Child, Permits
from config.enrolment import Enrolment
from config.fields import part, parts, section, value, values
from config.kinds import Choice, Whole
from config.mesh import Core, Mesh
from config.oidc import Oidc
from config.operators import Operator
from config.schemes import BROKERED, CARRIERS, DIRECT, LOOKED_UP, either, listed, listed_tls
from config.site_brokers import SiteBroker, SiteExchange, SiteRule
from config.strategies import STRATEGY
from config.tls import ClientTls, ServerTls
from config.uris import (
    ANNOUNCED_URI,
    HOST,
    LAN,
    LINK_BROKER_URI,
    LINK_URI,
    LOCAL_ADDRESS,
    NAME_SERVER,
    is_loopback,
)
from config.values import FLAG, NAME, NETWORK, NODETYPE, PATH, TIME, USER, VARIABLE

__all__ = [
    "Account",
    "Advisories",
    "AdvisoryLog",
    "Applications",
    "Child",
    "ClientTls",
    "Core",
    "DeadLetter",
    "Debug",
    "Delivery",
    "DestinationPolicy",
    "Enrolment",
    "Folder",
    "Forward",
    "Http",
    "Limits",
    "Link",
    "LinkBroker",
    "Listener",
    "Log",
    "Mesh",
    "Metrics",
    "Mqtt",
    "Oidc",
    "Permits",
    "Registration",
    "Role",
    "ServerTls",
    "Site",
    "SiteBroker",
    "SiteExchange",
    "SiteRule",
    "Spool",
    "Trace",
    "TreeConnector",
]

Role = Literal["leaf", "branch", "root"]


@section
class TreeConnector:
    """The way to this node's parent."""

    nodetype: Literal["leaf", "branch"] | None = value(
        NODETYPE,
        "what this node is: a leaf has no children, a branch may have some; required unless the file "
        "says `scheme`",
        default=None,
        example="branch",
    )
    uri: str = value(
        LINK_URI,
        f"the parent: {listed((DIRECT,))} (port {DIRECT.port} and path {DIRECT.path} unless given), "
        f"{listed(each for each in CARRIERS if each is not DIRECT)}, "
        f"or {LOOKED_UP}://DOMAIN, which is looked up in DNS",
        example="wss://hq.example.com:7600/link",
    )
    uris: tuple[str, ...] = values(
        LINK_URI,
        "further ways to the same parent, tried in this order after `uri`",
        item="uri",
        default=(),
        example=("wss://hq-backup.example.com:7600/link", "srv://hq.example.com"),
    )
    discover: str | None = value(
        NETWORK,
        f"lan: a parent is also asked for by multicast on the same network, behind `uri` and `uris`, as with "
        f"`uri` {LAN}; only {listed((DIRECT,))} are found so; whoever answers must prove itself, so "
        "`secret_env` or `secret_file` is required, or that this node has joined by invitation",
        default=None,
        aside=True,
    )
    strategy: str = value(
        STRATEGY,
        "which way is taken of several: the first that works; any; where a connection is made soonest; each "
        "node one of its own, so that many nodes spread; or the name of one that is installed",
        default="in-order",
    )
    local_addresses: tuple[str, ...] = values(
        LOCAL_ADDRESS,
        "addresses of this machine, one for each line out (LAN, LTE, VPN): each way is tried over each line",
        item="local_address",
        default=(),
        example=("10.0.42.2", "192.168.8.2"),
    )
    go_back: float = value(
        TIME,
        "how often a node whose link goes over another than the best way looks whether that works again, "
        "and goes back; 0 = never",
        default=60.0,
    )
    user: str | None = value(
        USER,
        f"user to log in as at the parent's broker ({', '.join(each.scheme for each in BROKERED)}); needs a "
        "password",
        default=None,
        aside=True,
    )
    password_env: str | None = value(
        VARIABLE,
        "environment variable that holds the password at the parent's broker",
        default=None,
        aside=True,
    )
    password_file: Path | None = value(
        PATH, "file that holds that password; instead of the variable", default=None, aside=True
    )
    secret_env: str | None = value(
        VARIABLE,
        "environment variable that holds the secret which proves this node to its parent",
        default=None,
        example="SAPWOOD_SECRET",
    )
    secret_file: Path | None = value(
        PATH, "file that holds the secret; instead of the variable", default=None, aside=True
    )
    name_servers: tuple[str, ...] = values(
        NAME_SERVER,
        "DNS servers to ask for srv://, without them those of the system; the hosts that DNS names are "
        "looked up by the system in any case",
        item="name_server",
        default=(),
        example=("10.0.0.53",),
    )
    tls: ClientTls = part(f"TLS towards the parent ({listed_tls(CARRIERS)})", default=ClientTls())
    renew: bool = value(
        FLAG,
        "whether this node renews `certificate` at its parent before it ends; `sapwood join` writes it so",
        default=False,
    )

    @property
    def ways(self) -> tuple[str, ...]:
        """All URIs of the parent, in the order in which to try them."""
        return tuple(dict.fromkeys((self.uri, *self.uris, *((LAN,) if self.discover else ()))))


@section
class LinkBroker:
    """A broker at which children may dial this node, instead of at its port. Branch and root only."""

    uri: str = value(
        LINK_BROKER_URI,
        f"the broker: {either(f'{listed((each,))} ({each.product})' for each in BROKERED)}",
        example="mqtts://localhost:8883",
    )
    user: str | None = value(USER, "user to log in as; needs a secret", default=None, example="sapwood")
    secret_env: str | None = value(
        VARIABLE,
        "environment variable that holds the password",
        default=None,
        example="LINK_BROKER_PASSWORD",
    )
    secret_file: Path | None = value(
        PATH, "file that holds the password; instead of the variable", default=None, aside=True
    )
    proves_names: bool = value(
        FLAG,
        "whether the broker's permissions let each child use its own topics or queues only (`sapwood config "
        "acl` prints them); a child's name is then proven without a secret",
        default=False,
    )
    tls: ClientTls = part(f"TLS towards the broker ({listed_tls(BROKERED)})", default=ClientTls())


@section
class Listener:
    """The node's one port: children, applications, status and dashboard."""

    host: str = value(
        HOST,
        "address to listen on; 127.0.0.1 is reached from this machine only, 0.0.0.0 from everywhere",
        default="127.0.0.1",
    )
    port: int = value(
        Whole(0, 65535), "port to listen on; 0 takes any free one (for tests)", default=DIRECT.port
    )
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
        FLAG,
        "whether children without a secret are accepted from other machines; from this machine they are",
        default=False,
    )
    discoverable: bool = value(
        FLAG,
        "whether this node answers those who ask by multicast on the same network for a parent (branch and "
        "root only; needs the extra dns, and a proof: secrets of its children, or an `authority` of its own)",
        default=False,
    )
    link_brokers: tuple[LinkBroker, ...] = parts(
        LinkBroker,
        "brokers at which children may dial, beside the port (branch and root only)",
        item="link_broker",
        default=(),
    )
    tls: ServerTls = part("TLS of the port", default=ServerTls())

    @property
    def announced(self) -> tuple[str, ...]:
        """All addresses at which other nodes reach this one, as far as the file says."""
        return tuple(uri for uri in (self.public_uri, *self.addresses) if uri)

    @property
    def loopback(self) -> bool:
        """True when other machines cannot reach the port."""
        return is_loopback(self.host)


@section
class Site:
    """One node and its site: the element or key `broker` of a file."""

    name: str = value(
        NAME,
        "the node's name, unique in its tree; without it a readable one is drawn at the first start and kept "
        "with the store",
        default=None,
        example="region-uk",
    )
    tree: str = value(NAME, "the tree's name, the same at all its nodes", default="sapwood")
    data: Path | None = value(
        PATH,
        "folder of the durable store; without it data/NAME, or data/unnamed",
        default=None,
        example="data/region-uk",
    )
    scheme: Literal["core", "satellite"] | None = value(
        Choice(("core", "satellite")),
        "the node's place in dCache's words: a core is a root, in a `mesh` with the others; a satellite a "
        "leaf of all of them; excludes `nodetype`",
        default=None,
        aside=True,
    )
    zone: str | None = value(
        NAME,
        "the zone the node stands in; neighbours of one zone are preferred, the parents of a mesh too",
        default=None,
        example="london",
    )
    children_secrets: Path | None = value(
        PATH,
        "file with one line NAME SECRET for each child, for thousands of children",
        default=None,
        example="secrets/children",
    )
    applications: Applications = value(
        APPLICATIONS,
        "which applications get sessions: proven, those with session secret, account or client certificate, "
        "and this machine's while there is neither secret nor account; local: this machine's; open: all",
        default="proven",
    )
    account_passwords: Path | None = value(
        PATH,
        "file with one line NAME HASH for each account, for many of them",
        default=None,
        example="secrets/accounts",
    )
    site_broker: SiteBroker = part("the broker of the site's applications", default=SiteBroker())
    tree_connectors: tuple[TreeConnector, ...] = parts(
        TreeConnector,
        "the way to the parent; without it the node is the root of its tree",
        item="tree_connector",
        default=(),
        maximum=1,
        bare=True,
    )
    mesh: Mesh = part("the mesh of two or three roots, or branches, that are one", default=Mesh())
    listener: Listener = part("the node's port", default=Listener())
    registration: Registration = part("the node's own records in DNS", default=Registration())
    enrolment: Enrolment = part("how new children join by invitation", default=Enrolment())
    mqtt: Mqtt = part("a port for MQTT applications, where the site has no broker", default=Mqtt())
    children: tuple[Child, ...] = parts(
        Child,
        "the children (branch and root only); where any is named, others are refused",
        item="child",
        default=(),
    )
    accounts: tuple[Account, ...] = parts(
        Account, "the applications that log in by name and password", item="account", default=()
    )
    operators: tuple[Operator, ...] = parts(
        Operator,
        "people and programs that look at this node and administrate it, each with a token and a role; where "
        "any is named, each request needs a token",
        item="operator",
        default=(),
    )
    oidc: Oidc = part("operators who have tokens of an OpenID Connect issuer", default=Oidc())
    permits: Permits = part("what children may consume and send", default=Permits())
    forwards: tuple[Forward, ...] = parts(
        Forward,
        "the TCP services of this site that others may reach through channels; without any, none",
        item="forward",
        default=(),
    )
    folders: tuple[Folder, ...] = parts(
        Folder,
        "the folders of this site whose files others may copy through channels; without any, none",
        item="folder",
        default=(),
    )
    channels: AppChannels = part(
        "channels that applications hand over by message; without it, only within this machine",
        default=AppChannels(),
    )
    advisories: Advisories = part("what is said about consumers", default=Advisories())
    delivery: Delivery = part("how long messages wait", default=Delivery())
    limits: Limits = part("bounds on what comes from outside", default=Limits())
    link: Link = part("timing of links", default=Link())
    advisory_log: AdvisoryLog = part("the record of advisories", default=AdvisoryLog())
    trace: Trace = part("what is remembered of messages that passed", default=Trace())
    http: Http = part("who may use the HTTP interface", default=Http())
    metrics: Metrics = part("what Prometheus is told", default=Metrics())
    history: History = part("how the node's figures went", default=History())
    alarms: Alarms = part("alarms on these figures", default=Alarms())
    log: Log = part("what the node writes on standard error", default=Log())
    debug: Debug = part("trouble on purpose, for tests of services", default=Debug())

    @property
    def connector(self) -> TreeConnector | None:
        """The way to the parent, if the node has one."""
        return self.tree_connectors[0] if self.tree_connectors else None

    @property
    def role(self) -> Role:
        """What the node is in its tree. Core: at the root; satellite: a leaf."""
        if self.scheme:
            return "root" if self.scheme == "core" else "leaf"
        return (self.connector.nodetype or "leaf") if self.connector else "root"

    @property
    def data_directory(self) -> Path:
        """Folder of the durable store; absolute once the site was loaded from a file."""
        return self.data or Path("data") / (self.name or "unnamed")

    @property
    def advisory_directory(self) -> Path:
        return self.advisory_log.directory or self.data_directory / "advisories"
