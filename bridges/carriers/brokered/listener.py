"""The parent's side: hears the knocks of children at one broker, and answers them.

Law: a knock costs little until it is answered, and each answer is a connection of its own; how many are made
at once is the caller's to bound. A knock of our own name, or of a name that cannot be, is ignored: a branch
may ride to its parent on the broker at which it listens.

Law: one parent of a tree at one broker, for a child does not say whom it means. A parent claims it there. One
that holds it objects; of two that come at once, the one whose run is the smaller stays. Nobody is answered
before `OBJECTIONS` seconds have passed. A parent that was killed objects to nothing. A claim proves nothing,
so a parent that listens gives way to none: whoever reaches the broker keeps out only one that is starting.

Wrinkle: where somebody deletes the exchange of RabbitMQ through which knocks come, a line stays open and
hears none. So the claim is said again now and then: what no exchange takes ends the line, and the next one
makes it anew.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from bridges.carriers.base import CarrierBroken, CarrierError
from bridges.carriers.brokered.carrier import DEFAULT_TIMEOUT, BrokeredCarrier
from bridges.carriers.brokered.envelopes import VERSION, Claim, Gone, Knock, decode, encode, new_half
from bridges.carriers.brokered.line import Broker, BrokerLine
from sapwood.protocol.errors import FrameError
from treeconnector.frames import DEFAULT_MAX_FRAME

OnKnock = Callable[[str, Knock], None]
_OPENING: Final = 10.0
_MOST_EARLY: Final = 4096
OBJECTIONS: Final = 0.5
CLAIMED_EVERY: Final = 30.0


class AnotherParent(CarrierError):
    """The children of this broker are another node's. `node`: its name."""

    def __init__(self, uri: str, node: str) -> None:
        super().__init__(
            f"node {node!r} takes the children of this tree at {uri}: one parent at one broker, for a child"
            " does not say whom it means; take the broker out of listener, link_brokers of one of the two, or"
            " name another broker or virtual host"
        )
        self.node = node


class Listener:
    """Hears the knocks at one broker, from `run` to its end. `ignored`: what was no knock of a child.

    `hears_itself`: other parents could be heard, too. `run`: it gives way to a smaller one until it listens.
    """

    def __init__(self, broker: Broker, own_name: str, on_knock: OnKnock, run: bytes = b"") -> None:
        self.broker = broker
        self.ignored = 0
        self.listening = False
        self.hears_itself = False
        self._own_name = own_name
        self._run = run or new_half()
        self._on_knock = on_knock
        self._line: BrokerLine | None = None
        self._early: dict[str, Knock] = {}
        self._lost: asyncio.Future[CarrierError] | None = None

    def __repr__(self) -> str:
        return f"<Listener at {self.broker.uri} {'listening' if self.listening else 'not listening'}>"

    async def run(self, on_listening: Callable[[], None]) -> None:
        """Listen until the connection ends. Always raises `CarrierError`, unless it is cancelled."""
        lost = self._lost = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(_OPENING):
                line = await self.broker.listen(self)
        except TimeoutError:
            raise CarrierBroken(f"{self.broker.uri} did not answer within {_OPENING:g} s") from None
        try:
            self._line = line
            self._claim()
            await asyncio.wait((lost,), timeout=OBJECTIONS)
            if not lost.done():
                self._begin(on_listening)
            while not lost.done():
                await asyncio.wait((lost,), timeout=CLAIMED_EVERY)
                self._claim()
            raise lost.result()
        finally:
            self.listening, self._line = False, None
            await line.close()

    def _claim(self) -> None:
        if self._line is not None:
            self._line.say(encode(Claim(self._own_name, self._run, self.listening)))

    def _begin(self, on_listening: Callable[[], None]) -> None:
        """Nobody objects."""
        self.listening = True
        on_listening()
        early, self._early = self._early, {}
        for child, knock in early.items():
            self._on_knock(child, knock)

    def heard(self, child: str, message: bytes) -> None:
        try:
            knock = decode(message)
        except FrameError:
            knock = None
        if isinstance(knock, Claim) and not child:
            self._claimed(knock)
        elif not isinstance(knock, Knock) or not child or child == self._own_name:
            self.ignored += 1
        elif self.listening:
            self._on_knock(child, knock)
        elif len(self._early) < _MOST_EARLY:
            self._early[child] = knock

    def _claimed(self, claim: Claim) -> None:
        """A parent says that it hears the knocks here."""
        if claim.run == self._run:
            self.hears_itself = True
        elif self.listening and claim.held:
            return  # each would object to the other for ever
        elif not self.listening and (not claim.held, claim.run) < (True, self._run):
            self.lost(AnotherParent(self.broker.uri, claim.node))
        else:
            self._claim()

    def lost(self, error: CarrierError) -> None:
        if self._lost is not None and not self._lost.done():
            self._lost.set_result(error)


async def answer(
    broker: Broker,
    child: str,
    knock: Knock,
    *,
    timeout: float = DEFAULT_TIMEOUT,
    max_packet: int = DEFAULT_MAX_FRAME,
) -> BrokeredCarrier:
    """Make a connection for this link and answer. The carrier is up for us; the child may have gone.

    Raises `CarrierBroken`, also if the child speaks a version that we do not.
    """
    if knock.version != VERSION:
        raise CarrierBroken(
            f"{child!r} speaks version {knock.version} of links over brokers, we speak {VERSION}: install the"
            " same version of Sapwood there"
        )
    own = new_half()
    carrier = BrokeredCarrier(f"{broker.uri} ({child})", knock.half, min(max_packet, knock.max_packet))
    last_words = encode(Gone(knock.half + own))
    try:
        async with asyncio.timeout(timeout):
            carrier.ride(await broker.answer(child, knock.half.hex(), last_words, carrier))
    except TimeoutError:
        await carrier.close()
        raise CarrierBroken(f"{broker.uri} did not answer within {timeout:g} s") from None
    except BaseException:
        await carrier.close()
        raise
    carrier.answer(own)
    return carrier
