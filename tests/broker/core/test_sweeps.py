"""What is looked after once a second."""

from forest import Forest


def test_what_expires_while_it_waits_is_buried_and_the_rest_keeps_its_order(forest: Forest) -> None:
    hq = forest.add("hq")
    producer = forest.producer("hq")
    for number in range(6):
        producer.send("queue:sales", b"%d" % number, expires_in=500 if number % 2 else 0)
        forest.settle()
    forest.settle(2.0)
    assert sorted(message.payload for note, message in hq.dead() if note == "EXPIRED") == [b"1", b"3", b"5"]
    reader = forest.consumer("hq", "queue:sales")
    forest.settle()
    assert reader.payloads == [b"0", b"2", b"4"]
