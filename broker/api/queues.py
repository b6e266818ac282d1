"""Queues: listed, looked at, deleted."""

import heapq
from collections.abc import Callable
from typing import Any, Final

from broker.api.context import RunningNode
from broker.api.operation import GONE, PAGE, SEARCH, Answer, Parameter, PlainCommand, operation
from broker.api.pages import CHUNK, Cut, Key, page_of
from broker.api.sessions import credit_of
from broker.core.errors import BadRequest
from broker.core.messages.queue import Queue as KeptQueue
from broker.core.messages.queue_names import is_internal
from broker.core.messages.tally import count_of, mean_of, quantile_of
from broker.core.operations.removal import queue_key
from broker.core.sessions.masking import masked
from broker.histogram import Histogram
from sapwood.protocol import destinations
from sapwood.protocol.destinations import Kind

_MOST_READERS: Final = 200
_MOST_NAMES: Final = 20
_NEVER: Final = 1e300

_ORDERS: Final[dict[str, Callable[[KeptQueue], float]]] = {
    "messages": lambda place: place.messages,
    "bytes": lambda place: place.size,
    "oldest_s": lambda place: -(place.waiting.since if place.waiting.since is not None else _NEVER),
    "readers": lambda place: len(place.consumers),
    "in_total": lambda place: place.tally.entered,
    "out_total": lambda place: place.left,
    "in_per_s": lambda place: place.tally.in_per_s,
    "out_per_s": lambda place: place.tally.out_per_s,
    "latency_s": lambda place: place.tally.latency_s or 0.0,
}
ORDERS: Final = ("name", *_ORDERS)


QUEUE: Final = Parameter(
    "name",
    "`NAME`, `NAME@NODE`, or as a list of queues calls it: `queue:NAME`.",
    in_path=True,
    argument="NAME",
)
SORT: Final = Parameter("sort", "By name, or the largest first.", default="name", choices=ORDERS)
OWN: Final = {409: "REFUSED: the queue is the node's own."}
GIVEN: Final = {409: "GIVEN: a reader has it now; or the queue is the node's own."}


class QueueAnswer(Answer):
    """A queue, or what waits here on its way to another node.

    `oldest_s`: age of the oldest that waits. `latency_s`: from arrival here to acknowledgement, mean of the
    last seconds in which messages were acknowledged; null where none was yet. Totals since this start.
    `targets`: neighbours it goes to.
    `held_back`: neighbours that were asked to wait.
    """

    name: str
    messages: int
    bytes: int
    oldest_s: float
    readers: int
    created: bool
    home: bool
    transient: bool
    targets: list[str]
    held_back: list[str]
    in_total: int
    out_total: int
    in_per_s: float
    out_per_s: float
    latency_s: float | None


class Queues(Answer):
    queues: list[QueueAnswer]
    more: int
    next: str | None


class QueueReader(Answer):
    """`address`: of its connection, '' = fetched by transfer. `outstanding`: given, not acknowledged.
    `credit`: most of these, 0 = any.
    """

    session: str
    address: str
    credit: int
    outstanding: int


class Latency(Answer):
    """How long messages took from arrival here to acknowledgement, since this start. `bounds`: upper,
    inclusive, in seconds; `counts`: one more than bounds. `p50_s`, `p99_s`: bounds below which so many lie,
    null = above all.
    """

    count: int
    mean_s: float
    p50_s: float | None
    p99_s: float | None
    bounds: list[float]
    counts: list[int]


class QueueDetail(QueueAnswer):
    """`given`: messages that readers have now."""

    given: int
    reading: list[QueueReader]
    latency: Latency | None


class QueuePurged(Answer):
    """`messages` were thrown away."""

    purged: str
    messages: int


class QueueMade(Answer):
    """It is on disk. `made`: it was not there before."""

    queue: str
    home: bool
    made: bool


class QueueDeleted(Answer):
    """`messages` were thrown away, `readers` were ended."""

    deleted: str
    messages: int
    readers: int


@operation("GET", "/api/queues", "Queues.", "queues", (SEARCH, SORT, *PAGE))
async def listed(node: RunningNode, search: str, sort: str, cut: Cut) -> Queues:
    """Queues whose name holds `search`, in the order `sort`: by name, or the largest first."""
    wanted = search.lower()
    page = await page_of(
        node.core.custody.queues.values(),
        _key(_ORDERS.get(sort)),
        cut,
        lambda place: is_shown(place) and wanted in str(place.destination).lower(),
    )
    now = node.core.clock.now
    return Queues(
        queues=[QueueAnswer(**queue_fields(place, now)) for place in page.items],
        more=page.more,
        next=page.next,
    )


@operation("GET", "/api/queues/{name}", "One queue.", "queues", (QUEUE,), errors=GONE)
def detail(node: RunningNode, name: str) -> QueueDetail:
    """One queue and who reads it."""
    places = node.core.removal.queues(name)
    place = next((each for each in places if each.created or each.consumers), places[0])
    readers = place.consumers
    return QueueDetail(
        **queue_fields(place, node.core.clock.now),
        given=sum(reader.outstanding for reader in readers),
        reading=[
            QueueReader(
                session=masked(reader.session.token),
                address=reader.connection.address if reader.connection is not None else "",
                credit=credit_of(reader),
                outstanding=reader.outstanding,
            )
            for reader in readers[:_MOST_READERS]
        ],
        latency=_latency(place.tally.latency),
    )


@operation(
    "POST",
    "/api/queues/{name}/purge",
    "Throw away all that waits in a queue; its readers stay, with what they have.",
    "queues",
    (QUEUE,),
    errors={**GONE, **OWN},
    commands=(
        PlainCommand(
            "queue purge",
            "Throw away all messages that wait in a queue. Its readers stay, with what they have.",
            texts={"name": "NAME or NAME@NODE."},
            sure="Throw away all that waits in {name} at {url}?",
        ),
    ),
)
async def purge(node: RunningNode, name: str) -> QueuePurged:
    """All that waited when this was asked."""
    taken = node.core.removal.empty_queue(name)
    count = taken.purged
    while part := taken.take(CHUNK):
        count += node.core.removal.purge(part)
        await node.driver.committed()
    return QueuePurged(purged=name, messages=count)


@operation(
    "POST",
    "/api/queues/{name}",
    "Create a queue at this node; messages are kept in it until somebody reads it.",
    "queues",
    (
        QUEUE,
        Parameter(
            "home", "Its messages stay at this node, whoever reads it elsewhere.", "boolean", default=False
        ),
    ),
    errors={**OWN, 404: "NOT_FOUND: no queue may have that name."},
    commands=(
        PlainCommand(
            "queue create",
            "Create a queue at a node. Messages are kept in it until somebody reads it.",
            texts={"name": "Its name."},
        ),
    ),
)
async def create(node: RunningNode, name: str, home: bool) -> QueueMade:
    """Limits and policies are those that the site's file has for its name."""
    key = queue_key(name)
    if key.kind != Kind.QUEUE or key.node not in ("", node.name):
        raise BadRequest(f"{name[:80]!r}: expected the name of a queue, which is made at {node.name}")
    local = node.core.switch.local_queues
    before = local.has(key.name)
    local.make(local.local_name(key.name), home)
    await node.driver.committed()
    place = node.core.custody.queue_for(destinations.queue(key.name))
    return QueueMade(queue=str(place.destination), home=place.home, made=not before)


@operation(
    "DELETE",
    "/api/queues/{name}",
    "Delete a queue with its messages; its readers end.",
    "queues",
    (QUEUE,),
    errors={**GONE, **GIVEN},
    commands=(
        PlainCommand(
            "queue delete",
            "Delete a queue with all its messages; its readers end.",
            texts={"name": "NAME or NAME@NODE."},
            sure="Delete {name} at {url} with all its messages?",
        ),
    ),
)
async def delete(node: RunningNode, name: str) -> QueueDeleted:
    """Delete a queue with everything in it; readers end."""
    doomed = node.core.removal.delete_queue(name)
    await node.driver.committed()
    count = 0
    while part := doomed.take(CHUNK):
        count += node.core.removal.discard(part)
        await node.driver.committed()
    return QueueDeleted(deleted=name, messages=count, readers=doomed.consumers)


def queue_fields(place: KeptQueue, now: float) -> dict[str, Any]:
    """A queue in a list: the fields of `QueueAnswer`."""
    tally, latency = place.tally, place.tally.latency_s
    return {
        "name": str(place.destination),
        "messages": place.messages,
        "bytes": place.size,
        "oldest_s": 0.0 if place.waiting.since is None else round(max(now - place.waiting.since, 0.0), 3),
        "readers": len(place.consumers),
        "created": place.created,
        "home": place.home,
        "transient": bool(place.owner),
        "targets": heapq.nsmallest(_MOST_NAMES, place.targets),
        "held_back": heapq.nsmallest(_MOST_NAMES, place.held_back),
        "in_total": tally.entered,
        "out_total": place.left,
        "in_per_s": round(tally.in_per_s, 3),
        "out_per_s": round(tally.out_per_s, 3),
        "latency_s": None if latency is None else round(latency, 6),
    }


def is_shown(place: KeptQueue) -> bool:
    """Is it a queue of somebody's, and not the node's own?"""
    return place.destination is not None and not is_internal(place.destination)


def _key(order: Callable[[KeptQueue], float] | None) -> Callable[[KeptQueue], Key]:
    if order is None:
        return lambda place: (str(place.destination),)
    return lambda place: (-order(place), str(place.destination))


def _latency(histogram: Histogram | None) -> Latency | None:
    mean = mean_of(histogram)
    if histogram is None or mean is None:
        return None
    return Latency(
        count=count_of(histogram),
        mean_s=round(mean, 6),
        p50_s=quantile_of(histogram, 0.5),
        p99_s=quantile_of(histogram, 0.99),
        bounds=list(histogram.bounds),
        counts=list(histogram.counts),
    )
