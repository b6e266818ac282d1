"""The conversations that are recorded: small trees in which everything is said that links can say."""

import hashlib
from typing import Any

from recording import Play, RecordedSite, Recorder

from broker.core.settings import QueuePolicy
from sapwood.protocol.bundles import Foreign, Message, Properties, Scope
from sapwood.protocol.destinations import Kind, parse
from sapwood.protocol.names import incarnation_text
from sapwood.protocol.session_frames import Send
from simulation.clients import Producer
from treeconnector.link import LinkSettings

LONG = b"sold: 12 apples, 3 pears; " * 40
"""A text that is worth compressing."""


def noise(size: int, seed: bytes = b"noise") -> bytes:
    """Bytes that do not compress, the same each time."""
    blocks = (hashlib.sha256(seed + number.to_bytes(4, "big")).digest() for number in range(size // 32 + 1))
    return b"".join(blocks)[:size]


def send(producer: Producer, destination: str, *messages: Message, **options: Any) -> None:
    """Messages with all their properties, as one frame."""
    from sapwood.protocol import bundles

    body = b"".join(map(bundles.encode_message, messages))
    frame = Send(producer.number + 1, parse(destination), len(messages), body, **options)
    producer.number += len(messages)
    producer.under_way[frame.first] = frame
    producer.say(frame)


FULL = Properties(
    correlation_id=7,
    reply_to="queue:york/answers",
    task_id="task",
    expires_in=3_600_000,
    message_id="m-1",
    content_type="application/json",
    timestamp=1_700_000_000,
    priority=4,
    interface="Prices",
    interface_version="2",
    headers={"till": 3, "note": "äöü", "list": [1, None, True, b"x"]},
    foreign=Foreign(b"c", "gzip", "type", "app", "user", 2, True),
)


def _kinds(forest: Recorder, above: str, below: str) -> None:
    """Messages of all kinds go down and up between two sites that are linked."""
    prices = forest.consumer(below, f"queue:{below}/prices")
    offers = forest.consumer(below, "topic:offers/#", "offers", durable="till")
    plus = forest.consumer(below, "topic:+/fruit", "plus")
    sales = forest.consumer(above, f"queue:{below}/sales", "sales")
    forest.settle(1.0)
    down, up = forest.producer(above), forest.producer(below, "up")
    down.send(f"queue:{below}/prices", b"one", b"two", b"three")
    forest.settle()
    down.send(f"queue:{below}/prices", LONG)
    down.send("topic:offers/fruit", LONG, LONG)
    down.send("topic:offers/fruit", b"kept", retained=True)
    down.send("topic:offers/fruit", b"heard or not", persistent=False)
    down.send("topic:nobody/reads", b"this")
    forest.settle()
    send(down, f"queue:{below}/prices", Message(b"with everything", FULL), Message(b"", Properties()))
    up.send(f"queue:{below}/sales", *(b"sale %d" % number for number in range(40)))
    up.send(f"queue:{below}/sales", noise(400), expires_in=60_000)
    up.send("topic:sales/york", b"to the root", scope=int(Scope.TREE))
    forest.settle(1.0)
    plus.unsubscribe()
    offers.disconnect()
    forest.settle(1.0)
    down.send("topic:offers/bread", b"for a reader who is away")
    forest.settle(1.0)
    assert (len(prices.receipts), len(sales.receipts)) == (6, 41)


def pair(forest: Recorder) -> None:
    forest.add("hq")
    forest.add("york", "hq")
    forest.dial_all()
    forest.settle(1.0)
    _kinds(forest, "hq", "york")
    forest.settle(12.0)


def proven(forest: Recorder) -> None:
    """With a secret; the line is cut while bundles are under way, twice; then the store starts anew."""
    pair(forest)
    down = forest.producer("hq", "again")
    for lost in ({"up"}, {"down"}):
        for number in range(6):
            down.send("queue:york/prices", b"%d while the line breaks" % number)
            forest["hq"].run()
        wire = forest.wire_of("york")
        assert wire is not None
        wire.pull()
        forest.cut(wire, lost)
        forest.settle(1.0)
        forest.dial_all()
        forest.settle(1.0)
    forest["york"].crash()
    down.send("queue:york/prices", b"for a store that is away")
    forest.settle(3.0)
    forest["york"].boot()
    forest.dial_all()
    forest.settle(1.0)
    forest.consumer("york", "queue:york/prices", "new")
    forest.consumer("york", "topic:offers/#", "offers", durable="till")
    forest.settle(2.0)


def large(forest: Recorder) -> None:
    """A bundle that goes in parts, with others between, and one that is too large for the neighbour."""
    links = LinkSettings(max_frame=32 * 1024, max_message=64 * 1024, window_bundles=8)
    forest.add("hq")
    forest.add("york", "hq", links=links)
    forest.dial_all()
    reader = forest.consumer("york", "queue:york/prices")
    forest.settle(1.0)
    sender = forest.producer("hq")
    sender.send("queue:york/prices", noise(33_000))
    sender.send("queue:york/prices", b"after it")
    sender.send("queue:york/prices", b"\0" * 70_000)
    forest.settle(1.0)
    assert len(reader.receipts) >= 2


def chain(forest: Recorder) -> None:
    """Advisories over three generations: added, dormant, live, removed, moved; a chain that changes."""
    forest.add("hq")
    forest.add("north", "hq", "branch")
    forest.add("york", "north")
    forest.add("south", "hq", "branch")
    forest.dial_all()
    forest.settle(1.0)
    _kinds(forest, "north", "york")
    prices = forest.consumer("york", "queue:prices", "shared")
    second = forest.consumer("south", "queue:prices", "also")
    forest.settle(1.0)
    forest.producer("hq", "hq").send("queue:prices", b"1", b"2", b"3")
    forest.settle(1.0)
    forest["york"].crash()
    forest.settle(3.0)
    forest.producer("hq", "later").send("queue:prices", b"4")
    forest.settle(1.0)
    forest["york"].boot()
    forest["york"].parent = "south"
    forest.dial_all()
    forest.settle(3.0)
    second.unsubscribe()
    forest.producer("hq", "last").send("queue:york/prices", b"where it is now")
    forest.settle(3.0)
    del prices


def held(forest: Recorder) -> None:
    """A spool that is full says Hold, one with room Release; routes above a limit are declined."""
    forest.add("hq", spool_up=16_000, max_routes=4)
    forest.add("york", "hq")
    forest.dial_all()
    forest.settle(1.0)
    forest.producer("hq", "maker")
    reader = forest.consumer("hq", "queue:york/sales", auto=False)
    for number in range(6):
        forest.consumer("york", f"queue:york/q{number}", f"reader {number}")
    forest.settle(1.0)
    reader.disconnect()
    up = forest.producer("york", "up")
    for number in range(40):
        up.send("queue:york/sales", noise(400, b"%d" % number))
        forest.settle()
    forest.settle(1.0)
    forest.consumer("hq", "queue:york/sales", "back")
    forest.settle(4.0)


def asked(forest: Recorder) -> None:
    """Logical addresses: who has an incarnation, here it is, nobody has it, it is over."""
    forest.add("hq")
    for name, parent, role in (
        ("north", "hq", "branch"),
        ("south", "hq", "branch"),
        ("york", "north", "leaf"),
        ("bath", "south", "leaf"),
    ):
        forest.add(name, parent, role)
    forest.dial_all()
    forest.settle(2.0)
    forest.consumer("york", "queue:till")
    own = forest["york"].core.logical_addresses.own
    sender = forest.producer("bath")
    sender.send(f"queue:till@{own}", b"one", b"two")
    sender.send(f"queue:till@{incarnation_text(b'nobody has this.')}", b"nobody")
    forest.settle(2.0)
    forest["york"].crash()
    forest["york"].boot()
    forest.dial("york")
    forest.settle(2.0)
    sender.send(f"queue:till@{own}", b"too late")
    forest.settle(3.0)


TREE = (QueuePolicy(Kind.TOPIC, "#", scope=Scope.TREE),)


def mesh(forest: Recorder) -> None:
    """Two nodes that are one root, a branch and a store; one of the roots goes and comes back."""
    forest.add_mesh("hq-1", "hq-2")
    forest.add("north", "hq-1", "branch")
    forest.add("york", "north")
    forest.heal(4)
    _kinds(forest, "hq-2", "york")
    forest["hq-1"].crash()
    forest.settle(3.0)
    forest.producer("york", "while").send("queue:york/sales", b"while one is away")
    forest["hq-1"].boot()
    forest.heal(4)
    forest.add("hq-0", "", "root", mesh=["hq-2"])
    forest.heal(4)
    forest.last_words("hq-0", "goodbye")
    forest.settle(2.0)


def parted(forest: Recorder) -> None:
    """Permits are told; a wrong secret is refused; a store pauses, comes back, and says goodbye."""
    forest.add("hq", grants={"north": [["prices/#", "york/#"], ["sales/#", "york/#"], ["york"]]})
    forest.add("north", "hq", "branch", grants={"york": [["york/#"], ["york/#", "sales/york"]]})
    york = forest.add("york", "north")
    assert isinstance(york, RecordedSite)
    right, york.secret = york.secret, b"another secret"
    forest.dial_all()
    forest.settle(1.0)
    york.secret = right
    forest.dial_all()
    forest.consumer("york", "queue:york/prices")
    forest.consumer("york", "queue:hq/secrets", "curious")
    forest.settle(2.0)
    forest.producer("york", "allowed").send("queue:york/prices", b"mine")
    forest.producer("york", "forbidden").send("queue:hq/orders", b"not mine to send")
    forest.settle(1.0)
    forest.last_words("york", "pause")
    forest.settle(2.0)
    forest["york"].crash()
    forest.producer("north", "meanwhile").send("queue:york/prices", b"meanwhile")
    forest.settle(1.0)
    forest["york"].boot()
    forest.dial_all()
    forest.consumer("york", "queue:york/prices", "back")
    forest.settle(2.0)
    forest.last_words("york", "goodbye")
    forest.settle(2.0)


PLAYS: dict[str, tuple[Play, str]] = {
    "pair": (pair, ""),
    "proven": (proven, "the secret of this link"),
    "large": (large, ""),
    "chain": (chain, ""),
    "held": (held, ""),
    "asked": (asked, ""),
    "mesh": (mesh, ""),
    "parted": (parted, "the secret of this link"),
}
