"""Dead letters for people: listed, given back, thrown away."""

from collections.abc import Callable, Sequence
from typing import Final, Literal

import msgspec

from broker.api import previews
from broker.api.context import RunningNode
from broker.api.filters import DestinationFilter
from broker.api.operation import PAGE, Answer, Parameter, PlainCommand, operation
from broker.api.pages import Cut, Key, chunks, cursor, page_of, place_in
from broker.core.errors import BadRequest
from broker.core.messages.queue import QueueEntry
from broker.core.operations.dead_letters import Return
from sapwood.protocol.bundles import Message

_MOST_IDS: Final = 10_000
_PAGE_BYTES: Final = 8 * 1024 * 1024
_AT_ONCE: Final = 500
_ALL: Final = -1
_REASON: Final = Parameter("reason", "Only those with this reason, or with this head of it.")
_DESTINATION: Final = Parameter("destination", "`queue:NAME`, `topic:PATTERN`; wildcards as in MQTT.")
_IDS: Final = Parameter("ids", "Ids of letters, with commas between.")
_ALL_OF_THEM: Final = Parameter("all", "All of them.", "boolean", default=False)
_WHICH: Final = {
    "ids": "Ids, as `dead list` shows them.",
    "reason": "Only those with this reason, as EXPIRED.",
    "destination": "Only those for this: queue:NAME, topic:PATTERN.",
    "all": "All of them.",
}
_PLACES: Final = {"ids": "[ID]"}
Chosen = list[tuple[QueueEntry, int]]


class Selection(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which dead letters. All that is said must hold; who means all letters says `all`.

    `ids`: of letters. `reason`: the whole of it, or its head. `destination`: with wildcards.
    """

    ids: list[str] = []
    reason: str = ""
    destination: str = ""
    all: bool = False

    def check(self) -> None:
        if not (self.ids or self.reason or self.destination or self.all):
            raise BadRequest("which dead letters? Expected 'ids', 'reason', 'destination' or 'all': true")
        if len(self.ids) > _MOST_IDS:
            raise BadRequest(f"{len(self.ids)} ids: expected {_MOST_IDS} at most")


class DeadLetter(Answer):
    """`id` is the letter's, `message` the message's. `reason`: its head is a code."""

    id: str
    message: str
    destination: str
    reason: str
    age_s: float
    size: int
    correlation_id: int | None
    reply_to: str
    task_id: str
    origin: str
    deliveries: int
    preview: str
    truncated: bool
    encoding: Literal["utf-8", "base64"]
    unreadable: str


class DeadLetters(Answer):
    """Newest first. `messages`: of all dead letters here; `reasons`: heads of all buried since the start."""

    letters: list[DeadLetter]
    more: int
    next: str | None
    messages: int
    bytes: int
    reasons: dict[str, int]


class Returned(Answer):
    """`returned` messages were routed again; `kept` could not be and stay dead letters. `why`: there was no
    room for some of these, '' = there was.
    """

    returned: int
    kept: int
    why: str


class Count(Answer):
    """How many messages that was."""

    messages: int


@operation(
    "GET",
    "/api/dead",
    "Dead letters, newest first.",
    "dead letters",
    (_REASON, _DESTINATION, *PAGE),
    role="operator",
    commands=(
        PlainCommand(
            "dead list",
            "List dead letters, newest first.",
            ("letters",),
            texts=_WHICH,
        ),
    ),
)
async def listed(node: RunningNode, reason: str, destination: str, cut: Cut) -> DeadLetters:
    """Dead letters, newest first."""
    dead, custody = node.core.custody.dead, node.core.custody
    selection = Selection(reason=reason, destination=destination)
    row, index = place_in(cut.after)
    test, total = _test(selection), 0

    def wanted(copy: QueueEntry) -> bool:
        nonlocal total
        holds = (not row or copy.row <= row) and test(copy)
        if holds:
            total += len(_open(copy, index)) if copy.row == row else copy.open
        return holds

    page = await page_of(list(dead.waiting), lambda copy: (-copy.row,), Cut(cut.limit), wanted)
    found: list[DeadLetter] = []
    last: Key = (0, -1)
    read = 0
    for copy in page.items:
        if len(found) == cut.limit or read > _PAGE_BYTES:
            break
        if copy.queue is not dead:
            continue
        read += copy.stored.header.size
        messages = previews.read(custody, copy)
        for position in _open(copy, index if copy.row == row else -1)[: cut.limit - len(found)]:
            found.append(_letter(node, copy, position, messages))
            last = (copy.row, position)
    more = max(total - len(found), 0)
    return DeadLetters(
        letters=found,
        more=more,
        next=cursor(last) if more and found else None,
        messages=dead.messages,
        bytes=dead.size,
        reasons=dict(custody.buried),
    )


def _letter(node: RunningNode, copy: QueueEntry, position: int, messages: list[Message] | str) -> DeadLetter:
    core, header = node.core, copy.stored.header
    return DeadLetter(
        id=f"{copy.row}-{position}",
        message=f"{header.id.hex()}-{position}",
        destination=str(header.destination),
        reason=copy.note,
        age_s=round(max(core.clock.now - copy.since, 0.0), 3),
        origin=header.origin,
        deliveries=copy.deliveries,
        **previews.shown(messages, position)._asdict(),
    )


@operation(
    "POST",
    "/api/dead/return",
    "Route dead letters again.",
    "dead letters",
    body=Selection,
    commands=(
        PlainCommand(
            "dead return",
            "Route dead letters again, as if they had come just now.",
            texts=_WHICH,
            places=_PLACES,
        ),
    ),
)
async def give_back(node: RunningNode, body: Selection) -> Returned:
    """Route the chosen ones again."""
    body.check()
    core, chosen = node.core, await _chosen(node, body)
    wanted = sum((bits & copy.all & ~copy.done).bit_count() for copy, bits in chosen)
    done = Return()

    def some(part: Sequence[tuple[QueueEntry, int]]) -> int:
        found = core.dead_letters.give_back_some(part)
        done.why = found.why or done.why
        return found.messages

    count = await _each(node, chosen, some)
    return Returned(returned=count, kept=max(wanted - count, 0), why=done.why)


@operation(
    "DELETE",
    "/api/dead",
    "Throw dead letters away.",
    "dead letters",
    (_REASON, _DESTINATION, _IDS, _ALL_OF_THEM),
    body=Selection,
    commands=(
        PlainCommand(
            "dead delete",
            "Throw dead letters away.",
            texts=_WHICH,
            places=_PLACES,
            sure="Throw these dead letters of {url} away?",
        ),
    ),
)
async def delete(
    node: RunningNode, reason: str, destination: str, ids: str, all: bool, body: Selection
) -> Count:
    """Throw the chosen ones away."""
    body.reason = body.reason or reason
    body.destination = body.destination or destination
    body.ids = [*body.ids, *(each for each in ids.split(",") if each)]
    body.all = body.all or all
    body.check()
    return Count(messages=await _each(node, await _chosen(node, body), node.core.dead_letters.discard))


async def _each(
    node: RunningNode, chosen: Chosen, work: Callable[[Sequence[tuple[QueueEntry, int]]], int]
) -> int:
    count = 0
    for start in range(0, len(chosen), _AT_ONCE):
        count += work(chosen[start : start + _AT_ONCE])
        await node.driver.committed()
    return count


async def _chosen(node: RunningNode, selection: Selection) -> Chosen:
    """The letters that were there when this was asked, each with the mask of what is meant of it."""
    masks = _masks(selection.ids)
    test, found = _test(selection), list[tuple[QueueEntry, int]]()
    async for part in chunks(list(node.core.custody.dead.waiting)):
        found += [(copy, masks.get(copy.row, _ALL) if selection.ids else _ALL) for copy in part if test(copy)]
    return found


def _masks(ids: list[str]) -> dict[int, int]:
    """`ROW-INDEX` each."""
    masks: dict[int, int] = {}
    for text in ids:
        row, _, index = text.partition("-")
        try:
            key, position = int(row), int(index)
        except ValueError:
            key, position = 0, -1
        if not (0 < key < 1 << 63 and 0 <= position < 256):
            raise BadRequest(f"{text[:40]!r} is no dead letter's id: expected two numbers, as 17-0")
        masks[key] = masks.get(key, 0) | 1 << position
    return masks


def _test(selection: Selection) -> Callable[[QueueEntry], bool]:
    masks = _masks(selection.ids)
    destination = DestinationFilter(selection.destination)
    reason = selection.reason

    def holds(copy: QueueEntry) -> bool:
        return (
            (not masks or copy.row in masks)
            and (not reason or copy.note == reason or copy.note.startswith((f"{reason} ", f"{reason}:")))
            and destination.holds(copy.stored.header.destination)
        )

    return holds


def _open(copy: QueueEntry, after: int) -> list[int]:
    return [index for index in range(after + 1, copy.stored.header.count) if not copy.done >> index & 1]
