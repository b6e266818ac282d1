"""Streams at a real RabbitMQ: their consumers are found, they are given to and taken from; their offsets."""

import json
from pathlib import Path

import pika
import pytest
from rabbitmq_site import Applications

from bridges.site_brokers.base import SiteBrokerError
from bridges.site_brokers.rabbitmq import streams
from bridges.site_brokers.rabbitmq.streams import Streams

STREAM = {"x-queue-type": "stream"}


def declared(applications: Applications, name: str = "journal", kind: str = "stream") -> pika.channel.Channel:
    channel = applications.channel()
    channel.queue_declare(name, durable=True, arguments={"x-queue-type": kind})
    return channel


def reading(applications: Applications, name: str = "journal", offset: str = "first") -> list[bytes]:
    """A plain consumer of a stream, on a connection of its own; what it has fills while somebody waits."""
    channel, got = applications.channel(), []

    def came(_channel, method, _properties, body: bytes) -> None:
        got.append(body)
        channel.basic_ack(method.delivery_tag)

    channel.basic_qos(prefetch_count=100)
    channel.basic_consume(name, came, arguments={"x-stream-offset": offset})
    return got


async def test_a_consumer_of_a_stream_is_found_and_missed_when_it_has_gone(york, applications) -> None:
    declared(applications)
    reading(applications)
    await york.desk.until_consumers("queue:journal")
    applications.connections.pop().close()
    await york.desk.until_consumers()


async def test_one_that_was_there_before_the_node_is_found(place, applications) -> None:
    declared(applications)
    reading(applications)
    york = await place().start()
    await york.desk.until_consumers("queue:journal")


async def test_a_stream_is_given_to_and_what_the_node_gave_is_not_taken_from_it(york, applications) -> None:
    declared(applications)
    york.want("queue:journal")
    await taking(york)
    await york.until_answered(york.deliver("queue:journal", b"given"))
    applications.publish("journal", b"of the site")
    await york.desk.until(lambda: bool(york.desk.taken), "given what is in the stream")
    assert york.desk.payloads == [b"of the site"]
    got = reading(applications)
    await york.desk.until(lambda: pumped(applications) and len(got) == 2, "read as the broker has it")
    assert got == [b"given", b"of the site"]


def pumped(applications: Applications) -> bool:
    for connection in applications.connections:
        connection.process_data_events(0)
    return True


async def taking(york) -> None:
    await york.desk.until(lambda: york.bridge.status()["taking_queues"] == ["journal"], "taking the stream")
    assert york.bridge.status()["troubles"] == {}


async def test_a_stream_is_taken_from_where_it_was_left(place, applications) -> None:
    declared(applications)
    applications.publish("journal", b"before anybody wanted it")
    york = place()
    york.want("queue:journal")
    await taking(await york.start())
    applications.publish("journal", b"1")
    applications.publish("journal", b"2")
    await york.desk.until(lambda: len(york.desk.taken) == 2, "given two")
    await york.stop()
    applications.publish("journal", b"3")
    await york.start()
    await york.desk.until(lambda: len(york.desk.taken) == 3, "given what came meanwhile")
    applications.publish("journal", b"4")
    await york.desk.until(lambda: len(york.desk.taken) == 4, "given the next")
    assert york.desk.payloads == [b"1", b"2", b"3", b"4"]
    assert len({taken.key for taken in york.desk.taken}) == 4
    assert all(taken.message.properties.headers == {} for taken in york.desk.taken)


async def test_what_was_not_committed_comes_again_under_its_key(place, applications) -> None:
    declared(applications)
    york = place()
    york.want("queue:journal")
    await taking(await york.start())
    applications.publish("journal", b"1")
    await york.desk.until(lambda: len(york.desk.taken) == 1, "given one")
    york.desk.holding = True
    applications.publish("journal", b"2")
    await york.desk.until(lambda: len(york.desk.taken) == 2, "given another")
    await york.stop()
    york.desk.holding = False
    await york.start()
    await york.desk.until(lambda: len(york.desk.taken) == 3, "given it again")
    _, first, again = york.desk.taken
    assert (again.message.payload, again.key, again.again) == (b"2", first.key, True)


async def test_a_stream_that_is_deleted_and_made_anew_is_read_whole(york, applications) -> None:
    channel = declared(applications)
    york.want("queue:journal")
    await taking(york)
    applications.publish("journal", b"old")
    await york.desk.until(lambda: len(york.desk.taken) == 1, "given the old one")
    york.desk.holding = True
    applications.publish("journal", b"not committed before it is deleted")
    await york.desk.until(lambda: len(york.desk.taken) == 2, "given the last one")
    channel.queue_delete("journal")
    await york.desk.until(lambda: york.bridge.status()["taking_queues"] == [], "left without it")
    york.desk.holding = False
    york.desk.held.pop()()
    declared(applications)
    applications.publish("journal", b"before it is taken from again")
    await york.desk.until(lambda: len(york.desk.taken) == 3, "given the new one")
    assert york.desk.payloads[2] == b"before it is taken from again"


def deleted_and_made_anew(applications: Applications, *bodies: bytes) -> None:
    applications.channel().queue_delete("journal")
    declared(applications)
    for body in bodies:
        applications.publish("journal", body)


# How many messages the other stream has when the node, which took three, comes back to it: fewer, so that
# its own offset is beyond the end; as many; more.
@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 9])
async def test_one_that_was_made_anew_while_the_node_was_away_is_read_whole(
    place, applications, count: int
) -> None:
    declared(applications)
    york = place()
    york.want("queue:journal")
    await taking(await york.start())
    for number in range(3):
        applications.publish("journal", b"old %d" % number)
    await york.desk.until(lambda: len(york.desk.taken) == 3, "given the old ones")
    await york.stop()
    del york.desk.taken[:]
    bodies = [b"new %d" % number for number in range(count)]
    deleted_and_made_anew(applications, *bodies)
    await taking(await york.start())
    bodies += [b"later %d" % number for number in range(5)]
    for body in bodies[count:]:
        applications.publish("journal", body)
    await york.desk.until(lambda: len(york.desk.taken) >= len(bodies), "given the other stream")
    assert york.desk.payloads == bodies
    assert not any(taken.again for taken in york.desk.taken)
    await york.stop()
    applications.publish("journal", b"after the next start")
    await york.start()
    await york.desk.until(lambda: len(york.desk.taken) > len(bodies), "given what is new")
    assert york.desk.payloads[len(bodies) :] == [b"after the next start"]


async def test_a_stream_that_has_lost_what_was_taken_last_goes_on_with_what_it_has(
    place, applications
) -> None:
    """As `x-max-length-bytes` does it: by whole segments, of which each here has one message."""
    small = {"x-queue-type": "stream", "x-stream-max-segment-size-bytes": 1000, "x-max-length-bytes": 3000}
    applications.channel().queue_declare("journal", durable=True, arguments=small)
    york = place()
    york.want("queue:journal")
    await taking(await york.start())
    applications.publish("journal", b"taken" + bytes(1000))
    await york.desk.until(lambda: len(york.desk.taken) == 1, "given the first")
    await york.stop()
    for number in range(20):
        applications.publish("journal", b"%02d" % number + bytes(1000))
    await york.start()
    await york.desk.until(lambda: york.desk.payloads[-1][:2] == b"19", "given the last one")
    numbers = [int(body[:2]) for body in york.desk.payloads[1:]]
    assert numbers == list(range(numbers[0], 20))
    assert numbers[0] > 0, "the stream kept all: this tried nothing"


async def test_the_node_leaves_a_stream_while_messages_come_and_keeps_its_connection(
    york, applications
) -> None:
    """A client that rejects what is under way when it leaves loses its connection to RabbitMQ 3."""
    publishing = declared(applications)
    york.want("queue:journal")
    await taking(york)
    for _ in range(5):
        for number in range(2000):
            publishing.basic_publish("", "journal", b"%d" % number)
        await york.desk.until(lambda: bool(york.desk.taken), "given some")
        york.want()
        await york.desk.until(lambda: york.bridge.status()["taking_queues"] == [], "left without it")
        york.want("queue:journal")
        await taking(york)
        assert not york.task.done(), "the visit went on"
        del york.desk.taken[:]


async def test_a_stream_that_is_bound_reads_a_topic(york, applications) -> None:
    declared(applications).queue_bind("journal", "amq.topic", "prices.#")
    await york.desk.until_consumers("topic:prices/#")
    await york.until_answered(york.deliver("topic:prices/tea", b"9"))
    got = reading(applications)
    await york.desk.until(lambda: pumped(applications) and got == [b"9"], "read")


@pytest.mark.parametrize("kind", ["quorum", "classic"])
async def test_a_queue_of_this_type_is_found_given_to_and_taken_from(york, applications, kind: str) -> None:
    channel = declared(applications, "till", kind)
    tag = channel.basic_consume("till", lambda *message: None)
    await york.desk.until_consumers("queue:till")
    channel.basic_cancel(tag)
    await york.desk.until_consumers()
    await york.until_answered(york.deliver("queue:till", b"given"))
    assert [body for body, _ in applications.drain("till")] == [b"given"]
    york.want("queue:till")
    applications.publish("till", b"taken")
    await york.desk.until(lambda: york.desk.payloads == [b"taken"], "given what is in the queue")


def began(directory: Path, name: str = "journal") -> object:
    """The offset with which a node that starts now would go on."""
    last = Streams(directory).begin(name)
    return "next" if last is None else last.offset + 1


def test_an_offset_is_added_and_the_last_counts(tmp_path: Path) -> None:
    known = Streams(tmp_path)
    for offset in range(5):
        known.taken("journal", offset)
        known.taken("other", 10 * offset)
    assert (began(tmp_path), began(tmp_path, "other"), began(tmp_path, "new")) == (5, 41, "next")
    known.begin("other")
    known.renew("other")
    known.renew("never begun")
    assert (began(tmp_path), began(tmp_path, "other"), began(tmp_path, "never begun")) == (5, 0, "next")


def test_the_digest_of_the_last_message_is_kept_and_the_version_before_reads_the_offset(
    tmp_path: Path,
) -> None:
    known = Streams(tmp_path)
    known.taken("journal", 7, "a digest")
    known.taken("other", 8)
    assert Streams(tmp_path).begin("journal") == (7, "a digest")
    assert Streams(tmp_path).begin("other") == (8, "")
    (file,) = tmp_path.iterdir()
    assert json.loads(file.read_bytes().splitlines()[0])["journal"] == 7


def test_a_machine_that_lost_its_power_goes_on_from_an_older_offset(tmp_path: Path) -> None:
    known = Streams(tmp_path)
    for offset in range(3):
        known.taken("journal", offset)
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[:-9] + bytes(9))
    assert began(tmp_path) == 2
    Streams(tmp_path).taken("journal", 7)
    assert began(tmp_path) == 8, "what is added after half a line is read"


def test_the_file_of_the_version_before_is_read(tmp_path: Path) -> None:
    (tmp_path / "rabbitmq-streams.json").write_text(json.dumps({"journal": 3, "other": 4}))
    assert (began(tmp_path), began(tmp_path, "other")) == (4, 5)
    (tmp_path / "rabbitmq-streams.json").write_text('[3]\n{"journal": "x"}\n7\n' + "[" * 100_000)
    assert began(tmp_path) == "next"


def test_the_file_stays_small_and_knows_so_many_streams(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "GROWN", 1000)
    monkeypatch.setattr(streams, "MOST", 5)
    known = Streams(tmp_path)
    for offset in range(1000):
        known.taken("journal", offset)
        known.taken(f"stream-{offset}", 1)
    (file,) = tmp_path.iterdir()
    assert file.stat().st_size <= 1000
    assert (began(tmp_path), began(tmp_path, "stream-999"), began(tmp_path, "stream-0")) == (1000, 2, "next")


def test_a_disk_that_takes_nothing_is_told_and_the_next_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = Streams(tmp_path / "site-broker")
    (tmp_path / "site-broker").touch()
    with pytest.raises(SiteBrokerError, match="cannot be written"):
        known.taken("journal", 1)
    (tmp_path / "site-broker").unlink()
    known.taken("journal", 2)
    assert began(tmp_path / "site-broker") == 3
