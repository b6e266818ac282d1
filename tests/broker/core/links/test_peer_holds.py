"""What a neighbour asks to keep: bounded in number and bytes, shown a few at a time."""

from broker.core.links.peer_holds import MOST, MOST_ASKED, MOST_BYTES, PeerHolds


def holds_of(*destinations: str) -> PeerHolds:
    holds = PeerHolds()
    for destination in destinations:
        holds.add(destination)
    return holds


def test_twenty_thousand_are_taken_and_no_more() -> None:
    holds = holds_of(*(f"queue:{number}" for number in range(MOST)))
    assert not holds.too_many
    holds.add("queue:0")
    assert not holds.too_many
    holds.add("queue:one-more")
    assert holds.too_many


def test_their_bytes_count_too_and_are_given_back() -> None:
    holds = holds_of(*(f"topic:{number}{'ü' * 2000}" for number in range(1000)))
    assert not holds.too_many
    long = f"topic:{'x' * (MOST_BYTES // 20)}"
    others = [f"{long}{number}" for number in range(10)]
    for other in others:
        holds.add(other)
    assert holds.too_many
    for other in others:
        holds.discard(other)
        holds.discard(other)
    assert not holds.too_many
    holds.clear()
    assert (len(holds), repr(holds)) == (0, "<PeerHolds 0 of 0 bytes>")


def test_a_node_asks_for_half_as_much_at_most_and_everything_fits_beside_it() -> None:
    holds = PeerHolds()
    for number in range(MOST):
        if holds.has_room_for(f"queue:{number}"):
            holds.add(f"queue:{number}")
    holds.add("")
    assert (len(holds), holds.too_many) == (MOST_ASKED + 1, False)
    long = PeerHolds()
    for number in range(MOST):
        if long.has_room_for(f"queue:{number}{'ü' * 500}"):
            long.add(f"queue:{number}{'ü' * 500}")
    assert 1000 < len(long) < MOST_BYTES // 2 // 1000
    assert not long.too_many
    long.discard(f"queue:0{'ü' * 500}")
    assert long.has_room_for(f"queue:0{'ü' * 500}")


def test_a_few_are_shown_and_each_is_cut() -> None:
    holds = holds_of(*(f"queue:{number:05d}{'n' * 500}" for number in range(20_000)))
    assert len(holds.shown()) == 10
    assert all(len(shown) == 100 for shown in holds.shown())
    assert holds.text.startswith("queue:00000")
    assert holds.text.endswith("and 19997 more")
    assert len(holds.text) < 400
    assert holds_of("").text == "now"
    assert holds_of("queue:b", "queue:a").text == "queue:a, queue:b"


def test_whoever_takes_nothing_names_nothing() -> None:
    assert holds_of("queue:sales", "").text == "now"
    assert holds_of("queue:sales").text == "queue:sales"
