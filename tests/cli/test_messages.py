"""What `send` sends and how `receive` prints; the rest is tested on a running tree."""

import asyncio
import io
import sys
from pathlib import Path

import pytest

from broker.cli import messages
from broker.cli.errors import WRONG_USE, CommandError
from broker.cli.messages import Login, SendOptions, _payloads, as_fields, properties_of, send_all
from sapwood.inbox import Batch, Delivery
from sapwood.protocol.bundles import Message, Properties
from sapwood.protocol.destinations import parse
from sapwood.protocol.session_frames import Deliver


class Input:
    """Standard input with bytes in it."""

    def __init__(self, data: bytes) -> None:
        self.buffer = io.BytesIO(data)


def outgoing(payload: str | None = None, file: Path | None = None, *, lines: bool = False) -> SendOptions:
    return SendOptions("queue:x", payload, file, lines, True, False)


@pytest.mark.parametrize(
    ("what", "payloads"),
    [
        (outgoing("ä"), ["ä".encode()]),
        (outgoing("a\nb"), [b"a\nb"]),
        (outgoing("a\nb", lines=True), [b"a", b"b"]),
        (outgoing(), [b"in\nput\n"]),
        (outgoing("-"), [b"in\nput\n"]),
        (outgoing("-", lines=True), [b"in", b"put"]),
        (outgoing(""), [b""]),
    ],
)
def test_the_payload_is_the_argument_or_standard_input(
    monkeypatch: pytest.MonkeyPatch, what: SendOptions, payloads: list[bytes]
) -> None:
    monkeypatch.setattr(sys, "stdin", Input(b"in\nput\n"))
    assert list(_payloads(what)) == payloads


def test_a_file_is_sent_as_it_is_or_line_by_line(tmp_path: Path) -> None:
    file = tmp_path / "prices"
    file.write_bytes(b"\xff\n1\n")
    assert list(_payloads(outgoing(file=file))) == [b"\xff\n1\n"]
    assert list(_payloads(outgoing(file=file, lines=True))) == [b"\xff", b"1"]


def test_a_number_that_no_message_has_is_wrong_use() -> None:
    with pytest.raises(
        CommandError, match=r"correlation_id=99999999999999999999: expected -\d+ to \d+"
    ) as refused:
        properties_of([], "", 99999999999999999999, 0, "")
    assert refused.value.exit_code == WRONG_USE


def test_a_payload_and_a_file_are_wrong_use(tmp_path: Path) -> None:
    with pytest.raises(CommandError) as refused:
        list(_payloads(outgoing("x", tmp_path / "y")))
    assert refused.value.exit_code == WRONG_USE


def delivery(payload: bytes, properties: Properties) -> Delivery:
    destination = parse("queue:prices")
    frame = Deliver(1, destination, 10, 1, b"\x01" * 16, 4, 0, 0, b"", origin="hq", redelivered=True)
    batch = Batch(frame, [Message(payload, properties)], [10], lambda *_: None)
    return next(iter(batch))


def test_a_message_as_json_has_everything_that_is_set() -> None:
    assert as_fields(delivery(b"four", Properties(correlation_id=0, reply_to="r@hq"))) == {
        "destination": "queue:prices",
        "message_id": "01" * 16 + "-4",
        "transfer_id": 10,
        "redelivered": True,
        "origin": "hq",
        "payload": "four",
        "correlation_id": 0,
        "reply_to": "r@hq",
    }


def test_bytes_that_are_no_text_are_base64_and_say_so() -> None:
    fields = as_fields(delivery(b"\xff\x00", Properties()))
    assert (fields["payload"], fields["encoding"]) == ("/wA=", "base64")


def test_retained_is_for_topics() -> None:
    what = SendOptions("queue:x", "x", None, lines=False, persistent=True, retained=True)
    with pytest.raises(CommandError, match="--retained is for topics") as refused:
        send_all(Login("http://127.0.0.1:1", "", "", None), what, as_json=False)
    assert refused.value.exit_code == WRONG_USE


def test_properties_are_said_by_options() -> None:
    assert properties_of(["kind=a=b", "empty="], "back", 0, 1.5, "text/plain") == {
        "headers": {"kind": "a=b", "empty": ""},
        "reply_to": "back",
        "correlation_id": 0,
        "expires_in": 1500.0,
        "content_type": "text/plain",
    }
    assert properties_of([], "", None, 0, "") == {}
    for wrong in ("kind", "=x"):
        with pytest.raises(CommandError, match="NAME=VALUE") as refused:
            properties_of([wrong], "", None, 0, "")
        assert refused.value.exit_code == WRONG_USE


async def test_sending_ends_where_the_node_takes_nothing_and_goes_on_where_it_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A frozen disk: it waited for ever for the confirmation of what the node could not commit."""
    down = "http://hq:7600/readyz: 503 not ready"
    answers = ["", down, "", down, down]  # a node that is started again is down for one look, perhaps
    monkeypatch.setattr(messages, "_ASKS_EVERY", 0.001)
    monkeypatch.setattr(messages, "_ASKS_AGAIN", 0.001)
    monkeypatch.setattr(messages, "why_not_ready", lambda *_: answers.pop(0))
    login = Login("http://hq:7600", "", "")
    with pytest.raises(CommandError, match="whether the node has it on disk is not known"):
        await messages._confirmed(asyncio.Event().wait(), login)
    assert not answers
    assert await messages._confirmed(asyncio.sleep(0, "confirmed"), login) == "confirmed"


async def test_sending_that_is_interrupted_ends_what_it_waits_for() -> None:
    """It went on, and failed with a stack once the client was closed."""
    never = asyncio.Event()
    sending = asyncio.ensure_future(messages._confirmed(never.wait(), Login("http://hq:7600", "", "")))
    await asyncio.sleep(0)
    sending.cancel()
    await asyncio.wait((sending,))
    await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) == 1
