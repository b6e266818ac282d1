"""Who asks at a Mosquitto reads his response topic from then on."""

from typing import Any, cast

import pytest

from bridges.site_brokers.mosquitto import replies
from bridges.site_brokers.mosquitto.replies import ResponseTopics
from sapwood.protocol.destinations import parse
from treeconnector.edge import BrokerConsumer


class Told:
    """A desk that writes down who came and went."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def came(self, consumer: BrokerConsumer) -> None:
        self.events.append(f"+{consumer.destination}")

    def went(self, consumer: BrokerConsumer) -> None:
        self.events.append(f"-{consumer.destination}")


async def test_who_asks_twice_comes_once_and_the_one_not_heard_of_for_longest_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replies, "MOST", 2)
    desk = Told()
    waiting = ResponseTopics(cast("Any", desk))
    for name in ("a", "b", "a", "c"):
        waiting.asked(parse(f"topic:{name}"), told=True)
    assert desk.events == ["+topic:a", "+topic:b", "+topic:c", "-topic:b"]
    assert [str(each.destination) for each in waiting.consumers()] == ["topic:a", "topic:c"]
    waiting.over(parse("topic:a"))
    waiting.over(parse("topic:a"))
    assert desk.events[4:] == ["-topic:a"]
    waiting.end()


async def test_the_log_has_its_word_on_topics_but_tells_of_no_plain_reader_of_a_queue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replies, "HEARD", 0.0)
    desk = Told()
    waiting = ResponseTopics(cast("Any", desk))
    waiting.asked(parse("queue:q@york"), told=True)
    waiting.asked(parse("topic:untold"), told=False)
    waiting.asked(parse("topic:told"), told=True)
    while len(desk.events) < 4:
        await replies.asyncio.sleep(0)
    assert desk.events[3] == "-topic:told"
    assert parse("queue:q@york") in waiting
    assert parse("topic:untold") in waiting
    waiting.end()
