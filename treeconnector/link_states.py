"""Which frame is legal when: the link's one table, where one end stands in it, and the diagram made from it.

Law: what is not in `MOVES` is a `SequenceError` when the peer does it and a `LocalError` when we do.
`docs/link.md` holds `diagram()`; a test keeps it current.
"""

from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

from sapwood.protocol.errors import LocalError
from treeconnector import frames


class State(StrEnum):
    """Where a link is. The child dials, the parent accepts."""

    GREETING = "greeting"  # nothing known: waiting for the peer's Hello
    CHOOSING = "choosing"  # the peer's Hello is known: this node must accept or refuse
    PROVING = "proving"  # waiting for the peer's proof
    ADMITTING = "admitting"  # the child has proved itself: the parent must admit or refuse
    UP = "up"
    ENDED = "ended"


class Sender(StrEnum):
    CHILD = "child"
    PARENT = "parent"
    EITHER = "either"


FrameType = type[msgspec.Struct]


class Move(NamedTuple):
    """In `state`, a link may receive `frame` if `sender` sent it, and goes to `then`."""

    state: State
    frame: FrameType
    sender: Sender
    then: State


class Decision(NamedTuple):
    """In `state`, this node may decide by calling `call`, and the link goes to `then`."""

    state: State
    call: str
    by: Sender
    then: State


_WHILE_UP = (
    frames.Ping,
    frames.Pong,
    frames.Advise,
    frames.SnapshotBegin,
    frames.SnapshotEnd,
    frames.Bundle,
    frames.Part,
    frames.Volatile,
    frames.Ack,
    frames.Hold,
    frames.Release,
    frames.Declined,
    frames.WhoHas,
    frames.IHave,
    frames.Invalidate,
    frames.Nobody,
    frames.Mesh,
    frames.Given,
    frames.StreamOpen,
    frames.StreamOpened,
    frames.StreamData,
    frames.StreamCredit,
    frames.StreamEnd,
    frames.StreamReset,
)
_WHILE_UP_FROM_PARENT = (
    frames.Chain,
    frames.Moved,
    frames.Conflict,
    frames.Granted,
    frames.Authorities,
    frames.TellInterest,
)
_WHILE_UP_FROM_CHILD = (frames.AskInterest,)
_AFTER_HELLO = (State.CHOOSING, State.PROVING, State.ADMITTING, State.UP)

MOVES: Final = (
    Move(State.GREETING, frames.Hello, Sender.EITHER, State.CHOOSING),
    Move(State.PROVING, frames.Prove, Sender.CHILD, State.ADMITTING),
    Move(State.PROVING, frames.Prove, Sender.PARENT, State.UP),
    *(Move(State.UP, frame, Sender.EITHER, State.UP) for frame in _WHILE_UP),
    *(Move(State.UP, frame, Sender.PARENT, State.UP) for frame in _WHILE_UP_FROM_PARENT),
    *(Move(State.UP, frame, Sender.CHILD, State.UP) for frame in _WHILE_UP_FROM_CHILD),
    Move(State.UP, frames.Pause, Sender.EITHER, State.ENDED),
    Move(State.UP, frames.Goodbye, Sender.EITHER, State.ENDED),
    Move(State.GREETING, frames.Refuse, Sender.EITHER, State.ENDED),
    *(Move(state, frames.Refuse, Sender.EITHER, State.ENDED) for state in _AFTER_HELLO),
    *(Move(state, frames.Unknown, Sender.EITHER, state) for state in _AFTER_HELLO),
)

DECISIONS: Final = (
    Decision(State.CHOOSING, "accept", Sender.EITHER, State.PROVING),
    Decision(State.ADMITTING, "admit", Sender.PARENT, State.UP),
    *(Decision(state, "refuse", Sender.EITHER, State.ENDED) for state in State if state != State.ENDED),
)


def receivable(by_child: bool) -> dict[State, dict[FrameType, State]]:
    """For each state: the frames that this end may receive, and the state that follows."""
    senders = (Sender.EITHER, Sender.PARENT if by_child else Sender.CHILD)
    table: dict[State, dict[FrameType, State]] = {state: {} for state in State}
    for move in MOVES:
        if move.sender in senders:
            table[move.state][move.frame] = move.then
    return table


RECEIVABLE_BY_CHILD: Final = receivable(by_child=True)
RECEIVABLE_BY_PARENT: Final = receivable(by_child=False)


class Phase:
    """In which state one end of a link is, and which frames may come and go there.

    `dials`: it is the child's end. `legal`: the frames that may come now, each with the state that follows.
    """

    __slots__ = ("_after", "_theirs", "legal", "state")

    def __init__(self, *, dials: bool) -> None:
        self._after = RECEIVABLE_BY_CHILD if dials else RECEIVABLE_BY_PARENT
        self._theirs = RECEIVABLE_BY_PARENT if dials else RECEIVABLE_BY_CHILD
        self.enter(State.GREETING)

    def __repr__(self) -> str:
        return f"<Phase {self.state} of the {'child' if self._after is RECEIVABLE_BY_CHILD else 'parent'}>"

    def enter(self, state: State) -> None:
        self.state = state
        self.legal = self._after[state]

    def illegal(self, kind: FrameType) -> str:
        """The words for a frame that may not come now."""
        expected = ", ".join(sorted(each.__name__ for each in self.legal if each is not frames.Unknown))
        return f"a {kind.__name__} frame while {self.state}: expected {expected}"

    def may_send(self, kind: FrameType) -> bool:
        """May this end send such a frame now? False: the link has ended and it does not matter.

        Raises `LocalError`: it may not.
        """
        if self.state is State.ENDED:
            return False
        if self.state is not State.UP or kind not in self._theirs[State.UP]:
            raise LocalError(f"cannot send a {kind.__name__} frame: {self!r}")
        return True


def diagram() -> str:
    """The table as a Mermaid state diagram; loops of one state are one arrow."""
    lines = ["stateDiagram-v2", "    [*] --> greeting"]
    for (state, sender, then), names in _arrows().items():
        who = "" if sender == Sender.EITHER else f" from {sender}"
        lines.append(f"    {state} --> {then}: {', '.join(names)}{who}")
    for decision in DECISIONS:
        who = "" if decision.by == Sender.EITHER else f" ({decision.by})"
        lines.append(f"    {decision.state} --> {decision.then}: we {decision.call}{who}")
    return "\n".join([*lines, "    ended --> [*]"]) + "\n"


def _arrows() -> dict[tuple[State, Sender, State], list[str]]:
    arrows: dict[tuple[State, Sender, State], list[str]] = {}
    for move in MOVES:
        arrows.setdefault((move.state, move.sender, move.then), []).append(move.frame.__name__)
    return arrows
