"""Options are checked at the call; a property test gives whatever passed to a node's own reading."""

import math
import os
import ssl
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st

from sapwood.client import _message
from sapwood.options import TlsFiles, context_of, flag, payload_of, properties_of, scope_of, seconds
from sapwood.protocol.bundles import Foreign, Properties, decode_messages


@pytest.mark.parametrize(
    ("name", "value", "kind", "expected"),
    [
        ("correlation_id", "a-1", TypeError, r"whole number \(bytes: foreign=Foreign"),
        ("correlation_id", True, TypeError, "whole number"),
        ("correlation_id", 1 << 64, ValueError, "expected -9223372036854775808 to 18446744073709551615"),
        ("expires_in", "60", TypeError, "milliseconds, or a timedelta"),
        ("expires_in", -1, ValueError, "expected 0 to"),
        ("expires_in", math.nan, ValueError, "milliseconds"),
        ("expires_in", timedelta.max, ValueError, "expected 0 to 9007199254740991"),
        ("timestamp", "now", TypeError, "seconds since 1970, or a datetime"),
        ("timestamp", math.inf, ValueError, "seconds since 1970"),
        ("timestamp", -1, ValueError, "expected 0 to"),
        ("priority", 1.0, TypeError, "0 to 255"),
        ("priority", 256, ValueError, "0 to 255"),
        ("headers", "x", TypeError, "a mapping with names of text"),
        ("headers", {1: "x"}, TypeError, "a mapping with names of text"),
        ("headers", {"x": object()}, TypeError, "what MessagePack can say"),
        ("headers", {"x": 1 << 70}, ValueError, "what MessagePack can say"),
        ("headers", {"x": "\ud800"}, ValueError, "what MessagePack can say"),
        ("reply_to", 7, TypeError, "a text"),
        ("reply_to", None, TypeError, "a text"),
        ("content_type", b"text/plain", TypeError, "a text"),
        ("message_id", "\ud800", ValueError, "Unicode text"),
        ("foreign", {"qos": 2}, TypeError, "Foreign"),
        ("foreign", Foreign(qos="2"), TypeError, "int"),  # type: ignore[arg-type]
        ("expire_in", 60, TypeError, "did you mean 'expires_in'"),
        ("colour", "red", TypeError, "there are content_type, correlation_id"),
        ("persistant", True, TypeError, "did you mean 'persistent'"),
    ],
)
def test_a_wrong_property_says_what_was_expected(
    name: str, value: object, kind: type[Exception], expected: str
) -> None:
    with pytest.raises(kind, match=expected) as caught:
        properties_of(**{name: value})  # type: ignore[misc]
    assert name in str(caught.value)


def test_what_is_clear_is_converted() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, 600_000, tzinfo=UTC)
    made = properties_of(expires_in=1500.2, timestamp=moment, correlation_id=None, headers={"a": (1, 2)})
    assert made == Properties(expires_in=1501, timestamp=int(moment.timestamp()), headers={"a": (1, 2)})
    assert properties_of(expires_in=timedelta(seconds=2)).expires_in == 2000
    assert properties_of(timestamp=moment.timestamp()).timestamp == int(moment.timestamp())


def test_payloads_flags_scopes_and_seconds() -> None:
    assert [payload_of(each) for each in (b"a", "a", bytearray(b"a"), memoryview(b"a"))] == [b"a"] * 4
    wrong: list[tuple[Any, Any, type[Exception]]] = [
        (payload_of, {"a": 1}, TypeError),
        (payload_of, "\ud800", ValueError),
        (scope_of, "tree", TypeError),
        (scope_of, 2, ValueError),
        (lambda value: flag("persistent", value), 1, TypeError),
        (lambda value: seconds("timeout", value), "1", TypeError),
        (lambda value: seconds("timeout", value), math.nan, ValueError),
        (lambda value: seconds("timeout", value), -1, ValueError),
    ]
    for check, value, kind in wrong:
        with pytest.raises(kind):
            check(value)
    assert (seconds("timeout", None), seconds("timeout", 0)) == (None, 0.0)


_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=5,
)
_NAMES = st.sampled_from(Properties.__struct_fields__)


@given(st.dictionaries(_NAMES, _ANYTHING | st.builds(Foreign, qos=st.integers(0, 2)), max_size=4))
def test_a_node_reads_whatever_passes(options: dict[str, Any]) -> None:
    try:
        _, message = _message("queue:q", b"x", options)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return
    (read,) = decode_messages(message, 1)
    assert read.payload == b"x"


def test_certificates_come_from_a_pipe_which_is_opened_once(tmp_path: Path) -> None:
    """A second reader would wait without end for somebody who has written already."""
    pipe = tmp_path / "ca.pem"
    os.mkfifo(pipe)
    errors: list[Exception] = []

    def read() -> None:
        try:
            context_of(str(pipe), None, None)
        except ssl.SSLError as error:
            errors.append(error)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    with pipe.open("wb") as writer:
        writer.write(b"no certificate")
    reader.join(60)
    assert errors


def test_files_of_certificates_are_read_again_and_the_ones_before_stay_while_they_cannot_be(
    tmp_path: Path,
) -> None:
    authority, chain, key = (str(tmp_path / name) for name in ("ca.pem", "own.pem", "own.key"))
    authorities = trustme.CA(), trustme.CA()

    def renew(by: trustme.CA) -> None:
        issued = by.issue_cert("till")
        by.cert_pem.write_to_path(authority)
        issued.private_key_pem.write_to_path(key)
        issued.cert_chain_pems[0].write_to_path(chain)

    def known() -> list[bytes]:
        context = files.context()
        assert context
        return context.get_ca_certs(binary_form=True)

    renew(authorities[0])
    files = TlsFiles(authority, chain, key)
    first = known()
    renew(authorities[1])
    second = known()
    assert (len(first), len(second), first == second) == (1, 1, False)
    for wrong in (b"no key", b""):
        Path(key).write_bytes(wrong)
        authorities[0].cert_pem.write_to_path(authority)
        assert known() == second
    Path(key).unlink()
    os.mkfifo(key)
    assert known() == second
    Path(key).unlink()
    assert known() == second
    renew(authorities[0])
    assert known() == first
