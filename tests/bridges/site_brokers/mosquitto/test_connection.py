"""The connection to a real Mosquitto: QoS 2 in custody, both versions, refusals."""

import asyncio
import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
from mosquitto_server import MosquittoServer
from paho.mqtt.enums import MQTTErrorCode, MQTTProtocolVersion

from bridges.mqtt import bulk
from bridges.mqtt.bulk import PahoInBulk
from bridges.properties import MqttProperties
from bridges.site_brokers.base import SiteBrokerError, SiteBrokerRefused
from bridges.site_brokers.mosquitto.connection import Filter, MqttConnection, Post, Received
from bridges.site_brokers.mosquitto.login import MqttAccess
from config.uris import address

V5, V3 = MQTTProtocolVersion.MQTTv5, MQTTProtocolVersion.MQTTv311


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MosquittoServer]:
    made = MosquittoServer(
        tmp_path_factory.mktemp("mosquitto"), "allow_anonymous true", "message_size_limit 1000"
    )
    made.start()
    yield made
    made.kill()


class Line:
    """A client with what it got."""

    def __init__(self, server: MosquittoServer, name: str, version: MQTTProtocolVersion = V5) -> None:
        self.got: list[Received] = []
        self.codes: list[int] = []
        self.errors: list[SiteBrokerError] = []
        access = MqttAccess(address(server.uri), None, None, None, 5.0)
        self.client = MqttConnection(
            access,
            name,
            version,
            session=60,
            at_most=100,
            on_message=self.got.append,
            on_lost=self.errors.append,
        )

    async def publish(self, topic: str, payload: bytes, qos: int = 1, retained: bool = False) -> int:
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.client.post(
            Post(topic, payload, qos, retained, MqttProperties(user=[("a", "b")]), done.set_result)
        )
        return await asyncio.wait_for(done, 60)

    async def until(self, count: int) -> list[Received]:
        async with asyncio.timeout(60):
            while len(self.got) < count:
                await asyncio.sleep(0.01)
        return self.got


@pytest.mark.parametrize("version", [V5, V3])
@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_messages_come_with_their_quality_and_go_back_to_nobody(
    server: MosquittoServer, version: MQTTProtocolVersion, qos: int
) -> None:
    name = f"{version}-{qos}"
    reader, writer = Line(server, f"reader-{name}", version), Line(server, f"writer-{name}", version)
    await reader.client.open()
    await writer.client.open()
    assert await reader.client.subscribe([Filter(f"t/{name}", 2, 7)]) == [2]
    assert await writer.client.subscribe([Filter(f"t/{name}", 2, 7)]) == [2]
    assert await writer.publish(f"t/{name}", b"1", qos) == 0
    (received,) = await reader.until(1)
    assert (received.payload, received.qos, received.again) == (b"1", qos, False)
    assert received.properties.user == ((("a", "b"),) if version == V5 else ())
    assert list(received.filters) == ([7] if version == V5 else [])
    assert writer.got == []
    reader.client.answer(received)
    await writer.client.close()
    await reader.client.close()


@pytest.mark.parametrize("qos", [1, 2])
async def test_what_was_not_answered_comes_again(server: MosquittoServer, qos: int) -> None:
    writer, first = Line(server, f"w{qos}"), Line(server, f"again-{qos}")
    await writer.client.open()
    await first.client.open()
    await first.client.subscribe([Filter(f"again/{qos}", 2)])
    await writer.publish(f"again/{qos}", b"answered", qos)
    await writer.publish(f"again/{qos}", b"not answered", qos)
    answered, unanswered = await first.until(2)
    first.client.answer(answered)
    await writer.publish("barrier", b"", 1)
    await first.client.close()
    second = Line(server, f"again-{qos}")
    assert await second.client.open()
    (repeated,) = await second.until(1)
    assert (repeated.payload, repeated.again, repeated.number) == (b"not answered", True, unanswered.number)
    second.client.answer(repeated)
    await writer.client.close()
    await second.client.close()


async def test_a_reason_that_paho_does_not_know_is_told(server: MosquittoServer) -> None:
    line = Line(server, "large")
    await line.client.open()
    assert await line.publish("t", bytes(5000)) == 0x95
    assert await line.publish("nobody", b"x") == 0x10
    assert line.errors == []
    await line.client.close()


async def test_a_broker_that_goes_is_lost_and_one_that_is_not_there_is_said(tmp_path: Path) -> None:
    server = MosquittoServer(tmp_path / "gone")
    server.start()
    line = Line(server, "lost")
    await line.client.open()
    server.kill()
    async with asyncio.timeout(60):
        while not line.errors:
            await asyncio.sleep(0.01)
    assert "was lost" in str(line.errors[0])
    with pytest.raises(SiteBrokerError, match="cannot be reached"):
        await Line(server, "again").client.open()


async def test_a_broker_that_goes_before_it_answers_several_questions_is_told_once(tmp_path: Path) -> None:
    told: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: told.append(context["message"]))
    server = MosquittoServer(tmp_path / "gone")
    server.start()
    line = Line(server, "lost")
    await line.client.open()
    server.kill()
    filters = [Filter(text, 1) for text in ("a", "b", "c")]
    asked = await asyncio.gather(
        line.client.subscribe(filters), line.client.unsubscribe(["a", "b"]), return_exceptions=True
    )
    assert [type(each) for each in asked] == [SiteBrokerError, SiteBrokerError]
    del asked
    gc.collect()
    assert told == []


async def test_a_wrong_user_is_refused(tmp_path: Path) -> None:
    server = MosquittoServer(tmp_path / "closed", "allow_anonymous false")
    server.start()
    try:
        with pytest.raises(SiteBrokerRefused, match=r"look at site_broker's user and secret, and at the"):
            await Line(server, "nobody").client.open()
    finally:
        server.kill()


async def test_a_huge_message_is_read_in_slices_between_which_the_loop_has_other_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "A_TURN", 100_000)
    turns: list[int] = []
    read, receive = PahoInBulk._packet_read, PahoInBulk._sock_recv

    def counted(client: PahoInBulk) -> MQTTErrorCode:
        turns.append(0)
        return read(client)

    def received_of(client: PahoInBulk, most: int) -> bytes:
        data = receive(client, most)
        turns[-1] += len(data)
        return data

    monkeypatch.setattr(PahoInBulk, "_packet_read", counted)
    monkeypatch.setattr(PahoInBulk, "_sock_recv", received_of)
    server = MosquittoServer(tmp_path)
    server.start()
    try:
        line = Line(server, "slices")
        await line.client.open()
        await line.client.subscribe([Filter("huge", 2, 7)])
        payload = bytes(range(256)) * 20_000
        huge = tmp_path / "huge"
        huge.write_bytes(payload)
        command = [
            "mosquitto_pub",
            "-p",
            str(server.port),
            "-V",
            "5",
            "-t",
            "huge",
            "-q",
            "2",
            "-f",
            str(huge),
        ]
        said = await asyncio.create_subprocess_exec(*command, "-D", "publish", "user-property", "a", "b")
        (received,) = await line.until(1)
        assert received.payload == payload
        assert (received.properties.user, received.filters) == ((("a", "b"),), [7])
        assert max(turns) < 100_000 + 65_536
        assert sum(turns) > len(payload)
        line.client.answer(received)
        assert await said.wait() == 0
        await line.client.close()
    finally:
        server.kill()
