"""Node processes: ready, killed, stopped, and never left behind."""

import os
import signal
from pathlib import Path

import psutil
import pytest

from broker.cli.demo import processes
from broker.cli.demo.plan import free_ports
from broker.cli.demo.processes import NodeFailed, NodeProcess, Nodes, is_linked, patience
from sapwood.client import connect

pytestmark = pytest.mark.network


def node(folder: Path, text: str = "") -> NodeProcess:
    (port,) = free_ports(1)
    file = folder / "hq.yaml"
    file.write_text(text or f"broker:\n  name: hq\n  listener: {{port: {port}}}\n")
    return NodeProcess("hq", file, f"http://127.0.0.1:{port}")


async def test_a_node_is_started_stopped_killed_and_started_again(tmp_path: Path) -> None:
    hq = node(tmp_path)
    async with Nodes([hq]) as nodes:
        hq.start()
        with pytest.raises(NodeFailed, match="runs already"):
            hq.start()
        assert (await nodes.until_ready("hq"))["pid"] == hq.pid
        assert await hq.stop() == 0
        assert await nodes.status("hq") is None
        hq.start()
        await nodes.until_linked("hq")
        hq.kill()
        assert not hq.running
        hq.start()
        status = await nodes.until_ready("hq")
        assert (status["start"], hq.starts) == (3, 3)
        pid = hq.pid
    assert not psutil.pid_exists(pid)


async def test_a_node_that_ends_early_is_told_with_its_last_words(tmp_path: Path) -> None:
    hq = node(tmp_path, "broker: {name: local}\n")
    async with Nodes([hq]) as nodes:
        hq.start()
        with pytest.raises(NodeFailed, match=r"ended before it was ready[\s\S]*'local'"):
            await nodes.until_ready("hq")
        assert await hq.exited() == 2


async def test_a_node_that_does_not_stop_is_killed(tmp_path: Path) -> None:
    hq = node(tmp_path)
    async with Nodes([hq]) as nodes:
        hq.start()
        await nodes.until_ready("hq")
        os.kill(hq.pid, signal.SIGSTOP)
        with pytest.raises(NodeFailed, match="still runs"):
            await hq.stop(0.2)
        assert not hq.running


async def test_what_never_ran_says_so(tmp_path: Path) -> None:
    hq = node(tmp_path)
    assert repr(hq) == "<NodeProcess hq stopped starts=0>"
    assert hq.last_words() == "(hq has written no log)"
    with pytest.raises(NodeFailed, match="never started"):
        _ = hq.pid


@pytest.mark.parametrize(
    ("status", "linked"),
    [
        ({"role": "root", "parent": None}, True),
        ({"role": "leaf", "parent": None}, False),
        ({"role": "leaf", "parent": {"state": "connecting"}}, False),
        ({"role": "leaf", "parent": {"state": "running"}}, True),
    ],
)
def test_a_root_is_always_linked_others_when_their_parent_link_runs(
    status: dict[str, object], linked: bool
) -> None:
    assert is_linked(status) is linked


def test_a_busy_machine_has_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes.os, "cpu_count", lambda: 2)
    for load, seconds in ((0.5, 60.0), (2.0, 60.0), (9.0, 270.0)):
        monkeypatch.setattr(processes.os, "getloadavg", lambda load=load: (load, 0.0, 0.0))
        assert patience(60.0) == seconds


def store(folder: Path, parent: str) -> NodeProcess:
    (port,) = free_ports(1)
    file, way = folder / "york.yaml", parent.replace("http", "ws")
    file.write_text(
        f"broker:\n  name: york\n  listener: {{port: {port}}}\n"
        f"  tree_connectors: [{{nodetype: leaf, uri: '{way}/link'}}]\n"
    )
    return NodeProcess("york", file, f"http://127.0.0.1:{port}")


async def test_the_node_that_is_in_the_way_is_named(tmp_path: Path) -> None:
    hq = node(tmp_path)
    york = store(tmp_path, hq.url)
    async with Nodes([hq, york]) as nodes:
        york.start()
        with pytest.raises(NodeFailed, match=r"^hq does not answer at http[\s\S]*load .* processors"):
            await nodes.until_all_linked(["hq", "york"], 0.5)
        with pytest.raises(
            NodeFailed, match=r"^york (does not answer at http|is not linked with its parent, and)"
        ):
            await nodes.until_all_linked(["york"], 0.5)
        hq.start()
        await nodes.until_all_linked(["hq", "york"], 60)
        os.kill(hq.pid, signal.SIGKILL)
        assert await hq.exited() == -signal.SIGKILL
        await nodes.until("york", lambda status: not is_linked(status), "cut off")
        with pytest.raises(NodeFailed, match=r"^hq has ended"):
            await nodes.until_all_linked(["york"], 60)
        hq.start()
        await nodes.until_all_linked(["york"], 60)
        hq.kill()
        assert not hq.ended_by_itself


async def test_nodes_say_whether_they_keep_a_message_and_one_that_says_nothing_may(tmp_path: Path) -> None:
    hq = node(tmp_path)
    async with Nodes([hq]) as nodes:
        hq.start()
        await nodes.until_ready("hq")
        assert not await nodes.keep_messages()
        async with connect(hq.url, session="app") as client:
            await client.create("prices")
            await client.send("queue:prices", b"one")
            assert await nodes.keep_messages()
            async for delivery in client.subscribe("queue:prices", credit=1):
                delivery.ack()
                break
            await nodes.until("hq", lambda status: not any(status["spool"].values()), "empty")
            assert not await nodes.keep_messages()
        hq.kill()
        assert await nodes.keep_messages(), "it did not say"
