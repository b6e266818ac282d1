"""Commands that look at a real node and administrate it: what they print, for people and as JSON."""

import asyncio
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trustme
import typer
from nursery import ran

from broker.cli import app as program
from broker.cli.errors import CommandError
from broker.cli.views.messages import detail
from sapwood import ConnectFailed, RequestFailed, connect
from sapwood.client import Client

Sapwood = Callable[..., Any]


def fill(running: Any, *payloads: bytes) -> None:
    async def work(client: Client) -> None:
        await client.create("sales")
        await client.send_many("queue:sales", payloads or (b"one", b"two", b"three"))

    running.do(work)


def bury(running: Any, *payloads: bytes) -> None:
    running.do(lambda client: client.send_many("queue:stock", payloads))
    running.until(lambda node: node.core.custody.dead.messages == len(payloads))


def test_queues_are_listed_and_one_is_shown(running: Any, sapwood: Sapwood) -> None:
    fill(running)
    listed = sapwood("queues")
    assert "queue:sales" in listed
    shown = sapwood("queues", "sales", "--limit", "2")
    assert "3 messages" in shown
    assert "two" in shown
    assert "three" not in shown
    assert "and more" in shown
    assert [queue["messages"] for queue in sapwood("queues", "--json")["queues"]] == [3]
    found = sapwood("queues", "sales", "--json")
    assert [message["preview"] for message in found["messages"]] == ["one", "two", "three"]
    assert found["queue"]["name"] == "queue:sales"


def test_long_lists_are_joined_from_pages(running: Any, sapwood: Sapwood, monkeypatch: Any) -> None:
    from broker.cli import node_api

    monkeypatch.setattr(node_api, "PAGE", 3)
    fill(running, *(b"%d" % number for number in range(20)))
    found = sapwood("queues", "sales", "--limit", "10", "--json")
    assert [message["preview"] for message in found["messages"]] == [str(number) for number in range(10)]
    assert found["more"] is True


def test_a_message_is_shown_whole_and_stays(running: Any, sapwood: Sapwood) -> None:
    long = "a long message, " * 1000

    async def work(client: Client) -> None:
        await client.create("sales")
        await client.send("queue:sales", long.encode(), correlation_id=7, headers={"till": "4"})
        await client.send("queue:sales", b"\x00\xff")

    running.do(work)
    text, binary = sapwood("queues", "sales", "--json")["messages"]
    assert len(text["preview"]) < len(long)
    shown = sapwood("queue", "message", "sales", text["id"])
    assert long in shown
    assert "correlation_id: 7" in shown
    found = sapwood("queue", "message", "sales", text["id"], "--json")
    assert (found["payload"], found["properties"]) == (long, {"correlation_id": 7, "headers": {"till": "4"}})
    found = sapwood("queue", "message", "sales", binary["id"], "--json")
    assert (found["encoding"], found["payload"]) == ("base64", "AP8=")
    shown = sapwood("queue", "message", "sales", binary["id"])
    assert shown.endswith(f"payload: hexadecimal\n\n00000000  00 ff{' ' * 43} ..\n")
    lines = sapwood("queue", "message", "sales", text["id"], "--hex").partition("\n\n")[2].splitlines()
    assert lines[0] == "00000000  61 20 6c 6f 6e 67 20 6d 65 73 73 61 67 65 2c 20  a long message, "
    assert lines[-1].startswith(f"{16 * 999:08x}  ")
    with pytest.raises(CommandError, match="has no message"):
        sapwood("queue", "message", "sales", text["id"].replace("-0", "-9"))
    assert sapwood("queues", "sales", "--json")["queue"]["messages"] == 2


def test_a_queue_is_created_and_takes_what_is_moved(running: Any, sapwood: Sapwood) -> None:
    fill(running)
    assert sapwood("queue", "create", "later") == "queue:later is created\n"
    assert sapwood("queue", "create", "later", "--home") == "queue:later is there already\n"
    assert "stay at this node" in sapwood("queue", "create", "here", "--home")
    first = sapwood("queues", "sales", "--json")["messages"][0]["id"]
    assert sapwood("queue", "move", "sales", first, "--to", "later") == "1 message moved to queue:later\n"
    assert sapwood("queue", "move", "sales", "--all", "--to", "later", "--yes", "--json")["moved"] == 2
    found = sapwood("queues", "later", "--json")["messages"]
    assert [message["preview"] for message in found] == ["one", "two", "three"]
    with pytest.raises(CommandError, match="which messages"):
        sapwood("queue", "move", "later")


def test_a_queue_is_purged_and_stays(running: Any, sapwood: Sapwood) -> None:
    fill(running)
    assert sapwood("queue", "purge", "sales", "--yes") == "sales is emptied: 3 messages thrown away\n"
    queue = sapwood("queues", "sales", "--json")["queue"]
    assert (queue["messages"], queue["created"]) == (0, True)
    fill(running, b"four")
    assert sapwood("queue", "purge", "sales", "--yes", "--json") == {"purged": "sales", "messages": 1}
    with pytest.raises(CommandError, match="no queue 'nobody'"):
        sapwood("queue", "purge", "nobody", "--yes")


def test_one_message_and_a_queue_are_deleted(running: Any, sapwood: Sapwood) -> None:
    fill(running)
    message = sapwood("queues", "sales", "--json")["messages"][1]["id"]
    assert message in sapwood("queue", "delete-message", "sales", message)
    assert [each["preview"] for each in sapwood("queues", "sales", "--json")["messages"]] == ["one", "three"]
    with pytest.raises(CommandError, match="404"):
        sapwood("queue", "delete-message", "sales", message)
    assert "2 messages thrown away" in sapwood("queue", "delete", "sales")
    with pytest.raises(CommandError, match="no queue"):
        sapwood("queue", "delete", "sales", "--json")


def test_sessions_consumers_and_routes(running: Any, sapwood: Sapwood) -> None:
    async def work(client: Client) -> tuple[Any, ...]:
        import asyncio

        await client.create("sales")
        await client.subscribe("queue:sales").ready()
        await client.subscribe("topic:prices/#", durable="daily").ready()
        commands = ("sessions", "consumers", "routes")
        return await asyncio.to_thread(
            lambda: tuple(sapwood(command, *more) for command in commands for more in ((), ("--json",)))
        )

    sessions, sessions_json, consumers, consumers_json, routes, routes_json = running.do(work)
    assert "queue:sales, topic:prices/#" in sessions
    assert "stream" in sessions
    assert "till-7-secret" not in sessions + json.dumps(sessions_json) + consumers
    assert "daily" in consumers
    assert len(consumers_json["consumers"]) == 2
    assert "prices/#" in routes
    assert routes_json["counts"]["topic/local"] == 1
    assert sapwood("routes", "--kind", "domain", "--json")["routes"][0]["destination"] == "hq"


def test_a_session_is_closed_and_others_get_what_it_had(running: Any, sapwood: Sapwood) -> None:
    async def work(client: Client) -> bytes:
        await client.create("sales")
        await client.send("queue:sales", b"one")
        lost = asyncio.Event()
        async with connect(running.url, session="stuck-till-4", on_lost=lambda error: lost.set()) as stuck:
            assert (await anext(stuck.subscribe("queue:sales"))).payload == b"one"
            listed = await asyncio.to_thread(sapwood, "sessions", "--json")
            (name,) = (each["session"] for each in listed["sessions"] if each["session"].startswith("stuc"))
            said = await asyncio.to_thread(sapwood, "session", "close", name, "--yes")
            assert said == f"{name} is closed: 1 connection\n"
            await asyncio.wait_for(lost.wait(), 120)
            with pytest.raises(CommandError, match=r"has no session 'nob…"):
                await asyncio.to_thread(sapwood, "session", "close", "nobody", "--yes")
        return (await anext(client.subscribe("queue:sales"))).payload

    assert running.do(work) == b"one"


def test_dead_letters_are_listed_returned_and_thrown_away(running: Any, sapwood: Sapwood) -> None:
    bury(running, b"a", b"b", b"c")
    assert "QUEUE_DOES_NOT_EXIST" in sapwood("dead", "list")
    letters = sapwood("dead", "list", "--destination", "queue:stock", "--json")["letters"]
    with pytest.raises(CommandError, match="which dead letters"):
        sapwood("dead", "return")
    with pytest.raises(CommandError, match="which dead letters"):
        sapwood("dead", "delete", "--yes")
    running.do(lambda client: client.create("stock"))
    assert "1 message routed again" in sapwood("dead", "return", letters[0]["id"])
    assert sapwood("dead", "return", "--reason", "EXPIRED", "--json") == {"returned": 0, "kept": 0, "why": ""}
    assert sapwood("dead", "delete", letters[1]["id"], "--json") == {"messages": 1}
    assert "1 dead letter thrown away" in sapwood("dead", "delete", "--all", "--yes")
    assert sapwood("queues", "stock", "--json")["queue"]["messages"] == 1


def test_a_durable_subscription_is_ended(running: Any, sapwood: Sapwood) -> None:
    async def work(client: Client) -> None:
        await client.subscribe("topic:prices/#", durable="daily").ready()

    running.do(work, session="till-9")
    assert sapwood("subscription", "end", "daily", "--session", "till-9", "--json") == {"ended": "daily"}
    with pytest.raises(RequestFailed, match="no durable subscription"):
        sapwood("subscription", "end", "daily", "--session", "till-9")


def test_messages_are_followed_until_the_node_ends(
    running: Any, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    from broker.cli import follow

    printed: list[dict[str, Any]] = []

    def keep(event: dict[str, Any]) -> None:
        printed.append(event)
        if len(printed) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(follow, "print_json", keep)

    async def work(client: Client) -> None:
        import asyncio

        command = ["follow", "queue:sales", "--payload", "--json", "--url", running.url]
        following = asyncio.create_task(asyncio.to_thread(program.app, command, standalone_mode=False))
        while not running.node.running.following.followers:
            await asyncio.sleep(0.01)
        await client.send("queue:stock", b"other")
        await client.send("queue:sales", b"this", correlation_id=7)
        await following

    running.do(work)
    assert [(event["event"], event["payload"]) for event in printed] == [
        ("entered", "this"),
        ("committed", "this"),
    ]


def test_an_event_is_a_line() -> None:
    from broker.cli.follow import line

    event = {
        "at": "2026-11-21T15:22:36.123456Z",
        "event": "entered",
        "destination": "queue:sales",
        "id": "ab-0",
        "session": "till…1234",
        "peer": None,
        "reason": "",
        "correlation_id": 7,
        "task_id": "t\x1b[31m",
        "payload": "one\ntwo",
        "encoding": "utf-8",
    }
    assert line(event) == (
        "15:22:36.123 entered      queue:sales ab-0 till…1234 correlation 7 task t·[31m\n    one\ntwo"
    )
    assert "17 events were lost" in line({"event": "dropped", "dropped": 17})


def test_status_takes_its_address_both_ways(running: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["status", running.url], ["status", "--url", running.url]):
        program.app(arguments, standalone_mode=False)
        assert "hq · root" in capsys.readouterr().out


# --- nodes that demand a certificate


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    for name in ("node", "me"):
        leaf = authority.issue_cert("localhost", "127.0.0.1")
        leaf.private_key_pem.write_to_path(str(folder / f"{name}.key"))
        leaf.cert_chain_pems[0].write_to_path(str(folder / f"{name}.pem"))
        leaf.private_key_and_cert_chain_pem.write_to_path(str(folder / f"{name}-both.pem"))
    (folder / "garbage.pem").write_text("not a certificate")
    return folder


def outside(*arguments: str) -> None:
    """Run a command in a process of its own."""
    done = ran(*arguments)
    assert done.returncode == 0, done.stderr


def test_commands_may_show_their_certificate_to_a_node_that_asks_children_for_one(
    tmp_path: Path, certificates: Path, serve: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {name: certificates / f"{name}.pem" for name in ("ca", "me", "me-both", "garbage")}
    trusted = ("--ca", str(files["ca"]))
    both = (*trusted, "--certificate", str(files["me-both"]))
    tls = {
        "certificate": certificates / "node.pem",
        "key": certificates / "node.key",
        "client_ca": files["ca"],
    }
    with serve(tmp_path, **tls) as running:
        url = ("--url", running.url.replace("http:", "https:"))
        program.app(["queues", *url, *trusted], standalone_mode=False)
        for more in (
            both,
            (*trusted, "--certificate", str(files["me"]), "--key", str(certificates / "me.key")),
        ):
            outside("send", "queue:localhost/sales", "x", *url, *more)
            program.app(["queues", "localhost/sales", "--json", *url, *more], standalone_mode=False)
            program.app(["status", *url, *more], standalone_mode=False)
        outside("receive", "queue:localhost/sales", "--count", "1", *url, *both)
    assert '"messages":2' in capsys.readouterr().out
    for wrong, said in (
        (("--key", str(certificates / "me.key")), "--certificate"),
        (("--certificate", str(files["garbage"])), "no certificate"),
        (("--certificate", str(files["me"])), "no certificate with its key"),
    ):
        with pytest.raises(CommandError, match=said):
            program.app(["status", *url, *trusted, *wrong], standalone_mode=False)


def test_a_root_leaves_nobody(sapwood: Sapwood) -> None:
    with pytest.raises(CommandError, match="a root has nobody to leave"):
        sapwood("node", "leave")


@pytest.mark.parametrize(
    "command",
    [
        ("queue", "delete-message", "sales", "some-id"),
        ("queue", "purge", "sales"),
        ("queue", "delete", "sales"),
        ("dead", "delete", "--all"),
        ("dead", "delete", "some-id"),
        ("node", "leave"),
        ("node", "forget", "york"),
        ("session", "close", "till"),
        ("subscription", "end", "daily", "--session", "till"),
    ],
)
def test_what_destroys_asks_first_on_a_terminal(command: tuple[str, ...], monkeypatch: Any) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    address = ("--url", "http://127.0.0.1:1")
    for said, asks in ((), True), (("--yes",), False):
        terminal = Terminal("n\n")
        monkeypatch.setattr(sys, "stdin", terminal)
        with pytest.raises((typer.Abort, CommandError, ConnectFailed)):
            program.app([*command, *address, *said], standalone_mode=False)
        assert bool(terminal.tell()) == asks


def test_a_payload_has_no_power_over_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    facts = dict.fromkeys(("id", "destination", "origin", "size", "deliveries"), 0)
    found = {**facts, "encoding": "utf-8", "payload": "a\tb\x1b[2Jc\nd", "properties": {"headers": "\x1b[2J"}}
    detail(found, {"hex": False})
    piped = capsys.readouterr().out
    assert piped.endswith("headers: ·[2J\n\na\tb\x1b[2Jc\nd\n")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    detail(found, {"hex": False})
    assert capsys.readouterr().out.endswith("\n\na       b·[2Jc\nd\n")
