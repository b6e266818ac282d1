"""The characters that a text of MQTT may hold: at most 65,535 bytes, and no character for which a broker ends
the line.

The specification lets a receiver close the connection on control characters and on those that Unicode has
set aside; Mosquitto does. A text that holds such characters is carried as JSON that escapes them, under a
name that says so (`json_name`).
"""

import json
import re
from typing import Any, Final

MAX_BYTES: Final = 65_535
_JSON: Final = "sapwood-json-"
_RESERVED: Final = "".join(chr(plane << 16 | last) for plane in range(17) for last in (0xFFFE, 0xFFFF))
_REFUSED: Final = re.compile(f"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef{_RESERVED}]")


def is_plain(text: str) -> bool:
    """May this stand in a text as it is?"""
    return not _REFUSED.search(text)


def fits(text: str) -> bool:
    """May this be a text of MQTT?"""
    return is_plain(text) and len(text.encode()) <= MAX_BYTES


def json_name(name: str) -> str:
    """Under which name the JSON of a header's value stands."""
    return _JSON + name


def escaped(text: str) -> str:
    """A text as JSON in which nothing is left that a broker refuses."""
    return json.dumps(text).replace("\x7f", r"\u007f")


def unescaped(name: str, text: str) -> tuple[str, Any]:
    """A user property as header: its name and value; as they are, if they are not of that form."""
    if not name.startswith(_JSON):
        return name, text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return name, text
    return (name.removeprefix(_JSON), value) if isinstance(value, str) else (name, text)
