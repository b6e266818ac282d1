"""Positions: what two neighbours agree on, and that no history of crashes and backups fools them."""

import copy
import dataclasses
from dataclasses import dataclass, field

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sapwood.protocol.errors import FrameError
from treeconnector.frames import Position
from treeconnector.positions import Resumption, agree, check, shown

SESSION = 77


def test_strangers_begin_at_zero() -> None:
    result = agree(Position(), Position(), SESSION)
    assert (result.epoch, result.peer_received, result.new_epoch, result.gap) == (0, 0, False, 0)
    assert result.position == Position(session=SESSION, met=shown(Position()))


def test_resume_tells_each_end_what_the_other_has() -> None:
    mine = Position(epoch=2, received=9, assigned=7, deleted=4, session=5, met=1)
    theirs = Position(epoch=2, received=6, assigned=12, deleted=9, session=5, met=2)
    result, mirrored = agree(mine, theirs, SESSION), agree(theirs, mine, SESSION)
    assert (result.new_epoch, result.peer_received, mirrored.peer_received) == (False, 6, 9)
    assert result.position == Position(2, 9, 7, 4, SESSION, shown(theirs))
    assert "up to 6" in result.text


@pytest.mark.parametrize(
    ("mine", "theirs", "here", "there", "text"),
    [
        (Position(1, 0, 5, 2), Position(1, 6, 0, 0), 0, 0, "6 bundles of ours and we know of 5"),
        (Position(1, 6, 0, 0), Position(1, 0, 5, 2), 0, 0, "which knows of 5: it lost state"),
        (Position(1, 3, 0, 0), Position(1, 0, 9, 7), 4, 0, "we confirmed 7 bundles"),
        (Position(1, 0, 9, 7), Position(1, 3, 0, 0), 0, 4, "the peer confirmed 7 bundles"),
        (Position(3, 5, 5, 5), Position(1, 5, 5, 5), 0, 5, "we are in epoch 3, the peer in 1"),
        (Position(1, 5, 5, 5, 8), Position(1, 5, 5, 5, 9), 0, 0, "two histories"),
        (Position(), Position(1, 4, 6, 6), 6, 0, "we are in epoch 0"),
    ],
)
def test_lost_state_begins_an_epoch(
    mine: Position, theirs: Position, here: int, there: int, text: str
) -> None:
    result, mirrored = agree(mine, theirs, SESSION), agree(theirs, mine, SESSION)
    assert (result.new_epoch, result.peer_received, result.lost_here, result.lost_there) == (
        True,
        0,
        here,
        there,
    )
    assert result.epoch == mirrored.epoch == max(mine.epoch, theirs.epoch) + 1
    assert result.gap == mirrored.gap == here + there
    assert dataclasses.astuple(Numbers.of(result.position)) == (0, 0, 0)
    assert text in result.text


def test_a_crash_before_the_first_change_under_a_session_is_no_loss() -> None:
    before = Position(1, 3, 5, 3, session=4)
    peer = agree(Position(1, 5, 3, 3, session=4), before, SESSION).position
    moved = msgspec.structs.replace(peer, assigned=6)
    assert not agree(before, moved, SESSION + 1).new_epoch
    assert not agree(moved, before, SESSION + 1).new_epoch


def test_an_epoch_that_one_side_did_not_enter_goes_on() -> None:
    mine, theirs = Position(1, 0, 5, 2, 4), Position(1, 9, 0, 0, 4)
    begun = agree(mine, theirs, SESSION).position
    working = msgspec.structs.replace(begun, assigned=3)
    result, other = agree(theirs, working, SESSION + 1), agree(working, theirs, SESSION + 1)
    assert (result.new_epoch, result.epoch, result.position.received, result.gap) == (True, 2, 0, 0)
    assert (other.new_epoch, other.epoch, other.position.assigned, other.gap) == (False, 2, 3, 0)


def test_the_newer_backup_after_the_older_is_noticed_though_all_numbers_fit() -> None:
    """Restored to `old`, one bundle on, then restored to `newer` of the first history."""
    old = Position(1, 0, 5, 3, session=4)
    newer = Position(1, 0, 8, 3, session=4)
    peer = Position(1, 5, 0, 0, session=4)
    peer = msgspec.structs.replace(agree(peer, old, SESSION).position, received=6)
    assert newer.deleted <= peer.received <= newer.assigned
    assert agree(newer, peer, SESSION + 1).new_epoch


@pytest.mark.parametrize(
    "position",
    [Position(epoch=-1), Position(received=-1), Position(assigned=1 << 62), Position(assigned=1, deleted=2)],
)
def test_impossible_accounts_are_refused(position: Position) -> None:
    with pytest.raises(FrameError, match="position"):
        check(position)


# --- a small model of two ends under crashes and restored backups


@dataclass
class Numbers:
    received: int
    assigned: int
    deleted: int

    @classmethod
    def of(cls, position: Position) -> "Numbers":
        return cls(position.received, position.assigned, position.deleted)


@dataclass
class Disk:
    """What one end has committed. `queue` waits unnumbered; `outbox` maps numbers to items."""

    position: Position = field(default_factory=Position)
    queue: list[int] = field(default_factory=list)
    outbox: dict[int, int] = field(default_factory=dict)
    stored: set[int] = field(default_factory=set)
    confirmed: set[int] = field(default_factory=set)
    reported: set[int] = field(default_factory=set)


@dataclass
class Side:
    disk: Disk = field(default_factory=Disk)
    backups: list[Disk] = field(default_factory=list)
    # of the connection, lost with it:
    up: bool = False
    pending: Resumption | None = None
    sent: int = 0

    def position(self) -> Position:
        """The account under the current session: entering is this end's first change under it."""
        assert self.pending
        if self.disk.position.session != self.pending.position.session:
            self.enter(self.pending)
        return self.disk.position

    def enter(self, resumption: Resumption) -> None:
        self.disk.position = resumption.position
        if resumption.new_epoch:
            self.disk.queue = [*self.disk.outbox.values(), *self.disk.queue]
            self.disk.outbox = {}

    def change(self, **numbers: int) -> None:
        self.disk.position = msgspec.structs.replace(self.position(), **numbers)

    def assign(self) -> None:
        number = self.position().assigned + 1
        self.disk.outbox[number] = self.disk.queue.pop(0)
        self.change(assigned=number)

    def discard(self, through: int, peer: "Side") -> None:
        """The peer has everything up to `through`, or so the protocol says."""
        for number in [number for number in self.disk.outbox if number <= through]:
            item = self.disk.outbox.pop(number)
            assert item in peer.disk.stored, f"discarded item {item} as known; the peer does not have it"
            self.disk.confirmed.add(item)
        self.change(deleted=max(through, self.disk.position.deleted))


class History(RuleBasedStateMachine):
    """Two ends, one connection at a time. Restores can be forbidden by a subclass."""

    def __init__(self) -> None:
        super().__init__()
        self.sides = (Side(), Side())
        self.session = 0
        self.item = 0
        self.epochs = 0

    which = st.integers(0, 1)

    @initialize()
    def begin(self) -> None:
        self.connect(True, True)

    def disconnect(self) -> None:
        for side in self.sides:
            side.up, side.pending = False, None

    @rule(first=st.booleans(), second=st.booleans())
    def connect(self, first: bool, second: bool) -> None:
        """A handshake; an end that is not `up` lost the line before it knew."""
        self.disconnect()
        self.session += 1
        a, b = self.sides
        shown_a, shown_b = a.disk.position, b.disk.position
        of_a, of_b = agree(shown_a, shown_b, self.session), agree(shown_b, shown_a, self.session)
        assert (of_a.epoch, of_a.lost_here, of_a.lost_there) == (of_b.epoch, of_b.lost_there, of_b.lost_here)
        assert of_a.new_epoch == (of_a.epoch != shown_a.epoch)
        self.epochs += of_a.new_epoch + of_b.new_epoch
        self._nothing_lost_silently(a, b, of_a)
        self._nothing_lost_silently(b, a, of_b)
        for side, peer, result, up in ((a, b, of_a, first), (b, a, of_b, second)):
            if up:
                side.up, side.pending, side.sent = True, result, result.peer_received
                if result.peer_received > side.disk.position.deleted:
                    side.discard(result.peer_received, peer)

    def _nothing_lost_silently(self, side: Side, peer: Side, result: Resumption) -> None:
        missing = side.disk.confirmed - peer.disk.stored - side.disk.reported
        if missing:
            assert result.new_epoch, f"items {missing} are gone and nobody says so"
            side.disk.reported |= missing

    @rule(which=which, given=st.integers(0, 3), taken=st.integers(0, 3), acks=st.integers(0, 2))
    def work(self, which: int, given: int, taken: int, acks: int) -> None:
        """Number some bundles, have some of what waits delivered, and some of that confirmed."""
        side = self.sides[which]
        if not any(each.up for each in self.sides):
            self.connect(True, True)
        for _ in range(given):
            self.item += 1
            side.disk.queue.append(self.item)
        while side.up and side.disk.queue and given:
            side.assign()
        for _ in range(taken):
            self.deliver(which, acks > 0)
            acks -= 1

    def deliver(self, which: int, settled: bool) -> None:
        """Send the next bundle; the other commits it, and perhaps its ack arrives."""
        side, peer = self.sides[which], self.sides[1 - which]
        if not (side.up and peer.up):
            return
        if side.pending and side.pending.new_epoch:
            side.position()  # the outbox is numbered again before anything is sent
        number = side.sent + 1
        if number in side.disk.outbox:
            side.sent = number
            assert peer.position().received == number - 1
            peer.disk.stored.add(side.disk.outbox[number])
            peer.change(received=number)
            if settled:
                side.discard(number, peer)

    @rule()
    def crash(self) -> None:
        self.disconnect()

    @rule(which=which)
    def back_up(self, which: int) -> None:
        self.sides[which].backups.append(copy.deepcopy(self.sides[which].disk))

    @precondition(lambda self: any(side.backups for side in self.sides))
    @rule(which=which, choice=st.integers(0, 9))
    def restore(self, which: int, choice: int) -> None:
        side = self.sides[which]
        if side.backups:
            self.disconnect()
            side.disk = copy.deepcopy(side.backups[choice % len(side.backups)])

    @invariant()
    def numbers_describe_the_outbox(self) -> None:
        for side in self.sides:
            position = side.disk.position
            assert set(side.disk.outbox) == set(range(position.deleted + 1, position.assigned + 1))

    def teardown(self) -> None:
        """Whatever happened: once both are up and drained, each has all that the other holds."""
        self.connect(True, True)
        for which in (0, 1):
            side, peer = self.sides[which], self.sides[1 - which]
            side.position()
            while side.disk.queue:
                side.assign()
            held = set(side.disk.outbox.values())
            while side.sent < side.position().assigned:
                self.deliver(which, False)
            assert held <= peer.disk.stored


class Crashes(History):
    """Without restored backups nothing is ever lost, and no epoch begins."""

    @rule(which=History.which, choice=st.integers(0, 9))
    def restore(self, which: int, choice: int) -> None:
        pass

    @invariant()
    def no_epoch_begins(self) -> None:
        assert self.epochs == 0


TestHistory = pytest.mark.timeout(120)(History.TestCase)
TestHistory.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
TestCrashes = Crashes.TestCase
TestCrashes.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
