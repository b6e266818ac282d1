"""The prompt: cells of nodes, and services, gone to and asked; as a script, and at a terminal."""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from broker.cli import shell as shells
from broker.cli.app import app
from broker.cli.demo.plan import free_ports
from broker.cli.errors import CommandError
from broker.cli.options import OperatorOptions
from broker.cli.shell import Shell, completer_of, prompted, run_prompt, run_script
from broker.cli.tls import Tls
from broker.node import Node
from config.model import AdvisoryLog, Listener, Site, TreeConnector
from config.rules import check
from sapwood.client import connect
from sapwood.rpc import Rpc

PATIENCE = 180.0


def level(article: int) -> int:
    """How many of an article there are."""
    return article * 2


@pytest.fixture
async def hq(tmp_path: Path) -> AsyncIterator[Node]:
    """hq over york, where a service reads `york/stock`."""
    (port,) = free_ports(1)
    silent = AdvisoryLog(enabled=False)
    way = TreeConnector(nodetype="leaf", uri=f"ws://127.0.0.1:{port}/link")
    top = Site(name="hq", data=tmp_path / "hq", listener=Listener(port=port), advisory_log=silent)
    york = replace(
        top, name="york", data=tmp_path / "york", listener=Listener(port=0), tree_connectors=(way,)
    )
    nodes = [Node(check(site)) for site in (top, york)]
    for node in nodes:
        await node.start()
    async with asyncio.timeout(PATIENCE):
        while nodes[1].core.parent is None or not nodes[1].core.parent.up:
            await asyncio.sleep(0.01)
    async with (
        connect(f"http://127.0.0.1:{nodes[1].port}") as client,
        Rpc(client) as rpc,
        rpc.serve("york/stock", {"level": level}),
    ):
        yield nodes[0]
    for node in reversed(nodes):
        await node.stop()


def shell_at(node: Node, start: str = "") -> Shell:
    asked = OperatorOptions(f"http://127.0.0.1:{node.port}", "", Tls(None, None, None), json=False)
    return Shell(typer.main.get_command(app), asked, start, "")


async def script(node: Node, *lines: str, start: str = "") -> None:
    await asyncio.to_thread(run_script, shell_at(node, start), lines)


async def test_routes_of_another_node_are_shown_and_changed(
    hq: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    await script(
        hq,
        r"\c RoutingMgr@york",
        "route add alias till checkout  # what is for till reaches checkout",
        "route add dumpster lost",
        "",
        "route show",
        "exit",
        "this is not read",
    )
    told = capsys.readouterr().out
    assert "checkout" in told
    assert "lost" in told
    assert "domain" in told, "those that follow links are shown, too"


async def test_lm_says_which_links_a_node_wants_and_why(hq: Node, capsys: pytest.CaptureFixture[str]) -> None:
    await script(hq, r"\c lm@york", "links")
    told = capsys.readouterr().out
    assert "connecting" not in told, "its link is up"
    assert "any parent" in told
    assert "the file names it" in told
    assert f"ws://127.0.0.1:{hq.port}/link" in told


async def test_a_service_tells_its_methods_and_is_asked(hq: Node, capsys: pytest.CaptureFixture[str]) -> None:
    await script(hq, r"\c york/stock@york", "help", "level article=21")
    assert capsys.readouterr().out.splitlines() == [
        "level(article: int) -> int  How many of an article there are.",
        "42",
    ]
    with pytest.raises(CommandError, match=r"line 2: .*no method 'leve' here: level"):
        await script(hq, r"\c york/stock", "leve article=1")


async def test_system_has_all_commands_of_a_node(hq: Node, capsys: pytest.CaptureFixture[str]) -> None:
    await script(hq, r"\c System@york", "route add dumpster lost", "route show", "links")
    told = capsys.readouterr().out
    assert "lost" in told
    assert "any parent" in told


def strange_help() -> list[object]:
    return ["x", {"signature": 5}]


def obeyed() -> str:
    return "\x1b]0;owned\x07red"


async def test_a_strange_service_is_no_fault_of_the_shell(
    hq: Node, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        connect(f"http://127.0.0.1:{hq.port}") as client,
        Rpc(client) as rpc,
        rpc.serve("odd", {"help": strange_help, "obeyed": obeyed}),
    ):
        with pytest.raises(CommandError, match="line 2: odd tells nothing of its methods that can be read"):
            await script(hq, r"\c odd", "help")
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        await script(hq, r"\c odd", "obeyed")
    assert capsys.readouterr().out == "·]0;owned·red\n"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("nonsense", "line 1: no command 'nonsense' at System"),
        (r"\c nosuch@york", "answers, but nobody reads 'nosuch' there"),
        (r"\c System@bath", "bath"),
        ("help nosuch", "no command 'nosuch'"),
        ("'half", "No closing quotation"),
        ("ping", "[Mm]issing"),
    ],
)
async def test_the_first_line_that_fails_ends_a_script(hq: Node, line: str, said: str) -> None:
    with pytest.raises(CommandError, match=said):
        await script(hq, line, "exit")


async def test_the_program_reads_a_script_from_standard_input(hq: Node) -> None:
    running = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "broker.cli", "shell", "york", "--url", f"http://127.0.0.1:{hq.port}"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(PATIENCE):
        out, _ = await running.communicate(b"cells\nhelp\nnonsense\n")
    assert running.returncode == 2
    assert b"york/stock@york" in out
    assert b"line 3: no command 'nonsense' at System@york" in out


@pytest.fixture
def terminal() -> Iterator[object]:
    with create_pipe_input() as made:
        yield made


@pytest.mark.parametrize(
    ("at", "typed", "offered"),
    [
        ("", r"\c lm@y", {"lm@york"}),
        ("", r"\c ", {"System", "lm@york", "RoutingMgr@york", "System@york"}),
        ("", "ping System@yo", {"System@york"}),
        ("", "route s", {"route show"}),
        ("", "help rou", {"help route show", "help route add", "help route remove"}),
        (r"\c System@york", r"\c york/s", {"york/stock@york"}),
        (r"\c york/stock@york", "lev", {"level"}),
    ],
)
async def test_tab_completes_commands_cells_and_nodes(
    hq: Node, at: str, typed: str, offered: set[str]
) -> None:
    made = shell_at(hq)
    await asyncio.to_thread(made.run, at)
    completer = completer_of(made)
    found = await asyncio.to_thread(
        lambda: {each.text for each in completer.get_completions(Document(typed), CompleteEvent())}
    )
    assert offered <= found
    assert all(typed.split()[-1] in each for each in found) or typed.endswith(" ")


async def test_a_terminal_has_a_prompt_and_history(
    hq: Node,
    terminal: object,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    made = shell_at(hq)
    read = prompted(made, input=terminal, output=DummyOutput())
    terminal.send_text("\\c lm@york\nlinks\nnonsense\nexit\n")  # type: ignore[attr-defined]
    await asyncio.to_thread(run_prompt, made, read)
    captured = capsys.readouterr()
    assert "the file names it" in captured.out
    assert "no command 'nonsense' at lm@york" in captured.err
    kept = (tmp_path / shells.HISTORY).read_text()
    assert "+links" in kept
