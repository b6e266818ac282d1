"""A node of a nursery is a process of its own: it starts, is signalled, ends and is told of as any other."""

import os
import signal
from pathlib import Path

import psutil
from harness import Network
from nursery import NODES, Nursery, NurseryChild, nursery


def site(folder: Path, text: str) -> Path:
    file = folder / "hq.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def started(nursery: Nursery, file: Path, log: int) -> NurseryChild:
    return nursery.start(["node", "run", str(file)], file.parent, (log, log), {})


async def test_nodes_of_one_nursery_are_processes_of_their_own(network: Network) -> None:
    network.add("hq")
    network.add("york", "hq")
    await network.start()
    hq, york = (psutil.Process(network.nodes[name].pid) for name in ("hq", "york"))
    assert hq.ppid() == york.ppid() != os.getpid()
    assert os.getpgid(hq.pid) == hq.pid
    assert (await network.status("hq"))["pid"] == hq.pid
    assert await network.stop("york") == 0
    network.kill("hq")
    assert network.nodes["hq"].running is False
    assert await network.nodes["hq"].exited() == -signal.SIGKILL
    assert not psutil.pid_exists(hq.pid)


def test_a_node_that_cannot_start_tells_its_exit_code_and_why(tmp_path: Path) -> None:
    file = site(tmp_path, "broker: {name: local}\n")
    with (tmp_path / "log").open("wb") as log:
        assert started(nursery(*NODES), file, log.fileno()).wait() == 2
    assert "'local'" in (tmp_path / "log").read_text(encoding="utf-8")


def test_nodes_end_with_their_nursery(tmp_path: Path) -> None:
    nursery = Nursery(NODES, {})
    with (tmp_path / "log").open("wb") as log:
        file = site(tmp_path, "broker: {name: hq, listener: {port: 0}}\n")
        node = started(nursery, file, log.fileno())
    assert node.poll() is None
    nursery.end()
    assert node.wait() == -signal.SIGKILL
