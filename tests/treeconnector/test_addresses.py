"""The cache of logical addresses: against a plain model, and its limits one by one."""

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from sapwood.protocol.names import incarnation_text
from treeconnector.addresses import FOR_EVER, MOST_BYTES, AddressCache, ClaimedTwice
from treeconnector.frames import Whereabouts
from treeconnector.hellos import MAX_ADDRESS, MAX_ADDRESSES

NAMES = st.sampled_from(["york", "leeds", "ripon", "selby", "goole", "whitby"])
NUMBERS = st.integers(0, 7)
VIA = st.sampled_from(["north", "south", "hq"])
CAPACITY = 4


def at(name: str, number: int, *addresses: str) -> Whereabouts:
    return Whereabouts(name, bytes([number]) * 16, list(addresses))


class Model(RuleBasedStateMachine):
    """The same calls on the cache and on rows (name, number, via, expires, told), the oldest use first."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.cache = AddressCache(lambda: CAPACITY)
        self.rows: list[list] = []

    def row(self, name: str) -> list | None:
        return next((row for row in self.rows if row[0] == name), None)

    def held(self, number: int) -> list | None:
        return next((row for row in self.rows if row[1] == number), None)

    @rule(name=NAMES, number=NUMBERS, via=VIA, life=st.sampled_from([1.0, 5.0, FOR_EVER]))
    def put(self, name, number, via, life):
        holder = self.held(number)
        if holder is not None and holder[0] != name:
            self.use(holder)
            with pytest.raises(ClaimedTwice):
                self.cache.put(at(name, number), via, self.now, self.now + life)
            return
        before = self.row(name)
        ended = self.cache.put(at(name, number), via, self.now, self.now + life)
        told = set()
        if before is not None:
            self.rows.remove(before)
            told = before[4] if before[1] == number else told
        self.rows.append([name, number, via, self.now + life, told])
        expected = before[1] if before is not None and before[1] != number else None
        assert (None if ended is None else ended.found.incarnation[0]) == expected
        while len(self.rows) > CAPACITY:
            lent = [row for row in self.rows if row[3] != FOR_EVER]
            self.rows.remove((lent or self.rows)[0])

    def use(self, row: list) -> None:
        if row[3] != FOR_EVER:
            self.rows.remove(row)
            self.rows.append(row)

    @rule(name=NAMES)
    def ask_for_a_name(self, name):
        row, entry = self.row(name), self.cache.named(name, self.now)
        assert (entry is None) == (row is None)
        if row is not None:
            assert (entry.found, entry.via, entry.told) == (at(name, row[1]), row[2], row[4])
            self.use(row)

    @rule(number=NUMBERS)
    def ask_for_an_incarnation(self, number):
        row = self.held(number)
        entry = self.cache.find(incarnation_text(bytes([number]) * 16), self.now)
        assert (entry and entry.found.name) == (row and row[0])
        if row is not None:
            self.use(row)

    @rule(name=NAMES, neighbour=VIA)
    def tell(self, name, neighbour):
        entry, row = self.cache.named(name, self.now), self.row(name)
        if entry is not None and row is not None:
            entry.told |= {neighbour}
            row[4] = row[4] | {neighbour}
            self.use(row)

    @rule(number=NUMBERS)
    def take(self, number):
        row = self.held(number)
        entry = self.cache.take(bytes([number]) * 16)
        assert (entry and entry.found.name) == (row and row[0])
        if row is not None:
            assert entry.told == row[4], "who takes an entry back must learn who was told"
            self.rows.remove(row)

    @rule(via=VIA)
    def the_line_breaks(self, via):
        gone = {entry.found.name for entry in self.cache.take_lent(via)}
        expected = [row for row in self.rows if row[2] == via and row[3] != FOR_EVER]
        assert gone == {row[0] for row in expected}
        self.rows = [row for row in self.rows if row not in expected]

    @rule(seconds=st.sampled_from([0.5, 1.0, 6.0]))
    def time_passes(self, seconds):
        self.now += seconds
        gone = {entry.found.name for entry in self.cache.expire(self.now)}
        assert gone == {row[0] for row in self.rows if row[3] <= self.now}
        self.rows = [row for row in self.rows if row[3] > self.now]

    @invariant()
    def is_bounded_and_has_each_name_and_incarnation_once(self):
        entries = [entry.found for entry in self.cache]
        assert len(self.cache) == len(entries) == len(self.rows) <= CAPACITY
        assert len({found.name for found in entries}) == len(entries)
        assert len({found.incarnation for found in entries}) == len(entries)
        assert {found.name for found in entries} == {row[0] for row in self.rows}


TestAgainstAModel = Model.TestCase
TestAgainstAModel.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


def test_what_was_lent_goes_before_what_is_kept():
    cache = AddressCache(lambda: 3)
    cache.put(at("york", 1), "york", 0.0)
    cache.put(at("leeds", 2), "hq", 0.0, 100.0)
    cache.put(at("ripon", 3), "ripon", 0.0)
    cache.put(at("selby", 4), "selby", 0.0)
    assert cache.named("leeds", 1.0) is None
    assert cache.named("york", 1.0) is not None
    assert cache.evicted == 1


def test_who_was_told_is_known_when_an_incarnation_is_replaced():
    cache = AddressCache(lambda: 10)
    cache.put(at("york", 1), "york", 0.0)
    cache.named("york", 0.0).told |= {"south"}
    cache.put(at("york", 1, "ws://york:7600/link"), "york", 1.0)
    ended = cache.put(at("york", 2), "york", 2.0)
    assert ended.told == {"south"}
    assert ended.found.addresses == ["ws://york:7600/link"]
    assert cache.named("york", 2.0).told == set()
    assert "york via york kept" in repr(cache.named("york", 2.0))


def test_what_is_over_is_not_found_though_nobody_swept():
    cache = AddressCache(lambda: 10)
    cache.put(at("york", 1), "hq", 0.0, 5.0)
    assert cache.named("york", 4.9) is not None
    assert cache.of(bytes([1]) * 16, 5.0) is None
    assert len(cache) == 0
    cache.put(at("leeds", 1), "hq", 6.0, 9.0)
    assert cache.find("leeds", 6.0).found.incarnation == bytes([1]) * 16


def test_the_size_may_follow_the_tree():
    size = [2]
    cache = AddressCache(lambda: size[0])
    for number in range(4):
        cache.put(at(f"store-{number}", number), "north", 0.0)
    assert len(cache) == 2
    size[0] = 10
    for number in range(4):
        cache.put(at(f"store-{number}", number), "north", 0.0)
    assert len(cache) == 4
    assert repr(cache) == "<AddressCache kept=4 lent=0 of 10>"


def test_addresses_that_would_fill_the_memory_are_left_out_and_their_names_are_kept():
    """A neighbour that says as many of the longest as it may, for name after name."""
    cache, most = AddressCache(lambda: 100_000), MOST_BYTES // (MAX_ADDRESSES * MAX_ADDRESS)
    for number in range(most + 100):
        long = [f"{each:0{MAX_ADDRESS}d}" for each in range(MAX_ADDRESSES)]
        cache.put(Whereabouts(f"york-{number}", number.to_bytes(16), long), "york", 0.0)
    kept = [entry.found for entry in cache]
    assert len(kept) == most + 100
    assert sum(len(text) for found in kept for text in found.addresses) == MOST_BYTES
    assert not cache.named(f"york-{most}", 1.0).found.addresses
    cache.put(Whereabouts("york-0", bytes(16), []), "york", 0.0)
    cache.put(Whereabouts(f"york-{most}", most.to_bytes(16), long), "york", 0.0)
    assert cache.named(f"york-{most}", 1.0).found.addresses == long
