"""`sapwood forward`, `sapwood channels`, and what `sapwood node check` says of forwards."""

import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from broker.cli import app as program
from broker.cli.check import examine
from broker.cli.errors import CommandError
from broker.entrance.operators import Operators
from config.channels import Forward

SHOP = "hq:till"


@contextmanager
def forwarding(url: str, target: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """The command, running, and its port."""
    command = (sys.executable, "-m", "broker.cli", "forward", "0", target, "--json", "--url", url)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, json.loads(process.stdout.readline())["port"]
        finally:
            process.kill()


def said_of(url: str, target: str, before: Callable[[], object] = int) -> str:
    """The words when a connection is made and reset. `before`: called once the port is there."""
    with forwarding(url, target) as (process, port):
        before()
        with socket.create_connection(("127.0.0.1", port), 60) as line, pytest.raises(ConnectionResetError):
            line.recv(1)
        assert process.stderr is not None
        return process.stderr.readline()


def offer(running: Any, to: str, permit: str) -> None:
    def read_again() -> None:
        forwards = running.node.report.access.forwards
        forwards.configure([Forward(name="till", to=to, permit=(permit,))])

    running.call(read_again)


def run(*arguments: str) -> None:
    program.app([*arguments], standalone_mode=False)


def test_a_port_that_is_taken_is_named(running: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CommandError, match=rf"^cannot listen on 127\.0\.0\.1:{port}: .*in use"):
            run("forward", str(port), SHOP, "--url", running.url)


@pytest.mark.parametrize("target", ["till", "hq", "hq:", ":till", "hq:a/b", "h q:till", "hq:till:80"])
def test_a_target_that_cannot_be_is_wrong_use(running: Any, target: str) -> None:
    with pytest.raises(CommandError) as caught:
        run("forward", "0", target, "--url", running.url)
    assert caught.value.exit_code == 2


def test_a_node_that_is_away_is_said_before_it_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(CommandError, match=f"127.0.0.1:{port}"):
        run("forward", "0", SHOP, "--url", f"http://127.0.0.1:{port}")


def test_a_name_that_nobody_offers_and_a_node_that_nobody_knows_are_said(running: Any) -> None:
    assert said_of(running.url, SHOP) == "! hq:till: PERMIT: hq offers nothing as till\n"
    said = said_of(running.url, "nowhere:till")
    assert said == "! nowhere:till: hq knows no node nowhere, and nobody above it to ask\n"


def test_one_that_is_offered_to_others_only_is_refused(running: Any) -> None:
    offer(running, "127.0.0.1:1", "region-*")
    assert said_of(running.url, SHOP) == "! hq:till: PERMIT: hq does not offer till to hq\n"


def test_a_token_that_opens_nothing_any_more_is_said_with_what_to_do(running: Any) -> None:
    operators = running.node.report.access.operators
    said = said_of(running.url, SHOP, lambda: running.call(lambda: operators.become(Operators("another"))))
    assert said.startswith(f"! hq:till: {running.url}/channel/hq/till: 403 ")
    assert said.endswith("give the node's token with --token-file or SAPWOOD_TOKEN\n")


def test_channels_that_go_through_a_node_are_listed(running: Any, sapwood: Any) -> None:
    assert "hq offers nothing; since its start 0 opened, 0 refused" in sapwood("channels")
    with socket.create_server(("127.0.0.1", 0)) as service:
        to = f"127.0.0.1:{service.getsockname()[1]}"

        offer(running, to, "hq")
        with forwarding(running.url, SHOP) as (_, port), socket.create_connection(("127.0.0.1", port)):
            there, _ = service.accept()
            with there:
                running.until(lambda node: node.core.counters["channels_opened"] == 1)
                (one,) = sapwood("channels", "--json")["channels"]
                assert (one["origin"], one["to"], one["name"], one["state"]) == ("hq", "hq", "till", "open")
                assert one["far"] == to
                shown = sapwood("channels")
                assert "hq offers till; since its start 1 opened, 0 refused, 0 broken" in shown
                assert one["channel"] in " ".join(shown.split())
        running.until(lambda node: not node.report.access.forwards.ends.open)


def test_channels_of_a_node_that_nobody_knows(running: Any) -> None:
    with pytest.raises(CommandError, match="nowhere"):
        run("channels", "--node", "nowhere", "--url", running.url)


@pytest.mark.parametrize(
    ("forward", "says"),
    [
        (
            '{name: till, to: "a:1", permit: [hq], allow: [x]}',
            "'allow' is not a setting here; expected one of",
        ),
        ("{name: till, permit: [hq]}", "'to' is missing: expected a host and a port, such as localhost:8080"),
        ('{name: "a b", to: "a:1", permit: [hq]}', "forwards[0].name: expected 1 to 64 letters"),
        ('{name: till, to: "a:99999", permit: [hq]}', "'a:99999': expected a port from 1 to 65535"),
        ('{name: till, to: "a..b:1", permit: [hq]}', "'a..b' is no host name or address"),
        ('{name: till, to: "http://a:1", permit: [hq]}', "write HOST:PORT, without a scheme"),
        ('{name: till, to: "a:1"}', "nobody may reach forward 'till': name the nodes from which it may be"),
        ('{name: till, to: "a:1", permit: ["a/b"]}', "expected a node's name, in which '*' is any text"),
        ('{name: ssh, to: "a:1", permit: [hq]}', "forward 'ssh' is listed twice"),
    ],
)
def test_a_file_whose_forwards_cannot_be_is_told_of_them(tmp_path: Path, forward: str, says: str) -> None:
    file = tmp_path / "hq.yaml"
    ssh = '{name: ssh, to: "a:22", permit: [hq]}'
    forwards = f"  forwards:\n    - {forward}\n    - {ssh}\n"
    file.write_text(f"broker:\n  name: hq\n  data: {tmp_path}\n  listener: {{port: 0}}\n{forwards}")
    findings, exit_code = examine(file)
    texts = [finding.text for finding in findings if finding.subject == "configuration"]
    assert exit_code != 0
    assert any(says in text for text in texts), texts
