"""What tells that RabbitMQ gives again what was taken before: id, place, content, and who gave it last."""

import pika

from bridges.amqp.frames import Incoming
from bridges.site_brokers.rabbitmq.messages import MARK, mark, taken_from_queue


def key_of(body: bytes = b"M", queue: str = "q", **headers: object) -> str:
    properties = pika.BasicProperties(message_id="m1", headers=headers or None)
    incoming = Incoming(1, "", queue, True, properties, body)
    return taken_from_queue(queue, incoming, lambda reply: reply).key


def test_the_same_message_has_the_same_key() -> None:
    assert key_of() == key_of()


def test_another_content_or_place_under_the_same_id_is_another_message() -> None:
    assert len({key_of(), key_of(b"N"), key_of(queue="other")}) == 3


def test_what_a_node_gave_back_to_the_queue_is_another_message_each_time() -> None:
    first, second = ({MARK: mark("hq", 1, "", "q", visit)} for visit in ("a1", "b2"))
    assert len({key_of(), key_of(**first), key_of(**second)}) == 3
