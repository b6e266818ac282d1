"""A lease ends by the reader's own running time, and by nothing else."""

from dataclasses import replace

from bridges.dns.leases import Leases
from bridges.dns.records import NamedParent

PLACE = NamedParent("wss://a:7600/link", node="north", incarnation="0f", beat="1", lease=100.0)


def test_what_is_not_renewed_lapses_a_lease_after_it_was_first_seen() -> None:
    leases = Leases()
    assert leases.lapsed([PLACE], 5000.0) == frozenset()
    assert leases.lapsed([PLACE], 5125.0) == frozenset()
    assert leases.lapsed([PLACE], 5125.1) == {PLACE}


def test_another_beat_or_another_start_begins_anew() -> None:
    for renewed in (replace(PLACE, beat="2"), replace(PLACE, incarnation="aa")):
        leases = Leases()
        leases.lapsed([PLACE], 0.0)
        assert leases.lapsed([renewed], 500.0) == frozenset()
        assert leases.lapsed([renewed], 626.0) == {renewed}


def test_what_was_written_by_hand_has_no_lease() -> None:
    leases = Leases()
    by_hand = NamedParent("wss://a:7600/link")
    assert leases.lapsed([by_hand], 0.0) == leases.lapsed([by_hand], 1e9) == frozenset()


def test_only_what_is_there_now_is_remembered() -> None:
    leases = Leases()
    leases.lapsed([PLACE], 0.0)
    leases.lapsed([], 1.0)
    assert repr(leases) == "<Leases of 0>"
    assert leases.lapsed([PLACE], 500.0) == frozenset()
