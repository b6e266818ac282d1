"""Our filters: the lowest id comes first, and a new one is above all."""

from bridges.site_brokers.mosquitto.filters import OwnFilters


def test_what_matches_comes_by_id() -> None:
    filters = OwnFilters({"prices/#": 3, "prices/tea": 1, "sales/+": 2})
    assert list(filters.matching("prices/tea")) == [(1, "prices/tea"), (3, "prices/#")]
    assert list(filters.matching("stock")) == []
    assert (len(filters), repr(filters)) == (3, "<OwnFilters 3>")


def test_a_new_filter_has_an_id_above_all_others_as_far_as_mqtt_has_any() -> None:
    assert OwnFilters({}).free_id() == 1
    assert OwnFilters({"a": 7, "b": 2}).free_id() == 8
    assert OwnFilters({"a": 268_435_455}).free_id() == 1


def test_what_was_changed_counts_once_it_is_sorted() -> None:
    ids = {"a": 2}
    filters = OwnFilters(ids)
    ids["#"] = 1
    filters.sort()
    assert list(filters.matching("a")) == [(1, "#"), (2, "a")]
