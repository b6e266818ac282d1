"""How much waits for all readers together, and who is cut off for it."""

from broker.unread import UnreadBytes


class Slow:
    """A reader. `unread` is what the test says."""

    def __init__(self, unread: int = 0) -> None:
        self.unread = unread
        self.cut = 0

    def cut_off(self) -> None:
        self.cut += 1


def test_those_who_leave_most_unread_are_cut_off_once_and_until_it_is_enough() -> None:
    together = UnreadBytes(100)
    readers = [Slow(size) for size in (10, 45, 30, 5)]
    for reader in readers:
        together.look(reader)
    assert [reader.cut for reader in readers] == [0, 0, 0, 0]
    readers[0].unread = 40
    together.look(readers[0])
    assert [reader.cut for reader in readers] == [0, 1, 0, 0]
    readers[2].unread = 90
    together.look(readers[2])
    assert [reader.cut for reader in readers] == [0, 1, 1, 0]
    assert repr(together) == "<UnreadBytes 45 of at most 100 of 2 readers>"


def test_who_has_read_since_he_was_counted_is_counted_again() -> None:
    together = UnreadBytes(100)
    first, second = Slow(60), Slow(60)
    together.look(first)
    first.unread = 0
    together.look(second)
    assert (first.cut, second.cut) == (0, 0)


def test_who_has_gone_counts_no_more() -> None:
    together = UnreadBytes(100)
    first, second = Slow(60), Slow(60)
    together.look(first)
    together.gone(first)
    together.gone(first)
    together.look(second)
    assert second.cut == 0
