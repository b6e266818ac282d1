"""Mosquitto's log, as version 2.0.11 writes it."""

import pytest

from bridges.site_brokers.mosquitto.log_lines import (
    SUBSCRIBE,
    UNSUBSCRIBE,
    Came,
    Cut,
    Dropped,
    Event,
    Subscribed,
    Unsubscribed,
    Went,
    colons,
    read,
)

NOTICE = "$SYS/broker/log/N"
ERROR = "$SYS/broker/log/E"


@pytest.mark.parametrize(
    ("topic", "text", "event"),
    [
        (SUBSCRIBE, "1795281587: beta 1 $share/g/queue/orders", Subscribed("beta", "$share/g/queue/orders")),
        (SUBSCRIBE, "1795281587: beta 0 a 1 b/c", Subscribed("beta", "a 1 b/c")),
        (SUBSCRIBE, "2026-11-21T17:00:00+0000: beta 2 x", Subscribed("beta", "x")),
        (SUBSCRIBE, "beta 2 x", Subscribed("beta", "x")),
        (SUBSCRIBE, "1795281589: has space 0 z", Subscribed("has space", "z")),
        (UNSUBSCRIBE, "1795281589: has space q r", Unsubscribed("has space", "q r")),
        (UNSUBSCRIBE, "1795281589: beta q", Unsubscribed("beta", "q")),
        (
            NOTICE,
            "1795281588: New client connected from 127.0.0.1:33288 as gamma (p2, c1, k60).",
            Came("gamma", True, False),
        ),
        (
            NOTICE,
            "1795281588: New client connected from 127.0.0.1:33288 as a (b) (p5, c0, k60, u'me').",
            Came("a (b)", False, True),
        ),
        (
            NOTICE,
            "1795281588: New bridge connected from 127.0.0.1:33288 as york.hq (p4, c0, k60, u'hq').",
            Came("york.hq", False, False),
        ),
        (
            NOTICE,
            "1520281588: New client connected from 127.0.0.1 as till (c1, k60, ume).",
            Came("till", True, False),
        ),
        (
            NOTICE,
            "1795837740: Outgoing messages are being dropped for client sapwood-york@test.",
            Dropped("sapwood-york@test"),
        ),
        (NOTICE, "1795281588: Client beta closed its connection.", Went("beta")),
        (NOTICE, "1795281589: Client gamma disconnected.", Went("gamma")),
        (NOTICE, "1795281589: Client gamma disconnected, not authorised.", Went("gamma")),
        (NOTICE, "1795281589: Client gamma disconnected due to protocol error.", Went("gamma")),
        (NOTICE, "1795281589: Client gamma been disconnected by administrative action.", Went("gamma")),
        (NOTICE, "1795281589: Client gamma has exceeded timeout, disconnecting.", Went("gamma")),
        (
            NOTICE,
            "1795281589: Bad socket read/write on client gamma: Connection reset by peer",
            Went("gamma"),
        ),
        (NOTICE, "1795281589: Socket error on client gamma, disconnecting.", Went("gamma")),
        (NOTICE, "1795281589: Expiring client gamma due to timeout.", Went("gamma", expired=True)),
        (ERROR, "1795281588: Client gamma already connected, closing old connection.", Went("gamma")),
        (NOTICE, "1795281588: New connection from 127.0.0.1:33300 on port 18830.", None),
        (NOTICE, "", None),
        (SUBSCRIBE, "nonsense", None),
        ("prices/tea", "1795281589: Client gamma disconnected.", None),
    ],
)
def test_a_line_says_what_happened(topic: str, text: str, event: Event | Dropped | None) -> None:
    assert read(topic, text.encode(), ("has space", "beta")) == event


def test_an_id_that_holds_words_of_the_log_ends_nobody_else() -> None:
    ids = ("till", "till disconnected zone 3", "till already connected, closing old connection.")
    for name in ids:
        for end in (
            " disconnected.",
            " closed its connection.",
            " already connected, closing old connection.",
        ):
            assert read(NOTICE, f"1795281588: Client {name}{end}".encode(), ids) == Went(name)


@pytest.mark.parametrize("time", ["", "1795281588: ", "2026-11-21 20:10:09: ", "Nov 21: at 20:10: "])
def test_whatever_stands_before_a_line_is_learned_from_one_of_ours(time: str) -> None:
    count = colons(f"{time}us 1 $SYS/broker/log/N".encode(), "us")
    assert count == time.count(": ")
    assert colons(f"{time}not-us 1 x".encode(), "us") is None
    line = f"{time}has space 1 a: b".encode()
    assert read(SUBSCRIBE, line, ("has space",), count) == Subscribed("has space", "a: b")
    assert read(NOTICE, f"{time}Client beta disconnected.".encode(), (), count) == Went("beta")


def test_a_line_that_was_cut_names_no_filter() -> None:
    assert isinstance(read(SUBSCRIBE, b"1795281587: beta 1 " + b"x" * 1000), Cut)


def test_bytes_that_are_no_text_break_nothing() -> None:
    assert read(NOTICE, b"\xff\xfe") is None
