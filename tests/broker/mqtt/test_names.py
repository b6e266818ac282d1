"""Where a client of the door wants its answers, and where it answers."""

import pytest

from broker.mqtt.names import DoorNames

NAMES = DoorNames("queue/", "hq")


@pytest.mark.parametrize(
    ("topic", "reply_to"),
    [
        ("queue/answers", "answers@hq"),
        ("queue/answers@york", "answers@york"),
        ("queue/amq.rabbitmq.reply-to.a/b%2B%23=@york", "amq.rabbitmq.reply-to.a/b+#=@york"),
        ("queue/a%252Bb%2B@hq", "a%2Bb+@hq"),
        ("answers/1", "topic:answers/1"),
    ],
)
def test_answers_find_their_way_back(topic: str, reply_to: str) -> None:
    assert NAMES.reply_from(topic) == reply_to
    assert NAMES.reply_to(reply_to) == topic
