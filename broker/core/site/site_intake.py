"""Intake of the site broker's messages into the tree, each once, as far as its keys say.

Law: what the broker gives again for want of an answer is known by its key, if it was committed: those of the
last `_KEPT` batches are in the messages' transactions. The rest is let in, marked.
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
_KEPT: Final = 64
_LONGEST_NAME: Final = 1024


class SiteIntake:
    """Of one node. `taken`: messages since the start; `repeated`: those that were known by their keys."""

    def __init__(self, context: Context, arrivals: Arrivals, batching: Batching, switch: Switch) -> None:
        self._context = context
        self._arrivals = arrivals
        self._batching = batching
        self._switch = switch
        self.taken = self.repeated = 0
        self._keys: dict[str, int] = {}
        self._batches: deque[tuple[int, list[str]]] = deque()
        self._batch = 0

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
        self._batch = max(self._batch, number)
        self._keys.update(dict.fromkeys(keys, number))

    def take(self, batch: Sequence[Taken]) -> int:
        """Let messages into the tree; return how many of them, from the first on. Fewer: the node is full.

        What cannot go into the tree at all is a dead letter, and counts as taken; so does what is not
        persistent and finds no room, which is dropped.
        """
        keys: list[str] = []
        count = 0
        for taken in batch:
            if taken.again and taken.key in self._keys:
                self.repeated += 1
            elif not self._let_in(taken):
                if taken.persistent:
                    break
                self._context.counters["volatile_dropped"] += 1
            count += 1
            if taken.key:
                keys.append(taken.key)
        self.taken += count
        self._keep(keys)
        return count

    def _let_in(self, taken: Taken) -> bool:
        destination = taken.destination
        scope = int(self._context.settings.policy(destination).scope)
        kind = BundleClass(
            destination, flags_of(taken.persistent, taken.retained, again=taken.again), scope, SITE
        )
        body = bundles.encode_message(taken.message)
        try:
            if taken.odd:
                raise SapwoodError(taken.odd)
            self._switch.producers.check_site(destination, taken.message, body, scope)
        except QueueFull:
            return False
        except SapwoodError as error:
            self._refuse(kind, taken, error)
        else:
            self._batching.add(kind, batch_of([taken.message], body))
        return True

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
        while len(self._batches) > _KEPT:
            number, old = self._batches.popleft()
            transaction.delete(MetaRow, f"{_TAKEN}{number}")
            for key in old:
                if self._keys.get(key) == number:
                    del self._keys[key]
