"""Values that were retained below this node, or here, and that another node's value has replaced.

The site where such a value was written may have no reader of the topic, so that the newer one does not come
there: its broker, or its node, would go on giving the older one. So the node where both met sends the newer
one, or the clearing, down that way, and says in its header which value it `replaces`.

Law: a node that gets one that says so, and whose last value is another one, leaves it aside: somebody there
has written again, which is on its way up. So where two write at once, the order is that of the node where
both meet.

Wrinkle: a value may not go to where the older one is, a sibling of its scope `vertical`. The older one is
remembered, and told with the next value that may go there: `MOST` of them, on disk.
"""

from collections.abc import Collection, Mapping
from typing import Final

from msgspec.structs import replace

from broker.core.context import Context
from broker.core.links.neighbour import Neighbour
from broker.core.messages.queue import StoredBundle
from broker.core.messages.retained import Retained, value_of
from broker.core.policy import Policy
from broker.core.routing.greetings import Greetings
from broker.core.rows import MetaRow
from sapwood.protocol.bundles import Flag

MOST: Final = 10_000
_ROW: Final = "earlier writer:"


class EarlierWriters:
    """Of one node."""

    __slots__ = ("_context", "_count", "_greetings", "_retained", "_values")

    def __init__(self, context: Context, retained: Retained, greetings: Greetings) -> None:
        self._context = context
        self._retained = retained
        self._greetings = greetings
        self._values: dict[str, dict[str, bytes]] = {}
        self._count = 0

    def __repr__(self) -> str:
        return f"<EarlierWriters at {self._context.name}: {self._count} values>"

    def restore(self, meta: Mapping[str, bytes]) -> None:
        for name, value in meta.items():
            if name.startswith(_ROW):
                topic, _, origin = name.removeprefix(_ROW).partition("\n")
                self._values.setdefault(topic, {})[origin] = value
                self._count += 1

    def meet(
        self, stored: StoredBundle, came: str, onward: Collection[Neighbour]
    ) -> list[tuple[Neighbour, bytes]] | None:
        """A retained message is here, is not kept yet, and goes onward to these. Returns the children to
        which it goes beside them, and what it replaces there; None: whom it is for has written again.
        """
        header, name = stored.header, stored.header.destination.name
        values = dict(self._values.get(name, ()))
        if (before := self._retained.get(name)) is not None:
            values[before[0].origin] = value_of(before[0])
        if header.replaces:
            values = {origin: value for origin, value in values.items() if value == header.replaces}
            if not values:
                return None
            stored.header, stored.encoded = replace(header, replaces=b""), None
        self._drop(name, header.origin)
        told: list[tuple[Neighbour, bytes]] = []
        for origin, value in values.items():
            child = self._child(origin)
            if origin == header.origin:
                continue
            if child is not None and (
                header.flags & Flag.KEPT or not self._greetings.may_go_down(header, child)
            ):
                self._note(name, origin, value)
                continue
            self._drop(name, origin)
            if origin == self._context.name:
                self._context.policies.tell(Policy.replaced, stored, came)
            elif (
                child is not None
                and child not in onward
                and self._greetings.greets(child, header.destination)
            ):
                told.append((child, value))
        return told

    def _child(self, origin: str) -> Neighbour | None:
        """The way down to a node; None: it is not below."""
        below = self._context.table.below(origin)
        return self._context.neighbours.get(min(below)) if below else None

    def _note(self, topic: str, origin: str, value: bytes) -> None:
        values = self._values.setdefault(topic, {})
        if values.get(origin) == value:
            return
        self._count += origin not in values
        values[origin] = value
        self._context.custody.transaction.put(MetaRow(_row(topic, origin), value))
        while self._count > MOST:
            oldest = next(iter(self._values))
            self._drop(oldest, next(iter(self._values[oldest])))

    def _drop(self, topic: str, origin: str) -> None:
        values = self._values.get(topic)
        if values is None or values.pop(origin, None) is None:
            return
        self._count -= 1
        if not values:
            del self._values[topic]
        self._context.custody.transaction.delete(MetaRow, _row(topic, origin))


def _row(topic: str, origin: str) -> str:
    return f"{_ROW}{topic}\n{origin}"
