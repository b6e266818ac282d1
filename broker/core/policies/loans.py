"""Loans: a child may give back what it was given, and nothing else in its place.

A queue's bundle that comes back has a foreign origin, and a thief would call everything given back. So the
bundle's id and a digest of its child, origin and body are remembered, the latest of all children together: in
memory as long as the entry itself waits for that child, and on disk from the transaction on in which it is
deleted, or goes another way.

Law: each message may be given back once for each time that it was given; a bundle may have been divided, so
its messages come back in several parts. In a mesh a child gives back over any node, so its nodes tell each
other what they gave, and what has come back; they are asked for nothing. Each tells all of it when their link
comes up. What a child gives back before the word of its being given is here, is a dead letter until that
comes.

Wrinkle: two nodes of a mesh may have given a child one bundle, when a line broke between them. The child
says so (*maybe-duplicate*), and may give back both; once one has been taken, the other is dropped. How often
the bundle has gone back says which of two returns is the later one.

Wrinkle: a child may be given again what it gave back. So how often the bundle had gone back is remembered of
a loan, too: a return ends the loans that are older than it, wherever and however late its word comes, and no
younger one. A child that says too small a number is not believed: its return is younger than each loan of it
here.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from typing import Final

import msgspec

from broker.core.context import Context
from broker.core.links.neighbour import Neighbour
from broker.core.messages.queue import QueueEntry
from broker.core.operations.dead_letters import Redrive
from broker.core.policy import Policy
from broker.core.rows import MetaRow
from sapwood.protocol.bundles import MAX_MESSAGES, Flag, Header, mask_bits, mask_bytes
from sapwood.protocol.destinations import Kind
from treeconnector.frames import MAX_GIVEN_IN_FRAME
from treeconnector.link import Link
from treeconnector.link_events import Event, LinkUp, PeerGave
from treeconnector.relations import Relation

Entry = tuple[bytes, bytes]
"""A bundle's id, and the digest of whom and what. Among those that have come back, on the disk and between
nodes, the digest is followed by the reroutes it had then and, if not all did, by which of its messages did.
"""

Told = tuple[bytes, bytes, bytes, int]
"""An entry as it is told in a mesh. The third: which of its messages were given, empty if all were. The
fourth: the reroutes that it had then.
"""

Lent = tuple[bytes, int, int]
"""The digest of whom and what, the reroutes that the bundle had then, and a bit for each message given."""

_MOST: Final = 100_000
_MOST_OF_ONE: Final = 32
"""Of one bundle: children that have parts of it, of one of these how often they came back, and letters that
may be returns of it.
"""
_MOST_EARLY: Final = 1000
_DIGEST: Final = 16
_REROUTES: Final = 4
_MOST_REROUTES: Final = (1 << 8 * _REROUTES) - 1
_ALL_BACK: Final = b""
_EVERY: Final = pow(2, MAX_MESSAGES) - 1
_ROW: Final = "given "
_EARLY: Final = "came back early "


class Loans(Policy):
    """Of one node, and of the others of its mesh."""

    __slots__ = (
        *("_context", "_digests", "_early", "_news", "_number", "_redrive", "_rows", "_sent"),
        *("_taken", "_written"),
    )

    def __init__(self, context: Context, redrive: Redrive) -> None:
        self._context = context
        self._redrive = redrive
        self._digests: dict[bytes, tuple[Lent, ...]] = {}
        self._news: list[Told] = []
        self._sent: dict[tuple[str, bytes], bytes] = {}
        self._rows: dict[int, int] = {}
        self._number = self._written = 0
        self._taken: dict[Entry, tuple[tuple[int, int], ...]] = {}
        self._early: dict[Entry, tuple[int, ...]] = {}

    def __repr__(self) -> str:
        return f"<Loans by {self._context.name}: {len(self._digests)} bundles>"

    # --- at this node

    def sent(self, neighbour: Neighbour, header: Header, body: bytes) -> None:
        """A queue's bundle goes to a child, which may give it back."""
        if header.destination.kind == Kind.QUEUE:
            entry, since, brought = _entry(neighbour, header, body), _since(header), _brought(header)
            self._keep(entry, since, brought)
            self._sent[neighbour.name, header.id] = entry[1]
            if len(self._sent) > _MOST:
                del self._sent[next(iter(self._sent))]
            self._note(entry, since, brought)

    def take(self, neighbour: Neighbour, header: Header, body: bytes) -> bool:
        """Was this child given all that it brings? It may give it back once."""
        return self._take(_entry(neighbour, header, body), header)

    def is_twin(self, neighbour: Neighbour, header: Header, body: bytes) -> bool:
        """Is it the twin of one that this child gave back before, here or at another node of the mesh?"""
        if not header.flags & Flag.REROUTED or not header.flags & Flag.MAYBE_DUPLICATE:
            return False
        return self._has_come_back(_entry(neighbour, header, body), header)

    def kept_refused(self, neighbour: Neighbour, entry: QueueEntry) -> None:
        """A child's bundle is a dead letter. If another node gave it, its word may come still."""
        header = entry.stored.header
        if not header.flags & Flag.REROUTED or not self._context.table.mesh:
            return
        if header.destination.kind == Kind.QUEUE:
            early = _entry(neighbour, header, self._context.custody.body(entry))
            rows = (*self._early.get(early, ()), entry.row)
            self._no_more_early(rows[:-_MOST_OF_ONE])
            self._early[early] = rows[-_MOST_OF_ONE:]
            row = MetaRow(f"{_EARLY}{entry.row}", msgspec.msgpack.encode(early))
            self._context.custody.transaction.put(row)
            if len(self._early) > _MOST_EARLY:
                self._no_more_early(self._early.pop(next(iter(self._early))))

    def _no_more_early(self, letters: Iterable[int]) -> None:
        for letter in letters:
            self._context.custody.transaction.delete(MetaRow, f"{_EARLY}{letter}")

    def _take(self, entry: Entry, header: Header) -> bool:
        """The others hear of it when it is on disk: else none might have it."""
        brought, given, reroutes = _brought(header), 0, header.reroutes
        for digest, since, messages in self._digests.get(entry[0], ()):
            if digest == entry[1] and messages & brought:
                given |= messages
                reroutes = max(reroutes, since + 1)
        if not brought or brought & ~given or reroutes > _MOST_REROUTES:
            return False
        whole = brought == (1 << header.count) - 1
        self._forget(entry, reroutes, _EVERY if whole else brought)
        which = b"" if whole else mask_bytes(brought)
        back = entry[0], entry[1] + reroutes.to_bytes(_REROUTES, "big") + which
        self._write([back])
        self._context.next_commit.then(lambda: self._note(back))
        return True

    def _has_come_back(self, entry: Entry, header: Header) -> bool:
        """Has all that it brings come back, and not before it went down for the last time?"""
        return not self._not_back(entry, header.reroutes, _brought(header))

    def _not_back(self, entry: Entry, reroutes: int, messages: int) -> int:
        """Which of these have not come back with so many reroutes or more?"""
        for each, back in self._taken.get(entry, ()):
            if reroutes <= each:
                messages &= ~back
        return messages

    def may_have_arrived(self, neighbour: Neighbour, entries: list[QueueEntry]) -> None:
        """These do not wait for this neighbour any more, and their entries go elsewhere. If a child has them
        all the same, it may give them back; also when nobody here was up at the end to know it.
        """
        if neighbour.relation is Relation.CHILD:
            self.arrived(neighbour, entries)

    def arrived(self, neighbour: Neighbour, entries: list[QueueEntry]) -> None:
        """A child has these, so their entries go from the disk: they may come back after a restart, too."""
        pairs: list[tuple[bytes, ...]] = []
        for entry in entries:
            header = entry.stored.header
            if header.destination.kind != Kind.QUEUE:
                continue
            since = _since(header)
            digest = self._sent.pop((neighbour.name, header.id), b"")
            if not digest:  # it was sent before this start
                digest = _digest(neighbour, header, self._context.custody.body(entry))
                if given := self._still(header.id, digest, since, entry.all & ~entry.done):
                    self._keep((header.id, digest), since, given)
                    self._note((header.id, digest), since, given)
            lent = {(mark, when): messages for mark, when, messages in self._digests.get(header.id, ())}
            if given := lent.get((digest, since), 0) & entry.all:  # a whole one has no end
                which = b"" if given == entry.all else mask_bytes(given)
                pairs.append((header.id, digest, which, since.to_bytes(_REROUTES, "big")))
        if pairs:
            self._write(pairs)

    # --- on disk

    def restore(self, meta: Mapping[str, bytes]) -> None:
        """In the order in which it was written."""
        numbered = {int(name[len(_ROW) :]): row for name, row in meta.items() if name.startswith(_ROW)}
        for number in sorted(numbered):
            pairs = msgspec.msgpack.decode(numbered[number], type=list[tuple[bytes, ...]])
            self.heard([_read(*pair) for pair in pairs])
            self._rows[number], self._number = len(pairs), number
            self._written += len(pairs)
        for name, row in meta.items():  # after the others: there are no dead letters yet for these to settle
            if name.startswith(_EARLY):
                early = msgspec.msgpack.decode(row, type=Entry)
                self._early[early] = (*self._early.get(early, ()), int(name[len(_EARLY) :]))

    def _write(self, pairs: Sequence[tuple[bytes, ...]]) -> None:
        """Of those given, a third field says which messages, if not all were, and a fourth the reroutes."""
        transaction = self._context.custody.transaction
        self._number += 1
        self._rows[self._number] = len(pairs)
        self._written += len(pairs)
        transaction.put(MetaRow(f"{_ROW}{self._number}", msgspec.msgpack.encode(pairs)))
        while self._written > _MOST:
            oldest = next(iter(self._rows))
            self._written -= self._rows.pop(oldest)
            transaction.delete(MetaRow, f"{_ROW}{oldest}")

    # --- in a mesh

    def link_up(self, neighbour: Neighbour, up: LinkUp) -> None:
        if neighbour.relation is Relation.MESH:
            self._tell_all(neighbour)

    def said(self, neighbour: Neighbour, event: Event) -> None:
        if isinstance(event, PeerGave) and neighbour.relation is Relation.MESH:
            self.heard(event.bundles, known=event.known)

    def heard(self, told: list[Told], *, known: bool = False) -> None:
        """Another node of the mesh has given these, or had them given back. `known`: perhaps long ago."""
        for bundle, mark, which, since in told:
            if mark == _ALL_BACK:  # an older node does not say which
                self._digests.pop(bundle, None)
            elif len(mark) > _DIGEST:
                entry, back = (bundle, mark[:_DIGEST]), mark[_DIGEST + _REROUTES :]
                reroutes = int.from_bytes(mark[_DIGEST : _DIGEST + _REROUTES], "big")
                self._forget(entry, reroutes, mask_bits(back) if back else _EVERY)
                self._settle_early(entry, twin=True)
            else:
                given = mask_bits(which) if which else _EVERY
                if known:
                    given = self._still(bundle, mark, since, given)
                if given:
                    self._keep((bundle, mark), since, given)
                    self._settle_early((bundle, mark), twin=False)

    def _still(self, bundle: bytes, digest: bytes, since: int, given: int) -> int:
        """Which of these were lent so long ago and have not come back since, as far as it is known here?

        Where returns may have been forgotten, none: a child could give them back once more.
        """
        returns = self._taken.get((bundle, digest), ())
        if len(returns) == _MOST_OF_ONE:
            return 0
        return self._not_back((bundle, digest), since + 1, given)

    def _settle_early(self, entry: Entry, *, twin: bool) -> None:
        """The word has come of what was a dead letter: it goes on, unless its twin does."""
        context, rows = self._context, self._early.pop(entry, ())
        left: list[int] = []
        for row in rows:
            letter = context.custody.dead.waiting.wake(row)
            if letter is None or letter.stored.header.id != entry[0]:
                continue  # it was taken away, and its row may be another's by now
            header = letter.stored.header
            if not twin and self._take(entry, header):
                self._redrive.give_back([(letter, letter.all)])
            elif twin and header.flags & Flag.MAYBE_DUPLICATE and self._has_come_back(entry, header):
                context.counters["duplicates_dropped"] += self._redrive.discard([(letter, letter.all)])
            else:
                left.append(row)
        self._no_more_early(set(rows).difference(left))
        if left:
            self._early[entry] = tuple(left)

    def tell(self) -> None:
        """The others of the mesh hear what is new."""
        news, self._news = self._news, []
        for start in range(0, len(news), MAX_GIVEN_IN_FRAME):
            for peer in self._context.peers():
                if peer.link is not None:
                    peer.link.say.given(news[start : start + MAX_GIVEN_IN_FRAME])

    def _tell_all(self, peer: Neighbour) -> None:
        """A link with a node of the mesh is up: it may have missed some, or have been killed since."""
        given = [
            (bundle, digest, _which(messages), since)
            for bundle, lent in self._digests.items()
            for digest, since, messages in lent
        ]
        taken = [
            (bundle, digest + reroutes.to_bytes(_REROUTES, "big") + _which(messages), b"", 0)
            for (bundle, digest), returns in self._taken.items()
            for reroutes, messages in returns
        ]
        if peer.link is not None:
            self._tell_part(peer, peer.link, [*given, *taken], 0)

    def _tell_part(self, peer: Neighbour, link: Link, pairs: list[Told], start: int) -> None:
        """A frame at a time, since it may be many, and others wait."""
        end = start + MAX_GIVEN_IN_FRAME
        if peer.link is link and start < len(pairs):
            link.say.given(pairs[start:end], known=True)
            further = partial(self._tell_part, peer, link, pairs, end)
            self._context.clock.go_on((self._tell_all, link), further)

    def _note(self, entry: Entry, since: int = 0, messages: int = _EVERY) -> None:
        if self._context.table.mesh:
            self._news.append((*entry, _which(messages), since))

    # --- in memory

    def _keep(self, entry: Entry, since: int, messages: int) -> None:
        bundle, digest = entry
        others: list[Lent] = []
        for each in self._digests.pop(bundle, ()):
            if each[:2] == (digest, since):
                messages |= each[2]
            else:
                others.append(each)
        self._digests[bundle] = (*others[1 - _MOST_OF_ONE :], (digest, since, messages))
        if len(self._digests) > _MOST:
            del self._digests[next(iter(self._digests))]

    def _forget(self, entry: Entry, reroutes: int, messages: int) -> None:
        """They have come back, so they are given no more, unless it was after that."""
        bundle, digest = entry
        left = (
            (each, since, bits & ~messages if each == digest and since < reroutes else bits)
            for each, since, bits in self._digests.get(bundle, ())
        )
        known = tuple(lent for lent in left if lent[2])
        if known:
            self._digests[bundle] = known
        else:
            self._digests.pop(bundle, None)
        returns = dict(self._taken.pop(entry, ()))
        returns[reroutes] = returns.get(reroutes, 0) | messages
        self._taken[entry] = tuple(returns.items())[-_MOST_OF_ONE:]
        if len(self._taken) > _MOST:
            del self._taken[next(iter(self._taken))]


def _brought(header: Header) -> int:
    """Which of its messages a bundle brings, a bit each."""
    return (1 << header.count) - 1 & ~mask_bits(header.done)


def _since(header: Header) -> int:
    """How often it had gone back when it was lent; that does not change while it waits for the child."""
    return min(header.reroutes, _MOST_REROUTES)


def _read(bundle: bytes, mark: bytes, which: bytes = b"", since: bytes = b"", *_newer: bytes) -> Told:
    """An entry from its row; an older node wrote the first two or three alone."""
    return bundle, mark, which, int.from_bytes(since, "big")


def _which(messages: int) -> bytes:
    return b"" if messages == _EVERY else mask_bytes(messages)


def _entry(neighbour: Neighbour, header: Header, body: bytes) -> Entry:
    return header.id, _digest(neighbour, header, body)


def _digest(neighbour: Neighbour, header: Header, body: bytes) -> bytes:
    about = f"{neighbour.name} {header.origin} {header.destination}".encode()
    return blake2b(body, digest_size=_DIGEST, key=blake2b(about, digest_size=32).digest()).digest()
