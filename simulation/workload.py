"""What happens in a simulated chain: read from a YAML file, checked like a site's file.

Law: this model is the only list of settings. Times are seconds; times of day count from midnight, UTC.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path as File
from typing import Final

from broker.core.settings import CoreSettings
from config import build, yaml
from config.behaviour import Advisories, Link
from config.contradictions import Contradiction
from config.document import MAX_BYTES
from config.errors import ConfigurationError, Problem, did_you_mean
from config.fields import YAML, Path, Spelling, part, parts, section, value
from config.files import read_plain
from config.kinds import Choice, Duration, Share, Size, Text, Whole
from config.values import FLAG, NAME, TIME
from sapwood.protocol.destinations import Kind, parse
from sapwood.protocol.errors import InvalidName, PatternError
from simulation.applications import LARGEST_SIZE, LEAST_SIZE
from treeconnector.patterns import MAX_LENGTH, check_pattern, has_wildcard

ROOT: Final = "workload"
DAY: Final = 86_400.0
_LAST_YEAR: Final = 9980
"""A run takes ten years at most, and dates end with the year 9999."""

_ROLE: Final = Choice(("leaf", "branch", "root"))
_CLOCK: Final = Text("a time of day such as 08:30, in quotes or not", "([01][0-9]|2[0-3]):[0-5][0-9]|24:00")
_MOMENT: Final = Text(
    "a moment in UTC such as 2026-01-01T00:00:00Z",
    "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z",
)
_DESTINATION: Final = Text(
    "queue:NAME or topic:PATTERN, in which {node} stands for the consumer's node and {number} for its number",
    r"(queue|topic):[^\t\n\r@]{1,255}",
)
_SHARE: Final = Share()
_SHOWN: Final = 3
_COMPARED: Final = 20_000
_OFTEN: Final = Duration(minimum=1.0, maximum=3650 * DAY)


@section
class Hours:
    """When shops are open: consumers that are there only then come and go with it."""

    opens: str = value(_CLOCK, "when the first shop opens", default="08:00")
    closes: str = value(_CLOCK, "when the first shop closes", default="20:00")
    spread: float = value(TIME, "each shop opens and closes up to so much later", default=900.0)


@section
class Consumers:
    """Consumers of one kind at every node of a role."""

    role: str = value(_ROLE, "at which nodes", example="leaf")
    destination: str = value(_DESTINATION, "what each reads", default="queue:{node}/{number}")
    count: int = value(Whole(1, 100_000), "how many at each node", default=1)
    always: bool = value(FLAG, "whether they are there at night, too", default=False)
    reads: bool = value(
        FLAG, "whether an application reads what comes; else they are known, and read nothing", default=False
    )


@section
class Churn:
    """Consumers that go and come back while the shop is open."""

    every: float = value(_OFTEN, "mean time between two reconnects of one consumer", default=3650 * DAY)
    away: float = value(TIME, "mean time for which it is away", default=5.0)


@section
class Lines:
    """The lines of nodes of a role to their parents."""

    role: str = value(_ROLE, "of which nodes", example="leaf")
    share: float = value(_SHARE, "of how many of them", default=1.0)
    latency: float = value(TIME, "one way", default=0.02)
    bandwidth: int = value(Size(), "bytes a second each way, 0 = no limit", default=0)
    loss: float = value(_SHARE, "share of packets that have to be sent again", default=0.0)


@section
class Machines:
    """How fast the machines of nodes of a role are."""

    role: str = value(_ROLE, "of which nodes", example="leaf")
    share: float = value(_SHARE, "of how many of them", default=1.0)
    commit: float = value(TIME, "of the disk: how long a commit takes", default=0.001)
    packet: float = value(TIME, "of the processor: how long a packet takes that has come", default=0.0)


@section
class Faults:
    """What befalls some nodes of a role again and again: their line is cut, or their node killed."""

    role: str = value(_ROLE, "which nodes", example="leaf")
    share: float = value(_SHARE, "how many of them", default=1.0)
    every: float = value(_OFTEN, "mean time between two", default=3600.0)
    down: float = value(TIME, "mean time for which it lasts", default=60.0)


@section
class Outage:
    """One node fails at one time, and all below it reconnect at once when it is back."""

    node: str = value(NAME, "which", example="region-01")
    after: float = value(TIME, "how long after the start", default=0.0)
    down: float = value(TIME, "how long it lasts", default=300.0)


@section
class Messages:
    """Messages that nodes of a role send all the time."""

    role: str = value(_ROLE, "which nodes send", example="root")
    destination: str = value(
        _DESTINATION, "to what; {node} is the sender, {leaf} a shop chosen anew each time", example="queue:a"
    )
    every: float = value(_OFTEN, "mean time between two", default=3600.0)
    count: int = value(Whole(1, 256), "how many at once", default=1)
    size: int = value(Size(LEAST_SIZE, LARGEST_SIZE), "bytes of each", default=256)
    expires: float = value(TIME, "when they are worthless, 0 = never", default=0.0)
    always: bool = value(FLAG, "whether at night, too", default=False)


@section
class Workload:
    """Everything below `workload:`."""

    tree: str | None = value(
        NAME, "the tree's name; without it the table's, or acme", default=None, example="acme"
    )
    start: str = value(_MOMENT, "the first moment", default="2026-01-01T00:00:00Z")
    hours: Hours = part("opening hours", default=Hours())
    consumers: tuple[Consumers, ...] = parts(Consumers, "who reads what", item="consumer", default=())
    churn: Churn = part("consumers that reconnect", default=Churn())
    lines: tuple[Lines, ...] = parts(
        Lines, "lines, the first that fits a node counts", item="line", default=()
    )
    machines: tuple[Machines, ...] = parts(
        Machines, "machines, the first that fits a node counts", item="machine", default=()
    )
    flapping: tuple[Faults, ...] = parts(Faults, "lines that are cut", item="fault", default=())
    restarts: tuple[Faults, ...] = parts(Faults, "nodes that are killed", item="fault", default=())
    outages: tuple[Outage, ...] = parts(Outage, "single nodes that fail", item="outage", default=())
    messages: tuple[Messages, ...] = parts(Messages, "what is sent", item="message", default=())
    advisories: Advisories = part("how all nodes advertise", default=Advisories())
    link: Link = part("the timing of all links", default=Link())

    @property
    def start_microseconds(self) -> int:
        return round(datetime.fromisoformat(self.start).replace(tzinfo=UTC).timestamp()) * 1_000_000


def seconds(clock: str) -> float:
    """A time of day in seconds since midnight."""
    hour, minute = clock.split(":")
    return int(hour) * 3600.0 + int(minute) * 60.0


def read_workload(file: File, nodes: Mapping[str, str] | None = None) -> Workload:
    """Read a workload. Raises `ConfigurationError` with every mistake, its line and column.

    `nodes`: the names that there are in the deployment, and their roles; None: whatever is named is there.
    """
    try:
        data = read_plain(file, MAX_BYTES)
    except OSError as error:
        message = f"cannot read the workload: {error.strerror or error}"
        raise ConfigurationError([Problem(message, str(file))]) from None
    return parse_workload(data, str(file), nodes)


def parse_workload(data: bytes | str, file: str = "", nodes: Mapping[str, str] | None = None) -> Workload:
    """Make a workload of a file's content; `file` names it in errors, `nodes` as in `read_workload`."""

    def wrong(made: Workload, spelling: Spelling) -> Iterable[Contradiction]:
        yield from _contradictions(made, spelling)
        if nodes is not None:
            yield from _strangers(made, nodes)

    document = yaml.section(data, file, ROOT, Workload)
    return build.section(Workload, document, YAML, file, wrong, ROOT)


def _strangers(made: Workload, nodes: Mapping[str, str]) -> Iterable[Contradiction]:
    """Nodes that are named and are not there."""
    for place, outage in enumerate(made.outages):
        if outage.node in nodes:
            continue
        near = did_you_mean(outage.node, islice(nodes, _COMPARED), _SHOWN)
        expected = "" if near else f": expected one of its nodes, such as {', '.join(islice(nodes, _SHOWN))}"
        text = f"outages[{place}].node: there is no node {outage.node!r} in the deployment{near}{expected}"
        yield Contradiction(("outages", place, "node"), text)
    for place, message in enumerate(made.messages):
        if "{leaf}" in message.destination and "leaf" not in nodes.values():
            text = f"{message.destination!r}: the deployment has no leaf: expected one without {{leaf}}"
            yield Contradiction(("messages", place, "destination"), text)


def _contradictions(made: Workload, spelling: Spelling) -> Iterable[Contradiction]:
    if seconds(made.hours.opens) >= seconds(made.hours.closes):
        text = (
            f"the shops open at {made.hours.opens} and close at {made.hours.closes}: expected to open before"
        )
        yield Contradiction(("hours", "opens"), text, (("hours", "closes"),))
    try:
        year = datetime.fromisoformat(made.start).year
    except ValueError:
        yield Contradiction(("start",), f"{made.start!r} is no moment that there is: expected a real date")
    else:
        if not 1970 <= year <= _LAST_YEAR:
            yield Contradiction(("start",), f"{made.start!r}: expected a year from 1970 to {_LAST_YEAR}")
    for place, each in enumerate(made.consumers):
        path = ("consumers", place, "destination")
        yield from _wrong_destination(path, each.destination, ("{node}", "{number}"))
        if each.count > 1 and "{number}" not in each.destination:
            text = f"{each.count} consumers of one destination are one: write {{number}} into it"
            yield Contradiction(path, text, (("consumers", place, "count"),))
    for place, message in enumerate(made.messages):
        path = ("messages", place, "destination")
        yield from _wrong_destination(path, message.destination, ("{node}", "{leaf}"))
        if has_wildcard(message.destination.partition(":")[2]):
            text = f"{message.destination!r} is a pattern: expected a name to send to"
            yield Contradiction(path, text)


def _wrong_destination(path: Path, text: str, known: tuple[str, ...]) -> Iterable[Contradiction]:
    rest = text
    for word in known:
        rest = rest.replace(word, "1")
    if "{" in rest or "}" in rest:
        yield Contradiction(path, f"{text!r}: expected no braces but {' and '.join(known)}")
        return
    try:
        destination = parse(rest)
        if destination.kind == Kind.TOPIC:
            check_pattern(destination.name, MAX_LENGTH, CoreSettings().max_levels)
    except (InvalidName, PatternError) as error:
        yield Contradiction(path, f"{text!r} is no destination: {error}")
