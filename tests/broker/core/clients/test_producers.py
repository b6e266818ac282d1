"""Whatever enters can be read by every later hop, and by the node itself when it starts again."""

import pytest

from sapwood.protocol import bundles
from sapwood.protocol.bundles import MAX_NAME, MOST_NUMBER, Message, Properties
from sapwood.protocol.destinations import parse
from sapwood.protocol.session_frames import Send
from simulation.forest import Forest


@pytest.mark.parametrize("expires_in", [MOST_NUMBER + 1, 1 << 62, (1 << 64) - 1])
def test_a_time_that_no_header_can_say_is_rejected_and_its_neighbours_come(
    forest: Forest, expires_in: int
) -> None:
    """It came through the entry; no link would bring it, and the node did not start any more."""
    hq, _ = forest.add("hq"), forest.add("york", "hq")
    forest.dial_all()
    reader, producer = forest.consumer("york", "queue:prices"), forest.producer("hq")
    forest.settle()
    producer.send("queue:prices", b"before")
    body = bundles.encode_message(Message(b"never", Properties(expires_in=expires_in)))
    producer.say(Send(2, parse("queue:prices"), 1, body))
    producer.number += 1
    producer.send("queue:prices", b"after", expires_in=MOST_NUMBER)
    producer.send("queue:kept", b"kept", expires_in=MOST_NUMBER)
    forest.settle()
    assert reader.payloads == [b"before", b"after"]
    assert [(each.first, each.code) for each in producer.rejected] == [(2, "BAD_REQUEST")]
    hq.crash()
    hq.boot()
    forest.settle()
    assert hq.waiting() == 1


@pytest.mark.parametrize("letter", ["a", "é", "\U0001f600"])
def test_a_topic_that_no_header_can_say_is_rejected_whatever_the_file_allows(
    forest: Forest, letter: str
) -> None:
    hq = forest.add("hq", max_filter_length=65_535)
    producer = forest.producer("hq")
    most = MAX_NAME // len(letter.encode())
    producer.send("topic:" + letter * most, b"kept", retained=True)
    producer.send("topic:" + letter * (most + 1), b"never", retained=True)
    forest.settle()
    assert [(each.first, each.code) for each in producer.rejected] == [(2, "BAD_REQUEST")]
    hq.crash()
    hq.boot()
    forest.settle()
    assert len(hq.core.topics.retained) == 1


def test_the_longest_name_of_a_topic_leaves_a_header_room() -> None:
    assert bundles.MAX_HEADER >= 2 * MAX_NAME - 512
