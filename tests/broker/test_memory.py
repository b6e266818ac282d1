"""What connections leave behind is given back to the system, and no more often than it is worth."""

from broker.memory import Leftovers


def test_leftovers_are_given_back_once_connections_have_gone() -> None:
    trims: list[int] = []
    leftovers = Leftovers(trims.append)
    leftovers.give_back(0, 100.0)
    leftovers.give_back(0, 105.0)
    trims.clear()
    leftovers.give_back(0, 110.0)
    assert trims == []
    leftovers.give_back(3, 111.0)
    leftovers.give_back(3, 200.0)
    assert trims == [0]


def test_what_the_start_left_is_given_back_once_it_is_over() -> None:
    trims: list[int] = []
    leftovers = Leftovers(trims.append)
    leftovers.give_back(0, 100.0)
    leftovers.give_back(0, 104.9)
    assert trims == []
    for second in range(20):
        leftovers.give_back(0, 105.0 + second)
    assert trims == [0]


def test_on_a_busy_node_they_wait_for_each_other() -> None:
    trims: list[int] = []
    leftovers = Leftovers(trims.append)
    for second in range(11):
        leftovers.give_back(second + 1, 100.0 + second)
    assert len(trims) == 2
    leftovers.give_back(11, 115.0)
    assert len(trims) == 2, "the last of them found all gone"
