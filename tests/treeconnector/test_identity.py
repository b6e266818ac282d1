"""Ids: never made twice, and read back as they were written."""

from secrets import token_bytes

import pytest

from treeconnector.identity import BundleIds, MessageId, new_uuid, parse_message_id


def test_ids_of_one_start_share_a_prefix_and_count():
    ids = BundleIds(lambda count: b"\xab" * count)
    assert [ids.next() for _ in range(3)] == [b"\xab" * 12 + n.to_bytes(4, "big") for n in range(3)]
    assert repr(ids) == f"<BundleIds {'ab' * 12} made=3>"


def test_ids_of_two_starts_differ():
    assert BundleIds(token_bytes).next()[:12] != BundleIds(token_bytes).next()[:12]


def test_a_used_up_counter_draws_a_new_prefix():
    drawn = iter([b"a" * 12, b"b" * 12])
    ids = BundleIds(lambda count: next(drawn))
    ids._count = (1 << 32) - 1
    assert ids.next() == b"a" * 12 + b"\xff" * 4
    assert ids.next() == b"b" * 12 + b"\0" * 4


def test_message_ids_are_read_as_they_are_written():
    made = MessageId(bytes(range(16)), 255)
    assert str(made) == "000102030405060708090a0b0c0d0e0f-255"
    assert parse_message_id(str(made)) == made


@pytest.mark.parametrize(
    "text", ["", "-", "00-1", "g" * 32 + "-1", "0" * 32, "0" * 32 + "-", "0" * 32 + "-x", "0" * 32 + "--1",
             "0" * 33 + "-1", "0" * 32 + "-1234567", "0" * 32 + "-²"]
)  # fmt: skip
def test_what_is_no_message_id(text):
    with pytest.raises(ValueError, match="is no message id: expected 32 hexadecimal digits"):
        parse_message_id(text)


def test_uuids():
    assert len(new_uuid(token_bytes)) == 16
    assert new_uuid(token_bytes) != new_uuid(token_bytes)
