"""All that a node says on a link that is up: each thing a method, and each a frame or several.

Law: a thing that this end may not say now raises a `LocalError` and changes nothing; after the end of the
link nothing is said, and that is no error.
"""

from collections.abc import Callable, Sequence
from typing import Any

from sapwood.protocol import bundles
from sapwood.protocol.destinations import Destination
from sapwood.protocol.errors import LocalError
from sapwood.protocol.packets import Bytes
from treeconnector import address_frames, frames
from treeconnector.frame_events import DIGEST, DIGEST_BACK
from treeconnector.frames import Advice, Frame, Hello, Member, Whereabouts
from treeconnector.link_settings import clean
from treeconnector.link_states import Phase, State
from treeconnector.outgoing import Outgoing, Snapshot
from treeconnector.permits import Grant, pack, pieces
from treeconnector.streams import Streams


class LinkSender:
    """Of one link, as `Link.say`. `phase`, `out`, `streams`: the link's own. `largest_bundle`: bytes of
    header and body that the peer takes; 0 before its hello.
    """

    __slots__ = ("_out", "_peer", "_phase", "_streams", "largest_bundle")

    def __init__(self, phase: Phase, out: Outgoing, streams: Streams) -> None:
        self._phase = phase
        self._out = out
        self._streams = streams
        self._peer = "?"
        self.largest_bundle = 0

    def __repr__(self) -> str:
        return f"<LinkSender {self._phase!r} {self._out!r}>"

    def agree(self, peer: Hello, max_frame: int) -> None:
        """The peer's hello is known, and the largest frame that both take."""
        self._peer, self.largest_bundle = peer.name, peer.max_message
        self._out.max_frame = max_frame

    def advise(self, advices: Sequence[Advice]) -> None:
        """Tell the peer. During a snapshot it is held, the last word on each key, until the end of it."""
        if self._phase.may_send(frames.Advise):
            self._out.advise(advices)

    def snapshot(self, advices: Sequence[Advice], digest: bytes) -> None:
        """Tell the peer all that we offer: one consistent cut, not changed afterwards, and its digest."""
        if self._phase.may_send(frames.SnapshotBegin):
            self._out.snapshot(Snapshot(advices, digest))

    @property
    def is_telling(self) -> bool:
        """Is a snapshot on its way to the peer?"""
        return self._out.telling

    def bundle(self, number: int, header: bytes, body: bytes) -> None:
        """Send a bundle that is on disk with its number. It waits here until the peer's window opens."""
        if self._phase.state is not State.UP and not self._phase.may_send(frames.Bundle):
            return
        self._check_size(header, body)
        self._out.bundle(number, header, body)

    def volatile(self, header: bytes, body: bytes) -> None:
        """Send a bundle that is neither stored nor numbered. Caller's duty: mind `buffered_bytes`."""
        if self._phase.may_send(frames.Volatile):
            self._check_size(header, body)
            self._out.volatile(header, body)

    def _check_size(self, header: bytes, body: bytes) -> None:
        size = len(header) + len(body)
        if size > self.largest_bundle or not 0 < len(header) <= bundles.MAX_HEADER:
            raise LocalError(
                f"a bundle of {size} bytes with a header of {len(header)}: {self._peer} takes"
                f" {self.largest_bundle} and headers of {bundles.MAX_HEADER} at most"
            )

    def hold(self, destination: str) -> None:
        """Ask the peer to keep what is for `destination` (text; '' = everything)."""
        if self._phase.may_send(frames.Hold):
            self._out.control(frames.Hold(destination))

    def release(self, destination: str) -> None:
        if self._phase.may_send(frames.Release):
            self._out.control(frames.Release(destination))

    def chain(self, chain: Sequence[str], above: Sequence[str] = ()) -> None:
        """Parent only. Names from this node up to the root, this one first; and who else is above it."""
        if self._phase.may_send(frames.Chain):
            self._out.control(frames.Chain(list(chain), list(above)))

    def mesh(self, members: Sequence[Member], left: Sequence[str] = ()) -> None:
        """The other nodes of our mesh, as we know them now, and who has left it for good."""
        if self._phase.may_send(frames.Mesh):
            self._out.control(frames.Mesh(list(members), list(left)))

    def authorities(self, certificates: bytes) -> None:
        """Parent only. Of the nodes of our mesh, in PEM; `MAX_AUTHORITIES` bytes at most."""
        if self._phase.may_send(frames.Authorities):
            self._out.control(frames.Authorities(certificates))

    def given(self, given: Sequence[tuple[bytes, bytes, bytes, int]], *, known: bool = False) -> None:
        """To a node of our mesh: at most 500 bundles that children may give back (16 bytes), or have (20
        to 52); of the first a bit for each message that they may, or nothing for all, and the reroutes that
        the bundle had then. `known`: it is no news, and told since the link is new.
        """
        if self._phase.may_send(frames.Given):
            plain = [(bundle, mark if len(mark) == DIGEST else b"") for bundle, mark, *_ in given]
            back = [mark for _, mark, *_ in given if len(mark) >= DIGEST_BACK]
            which = [which for _, mark, which, _ in given if len(mark) == DIGEST]
            since = [since for _, mark, _, since in given if len(mark) == DIGEST]
            self._out.control(frames.Given(plain, known, back, which, since))

    def moved(self, name: str) -> None:
        """Parent only. `name`, which is below the peer, is live elsewhere."""
        if self._phase.may_send(frames.Moved):
            self._out.control(frames.Moved(name))

    def conflict(self, name: str, text: str) -> None:
        """Parent only. `name` is live from two children; the later link to it is to be refused."""
        if self._phase.may_send(frames.Conflict):
            self._out.control(frames.Conflict(name, clean(text)))

    def who_has(self, keys: Sequence[str]) -> None:
        """Ask for names and incarnations, each as text; `PeerHas` and `PeerKnowsNobody` answer."""
        if self._phase.may_send(frames.WhoHas):
            self._after_routes(frames.WhoHas, keys)

    def i_have(self, found: Sequence[Whereabouts]) -> None:
        """Tell where nodes are. Overtakes no advice: who learns of a node below us has its route already."""
        if self._phase.may_send(frames.IHave):
            self._after_routes(frames.IHave, found)

    def invalidate(self, incarnations: Sequence[bytes]) -> None:
        """Take back what `i_have` said on this link of these."""
        if self._phase.may_send(frames.Invalidate):
            self._after_routes(frames.Invalidate, incarnations)

    def nobody(self, keys: Sequence[str], text: str) -> None:
        """Answer that nobody has these."""
        if self._phase.may_send(frames.Nobody):
            self._after_routes(lambda part: frames.Nobody(part, clean(text)), keys)

    def ask_interest(self, said: Sequence[tuple[str, bool]]) -> None:
        """Child only, of a parent that knows `INTEREST`: ask for a topic (True), or no more (False).

        `PeerTellsInterest` answers.
        """
        if self._phase.may_send(frames.AskInterest):
            self._say_of_topics(frames.AskInterest, (True, False), said)

    def tell_interest(self, said: Sequence[tuple[str, bool | None]]) -> None:
        """Parent only, of topics that the child asks for: wanted, not wanted, or not known now (None)."""
        if self._phase.may_send(frames.TellInterest):
            self._say_of_topics(frames.TellInterest, (True, False, None), said)

    def _say_of_topics(
        self, make: Callable[..., Frame], lists: tuple[bool | None, ...], said: Sequence[tuple[str, Any]]
    ) -> None:
        """As few frames as hold all of these: a list of topics for each of the words."""

        def frame(part: Sequence[tuple[str, Any]]) -> Frame:
            return make(*([topic for topic, word in part if word is each] for each in lists))

        for encoded in address_frames.split(frame, said, self._out.max_frame):
            self._out.raw(encoded)

    def _after_routes(self, make: Callable[[Any], Frame], items: Sequence[Any]) -> None:
        for encoded in address_frames.split(make, items, self._out.max_frame):
            self._out.after_routes(encoded)

    def grant(self, grants: Sequence[Grant]) -> None:
        """Parent only. All that limits what the peer may do; none at all: nothing does."""
        if self._phase.may_send(frames.Granted):
            for data, more in pieces(pack(grants), self._out.max_frame):
                self._out.control(frames.Granted(data, more))

    # --- streams

    def open_stream(self, to: str, name: str, origin: str, channel: bytes, hops: int) -> int:
        """Ask for a stream to what node `to` offers as `name`. Returns its number; see `streams.Streams`.

        Caller's duty: `streams.has_room`.
        """
        number = self._streams.begin()
        self._out.control(frames.StreamOpen(number, to, name, origin, channel, hops))
        return number

    def accept_stream(self, number: int) -> None:
        """What the peer asked for is there."""
        if self._streams.accept(number):
            self._out.control(frames.StreamOpened(number))

    def send_stream(self, number: int, data: Bytes) -> None:
        """Let these bytes follow, behind all else that the link has to say."""
        self._streams.send(number, data)
        self._out.wake()

    def finish_stream(self, number: int) -> None:
        """Nothing more follows on it; what the peer sends still comes."""
        self._streams.finish(number)
        self._out.wake()

    def reset_stream(self, number: int, reason: str, text: str) -> None:
        """It is over in both directions, whatever waits."""
        if self._phase.state is State.UP and self._streams.remove(number):
            self._out.control(frames.StreamReset(number, reason, clean(text)))

    def stream_passed(self, number: int, size: int) -> None:
        """So many bytes that came have been passed on, and as many more may come."""
        self._streams.passed(number, size)
        if self._streams.has_news:
            self._out.wake()

    # --- what is not taken

    def decline(self, keys: Sequence[Destination], text: str) -> None:
        """These advices or bundles are over a limit, or not the peer's to make."""
        if self._phase.may_send(frames.Declined):
            self._out.decline(keys, clean(text))
