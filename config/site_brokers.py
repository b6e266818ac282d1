"""The section of the broker that a site's applications use.

It is one section in the file: the settings of any site broker, those of each kind, and the rules. Each bridge
reads, beside the first, only its own: a new kind with settings of its own gets a class here.
"""

from pathlib import Path
from typing import Literal

from config.fields import part, parts, portion, section, value, values
from config.kinds import Choice
from config.schemes import SITE_BROKERS, either, listed_tls
from config.tls import ClientTls
from config.uris import BROKER_URI, EMBEDDED, HTTP_URI
from config.values import EXCHANGE, PATH, PATTERN, PREFIX, USER, VARIABLE


@section
class SiteRule:
    """What passes between a site's broker and the tree, and under which names, as in a `topic` line of
    mosquitto.conf. With any rule for queues, or for topics, only those that match one pass.
    """

    pattern: str = value(
        PATTERN, "queue:PATTERN or topic:PATTERN, what follows the prefixes", example="topic:prices/#"
    )
    direction: Literal["in", "out", "both"] = value(
        Choice(("in", "out", "both")),
        "in: from the tree to the site's broker; out: from there into the tree",
        default="both",
    )
    local_prefix: str | None = value(
        PREFIX, "begins the names at the site's broker; of topics whole levels", default=None, example="till/"
    )
    tree_prefix: str | None = value(
        PREFIX,
        "begins the names in the tree; of topics whole levels",
        default=None,
        example="store/0042/till/",
    )


@portion
class AnySiteBroker:
    """The settings that every kind has."""

    uri: str = value(
        BROKER_URI,
        f"the broker: embedded, or {either(f'{each.scheme}:// ({each.product})' for each in SITE_BROKERS)}",
        default=EMBEDDED,
        example="mqtts://localhost:8883",
    )
    user: str | None = value(USER, "user to log in as; needs a secret", default=None, example="sapwood")
    secret_env: str | None = value(
        VARIABLE,
        "environment variable that holds the password",
        default=None,
        example="SITE_BROKER_PASSWORD",
    )
    secret_file: Path | None = value(
        PATH, "file that holds the password; instead of the variable", default=None, aside=True
    )
    tls: ClientTls = part(f"TLS towards the broker ({listed_tls(SITE_BROKERS)})", default=ClientTls())
    discovery: Literal["automatic", "static"] = value(
        Choice(("automatic", "static")),
        "automatic: consumers are learned from the broker; static: only `consumers` count",
        default="automatic",
    )
    consumers: tuple[str, ...] = values(
        PATTERN,
        "destinations that have consumers at the broker whatever it tells",
        item="consumer",
        default=(),
        example=("queue:orders", "topic:prices/#"),
    )
    sources: tuple[str, ...] = values(
        PATTERN,
        "queues and topics that are taken from the broker though nobody is known to want them, such as a "
        "queue that is read in a sister store",
        item="source",
        default=(),
        example=("queue:returns",),
    )


@portion
class MosquittoSettings:
    """The settings of `bridges.site_brokers.mosquitto`."""

    queue_prefix: str = value(
        PREFIX,
        "MQTT: queue NAME is read by $share/GROUP/ and this and NAME, and sent to by this and NAME",
        default="queue/",
    )
    node_prefix: str = value(
        PREFIX,
        "MQTT: queue NAME of node NODE is sent to by this and NODE/NAME; so replies find their way",
        default="node/",
    )
    persistence_file: Path | None = value(
        PATH,
        "MQTT: Mosquitto's own database, if the node may read it: it says which sessions were subscribed "
        "before the node came",
        default=None,
        example="/var/lib/mosquitto/mosquitto.db",
    )


@section
class SiteExchange:
    """A further exchange of a RabbitMQ, and which topics of the tree are its own."""

    name: str = value(EXCHANGE, "the exchange; of type topic, and there already", example="sales")
    prefix: str = value(
        PREFIX, "begins its topics in the tree, whole levels; a key of the exchange follows", example="sales/"
    )


@portion
class RabbitmqSettings:
    """The settings of `bridges.site_brokers.rabbitmq`."""

    exchange: str = value(
        EXCHANGE,
        "AMQP: the exchange through which topics go; of type topic, and there already",
        default="amq.topic",
    )
    exchanges: tuple[SiteExchange, ...] = parts(
        SiteExchange,
        "AMQP: further exchanges, each with topics of its own; `exchange` has all others",
        item="exchange",
        default=(),
    )
    management: str | None = value(
        HTTP_URI,
        "AMQP: RabbitMQ's management API; without this at the broker's host, port 15672, or 15671 with TLS",
        default=None,
        example="https://localhost:15671",
    )


# The last base comes first in the file, and what stands here comes last.
@section
class SiteBroker(RabbitmqSettings, MosquittoSettings, AnySiteBroker):
    """The broker that the applications of this site use."""

    rules: tuple[SiteRule, ...] = parts(
        SiteRule, "what passes, and under which names; without any, everything", item="rule", default=()
    )
