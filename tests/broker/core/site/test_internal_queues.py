"""The node as a client of itself: letters come by its name, cost no advisory and no disk."""

from collections.abc import Callable

from broker.core.rows import BundleRow
from broker.core.site.internal_queues import InternalMessage, InternalQueues
from sapwood.protocol.bundles import Header, Message, Properties
from sapwood.protocol.destinations import Kind, queue
from simulation.forest import Forest
from simulation.site import Site


def nothing() -> None:
    """Nobody is told."""


def reading(site: Site, name: str = "System", ready: Callable[[], None] = nothing) -> InternalQueues:
    inside = InternalQueues(
        site.core.context, site.core.forwarder, site.core.batching, site.core.switch, ready
    )
    inside.read(name)
    return inside


def payloads(letters: list[InternalMessage]) -> list[bytes]:
    return [letter.message.payload for letter in letters]


def test_letters_come_from_far_with_the_name_of_the_node_that_sent_them(chain: Forest) -> None:
    came: list[int] = []
    york = reading(chain["york"], ready=lambda: came.append(1))
    reading(chain["hq"]).send(queue("System", "york"), Message(b"hello", Properties(correlation_id=4)))
    chain.settle()
    (letter,) = york.letters()
    assert (letter.queue, letter.origin, letter.message.payload) == ("System", "hq", b"hello")
    assert letter.message.properties.correlation_id == 4
    assert came == [1]
    assert york.letters() == []


def test_a_node_may_write_to_itself(chain: Forest) -> None:
    hq = reading(chain["hq"])
    hq.send(queue("System", "hq"), Message(b"1"))
    chain.settle()
    assert payloads(hq.letters()) == [b"1"]


def test_more_than_the_credit_comes_when_the_first_have_been_taken(chain: Forest) -> None:
    hq, york = reading(chain["hq"]), reading(chain["york"])
    for number in range(600):
        hq.send(queue("System", "york"), Message(b"%d" % number))
    found: list[InternalMessage] = []
    for _ in range(10):
        chain.settle()
        found += york.letters()
    assert payloads(found) == [b"%d" % number for number in range(600)]


def test_nobody_is_told_and_nothing_is_kept(chain: Forest) -> None:
    hq, york = reading(chain["hq"]), reading(chain["york"])
    hq.send(queue("System", "york"), Message(b"1"))
    chain.settle(1.0)
    york.letters()
    for site in chain.sites.values():
        assert site.core.table.gateways(queue("System")) == {}
        assert not [key for key in site.core.table.routes_of("local") if key.kind == Kind.QUEUE]
        assert site.disk.rows(BundleRow) == []
        assert len(site.core.trace) == 0
        assert site.core.switch.sessions == {}


def test_where_a_line_is_down_it_is_lost_and_leaves_nothing(chain: Forest) -> None:
    hq, york = reading(chain["hq"]), reading(chain["york"])
    wire = chain.wire_of("york")
    assert wire is not None
    chain.cut(wire)
    hq.send(queue("System", "york"), Message(b"1"))
    chain.settle()
    assert [site.waiting() for site in chain.sites.values()] == [0, 0, 0]
    chain.dial("york")
    chain.settle(1.0)
    assert york.letters() == []
    hq.send(queue("System", "york"), Message(b"2"))
    chain.settle()
    assert payloads(york.letters()) == [b"2"]


def test_a_letter_of_many_megabytes_is_none(chain: Forest) -> None:
    hq, york = reading(chain["hq"]), reading(chain["york"])
    hq.send(queue("System", "york"), Message(bytes(6 * 1024 * 1024)))
    chain.settle()
    hq.send(queue("System", "york"), Message(b"small"))
    chain.settle()
    assert [len(frame.body) for frame in york._frames] == [0, len(york._frames[1].body)]
    assert payloads(york.letters()) == [b"small"]


def test_letters_that_do_not_decode_are_none(chain: Forest) -> None:
    hq = reading(chain["hq"])
    header = Header(id=b"i" * 16, destination=queue("System", "hq"), size=3, origin="north")
    chain["hq"].core.arrivals.from_neighbour(chain["hq"].core.neighbours["north"], header, b"\xc1\xc1\xc1")
    hq.send(queue("System", "hq"), Message(b"good"))
    chain.settle()
    assert payloads(hq.letters()) == [b"good"]
