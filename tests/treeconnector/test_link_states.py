"""The table of legal moves, and its diagram in the documentation."""

from pathlib import Path

import pytest

from treeconnector import frame_events, frames
from treeconnector.link import Link
from treeconnector.link_states import (
    DECISIONS,
    MOVES,
    RECEIVABLE_BY_CHILD,
    RECEIVABLE_BY_PARENT,
    State,
    diagram,
)

DOCUMENT = Path(__file__).parents[2] / "docs" / "link.md"


def test_the_diagram_in_the_documentation_is_current():
    text = DOCUMENT.read_text()
    found = text.split("```mermaid\n")[1].split("```")[0]
    assert found == diagram(), "put what link_states.diagram() returns into docs/link.md"


@pytest.mark.parametrize("table", [RECEIVABLE_BY_CHILD, RECEIVABLE_BY_PARENT])
def test_every_frame_is_legal_somewhere_and_nothing_after_the_end(table):
    everywhere = {frame for moves in table.values() for frame in moves}
    missing = {frame for frame in frames.AnyFrame.__args__ if frame not in everywhere}
    down_only = {
        frames.Chain,
        frames.Moved,
        frames.Conflict,
        frames.Granted,
        frames.Authorities,
        frames.TellInterest,
    }
    assert missing == ({frames.AskInterest} if table is RECEIVABLE_BY_CHILD else down_only)
    assert table[State.ENDED] == {}


def test_no_move_stands_twice():
    keys = [(move.state, move.frame, move.sender) for move in MOVES]
    assert len(set(keys)) == len(keys)


def test_every_frame_has_a_handler_and_every_decision_a_method():
    read_with_the_packet = frames.Bundle
    others = {*frame_events._READ, *frame_events._TAKEN, *frame_events._STREAMED, read_with_the_packet}
    assert {*Link._handlers, *others} == {*frames.AnyFrame.__args__, frames.Unknown}
    for decision in DECISIONS:
        assert callable(getattr(Link, decision.call))
