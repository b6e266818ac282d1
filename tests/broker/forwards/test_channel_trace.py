"""The trace of channels: bounded, one place each, and nobody hides another one's."""

from typing import Any

from broker.core.neighbours.channels import Channel
from broker.forwards.channel_trace import RECORDS_OF_ONE, ChannelTrace
from broker.forwards.local_end import LocalEnd


class Link:
    """A side at a neighbour."""

    def __init__(self, via: str) -> None:
        self.via = via


def channel(number: int = 1, near: Any = None, since: float = 1.0) -> Channel:
    made = Channel(bytes([number]) * 16, "york", "till", "hq", near or Link("hq"), since)
    made.far = Link("york")  # type: ignore[assignment]
    return made


def number(of: int) -> str:
    return f"{of:02x}" * 16


def test_a_channel_is_told_of_from_its_opening_to_its_end() -> None:
    trace, one = ChannelTrace(80), channel()
    trace.told("open", one, 2.0)
    one.there, one.back = 5, 7
    story = trace.of(number(1), [one])
    assert story is not None
    assert (story.came, story.went, story.there, story.back) == ("hq", "york", 5, 7)
    assert story.events == [("opening", 1.0), ("open", 2.0)]
    one.why = "it broke" + "!" * 1000
    trace.told("broken", one, 3.0)
    ended = trace.of(number(1), [])
    assert ended is not None
    assert ended.events[-1] == ("broken", 3.0)
    assert ended.why.startswith("it broke")
    assert len(ended.why) == 320


def test_one_that_was_not_answered_yet_is_known() -> None:
    trace, one = ChannelTrace(80), channel()
    story = trace.of(number(1), [one])
    assert story is not None
    assert story.events == [("opening", 1.0)]
    assert trace.of(number(2), [one]) is None
    assert trace.latest("till", "york", [one]) == number(1)
    assert trace.latest("till", "bath", [one]) == ""


def test_an_end_at_this_node_is_no_neighbour() -> None:
    end = LocalEnd.__new__(LocalEnd)
    trace, one = ChannelTrace(80), channel(near=end)
    one.far = None
    trace.told("refused", one, 2.0)
    story = trace.of(number(1), [])
    assert story is not None
    assert (story.came, story.went) == ("", "")


def test_the_number_of_another_one_hides_nothing() -> None:
    trace, one, other = ChannelTrace(80), channel(), channel(near=Link("south"))
    trace.told("open", one, 2.0)
    trace.told("refused", other, 3.0)
    trace.told("over", one, 4.0)
    story = trace.of(number(1), [])
    assert story is not None
    assert (story.came, [kind for kind, _ in story.events]) == ("hq", ["opening", "open", "over"])


def test_the_oldest_go() -> None:
    trace = ChannelTrace(2 * RECORDS_OF_ONE)
    for each in (1, 2, 3):
        trace.told("refused", channel(each, since=float(each)), each + 0.5)
    assert [trace.of(number(each), []) is not None for each in (1, 2, 3)] == [False, True, True]
    assert trace.latest("till", "york", []) == number(3)
    assert repr(trace) == "<ChannelTrace 2 of 2 channels, 0 open>"


def test_nothing_is_kept_where_nothing_is_to_be_traced() -> None:
    trace, one = ChannelTrace(0), channel()
    trace.told("open", one, 2.0)
    assert (trace.of(number(1), []), repr(trace)) == (None, "<ChannelTrace 0 of 0 channels, 0 open>")


def test_one_that_is_open_is_known_after_many_others() -> None:
    trace, one = ChannelTrace(RECORDS_OF_ONE), channel()
    trace.told("open", one, 2.0)
    for each in (2, 3):
        trace.told("refused", channel(each, since=float(each)), each + 0.5)
    story = trace.of(number(1), [one])
    assert story is not None
    assert story.events == [("opening", 1.0), ("open", 2.0)]
    trace.told("broken", one, 4.0)
    ended = trace.of(number(1), [])
    assert ended is not None
    assert [kind for kind, _ in ended.events] == ["opening", "open", "broken"]
