"""Who is subscribed to what, as the log tells it and the counts correct it."""

from bridges.site_brokers.mosquitto.consumers import Change, SubscriptionTable
from bridges.site_brokers.mosquitto.log_lines import Came, Cut, Event, Subscribed, Unsubscribed, Went


def heard(table: SubscriptionTable, *events: Event) -> list[Change]:
    return [change for event in events for change in table.heard(event)]


def pairs(table: SubscriptionTable) -> set[tuple[str, str]]:
    return set(table.consumers())


def test_a_clean_session_ends_with_its_connection() -> None:
    table = SubscriptionTable(100)
    assert heard(table, Came("a", True, False), Subscribed("a", "x"), Subscribed("a", "x")) == [
        Change(True, "a", "x")
    ]
    assert heard(table, Went("a")) == [Change(False, "a", "x")]
    assert heard(table, Went("a")) == []


def test_a_persistent_session_stays_while_its_client_is_away() -> None:
    table = SubscriptionTable(100)
    heard(table, Came("a", False, False), Subscribed("a", "x"), Went("a"))
    assert pairs(table) == {("a", "x")}
    assert heard(table, Came("a", False, False), Unsubscribed("a", "x")) == [Change(False, "a", "x")]
    heard(table, Subscribed("a", "y"), Went("a"))
    assert heard(table, Came("a", True, False)) == [Change(False, "a", "y")]


def test_who_was_not_heard_to_come_stays_until_the_count_says_otherwise() -> None:
    table = SubscriptionTable(100)
    heard(table, Subscribed("a", "x"), Subscribed("b", "y"))
    assert heard(table, Went("a")) == []
    assert table.counted(False, 2) == []
    assert table.counted(False, 1) == [Change(False, "a", "x")]
    heard(table, Came("b", True, False))
    heard(table, Subscribed("b", "y"))
    table.doubt()
    assert heard(table, Went("b")) == []
    assert table.counted(False, 0) == [Change(False, "b", "y")]


def test_a_session_that_expires_is_over() -> None:
    table = SubscriptionTable(100)
    heard(table, Came("a", False, True), Subscribed("a", "x"), Went("a"))
    assert heard(table, Went("a", expired=True)) == [Change(False, "a", "x")]


def test_an_id_that_is_taken_over_loses_what_it_had() -> None:
    table = SubscriptionTable(100)
    heard(table, Came("a", True, False), Subscribed("a", "x"))
    assert heard(table, Went("a"), Came("a", True, False), Subscribed("a", "y")) == [
        Change(False, "a", "x"),
        Change(True, "a", "y"),
    ]


def test_our_own_clients_are_none() -> None:
    table = SubscriptionTable(100, own=["us"])
    assert heard(table, Came("us", True, True), Subscribed("us", "x")) == []


def test_a_flood_is_bounded() -> None:
    table = SubscriptionTable(10)
    for number in range(100):
        heard(table, Came(f"c{number}", True, False), Subscribed(f"c{number}", "x"))
    assert (len(table), table.over) == (10, 90)
    heard(table, *(Went(f"c{number}") for number in range(100)))
    assert len(table) == 0
    heard(table, Cut("c"))
    assert table.cut == 1


def test_after_a_gap_the_count_tells_whether_all_are_still_there() -> None:
    table = SubscriptionTable(100)
    heard(table, Subscribed("a", "x"), Subscribed("b", "y"), Subscribed("b", "$share/g/q"))
    table.doubt()
    assert table.counted(False, 2) == []
    heard(table, Subscribed("a", "z"))
    table.doubt()
    assert table.counted(False, 2) == []
    heard(table, Came("a", False, False))
    assert table.counted(False, 2) == [Change(False, "b", "y"), Change(False, "b", "$share/g/q")]
    assert pairs(table) == {("a", "x"), ("a", "z")}


def test_where_the_count_fits_who_went_and_who_was_not_heard_of_both_stay() -> None:
    table = SubscriptionTable(100)
    heard(table, Subscribed("a", "x"), Subscribed("b", "y"))
    table.doubt()
    heard(table, Went("b"))
    assert table.counted(False, 1) == []
    heard(table, Subscribed("a", "x"))
    assert table.counted(False, 1) == [Change(False, "b", "y")]


def test_subscriptions_that_nobody_told_of_are_counted() -> None:
    table = SubscriptionTable(100)
    heard(table, Subscribed("a", "x"))
    assert table.counted(False, 4) == []
    assert table.counted(True, 1) == []
    assert table.missing == 4
    heard(table, *(Subscribed(name, "x") for name in "bcd"))
    table.counted(False, 4)
    table.counted(True, 0)
    assert table.missing == 0


def test_a_session_of_mqtt_5_that_outlives_a_clean_start_comes_back_by_the_count() -> None:
    table = SubscriptionTable(100)
    heard(table, Came("a", True, True), Subscribed("a", "x"), Went("a"))
    assert table.counted(False, 1) == [Change(True, "a", "x")]
    assert table.missing == 0
    assert table.counted(False, 0) == [Change(False, "a", "x")]


def test_what_the_broker_denies_goes() -> None:
    table = SubscriptionTable(100)
    heard(table, Subscribed("a", "x"), Subscribed("a", "y"))
    assert table.nobody([("a", "x"), ("a", "z")]) == [Change(False, "a", "x")]


def test_who_was_heard_after_a_moment_is_known() -> None:
    table = SubscriptionTable(100)
    heard(table, Subscribed("a", "x"), Subscribed("b", "x"))
    again = SubscriptionTable(100)
    again.restore(table.keep())
    assert not again.heard_since(0, "a", "x")
    heard(again, Subscribed("b", "x"), Subscribed("a", "x"))
    moment = again.moment
    heard(again, Subscribed("b", "x"))
    assert [again.heard_since(moment, name, "x") for name in "ab"] == [False, True]


def test_what_is_kept_comes_back_unsure() -> None:
    table = SubscriptionTable(100)
    heard(table, Came("a", False, True), Subscribed("a", "x"), Came("b", True, False))
    again = SubscriptionTable(100)
    again.restore(table.keep())
    assert pairs(again) == {("a", "x")}
    assert again.counted(False, 0) == [Change(False, "a", "x")]


def test_sessions_that_the_broker_kept_are_added_unsure() -> None:
    table = SubscriptionTable(100, own=["us"])
    heard(table, Came("a", True, False), Subscribed("a", "x"))
    assert table.found({"a": ["x"], "b": ["y"], "us": ["z"]}) == [Change(True, "b", "y")]
    assert pairs(table) == {("a", "x"), ("b", "y")}
    assert table.counted(False, 1) == [Change(False, "b", "y")]
