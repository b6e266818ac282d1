"""A session's quota holds where its messages wait; a full queue elsewhere makes them wait here."""

from broker.core.settings import CoreSettings, QueuePolicy
from simulation.forest import Forest

QUOTA, ROOM = 10, 20


def test_a_producer_is_refused_once_the_queue_is_full_where_it_lies_and_its_quota_is_used_up(
    forest: Forest,
) -> None:
    forest.settings = CoreSettings(queue_quota=QUOTA)
    forest.add("hq", policies=(QueuePolicy(pattern="orders", max_messages=ROOM),))
    york = forest.add("york", "hq")
    forest.dial_all()
    forest.settle()
    producer = forest.producer("york")
    for number in range(300):
        producer.send("queue:orders", b"%d" % number)
        forest.settle()
    window = forest.links.window_bundles
    entered = 300 - york.core.message_admission.refused["QUEUE_FULL"]
    assert ROOM + QUOTA <= entered <= ROOM + QUOTA + window
    assert york.waiting() == QUOTA
    reader = forest.consumer("hq", "queue:orders")
    forest.settle(5.0)
    assert len(reader.payloads) == entered
    producer.send("queue:orders", b"again")
    forest.settle(1.0)
    assert reader.payloads[-1] == b"again"
