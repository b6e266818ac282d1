"""Whoever guesses waits, by address, and nobody else does; what is remembered is bounded."""

from broker.entrance.tries import FREE, LONGEST_WAIT, MOST_WAITING, Tries


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_after_the_free_tries_each_waits_for_its_second() -> None:
    clock = Clock()
    tries = Tries(clock)
    for _ in range(FREE):
        assert tries.delay("192.0.2.7") == 0
        tries.failed("192.0.2.7")
    tries.failed("192.0.2.7")
    assert tries.delay("192.0.2.7") == 1
    assert tries.slowed == 1
    clock.now += 1
    assert tries.delay("192.0.2.7") == 0
    assert tries.delay("192.0.2.8") == 0


def test_no_more_than_so_many_wait_and_none_for_ever() -> None:
    clock = Clock()
    tries = Tries(clock)
    for _ in range(10_000):
        tries.failed("192.0.2.7")
    assert tries.delay("192.0.2.7") == LONGEST_WAIT
    for _ in range(MOST_WAITING):
        tries.waits("192.0.2.7")
    assert tries.delay("192.0.2.7") is None
    assert tries.delay("192.0.2.8") == 0
    tries.waited("192.0.2.7")
    assert tries.delay("192.0.2.7") == LONGEST_WAIT


def test_of_ipv6_the_network_counts() -> None:
    tries = Tries(Clock())
    for number in range(FREE + 5):
        tries.failed(f"2001:db8::{number:x}")
    assert tries.delay("2001:db8::ffff")
    assert tries.delay("2001:db8:0:1::1") == 0
    for _ in range(FREE + 5):
        tries.failed("::ffff:192.0.2.7")
    assert tries.delay("::ffff:192.0.2.8") == 0


def test_what_is_remembered_is_bounded_and_the_latest_stay() -> None:
    tries = Tries(Clock())
    for number in range(20_000):
        tries.failed(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    for _ in range(FREE + 2):
        tries.failed("192.0.2.7")
    assert tries.delay("192.0.2.7")
    assert "of 4096 addresses" in repr(tries)
