"""What many nodes said becomes one story: in the order of the way, by clocks that cannot contradict it."""

from typing import Any

import pytest

from broker.cells.timeline import channel_story, iso, message_story, task_story
from broker.cells.walk import Found, Passage, WalkEvent, WalkSaid

ID = f"{'ab' * 16}-0"
SECOND = 1_000_000
T = 1_000_000 * SECOND


def event(at: int, kind: str, neighbour: str = "", **more: Any) -> WalkEvent:
    return WalkEvent(at=T + at, kind=kind, neighbour=neighbour, **more)


def way(offset: int = 0) -> dict[str, Passage]:
    """From hq over north to york; `offset`: how wrong north's clock is, in microseconds."""
    return {
        "york": Passage(
            came=["north"],
            events=[event(70, "arrived", "north"), event(80, "delivered"), event(90, "dealt_with")],
        ),
        "north": Passage(
            came=["hq"],
            went=["york"],
            events=[
                event(offset + 30, "arrived", "hq"),
                event(offset + 40, "committed"),
                event(offset + 50, "sent", "york"),
                event(offset + 100, "acknowledged", "york"),
            ],
        ),
        "hq": Passage(
            destination="queue:prices",
            origin="hq",
            went=["north"],
            events=[
                event(0, "entered", session="abcd…", correlation_id=7, task_id="t"),
                event(10, "committed"),
                event(20, "sent", "north"),
                event(60, "acknowledged", "north"),
            ],
        ),
    }


def found(passages: dict[str, Passage], clocks: dict[str, int] | None = None, **more: Any) -> Found:
    """As if each had been asked at T+1 s and answered 10 ms later; `clocks`: how wrong they are."""
    asked = T + SECOND
    result = Found(**more)
    for node, passage in passages.items():
        now = asked + 5000 + (clocks or {}).get(node, 0)
        result.answers[node] = [(asked, WalkSaid(node, now, {ID: passage}), asked + 10_000)]
    return result


def story(passages: dict[str, Passage], clocks: dict[str, int] | None = None, **more: Any) -> dict[str, Any]:
    return message_story(ID, found(passages, clocks, **more))


def test_hops_come_in_the_order_of_the_way_with_times_since_the_first() -> None:
    told = story(way())
    assert [hop["node"] for hop in told["hops"]] == ["hq", "north", "york"]
    assert (told["destination"], told["origin"], told["complete"]) == ("queue:prices", "hq", True)
    hq, north, york = told["hops"]
    assert hq["ms"] == {"arrived": 0.0, "committed": 0.01, "sent": 0.02, "acknowledged": 0.06}
    assert (north["came"], north["to"]) == ("hq", ["york"])
    assert york["ms"] == {"arrived": 0.07, "delivered": 0.08, "dealt_with": 0.09}
    assert york["committed"] is None
    assert hq["arrived"] == iso(T) == hq["events"][0]["at"]
    assert all(hop["clock_shifted_s"] == 0 for hop in told["hops"])


@pytest.mark.parametrize("wrong", [3600 * SECOND, -3600 * SECOND, -T])
def test_a_clock_that_is_wrong_shows_in_the_answer_and_is_corrected(wrong: int) -> None:
    told = story(way(wrong), {"north": wrong})
    assert [hop["node"] for hop in told["hops"]] == ["hq", "north", "york"]
    assert told["hops"][1]["clock_shifted_s"] == pytest.approx(-wrong / 1e6)
    assert told["hops"][1]["ms"] == {"arrived": 0.03, "committed": 0.04, "sent": 0.05, "acknowledged": 0.1}


@pytest.mark.parametrize("wrong", [-2000, 2000])
def test_a_clock_that_is_a_little_wrong_is_corrected_by_what_cannot_be(wrong: int) -> None:
    """An answer's time shows nothing below the time that the question took."""
    told = story(way(wrong), {"north": wrong})
    hq, north, _ = told["hops"]
    assert hq["ms"]["sent"] <= north["ms"]["arrived"] <= hq["ms"]["acknowledged"]
    assert north["clock_shifted_s"] == pytest.approx(-wrong / 1e6, abs=0.0001)


def test_clocks_that_do_not_contradict_each_other_are_left_alone() -> None:
    told = story(way(5), {"north": 5})
    assert told["hops"][1]["ms"]["arrived"] == 0.035


def test_what_is_still_on_its_way_is_not_complete() -> None:
    passages = way()
    passages["york"].events.pop()
    assert not story(passages)["complete"]


def test_a_node_that_does_not_remember_is_named() -> None:
    passages = way()
    del passages["york"]
    told = story(passages)
    assert (told["unknown_at"], told["complete"]) == (["york"], False)


def test_a_node_that_does_not_answer_is_named_with_the_reason() -> None:
    passages = way()
    del passages["york"]
    told = story(passages, unreachable={"york": "no answer"}, down={"york": "its link is down"})
    assert (told["unreachable"], told["unknown_at"], told["complete"]) == (["york"], [], False)
    assert told["why"] == {"york": "no answer; its link is down"}


def test_nothing_known_is_no_hop_and_not_complete() -> None:
    told = story({})
    assert (told["hops"], told["complete"]) == ([], False)


@pytest.mark.parametrize(
    ("last", "complete"), [("dead", True), ("expired", True), ("dropped", True), ("sent", False)]
)
def test_a_message_also_ends_by_dying(last: str, complete: bool) -> None:
    passages = {"hq": Passage(events=[event(0, "entered"), event(1, last)])}
    assert story(passages)["complete"] is complete


def test_a_node_that_tells_a_channel_without_an_event_breaks_no_story() -> None:
    told = channel_story(ID, found({"hq": Passage(origin="hq"), "york": Passage(events=[event(1, "over")])}))
    assert (len(told["hops"]), told["complete"]) == (2, False)


def test_a_task_is_one_timeline_with_what_is_known_of_each_message() -> None:
    told = task_story("t", found(way(), task="t", of_task={ID: None}))
    assert [entry["ms"] for entry in told["events"]] == sorted(entry["ms"] for entry in told["events"])
    assert len(told["events"]) == 11
    assert {(entry["message"], entry["correlation_id"]) for entry in told["events"]} == {(ID, 7)}
    first, last = told["events"][0], told["events"][-1]
    assert (first["node"], first["kind"], first["session"]) == ("hq", "entered", "abcd…")
    assert (last["node"], last["kind"], last["neighbour"]) == ("north", "acknowledged", "york")


def test_a_time_that_no_calendar_has_is_left_out() -> None:
    assert iso(10**30) == ""
    assert iso(0) == "1970-01-01T00:00:00.000000Z"
