"""What stands first on every connection of the node's port, and speaks the link-level protocol itself.

A `Front` reads requests off the wire. Those for the protocol's verbs it performs and answers on the spot;
that costs a fraction of what a general HTTP server needs for a request. At the first request for something
else (a page, the API, a WebSocket) the connection is aiohttp's, which knows the verbs as well; from then on
the Front only mends heads on their way there, and not even that where the framing is none of its business.

Law: answers leave in the order of the requests. Sends and acknowledgements that a client writes without
waiting are under way together and share a commit; any other verb waits for those before it. A client that
does not read its answers is read no further. An idle connection is never closed once it is logged in.

Law of strangers: who has neither logged in nor shown the token of the administration sends small bodies only,
which is decided by the head; and logs in, asks for a page or goes within `PATIENCE`. Nobody takes longer than
that for a head, nor for a body but for the time that it takes at `SLOWEST`.

Law of shares: requests that came together are performed for one slice of the loop (`broker.shares`); then all
others have their turns, and this connection is read no further meanwhile.
"""

import asyncio
import re
from collections.abc import Callable
from functools import partial
from typing import Final, cast

from broker.core.errors import SwitchError
from broker.http.bindings import HttpLine
from broker.http.encoding import Fields
from broker.http.gate import Gate
from broker.http.heads import (
    CHUNKED,
    END,
    MAX_HEAD,
    Chunks,
    Head,
    Malformed,
    mended,
    parts_of,
    path_of,
    read_head,
    verb_of,
    with_length,
    without_length,
    without_upgrade,
)
from broker.http.pipeline import Pipeline, Slot
from broker.http.verbs import (
    IN_FLIGHT,
    METHODS,
    Facts,
    VerbAnswer,
    VerbRequest,
    Verbs,
    answer_of,
    facts_of,
    said,
    too_large,
)
from broker.intake import Guest
from broker.shares import LoopShare
from sapwood.channels.probes import is_dead

MOST_OF_A_STRANGER: Final = 32 * 1024
"""Bytes that a body has before a login."""
_MOST_UNREAD: Final = 256 * 1024
_UPGRADES: Final = frozenset(("link", "session", "mqtt", "channel"))
_ALL: Final = 2**62
_LAST: Final = Head("", b"", 0, b"", 0, False)
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_EMPTY: Final = re.compile(rb"(?:\r\n)+")
_TLS: Final = b"\x16\x03"
_NOTHING_KNOWN: Final[tuple[bytes | None, Facts]] = None, Facts("", "", "", False)
_NO_PACKET: Final = b"\x81\x80\x00\x00\x00\x00"
"""A frame of text, as no session and no link has: whoever reads the WebSocket looks why."""
Inner = Callable[[], asyncio.Protocol]
Prepared = Callable[[Callable[[], None]], bool]


class Front(asyncio.Protocol):
    """See the module. `inner` makes aiohttp's protocol for a connection that is none of ours.

    `open_fronts`: where it stands while its connection is open. `prepared(call)`: whether `inner` may be
    called now; else `call` is called when it may. `guest`: its place among all connections, where they are
    counted.
    """

    def __init__(
        self,
        verbs: Verbs,
        inner: Inner,
        open_fronts: set["Front"],
        prepared: Prepared = lambda _go_on: True,
        guest: Guest | None = None,
    ) -> None:
        self._verbs = verbs
        self._make_inner = inner
        self._prepared = prepared
        self._guest = guest
        self._gate: Gate | None = None
        self._open = open_fronts
        self._inner: asyncio.Protocol | None = None
        self._transport: asyncio.Transport
        self._line: HttpLine
        self._data = bytearray()
        self._head: Head | None = None
        self._chunks: Chunks | None = None
        self._passing = 0
        self._dropping = 0
        self._aside = self._full = self._paused = self._closing = self._resting = False
        self._share = LoopShare(verbs.shares)
        self._pipeline: Pipeline
        self._known = _NOTHING_KNOWN

    def __repr__(self) -> str:
        with_aiohttp = " with aiohttp" if self._inner else ""
        return f"<Front of {self._line!r} requests={len(self._pipeline)}{with_aiohttp}>"

    # --- the transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # another loop's transport is none by class
        self._line = self._verbs.bindings.open(transport, self._guest)
        self._pipeline = Pipeline(self._verbs.buffers, self._transport, lambda: len(self._data))
        self._open.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        if self._inner is not None:  # the first step of aiohttp's task is due before, if it was made just now
            asyncio.get_running_loop().call_soon(self._inner.connection_lost, exc)
        self._verbs.bindings.close(self._line)
        self._open.discard(self)
        self._let_go()

    def _let_go(self) -> None:
        """Nothing that was read outlives the connection, whoever still knows this object."""
        self._data = bytearray()
        self._head = self._chunks = None
        self._pipeline.close()
        self._known = _NOTHING_KNOWN
        self._inner = None

    def eof_received(self) -> bool | None:
        return self._inner.eof_received() if self._inner is not None else None

    def pause_writing(self) -> None:
        self._full = True
        self._pipeline.look()
        if self._inner is not None:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._full = False
        self._pipeline.begin_again()
        if self._inner is not None:
            self._inner.resume_writing()
        else:
            self._go_on()

    def data_received(self, data: bytes) -> None:
        if self._aside and self._inner is not None:
            if self._gate is not None:
                self._pass_on(self._inner, self._gate, data)
            else:
                self._inner.data_received(data)
            return
        if not self._in_the_middle:
            self._pipeline.begin_again(now=True)
        self._pipeline.came(len(data))
        self._data += data
        self._go_on()

    def _pass_on(self, inner: asyncio.Protocol, gate: Gate, data: bytes) -> None:
        """To a WebSocket of somebody who may still be a stranger. Too much of it is not read."""
        assert self._guest is not None
        if self._guest.refusal:
            return
        if self._guest.proved:
            self._gate = None
            inner.data_received(gate.rest + data)
            return
        passed = gate.pass_on(data)
        if passed:
            inner.data_received(passed)
        if gate.refusal:
            self._guest.refusal = gate.refusal
            self._transport.pause_reading()
            inner.data_received(_NO_PACKET)

    @property
    def _in_the_middle(self) -> bool:
        """Has a part of a request come, and not all of it?"""
        return bool(self._data or self._head is not None or self._passing or self._dropping)

    # --- reading

    def _go_on(self) -> None:
        """Take as many requests as may be taken in a slice, then see whether more should be read."""
        self._share.begin()
        while self._data and not (self._closing or self._aside or self._resting) and self._take():
            if (self._inner is None or self._chunks) and self._share.is_over:  # aiohttp takes them one by one
                self._resting = True
                self._share.give_way_and(self._rested)
        if (self._inner is None or self._chunks or self._paused) and not self._closing:
            self._see_whether_to_read()

    def _rested(self) -> None:
        self._resting = False
        self._go_on()

    def _see_whether_to_read(self) -> None:
        body = max(self._head.length, 0) if self._head is not None else 0
        most = _MOST_UNREAD if self._line.bound is not None else MOST_OF_A_STRANGER
        much = len(self._data) > most + body
        if much != self._paused:
            self._paused = much
            (self._transport.pause_reading if much else self._transport.resume_reading)()

    def _take(self) -> bool:
        """Take one piece of what has come. False: nothing can be taken now."""
        if self._dropping or self._passing:
            return self._take_body()
        if self._full or self._pipeline.is_full:
            return False
        head = self._head
        if head is None:
            return self._take_head()
        if self._chunks is not None:
            return self._take_chunks(head, self._chunks)
        if len(self._data) < head.length:
            return False
        body = bytes(self._data[: head.length])
        del self._data[: head.length]
        self._head = None
        self._pipeline.begin_again()
        self._perform(head, body)
        return True

    def _take_chunks(self, head: Head, chunks: Chunks) -> bool:
        try:
            if not chunks.take(self._data):
                return chunks.is_behind
        except Malformed as error:
            return self._give_up(error.status, str(error))
        self._head = self._chunks = None
        self._pipeline.begin_again()
        if self._is_ours(head):
            self._perform(head, bytes(chunks.body))
            return True
        request = f"{head.method} ".encode() + head.target + b" HTTP/1.%d" % head.minor
        request += with_length(head.fields, len(chunks.body)) + END
        self._inner_for_good().data_received(mended(without_upgrade(request)) + bytes(chunks.body))
        return True

    def _take_body(self) -> bool:
        """Of a body that is aiohttp's, or nobody's."""
        if self._dropping:
            size = min(self._dropping, len(self._data))
            self._dropping -= size
        else:
            size = min(self._passing, len(self._data))
            self._passing -= size
            assert self._inner is not None
            self._inner.data_received(bytes(self._data[:size]))
        del self._data[:size]
        if not (self._dropping or self._passing):
            self._pipeline.begin_again()
        return True

    def _take_head(self) -> bool:
        if (empty := _EMPTY.match(self._data)) is not None:
            del self._data[: empty.end()]
        if self._data.startswith(_TLS):
            return self._give_up(400, "this port speaks http and ws, not TLS")
        end = self._data.find(END)
        if end > MAX_HEAD or (end < 0 and len(self._data) > MAX_HEAD):
            return self._give_up(431, f"a request's head has at most {MAX_HEAD} bytes")
        if end < 0:
            return False
        try:
            head = read_head(bytes(self._data[:end]))
        except Malformed as error:
            return self._give_up(error.status, str(error))
        self._pipeline.head_came()
        if self._is_ours(head):
            return self._begin(head, end + len(END))
        if not self._prepared(self._go_on):
            return False
        if head.length == CHUNKED:
            return self._begin_chunks(head, end + len(END))
        return self._hand_over(head, end + len(END))

    def _is_ours(self, head: Head) -> bool:
        if self._inner is not None:
            return False
        return METHODS.get(verb_of(head.target)) == head.method

    def _begin(self, head: Head, size: int) -> bool:
        """A request for a verb: if it may begin now, its head is taken."""
        verb = verb_of(head.target)
        if not self._pipeline.admits(verb in IN_FLIGHT):
            return False
        if head.length == CHUNKED:
            return self._begin_chunks(head, size)
        del self._data[:size]
        if head.length > self._verbs.max_body:
            return self._refuse_body(head, answer_of(too_large(head.length, self._verbs.max_body)))
        if head.length > 0 and self._line.bound is None and verb == "send":
            return self._refuse_body(head, said(403, "NOT_LOGGED_IN: log in first on this connection"))
        if head.length > (most := self._most(head)):
            return self._refuse_body(head, answer_of(too_large(head.length, most)))
        if head.length:
            self._head = head
            self._promise(head)
        else:
            self._perform(head, b"")
        return True

    def _begin_chunks(self, head: Head, size: int) -> bool:
        """A body in chunks is put together here, whoever it is for."""
        if self._pipeline:
            return False
        del self._data[:size]
        self._head, self._chunks = head, Chunks(self._most(head))
        self._promise(head)
        return True

    def _most(self, head: Head) -> int:
        """Bytes that the body of this request may have."""
        if 0 <= head.length <= MOST_OF_A_STRANGER or self._line.bound is not None:
            return self._verbs.max_body
        known = self._verbs.may_say_much(Fields(head.fields, self._transport), head.target)
        return self._verbs.max_body if known else MOST_OF_A_STRANGER

    def _promise(self, head: Head) -> None:
        """Some clients ask before they send a long body."""
        if b"100-continue" in head.fields and len(self._data) < abs(head.length) and not self._pipeline:
            self._transport.write(_CONTINUE)

    def _refuse_body(self, head: Head, answer: VerbAnswer) -> bool:
        """Answer without reading the body; what comes of it is dropped, the connection stays."""
        self._dropping = 0 if b"100-continue" in head.fields and not self._data else head.length
        self._answered(self._pipeline.add(head, waits=True), answer)
        return True

    # --- performing and answering

    def _perform(self, head: Head, body: bytes) -> None:
        slot = self._pipeline.add(head)
        reply = partial(self._answered, slot)
        try:
            parts = parts_of(path_of(head.target))
        except SwitchError as error:
            reply(answer_of(error))
            return
        slot.waits = parts[0] not in IN_FLIGHT
        self._verbs.perform(self._line, VerbRequest(head.method, parts, body, self._facts(head)), reply)

    def _facts(self, head: Head) -> Facts:
        """A client's headers are the same from request to request, but for the length."""
        fields = without_length(head.fields) if head.length else head.fields
        if fields != self._known[0]:
            self._known = fields, facts_of(Fields(fields, self._transport))
        return self._known[1]

    def _answered(self, slot: Slot, answer: VerbAnswer) -> None:
        """An answer is ready; it leaves when those before it have left."""
        if self._closing:
            return
        leaving, stays = self._pipeline.answered(slot, answer)
        if not leaving:
            return
        self._transport.write(leaving)
        self._pipeline.begin_again(now=True)
        if not stays:
            self._closing = True
            self._transport.close()
        elif self._data:
            asyncio.get_running_loop().call_soon(self._go_on)

    def _give_up(self, status: int, text: str) -> bool:
        """What came cannot be read on from here: say so after what is still to be said, and close. False."""
        self._dropping = _ALL
        self._answered(self._pipeline.add(_LAST, waits=True), said(status, text + "\n"))
        return False

    # --- aiohttp's

    def _hand_over(self, head: Head, size: int) -> bool:
        """A request for aiohttp. Ours are answered first. A publish is read when it is known whose it is."""
        if self._pipeline:
            return False
        publishes = head.target.startswith(b"/api/publish/")
        most = self._verbs.max_body if publishes else self._most(head)
        if head.length > most:
            text = f"TOO_LARGE: a body of {head.length} bytes: expected {most} at most here"
            return self._give_up(413, text)
        changes = head.upgrade and not head.length and verb_of(head.target.partition(b"?")[0]) in _UPGRADES
        inner = self._inner_for_good()
        request = mended(bytes(self._data[:size]))
        del self._data[:size]
        if not changes:
            self._passing = head.length
            self._pipeline.begin_again()
            inner.data_received(without_upgrade(request) if head.upgrade else request)
            return True
        rest, self._data = bytes(self._data), bytearray()
        self._aside = True
        self._pipeline.close()
        if self._guest is not None and not self._guest.proved:
            self._gate = Gate()
        inner.data_received(request)
        if rest:
            self.data_received(rest)
        return False

    def _inner_for_good(self) -> asyncio.Protocol:
        if self._inner is None:
            if self._paused:
                self._paused = False
                self._transport.resume_reading()
            self._inner = self._make_inner()
            self._inner.connection_made(self._transport)
        return self._inner

    # --- the connection's life

    def look_after(self, now: float) -> None:
        """Called every few seconds: end what is dead, or stuck in the middle of a request."""
        if self._closing:
            return
        if is_dead(self._transport.get_extra_info("socket")):
            self._transport.abort()
        elif not (self._aside or self._pipeline or self._full) and self._is_late(now):
            if self._inner is None:
                self._give_up(408, "no request came in time")
            else:
                self._transport.abort()

    def _is_late(self, now: float) -> bool:
        if self._inner is None and self._line.bound is None and self._pipeline.is_stranger_late(now):
            return True
        in_a_body = self._head is not None or bool(self._passing or self._dropping)
        return self._in_the_middle and self._pipeline.is_late(now, in_a_body=in_a_body)

    def close(self) -> None:
        """The port closes."""
        self._closing = True
        self._verbs.bindings.close(self._line)
        if self._inner is None:
            self._transport.close()
