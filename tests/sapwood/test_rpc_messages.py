"""Requests and replies are plain JSON; whatever else comes is told apart and harms nobody."""

import json
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood import BadReply, ServiceError
from sapwood.rpc_messages import (
    Request,
    decode_reply,
    decode_request,
    encode_error,
    encode_request,
    encode_result,
)

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner),
    max_leaves=5,
)


@given(st.text(min_size=1), st.dictionaries(st.text(), VALUES), st.text(), st.text())
def test_a_request_is_read_back(
    method: str, parameters: dict[str, Any], interface: str, version: str
) -> None:
    request = Request(method, parameters, interface, version)
    assert decode_request(encode_request(request)) == request


def test_what_is_not_said_is_left_out() -> None:
    assert json.loads(encode_request(Request("level"))) == {"method": "level"}
    assert json.loads(encode_result(date(2026, 7, 1))) == {"result": "2026-07-01"}
    assert decode_request(b'{"method": "level", "more": 1}') == Request("level")


@given(VALUES)
def test_a_result_is_read_back(result: Any) -> None:
    assert decode_reply(encode_result(result)) == result


@given(st.text(), st.text(), VALUES)
def test_an_error_is_read_back(code: str, message: str, data: Any) -> None:
    with pytest.raises(ServiceError) as caught:
        decode_reply(encode_error(ServiceError(code, message, data)))
    assert (caught.value.code, caught.value.message, caught.value.data) == (code, message, data)


def test_data_that_json_cannot_say_is_left_out_of_an_error() -> None:
    assert json.loads(encode_error(ServiceError("NO", "no", object()))) == {
        "error": {"code": "NO", "message": "no", "data": None}
    }


def test_what_json_cannot_say_is_refused_where_it_is_made() -> None:
    with pytest.raises(TypeError, match="parameters of 'level'"):
        encode_request(Request("level", {"article": object()}))
    with pytest.raises(ServiceError, match="BAD_RESULT"):
        encode_result({1: object()})
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ServiceError, match="BAD_RESULT"):
        encode_result(deep)


@given(
    st.binary() | st.sampled_from([b"[" * 100_000, b'{"result": ' + b"[" * 100_000, b"{}", b'{"error": 1}'])
)
def test_what_is_neither_is_no_reply_and_no_request(payload: bytes) -> None:
    with pytest.raises(BadReply):
        decode_reply(payload)
    with pytest.raises(ServiceError, match="BAD_REQUEST"):
        decode_request(payload)
