"""`sapwood trace`: what people read, and what is said when nobody knows or somebody did not answer."""

from typing import Any

import pytest

from broker.cli import trace
from broker.cli.errors import CommandError
from broker.cli.node_api import NodeApi

ID = f"{'ab' * 16}-0"
AT = "2026-03-01T12:00:00.000000Z"


def event(kind: str, ms: float, **more: Any) -> dict[str, Any]:
    return {"at": AT, "kind": kind, "ms": ms, **more}


def hop(node: str, came: str, to: list[str], *events: dict[str, Any], off: float = 0.0) -> dict[str, Any]:
    ms = {each["kind"]: each["ms"] for each in events}
    return {"node": node, "came": came, "to": to, "ms": ms, "events": [*events], "clock_shifted_s": off}


STORY: dict[str, Any] = {
    "id": ID,
    "destination": "queue:prices",
    "origin": "hq",
    "complete": True,
    "hops": [
        hop("hq", "", ["york"], event("entered", 0.0, session="till…12"), event("sent", 1.5)),
        hop("york", "hq", [], event("arrived", 2.0), event("dealt_with", 9.25)),
    ],
    "unreachable": [],
    "refused": [],
    "unknown_at": [],
    "why": {},
    "not_asked": 0,
}


class Node:
    """Answers with what a test sets; remembers the path it was asked for."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self.answer = answer
        self.path = ""

    def ask(self, url: str, path: str, **_: Any) -> Any:
        self.path = path
        return self.answer


def show(
    monkeypatch: pytest.MonkeyPatch,
    answer: dict[str, Any],
    message: str = ID,
    task: str = "",
    channel: str = "",
    as_json: bool = False,
) -> Node:
    node = Node(answer)
    monkeypatch.setattr(trace, "ask", node.ask)
    trace.show_trace(NodeApi("http://hq"), message, task, channel, as_json=as_json)
    return node


def test_a_messages_hops_are_a_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert show(monkeypatch, STORY).path == f"/api/trace/message/{ID}"
    output = capsys.readouterr().out
    assert f"message {ID} for queue:prices · entered at hq · complete" in output
    rows = [line.split() for line in output.splitlines() if line.strip().startswith(("hq", "york"))]
    assert rows == [["hq", "till…12", "1.500", "york"], ["york", "hq", "2.000", "9.250"]]


def test_a_channels_hops_are_a_table_with_the_reasons_below(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def passed(node: str, came: str, to: str, ms: dict[str, float], **more: Any) -> dict[str, Any]:
        plain = {"there": 0, "back": 0, "ended": "", "reason": "", "clock_shifted_s": 0.0}
        events = [event(kind, at) for kind, at in ms.items()]
        return plain | {"node": node, "came": came, "to": to, "ms": ms, "events": events} | more

    story = {
        "channel": "ab" * 16,
        "destination": "till@york",
        "origin": "hq",
        "complete": False,
        "hops": [
            passed("hq", "", "york", {"opening": 0.0, "open": 3.0}, there=5, back=7),
            passed("york", "hq", "", {"opening": 1.0, "broken": 4.5}, ended="broken", reason="it went\x1b"),
        ],
    }
    assert show(monkeypatch, story, "", channel="till@york").path == "/api/trace/channel/till%40york"
    output = capsys.readouterr().out
    assert f"channel {'ab' * 16} from hq to till@york · not complete" in output
    rows = [line.split() for line in output.splitlines() if line.startswith(("  hq", "  york"))]
    assert rows == [
        ["hq", "york", "0.000", "3.000", "5", "7"],
        ["york", "hq", "1.000", "4.500", "broken", "0", "0"],
    ]
    assert "york: broken: it went·" in output


def test_whoever_did_not_answer_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = {"unreachable": ["york"], "refused": ["bath"], "unknown_at": ["leeds"], "not_asked": 3}
    show(monkeypatch, STORY | missing | {"why": {"york": "it is down", "bath": "it says no"}})
    output = capsys.readouterr().out
    assert "no answer from york: it is down" in output
    assert "refused by bath: it says no" in output
    assert "leeds does not remember it" in output
    assert "not looked at: 3 more, nodes or messages" in output


def test_what_is_out_of_the_ordinary_stands_below_with_its_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    died = hop("hq", "", [], event("entered", 0.0), event("expired", 5.0, reason="EXPIRED"), off=-3600.0)
    show(monkeypatch, STORY | {"hops": [died]})
    output = capsys.readouterr().out
    assert "hq: expired at 5.000 ms: EXPIRED" in output
    assert "hq: its clock is +3600.000 s off, its times are corrected" in output


def test_a_task_is_a_timeline(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    told = {
        "task": "a/b",
        "messages": [ID],
        "events": [
            event("entered", 0.0, node="hq", queue="prices", message=ID, correlation_id=0, session="till…12")
        ],
        "unreachable": [],
        "refused": [],
        "why": {},
        "not_asked": 0,
    }
    assert show(monkeypatch, told, "", "a/b").path == "/api/trace/task/a%2Fb"
    output = capsys.readouterr().out
    assert "task a/b · 1 message ·" in output
    assert ["0.000", "hq", "entered", "prices", "#1", "0", "till…12"] in [
        line.split() for line in output.splitlines()
    ]
    assert f"#1 {ID}" in output


def test_json_is_what_the_node_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    show(monkeypatch, STORY, as_json=True)
    assert capsys.readouterr().out.startswith('{"id":"abab')


@pytest.mark.parametrize("as_json", [True, False])
def test_what_nobody_knows_is_a_failure_that_names_who_is_missing(
    monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    unknown = STORY | {"hops": [], "unreachable": ["york"], "why": {"york": "it is down"}}
    with pytest.raises(CommandError, match=r"no node that was asked knows .*york: it is down") as error:
        show(monkeypatch, unknown, as_json=as_json)
    assert error.value.exit_code == 1


@pytest.mark.parametrize(("message", "task"), [("", ""), (ID, "t")])
def test_one_of_message_and_task(monkeypatch: pytest.MonkeyPatch, message: str, task: str) -> None:
    with pytest.raises(CommandError, match="one of these") as error:
        show(monkeypatch, STORY, message, task)
    assert error.value.exit_code == 2
