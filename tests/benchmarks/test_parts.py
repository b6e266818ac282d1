"""The benchmarks' parts work, at the smallest sizes. Nothing here is timed."""

import json
from pathlib import Path

import pytest

from benchmarks import payloads, throughput
from benchmarks.raw_nats import RawNats


@pytest.mark.parametrize("kind", ["json", "random"])
def test_every_payload_has_256_bytes_and_its_number(kind: str) -> None:
    made = payloads.make(kind, 300, first=5)
    assert {len(payload) for payload in made} == {payloads.SIZE}
    assert payloads.numbers_of(made) == [b"%09d" % number for number in range(5, 305)]


def test_json_payloads_are_json() -> None:
    assert {json.loads(payload)["currency"] for payload in payloads.json_like(50)} == {"EUR"}


def test_random_payloads_all_differ() -> None:
    assert len({payload[20:] for payload in payloads.random_bytes(100)}) == 100


@pytest.mark.parametrize("kind", ["json", "random"])
def test_a_stamp_keeps_size_and_number(kind: str) -> None:
    payload = payloads.stamped(payloads.make(kind, 1, first=42)[0], 123_456_789)
    assert (len(payload), payloads.stamp_of(payload)) == (payloads.SIZE, 123_456_789)
    assert payloads.numbers_of([payload]) == [b"000000042"]


def test_audit_sees_what_is_lost_and_what_came_twice() -> None:
    assert payloads.audit([b"1", b"2", b"2"], 4) == {"received": 3, "lost": 2, "duplicated": 1}


def test_raw_nats_reads_messages_that_come_in_pieces() -> None:
    found: list[tuple[bytes, bytes]] = []
    connection = RawNats(found.extend)
    stream = (
        b"INFO {}\r\nMSG a 1 4\r\nabcd\r\nMSG a 1 $JS.ACK.1 2\r\nxy\r\n"
        b"HMSG a 1 $JS.ACK.2 14 17\r\nNATS/1.0\r\nA:\r\nend\r\nHMSG a 1 12 12\r\nNATS/1.0 404\r\n"
    )
    for position in range(0, len(stream), 7):
        connection.data_received(stream[position : position + 7])
    assert found == [(b"abcd", b""), (b"xy", b"$JS.ACK.1"), (b"end", b"$JS.ACK.2")]


@pytest.mark.network
def test_a_small_run_loses_and_doubles_nothing(tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    options = ["--systems", "sapwood", "--directions", "up", "--destinations", "3", "--payloads", "json"]
    options += ["--messages", "600", "--rate", "200", "--seconds", "0.5", "--json", str(result)]
    assert throughput.main([*options, "--directory", str(tmp_path)], say=lambda text: None) == 0
    fast, paced = json.loads(result.read_text())["rows"]
    assert (fast["lost"], fast["duplicated"], paced["lost"], paced["duplicated"]) == (0, 0, 0, 0)
    assert fast["bytes"]["leaf-branch"] > 0
    assert paced["p99_ms"] >= paced["p50_ms"] > 0
    assert list(tmp_path.iterdir()) == [result]
