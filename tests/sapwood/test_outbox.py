"""Numbers, frames and settlement, without any I/O."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.errors import Rejection
from sapwood.outbox import Call, FrameRoute, Outbox, bodies, encode_message
from sapwood.protocol.bundles import MAX_BYTES, MAX_MESSAGES, Message, Properties, decode_messages
from sapwood.protocol.bundles import encode_message as encode_whole
from sapwood.protocol.destinations import queue
from sapwood.protocol.session_frames import Send, decode_client_packet

MUCH = 2 * MAX_MESSAGES
Q, R = FrameRoute(queue("q")), FrameRoute(queue("r"))


class Told(Call):
    """Remembers that it was told."""

    def __init__(self) -> None:
        super().__init__()
        self.times = 0
        self.error: Exception | None = None

    def settled(self) -> None:
        self.times += 1

    def failed(self, error: Exception) -> None:
        self.error = error


def outbox(**window: int) -> Outbox:
    return Outbox(window.get("messages", 1000), window.get("size", 10**9))


def add(box: Outbox, payload: bytes, route: FrameRoute = Q) -> Told:
    call = Told()
    box.add(route, encode_message(payload, None), call)
    call.end()
    return call


def sends(frames: list[bytes]) -> list[Any]:
    return [frame for encoded in frames for frame in decode_client_packet(b"\x91" + encoded)]


@given(
    st.lists(st.binary(max_size=300), min_size=1, max_size=600),
    st.none() | st.builds(Properties, correlation_id=st.integers(0, 2**63), reply_to=st.text(max_size=5)),
)
def test_bodies_are_what_bundles_read(payloads: list[bytes], properties: Properties | None) -> None:
    expected = [Message(payload, properties or Properties()) for payload in payloads]
    found = list(bodies(payloads, properties))
    assert [m for body, count in found for m in decode_messages(body, count)] == expected
    assert all(count <= MAX_MESSAGES and len(body) <= MAX_BYTES for body, count in found)


@pytest.mark.parametrize("length", [0, 1, 255, 256, 65_535, 65_536, 300_000])
def test_bodies_of_every_length_of_payload(length: int) -> None:
    payloads = [b"x" * length, b"y" * length, b"z"]
    found = list(bodies(payloads, None))
    assert [m.payload for body, count in found for m in decode_messages(body, count)] == payloads


def test_without_properties_a_message_costs_its_head_only() -> None:
    assert len(encode_message(b"x" * 200, None)) == 203
    assert decode_messages(encode_whole(Message(b"x")), 1) == decode_messages(encode_message(b"x", None), 1)


def test_numbers_are_given_when_frames_are_sealed_and_order_is_kept_per_route() -> None:
    box = outbox()
    for payload, route in ((b"1", Q), (b"2", R), (b"3", Q)):
        add(box, payload, route)
    first, second = sends(box.frames_to_send())
    assert (first.first, first.count, first.destination) == (1, 2, queue("q"))
    assert (second.first, second.count, second.destination) == (3, 1, queue("r"))
    assert box.frames_to_send() == []


def test_a_full_frame_is_sealed_at_once() -> None:
    box = outbox()
    for _ in range(MAX_MESSAGES + 1):
        box.add(Q, encode_message(b"x", None))
    assert [frame.count for frame in sends(box.frames_to_send())] == [MAX_MESSAGES, 1]


def test_while_much_is_under_way_a_frame_waits_for_a_confirmation_and_grows() -> None:
    box = outbox()
    for _ in range(MUCH):
        box.add(Q, encode_message(b"x", None))
    assert sum(frame.count for frame in sends(box.frames_to_send())) == MUCH
    for _ in range(2):
        box.add(R, encode_message(b"x", None))
        assert box.frames_to_send() == []
    assert box.has_unsent
    box.confirm(MAX_MESSAGES)
    (frame,) = sends(box.frames_to_send())
    assert (frame.first, frame.count) == (MUCH + 1, 2)
    assert not box.has_unsent


@pytest.mark.parametrize("is_given_up", [True, False])
def test_what_was_sealed_or_left_while_it_waited_is_to_be_taken(is_given_up: bool) -> None:
    box = outbox()
    for _ in range(MUCH):
        box.add(Q, encode_message(b"x", None))
    box.frames_to_send()
    box.add(R, encode_message(b"late", None))
    call = add(box, b"given up", R)
    assert box.withdraw(call) if is_given_up else box.seal()
    assert box.has_unsent
    assert sum(frame.count for frame in sends(box.frames_to_send())) == (1 if is_given_up else 2)


def test_full_frames_and_bodies_wait_for_no_confirmation() -> None:
    box = outbox()
    for _ in range(MUCH + MAX_MESSAGES + 1):
        box.add(Q, encode_message(b"x", None))
        box.frames_to_send()
    assert box.messages - 1 == box.next_number - 1 == MUCH + MAX_MESSAGES
    box.add_body(R, encode_message(b"body", None), 1)
    assert [frame.count for frame in sends(box.frames_to_send())] == [1]
    assert box.seal() == MUCH + MAX_MESSAGES + 2


def test_full_frames_that_go_on_and_on_keep_no_other_back() -> None:
    box = outbox()
    for _ in range(MUCH):
        box.add(Q, encode_message(b"x", None))
    box.frames_to_send()
    box.add(R, encode_message(b"x", None))
    for _ in range(MAX_MESSAGES):
        box.add(Q, encode_message(b"x", None))
    assert [frame.destination.name for frame in sends(box.frames_to_send())] == ["q"]
    box.confirm(MAX_MESSAGES)
    for _ in range(MAX_MESSAGES):
        box.add(Q, encode_message(b"x", None))
    assert [frame.destination.name for frame in sends(box.frames_to_send())] == ["q", "r"]


def test_a_body_goes_after_what_was_open_for_its_route() -> None:
    box = outbox()
    add(box, b"open")
    box.add_body(Q, encode_message(b"body", None), 1)
    assert [frame.body[-4:] for frame in sends(box.frames_to_send())] == [b"open", b"body"]


def test_the_window_counts_messages_and_bytes() -> None:
    box = outbox(messages=2)
    add(box, b"1")
    assert box.has_room
    add(box, b"2")
    assert not box.has_room
    box.frames_to_send()
    box.confirm(2)
    assert box.has_room
    assert (box.messages, box.size) == (0, 0)
    small = outbox(size=100)
    add(small, b"x" * 100)
    assert not small.has_room


def test_a_call_is_told_once_when_its_last_frame_is_confirmed() -> None:
    box, call = outbox(), Told()
    for body, count in bodies([b"x"] * 600, None):
        box.add_body(Q, body, count, call)
    call.end()
    box.frames_to_send()
    for through in (256, 300, 512):
        box.confirm(through)
    assert call.times == 0
    box.confirm(600)
    assert call.times == 1


def test_a_call_without_messages_is_settled_at_once() -> None:
    call = Told()
    call.end()
    assert call.times == 1


def test_rejections_reach_whom_they_concern() -> None:
    box = outbox()
    one, two = add(box, b"1"), add(box, b"2")
    box.add(Q, encode_message(b"published", None))
    box.frames_to_send()
    box.reject(Rejection(2, 3, "QUEUE_FULL", "full"))
    assert (one.times, two.times) == (0, 0)
    box.confirm(3)
    assert one.rejections == []
    assert two.rejections == [Rejection(2, 2, "QUEUE_FULL", "full")]
    assert box.rejections == [Rejection(3, 3, "QUEUE_FULL", "full")]


def test_a_rejection_of_the_next_number_settles_it_without_a_confirmation() -> None:
    box = outbox()
    call = add(box, b"1")
    box.frames_to_send()
    box.reject(Rejection(1, 1, "TOO_LARGE", "too large"))
    assert call.times == 1
    assert call.rejections


def test_after_a_lost_connection_the_rest_goes_out_again_byte_for_byte() -> None:
    box = outbox()
    calls = []
    sealed = []
    for number in range(3):
        calls.append(add(box, b"%d" % number))
        sealed += box.frames_to_send()
    box.reject(Rejection(3, 3, "QUEUE_FULL", "full"))
    assert box.begin(1)
    assert box.frames_to_send() == sealed[1:]
    box.confirm(3)
    assert [call.times for call in calls] == [1, 1, 1]
    assert calls[2].rejections == []


def test_a_new_client_goes_on_where_its_producer_stood() -> None:
    box = outbox()
    assert box.begin(41)
    add(box, b"x")
    assert sends(box.frames_to_send())[0].first == 42


def test_a_node_that_has_more_than_was_sent_is_noticed() -> None:
    box = outbox()
    assert box.begin(0)
    add(box, b"x")
    box.frames_to_send()
    assert not box.begin(2)


def test_the_end_is_told_to_everybody() -> None:
    box = outbox()
    sent, open_ = add(box, b"1"), Told()
    box.frames_to_send()
    box.add(Q, encode_message(b"2", None), open_)
    box.fail(KeyError("over"))
    assert isinstance(sent.error, KeyError)
    assert isinstance(open_.error, KeyError)


@given(
    st.lists(st.sampled_from(["add", "body", "take", "confirm", "reject", "lose"]), max_size=60), st.data()
)
def test_whatever_happens_each_message_is_settled_once_and_none_is_skipped(
    steps: list[str], data: st.DataObject
) -> None:
    box = outbox(messages=10**6)
    box.begin(0)
    calls: list[Told] = []
    node: list[Send] = []
    committed = 0
    for step in steps:
        if step == "add":
            calls.append(add(box, b"x", data.draw(st.sampled_from([Q, R]))))
        elif step == "body":
            call = Told()
            box.add_body(Q, encode_message(b"y", None) * 3, 3, call)
            call.end()
            calls.append(call)
        elif step == "take":
            node += sends(box.frames_to_send())
        elif step == "lose":
            node = []
            assert box.begin(committed)
        elif node:
            frame = node.pop(0)
            assert frame.first <= committed + 1
            committed = max(committed, frame.first + frame.count - 1)
            if step == "reject":
                box.reject(Rejection(frame.first, committed, "QUEUE_FULL", "full"))
            box.confirm(committed)
    box.begin(committed)
    for frame in sends(box.frames_to_send()):
        assert frame.first == committed + 1
        committed += frame.count
        box.confirm(committed)
    assert all(call.times == 1 for call in calls)
    assert (box.messages, box.size) == (0, 0)


def test_what_was_rejected_unheard_is_told_when_the_next_connection_says_so() -> None:
    box = outbox()
    box.begin(0)
    first, second, third = (add(box, b"1", Q), add(box, b"2", R), add(box, b"3", Q))
    box.seal()
    fourth = add(box, b"4", Q)
    box.seal()
    rejection = Rejection(3, 3, "QUEUE_FULL", "no room")
    assert box.begin(4, [rejection])
    assert [call.times for call in (first, second, third, fourth)] == [1, 1, 1, 1]
    assert [call.rejections for call in (first, third, fourth)] == [[], [], []]
    assert second.rejections == [rejection]
    assert box.frames_to_send() == []


def test_rejections_of_an_earlier_client_of_that_name_are_none_of_ours() -> None:
    box = outbox()
    assert box.begin(9, [Rejection(4, 9, "QUEUE_FULL", "no room")])
    call = add(box, b"10")
    (frame,) = sends(box.frames_to_send())
    assert frame.first == 10
    box.confirm(10)
    assert (call.times, call.rejections, box.rejections) == (1, [], [])


def test_what_is_not_sealed_can_be_taken_back() -> None:
    box = outbox()
    kept, gone = add(box, b"1"), add(box, b"2")
    add(box, b"3", R)
    assert box.withdraw(gone)
    assert (box.messages, box.size) == (2, 2 * len(encode_message(b"1", None)))
    first, second = sends(box.frames_to_send())
    assert [m.payload for m in decode_messages(first.body, first.count)] == [b"1"]
    assert (second.first, second.destination) == (2, queue("r"))
    box.confirm(2)
    assert (kept.times, gone.times) == (1, 0)


def test_what_is_sealed_cannot_be_taken_back_and_the_rest_of_its_call_is() -> None:
    box = outbox()
    call = Told()
    for body, count in bodies([b"x"] * 512, None):
        box.add_body(Q, body, count, call)
        box.frames_to_send() if not box.messages - 256 else None
    call.end()
    assert not box.withdraw(call)
    assert (box.messages, box.next_number) == (256, 257)
    assert box.frames_to_send() == []
    assert box.withdraw(Told())


@given(st.lists(st.tuples(st.sampled_from((Q, R)), st.booleans()), min_size=1, max_size=600))
def test_whoever_is_left_is_told_whatever_is_taken_back(sent: list[tuple[FrameRoute, bool]]) -> None:
    box = outbox(messages=10_000)
    calls = [(add(box, b"%d" % index, route), stays) for index, (route, stays) in enumerate(sent)]
    assert all(box.withdraw(call) for call, stays in calls if not stays)
    payloads = {
        m.payload for frame in sends(box.frames_to_send()) for m in decode_messages(frame.body, frame.count)
    }
    assert payloads == {b"%d" % index for index, (_, stays) in enumerate(sent) if stays}
    box.confirm(box.next_number - 1)
    assert [call.times for call, _ in calls] == [int(stays) for _, stays in calls]
    assert (box.messages, box.size) == (0, 0)
