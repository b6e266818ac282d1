"""The carrier over a broker: one line, a nonce of both sides, a window at each side.

It is the ear of its line, so everything happens as it is heard; `receive` only waits. Confirmations of the
broker do not open the window: only the other node does, by `Taken`.

Wrinkle: two kinds of strangers are normal and only counted: envelopes of an earlier link that were still
under way, and a second answer, if two parents listen at one broker by mistake.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Final, assert_never

from bridges.carriers.base import (
    BUFFER_BYTES,
    CLOSE_TIMEOUT,
    Carrier,
    CarrierBroken,
    CarrierClosed,
    CarrierEnded,
    CarrierError,
    CarrierFlooded,
)
from bridges.carriers.brokered.envelopes import (
    OVERHEAD,
    VERSION,
    Answer,
    Claim,
    End,
    Envelope,
    Gone,
    Knock,
    Packets,
    Taken,
    decode,
    encode,
    end,
    new_half,
)
from bridges.carriers.brokered.line import Broker, BrokerLine
from bridges.carriers.brokered.window import IncomingWindow, OutgoingWindow
from sapwood.protocol.errors import RemoteError
from treeconnector.frames import DEFAULT_MAX_FRAME
from treeconnector.hellos import MIN_FRAME

DEFAULT_TIMEOUT: Final = 10.0
MOST_OF_A_STRANGER: Final = 64 * 1024
"""Bytes that come, in all, from who knocked and has not proved itself; its hello is a packet of as many."""
_MORE: Final = 4 * 1024


async def connect(
    broker: Broker,
    child: str,
    *,
    timeout: float = DEFAULT_TIMEOUT,
    max_packet: int = DEFAULT_MAX_FRAME,
) -> "BrokeredCarrier":
    """Knock at a parent through its broker. `child`: our name. `timeout`: seconds until the *node* answered.

    Raises `CarrierBroken`, `CarrierBusy`, or `bridges.tls.TlsError` for unusable files.
    """
    half = new_half()
    carrier = BrokeredCarrier(broker.uri, half, max_packet)
    try:
        async with asyncio.timeout(timeout):
            knock = encode(Knock(half, max_packet))
            carrier.ride(await broker.knock(child, half.hex(), knock, encode(Gone(half)), carrier))
            await carrier.answered()
    except TimeoutError:
        text = _no_answer(broker, child, timeout, knocked=carrier.rides)
        await carrier.close()
        raise CarrierBroken(text) from None
    except BaseException:
        await carrier.close()
        raise
    return carrier


def _no_answer(broker: Broker, child: str, timeout: float, *, knocked: bool) -> str:
    if not knocked:
        return f"{broker.uri} did not answer within {timeout:g} s"
    return (
        f"the broker at {broker.uri} took our knock, but no node answered within {timeout:g} s: does the"
        f" parent's node run there, and may {child!r} read what it is told (sapwood config acl prints the"
        " permissions)?"
    )


class BrokeredCarrier(Carrier):
    """One end of a link over a broker. `strangers`: envelopes ignored for their nonce or number.

    `trusted`: False where a parent hears little before `proven`; `when_proven` is told of that.
    """

    def __init__(self, peer: str, half: bytes, max_packet: int) -> None:
        self.peer = peer
        self.max_packet = max_packet
        self.trusted = True
        self.when_proven: Callable[[], object] = lambda: None
        self._come = 0
        self._half = half
        self._nonce = b""
        self._line: BrokerLine | None = None
        self._error: CarrierError | None = None
        self._ending: CarrierError | None = None
        self._outgoing = OutgoingWindow(BUFFER_BYTES, max_packet)
        self._incoming = IncomingWindow(BUFFER_BYTES, max_packet)
        self._met = asyncio.Event()
        self._arrived = asyncio.Event()
        self._drained = asyncio.Event()
        self._idle = asyncio.Event()

    def __repr__(self) -> str:
        state = type(self._error).__name__ if self._error else "open" if self._nonce else "knocking"
        ignored = f", {self.strangers} strangers ignored" if self.strangers else ""
        return f"<BrokeredCarrier to {self.peer} {state}, {self._outgoing.bytes} bytes buffered{ignored}>"

    # --- the beginning

    @property
    def rides(self) -> bool:
        """It has its line."""
        return self._line is not None

    def ride(self, line: BrokerLine) -> None:
        """Here is the line: what waited for it goes out."""
        self._line = line
        room = line.max_message - OVERHEAD
        if room < MIN_FRAME:
            self._stop_hearing(
                CarrierBroken(
                    f"the broker at {self.peer} takes messages of {line.max_message} bytes at most:"
                    f" links need {MIN_FRAME + OVERHEAD}"
                )
            )
        self._limit(room)
        self._flush()

    def meet(self, nonce: bytes, max_packet: int) -> None:
        """Both sides know of each other. `max_packet`: what the other side takes."""
        self._nonce = nonce
        self._limit(max_packet)
        self._met.set()
        self._flush()

    def answer(self, own_half: bytes) -> None:
        """Of the parent: say that we are linked."""
        assert self._line is not None
        nonce = self._half + own_half
        self._line.say(encode(Answer(nonce, self.max_packet)))
        self.meet(nonce, self.max_packet)

    async def answered(self) -> None:
        """Wait until the other node has spoken. Raises `CarrierError` if it cannot."""
        await self._met.wait()
        if self._error:
            raise self._error

    def _limit(self, max_packet: int) -> None:
        self.max_packet = self._outgoing.batch = min(self.max_packet, max_packet)

    # --- what is heard

    def heard(self, child: str, message: bytes) -> None:
        """An envelope came on the line. While we close, only what the other side has taken counts."""
        if self._ending:
            return
        try:
            self._hear(decode(message))
        except RemoteError as error:
            self._stop_hearing(CarrierBroken(f"the link over {self.peer} broke: {error}"))

    def _hear(self, envelope: Envelope) -> None:
        match envelope:
            case Knock() | Claim():
                self.strangers += 1
            case Answer(nonce, max_packet, version):
                self._answered(nonce, max_packet, version)
            case Gone(nonce):
                if self._nonce and self._nonce.startswith(nonce):
                    self._stop_hearing(CarrierBroken(f"{self.peer} says that the other node has gone"))
            case Packets() | Taken() | End():
                if envelope.nonce == self._nonce:
                    self._hear_own(envelope)
                else:
                    self.strangers += 1
            case _:
                assert_never(envelope)

    def _answered(self, nonce: bytes, max_packet: int, version: int) -> None:
        if self._nonce or not nonce.startswith(self._half):
            self.strangers += 1
        elif version != VERSION:
            text = (
                f"the node at {self.peer} speaks version {version} of links over brokers, we speak {VERSION}"
            )
            self._fail(CarrierBroken(f"{text}: install the same version of Sapwood"))
        else:
            self.meet(nonce, max_packet)

    def _hear_own(self, envelope: Packets | Taken | End) -> None:
        match envelope:
            case Taken(_, number):
                self._outgoing.taken(number)
                self._flush()
            case Packets(_, number, packets) if self._error is None:
                if not (self.trusted or self.is_proven) and self._is_too_much(packets):
                    return
                if not self._incoming.follows(number):
                    self.strangers += 1
                    return
                self._incoming.arrived(number, packets)
                self._arrived.set()
            case End(_, number, reason):
                self._incoming.follows(number)
                text = reason or "no reason given"
                self._stop_hearing(CarrierEnded(f"{self.peer}: the other node closed the link: {text}"))
            case Packets():
                pass
            case _:
                assert_never(envelope)

    def _is_too_much(self, packets: list[bytes]) -> bool:
        """Of somebody who has not proved itself: nothing more is heard of it."""
        self._come += sum(map(len, packets))
        most = MOST_OF_A_STRANGER + _MORE
        if self._come <= most:
            return False
        self._stop_hearing(
            CarrierFlooded(
                f"{self._come} bytes before the handshake is done: {most} at most over {self.peer}"
            )
        )
        return True

    def proven(self) -> None:
        super().proven()
        self.when_proven()

    def _stop_hearing(self, error: CarrierError) -> None:
        """Nothing follows; what has arrived is still to be received."""
        self._ending = error
        if not self._nonce:
            self._fail(error)
        for waiting in (self._arrived, self._drained, self._idle):
            waiting.set()

    def lost(self, error: CarrierError) -> None:
        """The line has ended."""
        if not self._ending:
            self._stop_hearing(error)

    # --- receiving

    async def receive(self) -> list[bytes]:
        while not self._incoming:
            if self._error:
                raise self._error
            if self._ending:
                self._fail(self._ending)
                raise self._ending
            self._arrived.clear()
            await self._arrived.wait()
        if isinstance(self._error, CarrierClosed):
            raise self._error
        found = self._incoming.take()
        self._tell_taken()
        return found

    def _tell_taken(self) -> None:
        if self._line is None or self._ending or self._error:
            return
        number = self._incoming.to_tell()
        if number:
            self._line.say(encode(Taken(self._nonce, number)))

    # --- sending

    def send(self, packets: Sequence[bytes]) -> None:
        self._raise_if_over()
        self._outgoing.put([bytes(packet) for packet in packets], self.check_size(packets))
        self._flush()

    @property
    def room(self) -> int:
        return 0 if self._error or self._ending else self._outgoing.room

    @property
    def is_idle(self) -> bool:
        return self._error is None and self._outgoing.is_light

    async def drain(self) -> None:
        while not (self._error or self._ending) and self.room <= 0:
            self._drained.clear()
            await self._drained.wait()
        self._raise_if_over()

    def _raise_if_over(self) -> None:
        error = self._error or self._ending
        if error:
            raise error

    def _flush(self) -> None:
        """Say what may be under way."""
        if self._line is None or not self._nonce:
            return
        while (envelope := self._outgoing.next_envelope()) is not None:
            self._line.say(encode(Packets(self._nonce, *envelope)))
        if self._outgoing.room > 0:
            self._drained.set()
        if self._outgoing.idle:
            self._idle.set()
        else:
            self._idle.clear()

    # --- the end

    def _fail(self, error: CarrierError) -> None:
        self._error = self._error or error
        for waiting in (self._met, self._arrived, self._drained, self._idle):
            waiting.set()

    async def close(self, reason: str = "") -> None:
        over = self._error or self._ending
        self._fail(CarrierClosed(f"the link over {self.peer} was closed here: {reason or 'no reason given'}"))
        if self._line is not None and self._nonce and not over:
            await self._say_end(self._line, reason)
        line, self._line = self._line, None
        if line is not None:
            await line.close()

    async def _say_end(self, line: BrokerLine, reason: str) -> None:
        """Send what waits, then say that it was all."""
        self._flush()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT):
                await self._idle.wait()
        if self._outgoing.idle and not self._ending:
            line.say(encode(end(self._nonce, self._outgoing.number + 1, reason)))
