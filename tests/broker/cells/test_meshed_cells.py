"""Below a mesh each of its nodes may ask and command; whoever only says that it is one of them may not."""

import asyncio
from typing import Any

import pytest

from broker.cells.cells import CellCommand
from broker.cells.errors import RefusedByCell
from sapwood.protocol.bundles import Flag, Header, Message, Properties, encode_message
from sapwood.protocol.destinations import Kind, queue
from treeconnector.frames import Advice, Member

CORES = ("hq-1", "hq-2", "n-1", "n-2")


@pytest.mark.parametrize("asker", CORES)
async def test_every_node_of_a_mesh_above_is_answered(meshed: Any, asker: str) -> None:
    assert await meshed.cells[asker].ask("york", "status") == {"name": "york"}
    if asker.startswith("hq"):
        for asked in ("n-1", "n-2", "south"):
            assert await meshed.cells[asker].ask(asked, "status") == {"name": asked}


@pytest.mark.parametrize("asker", ["hq-1", "hq-2"])
async def test_it_is_answered_too_while_its_own_line_is_down(meshed: Any, asker: str) -> None:
    forest = meshed.forest
    for below in ("n-1", "n-2", "south"):
        wire = forest.wire_of(below, asker)
        assert wire is not None
        forest.cut(wire)
    forest.settle(1)
    for asked in ("south", "york"):
        assert await meshed.cells[asker].ask(asked, "status") == {"name": asked}


@pytest.mark.parametrize(
    ("asker", "asked"),
    [("n-1", "n-2"), ("n-1", "hq-2"), ("south", "n-2"), ("n-2", "south"), ("york", "n-2"), ("hq-1", "hq-2")],
)
async def test_who_is_beside_or_below_is_refused(meshed: Any, asker: str, asked: str) -> None:
    with pytest.raises(RefusedByCell, match="ancestors only"):
        await meshed.cells[asker].ask(asked, "status")


@pytest.mark.parametrize("flags", [0, Flag.REROUTED, Flag.MAYBE_DUPLICATE])
@pytest.mark.parametrize("claimed", ["hq-2", "n-2"])
async def test_a_child_that_says_it_is_one_of_the_mesh_is_not_answered(
    meshed: Any, claimed: str, flags: int
) -> None:
    """Nor after it has said in every way that it is, or that it has it below."""
    asked: list[str] = []
    for cells in meshed.cells.values():
        cells.commands["who"] = CellCommand(lambda asker, arguments: asked.append(asker))
    body = encode_message(Message(b'{"method":"who"}', Properties(reply_to=f"System.x@{claimed}")))
    forest = meshed.forest
    for parent, target in (("n-1", "n-1"), ("n-1", "n-2"), ("hq-1", "york")):
        child = "york" if parent == "n-1" else "south"
        core = forest[parent].core
        liar = core.neighbours[child]
        core.mesh.changed_at(liar, [Member(claimed, [])])
        core.advertising.advised(liar, [Advice("add", Kind.DOMAIN, claimed, claimed)])
        header = Header(
            id=b"i" * 16, destination=queue("System", target), flags=flags, size=len(body), origin=claimed
        )
        core.arrivals.from_neighbour(liar, header, body)
    for _ in range(3):
        forest.settle()
        await asyncio.sleep(0)
    assert asked == []


async def test_a_trace_is_looked_for_at_all_above(meshed: Any) -> None:
    """Also at the node of the mesh that the chain does not name."""
    meshed.forest.consumer("hq-2", "queue:orders")
    meshed.forest.producer("hq-2").send("queue:orders", b"1")
    meshed.forest.settle(1)
    ((_, event), *_) = meshed.tracing["hq-2"].events(0)
    found = await meshed.tracing["york"].message(event["message_id"])
    assert "hq-2" in str(found["nodes"]) if "nodes" in found else "hq-2" in str(found)
