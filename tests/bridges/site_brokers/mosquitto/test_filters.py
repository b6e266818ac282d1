"""Our filters and their ids; of the copies that come for them, the first is the message."""

from typing import Any

import msgspec
import pytest

from bridges.properties import MqttProperties
from bridges.site_brokers.mosquitto import filters as filters_module
from bridges.site_brokers.mosquitto.connection import Received
from bridges.site_brokers.mosquitto.filters import Copies, OwnFilters


def test_what_matches_comes_with_its_id() -> None:
    filters = OwnFilters({"prices/#": 3, "prices/tea": 1, "sales/+": 2})
    assert sorted(filters.matching("prices/tea")) == [(1, "prices/tea"), (3, "prices/#")]
    assert list(filters.matching("stock")) == []
    assert (len(filters), repr(filters)) == (3, "<OwnFilters 3>")


def test_a_place_is_awaited_while_a_filter_that_matches_it_is() -> None:
    filters = OwnFilters({"prices/#": 1})
    filters.awaited = {"answers/+"}
    assert filters.awaits("answers/1")
    assert not any(filters.awaits(topic) for topic in ("prices/tea", ""))


def test_a_new_filter_has_an_id_above_all_others_as_far_as_mqtt_has_any() -> None:
    assert OwnFilters({}).free_ids(["x"]) == {"x": 1}
    assert OwnFilters({"a": 7, "b": 2}).free_ids(["x", "y"]) == {"x": 8, "y": 9}
    assert OwnFilters({"a": 268_435_454}).free_ids(["x", "y"]) == {"x": 268_435_455, "y": 1}


def came(payload: bytes, *filters: int, expiry: int | None = None) -> Received:
    return Received("a", payload, 1, False, False, 0, MqttProperties(expiry=expiry), filters)


def taken(copies: Copies, *received: Received) -> list[tuple[bytes, bool]]:
    """The messages among these, and whether each is in doubt."""
    return [(each.payload, copies.in_doubt) for each in received if not copies.is_one(each)]


def test_of_copies_the_first_is_taken_whatever_filter_it_came_for() -> None:
    copies = Copies(OwnFilters({"#": 1, "a": 2, "+": 3}))
    all_three = [came(b"x", 2, expiry=9), came(b"x", 3, expiry=9), came(b"x", 1, expiry=8)]
    assert taken(copies, *all_three) == [(b"x", False)]
    assert taken(copies, *all_three, came(b"x", 2), came(b"x", 2)) == [(b"x", False)] * 3
    assert taken(copies, came(b"y", 2), came(b"z", 2), came(b"z", 1)) == [(b"y", False), (b"z", False)]


def test_what_came_for_a_filter_that_is_no_longer_ours_makes_no_copy_of_what_comes_next() -> None:
    own = OwnFilters({"#": 1, "a": 2})
    copies = Copies(own)
    assert taken(copies, came(b"x", 2)) == [(b"x", False)]
    own.remove("a")
    assert taken(copies, came(b"x", 1)) == [(b"x", True)]


def test_the_first_message_of_an_old_session_may_be_a_copy() -> None:
    copies = Copies(OwnFilters({"#": 1, "a": 2}))
    copies.resume()
    assert taken(copies, came(b"x", 1), came(b"y", 2)) == [(b"x", True), (b"y", False)]
    alone = Copies(OwnFilters({"a": 2}))
    alone.resume()
    assert taken(alone, came(b"x", 2)) == [(b"x", False)]


def test_a_broker_that_names_no_filters_or_all_of_them_sends_no_copies() -> None:
    copies = Copies(OwnFilters({"#": 1, "a": 2}))
    assert taken(copies, came(b"x"), came(b"x"), came(b"x", 1, 2), came(b"x", 1, 2)) == [(b"x", False)] * 4


def many() -> OwnFilters:
    return OwnFilters({f"prices/{number}/+": number for number in range(1, 10_001)})


def test_a_message_costs_what_matches_it_however_many_filters_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[str] = []
    monkeypatch.setattr(filters_module, "matches", lambda text, topic: tried.append(text))
    found = many()
    assert list(found.matching("prices/77/tea")) == [(77, "prices/77/+")]
    copies = Copies(found)
    assert not copies.is_one(msgspec.structs.replace(came(b"x", 77), topic="prices/77/tea"))
    assert not copies.is_one(msgspec.structs.replace(came(b"x", 77), topic="prices/77/tea"))
    assert tried == []


def test_a_change_costs_what_has_changed() -> None:
    class Counted(dict[str, int]):
        """Counts whoever goes through all of it."""

        walks = 0

        def values(self) -> Any:
            Counted.walks += 1
            return super().values()

        def __iter__(self) -> Any:
            Counted.walks += 1
            return super().__iter__()

    found = many()
    found.ids = Counted(found.ids)
    Counted.walks = 0
    for number in range(100):
        found.add(found.free_ids([f"stock/{number}"]))
        found.remove(f"prices/{number + 1}/+")
    assert Counted.walks == 0
    assert len(found) == 10_000
    assert found.ids["stock/99"] == 10_100
    assert list(found.matching("prices/1/tea")) == []
    assert found.are_ours({10_100, 5_000})
    assert not found.are_ours({1})


def test_the_memory_s_own_are_read_again() -> None:
    ids = {"a": 1}
    found = OwnFilters(ids)
    ids.clear()
    ids["b/#"] = 7
    found.reread()
    assert (list(found.matching("a")), list(found.matching("b/c"))) == ([], [(7, "b/#")])
    assert found.free_ids(["x"]) == {"x": 8}
    assert found.ids is ids
