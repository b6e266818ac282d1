"""Intake of the site broker's messages into the tree, each once, as far as its keys say.

Law: what the broker gives again for want of an answer is known by its key, if it was committed: those of the
last `_KEPT` messages that have one are in their transactions. The rest is let in, marked.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from broker.core.clients.batching import Batching, BundleClass, batch_of, flags_of
from broker.core.clients.switch import Switch
from broker.core.context import Context
from broker.core.errors import QueueFull, SwitchError
from broker.core.messages.queue_names import SITE
from broker.core.routing.arrivals import Arrivals
from broker.core.rows import MetaRow
from sapwood.protocol import bundles
from sapwood.protocol.destinations import Destination
from sapwood.protocol.errors import SapwoodError
from treeconnector.edge import Taken

_TAKEN: Final = "taken:"
_KEPT: Final = 10_000
_LONGEST_NAME: Final = 1024


class SiteIntake:
    """Of one node. `taken`: messages since the start; `repeated`: those that were known by their keys."""

    __slots__ = (
        *("_arrivals", "_batch", "_batches", "_batching", "_context", "_kept", "_keys", "_switch"),
        *("repeated", "taken"),
    )

    def __init__(self, context: Context, arrivals: Arrivals, batching: Batching, switch: Switch) -> None:
        self._context = context
        self._arrivals = arrivals
        self._batching = batching
        self._switch = switch
        self.taken = self.repeated = 0
        self._keys: dict[str, int] = {}
        self._batches: deque[tuple[int, list[str]]] = deque()
        self._batch = self._kept = 0

    def __repr__(self) -> str:
        return f"<SiteIntake of {self._context.name} keys={len(self._keys)}>"

    def restore(self, meta: Mapping[str, bytes]) -> None:
        """At a start: the keys of the last batches."""
        taken = ((name, value) for name, value in meta.items() if name.startswith(_TAKEN))
        batches = {int(name.removeprefix(_TAKEN)): value for name, value in taken}
        for number in sorted(batches):
            self._remember(number, msgspec.msgpack.decode(batches[number], type=list[str]))

    def _remember(self, number: int, keys: list[str]) -> None:
        self._batches.append((number, keys))
        self._kept += len(keys)
        self._batch = max(self._batch, number)
        self._keys.update(dict.fromkeys(keys, number))

    def take(self, batch: Sequence[Taken]) -> int:
        """Let messages into the tree; return how many of them, from the first on. Fewer: the node is full.

        What cannot go into the tree at all is a dead letter, and counts as taken; so does what is not
        persistent and finds no room, which is dropped.
        """
        count = 0
        while count < len(batch):
            if batch[count].again and batch[count].key in self._keys:
                self.repeated += 1
                count += 1
                continue
            together = _together(batch, count)
            entered = self._let_in(together)
            if entered < len(together):
                if batch[count].persistent:
                    count += entered
                    break
                self._context.counters["volatile_dropped"] += len(together) - entered
            count += len(together)
        self.taken += count
        self._keep([taken.key for taken in batch[:count] if taken.key])
        return count

    def has_room(self, destination: Destination) -> bool:
        """Would a small message enter now, or be a dead letter?"""
        scope = int(self._context.settings.policy(destination).scope)
        return self._switch.producers.has_room_for_site(destination, scope)

    def _let_in(self, together: Sequence[tuple[Taken, bytes]]) -> int:
        """How many of these may enter, or are dead letters."""
        first = together[0][0]
        destination, scope = first.destination, int(self._context.settings.policy(first.destination).scope)
        flags = flags_of(first.persistent, first.retained, again=first.again)
        kind = BundleClass(destination, flags, scope, SITE)
        messages, bodies = [taken.message for taken, _ in together], [body for _, body in together]
        try:
            if first.odd:
                raise SapwoodError(first.odd)
            entered = self._switch.producers.check_site(destination, messages, bodies, scope)
        except QueueFull:
            return 0
        except SapwoodError as error:
            for taken, _ in together:
                self._refuse(kind, taken, error)
            return len(together)
        self._batching.add(kind, batch_of(messages[:entered], b"".join(bodies[:entered])))
        return entered

    def _refuse(self, kind: BundleClass, taken: Taken, error: SapwoodError) -> None:
        code = error.code if isinstance(error, SwitchError) else "DESTINATION"
        text = taken.odd or f"{code}: {error}"
        name = kind.destination.name[:_LONGEST_NAME]
        kind = kind._replace(destination=Destination(kind.destination.kind, name))
        self._batching.refuse(kind, taken.message, self._arrivals.refuse, text[:300])

    def _keep(self, keys: list[str]) -> None:
        """These keys are in the same transaction as their messages."""
        if not keys:
            return
        self._remember(self._batch + 1, keys)
        transaction = self._context.custody.transaction
        transaction.put(MetaRow(f"{_TAKEN}{self._batch}", msgspec.msgpack.encode(keys)))
        while self._kept - len(self._batches[0][1]) >= _KEPT:
            number, old = self._batches.popleft()
            self._kept -= len(old)
            transaction.delete(MetaRow, f"{_TAKEN}{number}")
            for key in old:
                if self._keys.get(key) == number:
                    del self._keys[key]


def _together(batch: Sequence[Taken], begin: int) -> list[tuple[Taken, bytes]]:
    """Those from there on that may be in one bundle and are refused for the same reasons, and each encoded.
    One that is said to come again stands alone: its key may be known.
    """
    first = batch[begin]
    together = [(first, bundles.encode_message(first.message))]
    size = len(together[0][1])
    for taken in batch[begin + 1 : begin + bundles.MAX_MESSAGES]:
        body = bundles.encode_message(taken.message)
        size += len(body)
        if size > bundles.MAX_BYTES or first.again or first.odd or not _is_alike(first, taken):
            break
        together.append((taken, body))
    return together


def _is_alike(first: Taken, taken: Taken) -> bool:
    return (
        taken.destination == first.destination
        and taken.persistent == first.persistent
        and taken.retained == first.retained
        and taken.message.properties.reply_to == first.message.properties.reply_to
        and not (taken.again or taken.odd)
    )
