"""How payloads are shown to people."""

import pytest

from broker.api.previews import text_of


@pytest.mark.parametrize(
    ("payload", "length", "expected"),
    [
        (b"", 4, ("", "utf-8")),
        (b"abcdef", 4, ("abcd", "utf-8")),
        ("aü".encode(), 2, ("a", "utf-8")),
        ("aü".encode(), 3, ("aü", "utf-8")),
        (b"a\xc3", 4, ("YcM=", "base64")),
        (b"\xff" * 9, 3, ("////", "base64")),
    ],
)
def test_text_is_cut_between_characters_and_other_bytes_are_base64(
    payload: bytes, length: int, expected: tuple[str, str]
) -> None:
    assert text_of(payload, length) == expected
