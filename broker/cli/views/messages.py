"""Messages of a queue."""

import sys
from base64 import b64decode
from collections.abc import Iterator
from typing import Final

from broker.cli.node_api import Fields
from broker.cli.output import printable

_A_LINE: Final = 16


def detail(found: Fields, given: Fields) -> None:
    """A whole message: what it carries, an empty line, and its payload.

    Bytes that are no UTF-8 are shown in hexadecimal. A terminal gets no character that it would obey.
    """
    binary = found["encoding"] == "base64"
    shown_as = "hexadecimal" if binary or given["hex"] else found["encoding"]
    facts = {name: found[name] for name in ("id", "destination", "origin", "size", "deliveries")}
    for name, value in {**facts, "payload": shown_as, **found["properties"]}.items():
        print(printable(f"{name}: {value}"))
    text: str = found["payload"]
    if shown_as == "hexadecimal":
        text = "\n".join(_hexadecimal(b64decode(text) if binary else text.encode()))
    elif sys.stdout.isatty():
        text = printable(text.expandtabs())
    print(f"\n{text}")


def _hexadecimal(data: bytes) -> Iterator[str]:
    """A line for 16 bytes: where it begins, the bytes, and the letters of ASCII among them."""
    for start in range(0, len(data), _A_LINE):
        part = data[start : start + _A_LINE]
        letters = "".join(chr(code) if 31 < code < 127 else "." for code in part)
        yield f"{start:08x}  {part.hex(' '):<{3 * _A_LINE}} {letters}"


def delete(_found: Fields, given: Fields) -> None:
    """A message that went."""
    print(f"message {given['id']} of {given['name']} is deleted")
