"""The words of Mosquitto about its clients at `$SYS/broker/log/…`, read line by line.

Measured with Mosquitto 2.0, older sentences read in its sources: `M/subscribe` has `TIME: CLIENT QOS FILTER`,
`M/unsubscribe` has `TIME: CLIENT FILTER`; `N` and `E` have sentences. The part before `: ` follows
`log_timestamp` and `log_timestamp_format`, and may be missing: how many `: ` it holds is learned from a line
about a client that is known (`colons`). A sentence is found by its first words.

Wrinkle: client ids and filters may hold spaces, and an id the words of a sentence: so a line is read with the
ids that are known, the longest first. A line is cut at about a thousand bytes: of a longer one the filter is
not known, and the line is `Cut`.
"""

import re
from collections.abc import Container
from typing import Final, NamedTuple

LOG: Final = "$SYS/broker/log/"
SUBSCRIBE: Final = LOG + "M/subscribe"
UNSUBSCRIBE: Final = LOG + "M/unsubscribe"
_LONGEST: Final = 980
_TIME = re.compile(r"(?:\d{9,12}|[^ ]{1,40}): ")
_SENTENCE = re.compile(
    r"(?:\A|: )(?=New (?:client|bridge) connected from |Client |Expiring client |Bad socket |Socket error "
    r"|Outgoing messages are being dropped )"
)
_CAME = re.compile(
    r"New (?:client|bridge) connected from \S+ as (.+) \((?:p(\d+), )?c([01]), k\d+(?:, u.*)?\)\.?", re.DOTALL
)
"""Before version 1.6 the protocol was not said."""
_EXPIRED = re.compile(r"Expiring client (.+) due to timeout\.?", re.DOTALL)
_DROPPED = re.compile(r"Outgoing messages are being dropped for client (.+?)\.?", re.DOTALL)
_OVER = re.compile(r"Client |(?:Bad socket read/write on|Socket error on) client ")
_HOW = re.compile(
    r" (?:(?:been )?disconnected\b|closed its connection\b|has exceeded timeout, disconnecting)"
    r"| already connected, closing|: |, disconnecting"
)
_V5: Final = 5


class Came(NamedTuple):
    """A client connected. `clean`: with nothing of an earlier session."""

    client: str
    clean: bool
    v5: bool


class Went(NamedTuple):
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


class Dropped(NamedTuple):
    """Messages for a client are thrown away, since too many wait for it."""

    client: str


Event = Came | Went | Subscribed | Unsubscribed | Cut


def colons(payload: bytes, client: str) -> int | None:
    """How many `: ` stand before the id of a client that has subscribed; None: it was another one."""
    before, found, _ = payload.decode(errors="replace").partition(f"{client} ")
    return before.count(": ") if found and (not before or before.endswith(": ")) else None


def read(
    topic: str, payload: bytes, known: Container[str] = (), colons: int | None = None
) -> Event | Dropped | None:
    """The event of a client that a line tells; None if it says nothing of any. `known`: ids of clients.

    `colons`: how many there are before the line itself; None: that is guessed.
    """
    text = payload.decode(errors="replace")
    if topic in (SUBSCRIBE, UNSUBSCRIBE):
        text = _without_time(text, colons)
        if len(payload) >= _LONGEST:
            return Cut(text[:80])
        return _subscribed(text, known) if topic == SUBSCRIBE else _unsubscribed(text, known)
    begin = _SENTENCE.search(text) if topic.startswith(LOG) else None
    return _sentence(text[begin.end() :], known) if begin else None


def _without_time(text: str, colons: int | None) -> str:
    if colons is not None:
        return text.split(": ", colons)[-1]
    time = _TIME.match(text)
    return text[time.end() :] if time else text


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


def _sentence(text: str, known: Container[str]) -> Event | Dropped | None:
    if found := _CAME.fullmatch(text):
        return Came(found[1], found[3] == "1", found[2] == str(_V5))
    if found := _EXPIRED.fullmatch(text):
        return Went(found[1], expired=True)
    if found := _DROPPED.fullmatch(text):
        return Dropped(found[1])
    if found := _OVER.match(text):
        rest = text[found.end() :]
        names = [rest[: how.start()] for how in _HOW.finditer(rest) if how.start()]
        of_known = [name for name in reversed(names) if name in known]
        return Went((of_known or names)[0]) if names else None
    return None
