"""Where a client of the door wants its answers, and where it answers."""

import pytest

from bridges.mqtt.fields import PacketError
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


@pytest.mark.parametrize(
    "name", ["queue/+", "queue/#", "queue/a+b", "queue/orders/#", "queue/+@york", "a/+", "#"]
)
def test_nobody_publishes_to_a_pattern_nor_leaves_a_will_there(name: str) -> None:
    with pytest.raises(PacketError, match="expected no wildcard"):
        NAMES.destination(name)
