"""Alarms of a site: rules on the figures that the node keeps, and the webhook that is told."""

from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from config.fields import part, parts, section, value
from config.kinds import Choice, Duration, Facet, Fault, Kind, Size, Text, anchored, compiled
from config.records import record
from config.uris import HTTP_URI
from config.values import DAY, FLAG, MIB, NAME, PATH, TIME, VARIABLE

Metric = Literal[
    "entered",
    "delivered",
    "acknowledged",
    "in",
    "out",
    "refused",
    "died",
    "latency",
    "waiting",
    "oldest",
    "dead",
    "sessions",
    "links_down",
    "nodes_down",
    "parent_down",
    "site_broker_down",
    "refusing",
    "store",
    "disk_free",
    "commit",
    "memory",
    "cpu",
]
METRICS: Final = (
    *("entered", "delivered", "acknowledged", "in", "out", "refused", "died", "latency", "waiting", "oldest"),
    *("dead", "sessions", "links_down", "nodes_down", "parent_down", "site_broker_down", "refusing"),
    *("store", "disk_free", "commit", "memory", "cpu"),
)
"""The series that a node keeps; docs/monitoring.md says what each is."""
OF_ONE_QUEUE: Final = ("waiting", "oldest")
OF_BYTES: Final = ("store", "disk_free", "memory")
OF_SECONDS: Final = ("latency", "oldest", "commit")
Severity = Literal["info", "warning", "critical"]
SEVERITIES: Final = ("info", "warning", "critical")
QUEUE: Final = Text(
    "the name of a queue, 1 to 255 characters without spaces and wildcards", r"[^+#*\t\n\r ]{1,255}"
)


@record
class Threshold(Kind[float]):
    """A number; of times also written `10m`, of bytes `5GiB`."""

    tags: ClassVar[frozenset[str]] = frozenset({"text", "integer", "number"})
    unit: ClassVar[str] = "number, duration or size"
    expected: str = "a number such as 1000 or 0.5, a duration such as 10m, or a size such as 5GiB"

    def parse(self, text: str) -> float:
        if compiled(_NUMBER).fullmatch(text):
            return float(text)
        for kind in (Duration(), Size()):
            try:
                return float(kind.parse(text))
            except Fault:
                continue
        raise self.refuse(text)

    def text(self, value: float) -> str:
        return f"{value:.3f}".rstrip("0").rstrip(".")

    def native(self, value: float) -> float:
        return int(value) if value == int(value) else value

    def xsd(self) -> tuple[str, list[Facet]]:
        return "xs:token", [("pattern", "|".join((_NUMBER, *_others())))]

    def json(self) -> dict[str, Any]:
        number = {"type": "number", "minimum": 0}
        text = {"type": "string", "pattern": anchored("|".join((_NUMBER, *_others())))}
        return {"anyOf": [number, text]}


_NUMBER: Final = r"[0-9]{1,15}(\.[0-9]{1,3})?"


def _others() -> tuple[str, ...]:
    return tuple(str(dict(kind.xsd()[1])["pattern"]) for kind in (Duration(), Size()))


THRESHOLD: Final = Threshold()


@section
class AlarmRule:
    """An alarm: while a figure is above or below a threshold for long enough."""

    name: str = value(NAME, "the alarm's name; one of a built-in rule takes its place", example="backlog")
    metric: Metric = value(Choice(METRICS), "which figure, as `sapwood chart` shows it", example="waiting")
    above: float | None = value(
        THRESHOLD, "the alarm is raised while the figure is more than this", default=None, example=10_000.0
    )
    below: float | None = value(
        THRESHOLD, "or while it is less than this; one of both is needed", default=None, aside=True
    )
    lasting: float = value(
        TIME, "how long it must be so before the alarm is raised, and well before it ends", default=60.0
    )
    ends_after: float | None = value(
        TIME,
        "how long it must be well before it ends, where that is another time: with 10m what comes again and "
        "again is told once",
        default=None,
        aside=True,
    )
    severity: Severity = value(Choice(SEVERITIES), "how bad that is", default="warning")
    queue: str | None = value(
        QUEUE,
        "of one queue of this node only, with the metrics waiting (how many wait there) and oldest",
        default=None,
        example="sales",
    )


@section
class WebhookTarget:
    """Where alarms are told: a POST of JSON for each that is raised or ends."""

    uri: str | None = value(
        HTTP_URI,
        "address that takes them (https; http to this machine only); anybody who may see the node's settings "
        "sees it, so where it holds a secret write `uri_file`",
        default=None,
        example="https://alerts.example.com/sapwood",
    )
    uri_env: str | None = value(
        VARIABLE, "environment variable that holds the address", default=None, aside=True
    )
    uri_file: Path | None = value(PATH, "file that holds the address", default=None, aside=True)
    token_env: str | None = value(
        VARIABLE,
        "environment variable that holds a token, sent as `Authorization: Bearer`",
        default=None,
        aside=True,
    )
    token_file: Path | None = value(
        PATH, "file that holds that token", default=None, example="secrets/webhook-token"
    )
    key_env: str | None = value(
        VARIABLE, "environment variable that holds a key to sign each message with", default=None, aside=True
    )
    key_file: Path | None = value(
        PATH,
        "file that holds that key (HMAC-SHA256, header Sapwood-Signature)",
        default=None,
        example="secrets/webhook-key",
    )
    ca: Path | None = value(
        PATH,
        "file of the certificate authorities (PEM) that the receiver's certificate must come from; "
        "without it the system's",
        default=None,
        example="tls/ca.pem",
    )
    least: Severity = value(
        Choice(SEVERITIES), "alarms that are less bad than this are not told", default="warning"
    )

    @property
    def is_named(self) -> bool:
        return bool(self.uri or self.uri_env or self.uri_file)


@section
class Alarms:
    """Alarms on the node's figures, and who is told of them."""

    builtin: bool = value(FLAG, "whether the built-in rules hold beside those of this file", default=True)
    rules: tuple[AlarmRule, ...] = parts(
        AlarmRule, "the site's own rules", item="rule", default=(), maximum=200
    )
    webhook: WebhookTarget = part("the receiver that is told", default=WebhookTarget())


BUILTIN: Final = (
    AlarmRule(name="takes-no-messages", metric="refusing", above=0.0, severity="critical"),
    AlarmRule(name="disk-low", metric="disk_free", below=float(1024 * MIB), lasting=300.0),
    AlarmRule(name="disk-slow", metric="commit", above=1.0, lasting=300.0),
    AlarmRule(name="parent-away", metric="parent_down", above=0.0, lasting=900.0),
    AlarmRule(name="site-broker-away", metric="site_broker_down", above=0.0, lasting=300.0),
    AlarmRule(name="dead-letters", metric="died", above=0.0, lasting=0.0, ends_after=600.0),
    AlarmRule(name="waits-for-days", metric="oldest", above=3 * DAY, lasting=600.0),
)
"""Rules of every node that says nothing else. A store whose line is down for some minutes is ordinary."""


def rules_of(alarms: Alarms) -> tuple[AlarmRule, ...]:
    """All rules that hold: the site's own, and the built-in ones that it does not replace."""
    own = {rule.name for rule in alarms.rules}
    return (*(rule for rule in BUILTIN if alarms.builtin and rule.name not in own), *alarms.rules)
