"""One parent of a tree at one broker: whoever comes second is told who is there, and hears no child."""

import asyncio
from pathlib import Path

import pytest
from brokered_harness import PATIENCE, TREE, Server, broker_at, parent_at
from mosquitto_server import MosquittoServer

from bridges.carriers.brokered.carrier import connect
from bridges.carriers.brokered.envelopes import Claim, Knock, encode
from bridges.carriers.brokered.listener import AnotherParent, Listener
from bridges.carriers.brokered.names import Topics

HALF = bytes(8)


def second(server: Server, name: str = "north", tree: str = TREE) -> Listener:
    return Listener(broker_at(server, tree), name, lambda _child, _knock: None)


async def test_the_second_parent_of_a_tree_is_refused_and_the_first_goes_on(server: Server) -> None:
    async with parent_at(broker_at(server)) as hq:
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(AnotherParent, match=r"node 'hq' takes the children .* link_brokers"):
                await second(server).run(lambda: pytest.fail("it listens"))
        link = await connect(broker_at(server), "york", timeout=PATIENCE)
        assert hq.listener.hears_itself
        await link.close()
    async with parent_at(broker_at(server), "north") as north:
        assert north.listener.listening, "the first is gone"


async def test_parents_of_two_trees_are_at_one_broker(server: Server) -> None:
    async with parent_at(broker_at(server)), parent_at(broker_at(server, "other"), "north") as north:
        assert north.listener.listening


async def test_of_two_that_come_at_once_one_stays(server: Server) -> None:
    both = [second(server, name) for name in ("hq", "north")]
    listening: asyncio.Queue[None] = asyncio.Queue()
    tasks = [asyncio.create_task(each.run(lambda: listening.put_nowait(None))) for each in both]
    async with asyncio.timeout(PATIENCE):
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        await listening.get()
    (refused,) = done
    assert isinstance(refused.exception(), AnotherParent)
    assert [each.listening for each in both] == [task not in done for task in tasks]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_parent_that_listens_gives_way_to_no_claim(server: Server) -> None:
    """Whoever reaches the broker can say that it holds the place, with the smallest run of all."""
    async with parent_at(broker_at(server)) as hq:
        for held in (True, False):
            hq.listener.heard("", encode(Claim("stranger", HALF, held=held)))
        link = await connect(broker_at(server), "york", timeout=PATIENCE)
        assert hq.listener.listening
        await link.close()


async def test_a_child_that_knocks_while_others_may_object_is_answered(server: Server) -> None:
    heard: list[str] = []
    listener = Listener(broker_at(server), "hq", lambda child, _knock: heard.append(child))
    task = asyncio.create_task(listener.run(lambda: heard.append("listening")))
    listener.heard("york", encode(Knock(HALF, 65536)))
    listener.heard("bath", encode(Claim("bath", HALF, held=True)))  # a child may say so, and nobody cares
    async with asyncio.timeout(PATIENCE):
        while not heard:
            await asyncio.sleep(0.01)
    assert heard == ["listening", "york"]
    assert listener.ignored == 1
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_where_the_broker_lets_parents_not_meet_they_listen_as_before(tmp_path: Path) -> None:
    """Permissions of an older version: nobody is told, and no link is lost."""
    topics, rules = Topics(TREE), tmp_path / "acl"
    rules.write_text(f"topic read {topics.up('+')}/#\ntopic write {topics.down('+')}\n")
    server = MosquittoServer(tmp_path / "server", "allow_anonymous true", f"acl_file {rules}")
    server.start()
    try:
        async with parent_at(broker_at(server)) as hq, parent_at(broker_at(server), "north") as north:
            await asyncio.sleep(0.2)
            assert hq.listener.listening
            assert north.listener.listening
            assert not hq.listener.hears_itself
    finally:
        server.stop()
