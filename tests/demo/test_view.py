"""What the demo shows, from scenes that are made here."""

import io

import pytest
from rich.console import Console

from broker.cli.demo.ledger import Ledger
from broker.cli.demo.plan import read_chain
from broker.cli.demo.processes import Status
from broker.cli.demo.view import LiveView, PlainView, Scene, draw, make_view, state_of

CHAIN = read_chain()
RUNNING: Status = {"role": "leaf", "parent": {"state": "running"}}
ALONE: Status = {"role": "branch", "parent": {"state": "down"}}


def scene(status: Status | None = RUNNING) -> Scene:
    made = Scene(CHAIN, Ledger({"none": []}), clock=lambda: 12.0, started=10.0)
    made.statuses = {place.name: status for place in CHAIN.places}
    return made


def test_the_tree_shows_every_node_once() -> None:
    console = Console(width=100, file=io.StringIO(), record=True)
    console.print(draw(scene()))
    text = console.export_text()
    assert all(text.count(f"{place.name} ") == 1 for place in CHAIN.places)
    assert "0 sent · 0 delivered · 0 on their way" in text


@pytest.mark.parametrize(
    ("status", "change", "words"),
    [
        (RUNNING, {}, "running"),
        (None, {}, "starting"),
        (None, {"stopping": True}, "stopped"),
        (ALONE, {}, "connecting"),
        (ALONE, {"line_cut": True}, "line to HQ is cut"),
        (RUNNING, {"killed": {CHAIN.region.name}}, "killed"),
    ],
)
def test_a_node_s_state_in_words(status: Status | None, change: dict[str, object], words: str) -> None:
    made = scene(status)
    for name, value in change.items():
        setattr(made, name, value)
    assert state_of(made, CHAIN.region)[0] == words


def test_without_a_terminal_events_are_lines() -> None:
    console = Console(file=io.StringIO(), record=True, width=100)
    view = make_view(scene(), console)
    assert isinstance(view, PlainView)
    with view:
        view.say("store york is killed")
        view.update()
        view.update()
    assert console.export_text().splitlines() == [
        "  2.0 s  store york is killed",
        "  2.0 s  0 sent · 0 delivered · 0 on their way",
    ]


def test_on_a_terminal_the_tree_is_drawn_in_place() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=100, record=True)
    view = make_view(scene(), console)
    assert isinstance(view, LiveView)
    with view:
        view.say("store york is killed")
    assert "store york is killed" in console.export_text()
