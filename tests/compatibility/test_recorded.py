"""A neighbour of the version before is understood, linked with, and answered as then; so are its clients."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from recording import Recording, bytes_of, load
from replay import Replay
from sameness import differences, frames_of, grown

from broker.core.policies.permits import ChildPermits
from sapwood.protocol import bundles, session_frames
from sapwood.protocol.packets import packet as packet_of
from treeconnector import frames
from treeconnector.incoming import decode_packet

VERSIONS = sorted(folder for folder in Path(__file__).parent.iterdir() if (folder / "frames.json").exists())
FILES = [file for folder in VERSIONS for file in sorted(folder.glob("*.jsonl.zst"))]
HOUSES: dict[str, Any] = {
    "link": frames.AnyFrame,
    "client": session_frames.ClientFrame,
    "node": session_frames.NodeFrame,
    "header": bundles.Header,
    "message": bundles.Message,
}


TODAY = {
    ("client", "Ping"): "SessionPing",
    ("node", "Pong"): "SessionPong",
    ("client", "Refuse"): "RefuseDelivery",
    ("node", "Ended"): "ReadingEnded",
}
"""Classes that have other names now than in the version that was recorded."""


@cache
def recorded(file: Path) -> Recording:
    return load(file)


def sites() -> list[Any]:
    return [
        pytest.param(file, name, id=f"{file.parent.name}-{file.name.partition('.')[0]}-{name}")
        for file in FILES
        for name in recorded(file).sites
    ]


def without_ids(frame: list[Any]) -> list[Any]:
    """A Deliver without its transfer id and its bundle's: nobody promises which reader is first."""
    deliver = 26
    return [*frame[:3], frame[4], *frame[6:]] if frame[0] == deliver else frame


@pytest.mark.parametrize("folder", VERSIONS, ids=lambda folder: folder.name)
def test_every_kind_of_frame_of_that_version_is_read_as_it_was(folder: Path) -> None:
    found = json.loads((folder / "frames.json").read_text())
    assert len(found) >= 94, "each kind of frame of 0.1.0, without and with its optional fields"
    for each in found:
        value = msgspec.msgpack.decode(bytes_of(each["bytes"]), type=HOUSES[each["house"]])
        assert type(value).__name__ == TODAY.get((each["house"], each["kind"]), each["kind"])
        shown = json.loads(msgspec.json.encode(value))
        assert grown(each["value"], shown), each["kind"]
        again = msgspec.msgpack.decode(msgspec.msgpack.encode(value))
        assert grown(msgspec.msgpack.decode(bytes_of(each["bytes"])), again), each["kind"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.name.partition('.')[0]}")
def test_every_packet_of_a_recorded_conversation_is_read(file: Path) -> None:
    packets = [bytes_of(event[3]) for event in recorded(file).events if event[0] == "packet"]
    for packet in packets:
        found = decode_packet(packet, frames.DEFAULT_MAX_FRAME)
        assert not any(isinstance(frame, frames.Unknown) for frame in found)
        assert all(map(grown, frames_of([packet]), frames_of([packet_of(list(map(frames.encode, found)))])))


@pytest.fixture
def sends_what_is_refused_above(monkeypatch: pytest.MonkeyPatch) -> None:
    """0.1.0 took what the nodes above refuse, and sent it up: the rest of a conversation rests on it."""
    monkeypatch.setattr(ChildPermits, "why_not_above", lambda self, destination: "")


@pytest.mark.usefixtures("sends_what_is_refused_above")
@pytest.mark.parametrize(("file", "name"), sites())
def test_a_node_amid_neighbours_of_that_version_says_what_was_said_then(file: Path, name: str) -> None:
    replay = Replay(recorded(file), name)
    replay.run()
    assert replay.lines
    assert any(len(line.recorded) > 1 for line in replay.lines.values()), "a link has come up"
    for number, line in replay.lines.items():
        assert differences(line.recorded, line.said) == [], (
            f"line {number} from {line.child} to {line.parent}"
        )


@pytest.mark.usefixtures("sends_what_is_refused_above")
@pytest.mark.parametrize(("file", "name"), sites())
def test_its_applications_hear_what_they_heard_then(file: Path, name: str) -> None:
    replay = Replay(recorded(file), name)
    replay.run()
    for number, then in replay.heard_then.items():
        now = replay.heard[number]
        assert [frame[0] for frame in now] == [frame[0] for frame in then]
        for old, new in zip(then, now, strict=True):
            assert grown(without_ids(old), without_ids(new))


@pytest.mark.parametrize("folder", VERSIONS, ids=lambda folder: folder.name)
def test_an_application_hears_at_once_what_that_version_told_nobody(folder: Path) -> None:
    """York's application sends to a queue of hq, which york may not: once that was a dead letter at north."""
    replay = Replay(recorded(folder / "parted.jsonl.zst"), "york")
    replay.run()
    rejected = 25
    (number,) = [number for number, now in replay.heard.items() if any(frame[0] == rejected for frame in now)]
    assert [frame[0] for frame in replay.heard_then[number]] == [21, 24]
    (said,) = [frame for frame in replay.heard[number] if frame[0] == rejected]
    assert "REFUSED" in str(said)
    assert "queue:hq/orders" in str(said)
