"""What Mosquitto says of its clients at `$SYS/broker/log/…`, read line by line.

Measured with Mosquitto 2.0: `M/subscribe` has `TIME: CLIENT QOS FILTER`, `M/unsubscribe` has
`TIME: CLIENT FILTER`; `N` and `E` have sentences. What stands before `: ` follows `log_timestamp`, and may be
missing.

Wrinkle: client ids and filters may hold spaces, so a line is read with the ids that are known. A line is cut
at about a thousand bytes: of a longer one the filter is not known, and the line is `Cut`.
"""

import re
from collections.abc import Container
from typing import Final, NamedTuple

LOG: Final = "$SYS/broker/log/"
SUBSCRIBE: Final = LOG + "M/subscribe"
UNSUBSCRIBE: Final = LOG + "M/unsubscribe"
_LONGEST: Final = 980
_TIME = re.compile(r"(?:\d{9,12}|[^ ]{1,40}): ")
_CAME = re.compile(
    r"New client connected from \S+ as (.+) \(p(\d+), c([01]), k\d+(?:, u'.*')?\)\.?", re.DOTALL
)
_GONE = re.compile(
    r"Client (.+?) (?:disconnected\b.*|closed its connection\.?|has exceeded timeout, disconnecting\.?)"
    r"|(?:Bad socket read/write on|Socket error on) client (.+?)(?:: .*|, disconnecting\.?)",
    re.DOTALL,
)
_TAKEN_OVER = re.compile(r"Client (.+) already connected, closing old connection\.?", re.DOTALL)
_EXPIRED = re.compile(r"Expiring client (.+) due to timeout\.?", re.DOTALL)
_V5: Final = 5


class Came(NamedTuple):
    """A client connected. `clean`: with nothing of an earlier session."""

    client: str
    clean: bool
    v5: bool


class Gone(NamedTuple):
    """A client's connection has ended; with `expired` its session as well."""

    client: str
    expired: bool = False


class Subscribed(NamedTuple):
    client: str
    filter: str


class Unsubscribed(NamedTuple):
    client: str
    filter: str


class Cut(NamedTuple):
    """A line about subscriptions that was too long to be whole."""

    text: str


Event = Came | Gone | Subscribed | Unsubscribed | Cut


def read(topic: str, payload: bytes, known: Container[str] = ()) -> Event | None:
    """What a line says of a client; None if it says nothing of any. `known`: ids of clients."""
    text = payload.decode(errors="replace")
    time = _TIME.match(text)
    if time:
        text = text[time.end() :]
    if topic in (SUBSCRIBE, UNSUBSCRIBE):
        if len(payload) >= _LONGEST:
            return Cut(text[:80])
        return _subscribed(text, known) if topic == SUBSCRIBE else _unsubscribed(text, known)
    return _sentence(text) if topic.startswith(LOG) else None


def _subscribed(text: str, known: Container[str]) -> Event | None:
    """The first reading whose client is known, else the one with the shortest name."""
    readings = [
        (text[: found.start()], text[found.end() :])
        for found in re.finditer(r" [012] (?=.)", text, re.DOTALL)
    ]
    for client, wanted in readings:
        if client in known:
            return Subscribed(client, wanted)
    return Subscribed(*readings[0]) if readings else None


def _unsubscribed(text: str, known: Container[str]) -> Event | None:
    readings = [
        (text[: found.start()], text[found.end() :]) for found in re.finditer(" (?=.)", text, re.DOTALL)
    ]
    for client, wanted in readings:
        if client in known:
            return Unsubscribed(client, wanted)
    return Unsubscribed(*readings[0]) if readings else None


def _sentence(text: str) -> Event | None:
    if found := _CAME.fullmatch(text):
        return Came(found[1], found[3] == "1", found[2] == str(_V5))
    if found := _TAKEN_OVER.fullmatch(text):
        return Gone(found[1])
    if found := _EXPIRED.fullmatch(text):
        return Gone(found[1], expired=True)
    if found := _GONE.fullmatch(text):
        return Gone(found[1] or found[2])
    return None
