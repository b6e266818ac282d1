"""Dead letters for people: listed, given back, thrown away."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from broker.administration import answers, previews
from broker.administration.filters import DestinationFilter
from broker.administration.pages import Cut, Key, chunks, cursor, key_of, page_of
from broker.core.errors import BadRequest
from broker.core.messages.entries import QueueEntry
from treeconnector.bundles import Message

if TYPE_CHECKING:
    from broker.node import Node

_MOST_IDS: Final = 10_000
_PAGE_BYTES: Final = 8 * 1024 * 1024
_AT_ONCE: Final = 500
_ALL: Final = -1
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


class Dead:
    """Reads and moves. Raises `SwitchError`s."""

    def __init__(self, node: "Node") -> None:
        self._node = node

    async def page(self, selection: Selection, cut: Cut) -> answers.DeadLetters:
        """Dead letters, newest first."""
        dead, custody = self._node.core.custody.dead, self._node.core.custody
        row, index = _place_in(cut.after)
        test, total = _test(selection), 0

        def wanted(copy: QueueEntry) -> bool:
            nonlocal total
            holds = (not row or copy.row <= row) and test(copy)
            if holds:
                total += len(_open(copy, index)) if copy.row == row else copy.open
            return holds

        page = await page_of(list(dead.waiting), lambda copy: (-copy.row,), Cut(cut.limit), wanted)
        found: list[answers.DeadLetter] = []
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
                found.append(self._letter(copy, position, messages))
                last = (copy.row, position)
        more = max(total - len(found), 0)
        return answers.DeadLetters(
            letters=found,
            more=more,
            next=cursor(last) if more and found else None,
            messages=dead.messages,
            bytes=dead.size,
            reasons=dict(custody.buried),
        )

    def _letter(self, copy: QueueEntry, position: int, messages: list[Message] | str) -> answers.DeadLetter:
        core, header = self._node.core, copy.stored.header
        return answers.DeadLetter(
            id=f"{copy.row}-{position}",
            message=f"{header.id.hex()}-{position}",
            destination=str(header.destination),
            reason=copy.note,
            age_s=round(max(core.clock.now - copy.since, 0.0), 3),
            origin=header.origin,
            deliveries=copy.deliveries,
            **previews.shown(messages, position)._asdict(),
        )

    async def give_back(self, selection: Selection) -> answers.Returned:
        """Route the chosen ones again."""
        selection.check()
        core, chosen = self._node.core, await self._chosen(selection)
        wanted = sum((bits & copy.all & ~copy.done).bit_count() for copy, bits in chosen)
        count = await self._each(chosen, core.letters.give_back)
        return answers.Returned(returned=count, kept=max(wanted - count, 0))

    async def delete(self, selection: Selection) -> answers.Count:
        """Throw the chosen ones away."""
        selection.check()
        count = await self._each(await self._chosen(selection), self._node.core.letters.discard)
        return answers.Count(messages=count)

    async def _each(self, chosen: Chosen, work: Callable[[Sequence[tuple[QueueEntry, int]]], int]) -> int:
        count = 0
        for start in range(0, len(chosen), _AT_ONCE):
            count += work(chosen[start : start + _AT_ONCE])
            await self._node.administration.committed()
        return count

    async def _chosen(self, selection: Selection) -> Chosen:
        """The letters that were there when this was asked, each with the mask of what is meant of it."""
        masks = _masks(selection.ids)
        test, found = _test(selection), list[tuple[QueueEntry, int]]()
        async for part in chunks(list(self._node.core.custody.dead.waiting)):
            found += [
                (copy, masks.get(copy.row, _ALL) if selection.ids else _ALL) for copy in part if test(copy)
            ]
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


def _place_in(after: str) -> tuple[int, int]:
    key = key_of(after) or (0, -1)
    if len(key) == 2 and isinstance(key[0], int) and isinstance(key[1], int):
        return key[0], key[1]
    raise BadRequest("'after' is not what 'next' of an earlier page said: leave it out")
